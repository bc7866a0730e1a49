"""A standby that is cut off from its source lags: it protects nothing, and is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.records import FragmentRecord
from orchestrator.simulation.world.scenario import Scenario
from tests.pairs import SETTLE_S, Input

STRONG = "pairing.strong"
PATIENCE_S = DecisionSettings().warm_up_us / 1e6


def strong(scenario: Scenario) -> FragmentRecord:
    return read_view(scenario.store).fragments[STRONG].record


@pytest.mark.slow
def test_standby_cut_off_from_its_source_is_unprotected_and_replaced(tmp_path: Path) -> None:
    recording = Input.random(seed=7, seconds=10)
    scenario = Scenario(recording.manifests(tmp_path, repeat=True), seed=1, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(3)
    before = strong(scenario)
    assert before.secondary is not None
    cut_us = scenario.world.now_us
    scenario.world.links.cut("west-site", before.secondary.node)
    scenario.run_for(4)
    view = read_view(scenario.store)
    assert not view.protected(strong(scenario))
    (lost,) = [
        each.event
        for each in scenario.store.history()
        if (each.event.kind, each.event.subject) == ("redundancy lost", STRONG)
    ]
    assert "lags" in lost.detail
    scenario.run_for(PATIENCE_S)
    after = strong(scenario)
    assert (after.primary, after.epoch) == (before.primary, before.epoch)
    assert after.secondary is not None
    assert after.secondary.node != before.secondary.node
    assert read_view(scenario.store).protected(after)
    restored = [
        each.event
        for each in scenario.store.history()
        if (each.event.kind, each.event.subject) == ("redundancy restored", STRONG)
    ][-1]
    # The time without protection began when the standby began to lag, not when that was reported.
    assert restored.lasted_ms is not None
    assert restored.lasted_ms > (restored.at_us - cut_us) / 1e3 - 1000
    for kept in scenario.deliveries.values():
        seen = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
        assert sequence_faults(seen) == SequenceFaults(lost=0, repeated=0)
