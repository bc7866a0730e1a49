"""A secondary's host that reaches nobody takes over in vain, and comes back: output goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.control.observe.view import read_view
from orchestrator.simulation.world.scenario import Scenario
from tests.pairs import SETTLE_S, Input, assert_exact

RESUMES_MS = 750
"""As under a cut link (`test_link_cuts`): the healthy replica, deposed or not, feeds every host
that does not hear the new primary."""


@pytest.fixture(scope="module")
def recording() -> Input:
    return Input.random(seed=7, seconds=10)


@pytest.mark.parametrize(
    ("name", "for_s", "reaches_store", "noticed"),
    [
        ("strong", 0.3, True, False),
        ("strong", 0.3, False, False),
        ("strong", 2.0, False, False),
        ("pairs", 2.0, True, False),
        ("pairs", 2.0, False, False),
        ("strong", 2.0, True, False),
        ("strong", 0.3, True, True),
        ("strong", 2.0, True, True),
        ("strong", 2.0, False, True),
        ("pairs", 0.3, True, True),
        ("pairs", 2.0, True, True),
        ("pairs", 2.0, False, True),
    ],
)
def test_isolated_secondary_that_takes_over_in_vain_keeps_nobody_waiting(
    recording: Input, tmp_path: Path, name: str, for_s: float, reaches_store: bool, noticed: bool
) -> None:
    scenario = Scenario(
        recording.manifests(tmp_path), seed=1, check_invariants=True, settle_s=SETTLE_S
    )
    scenario.begin()
    scenario.run_for(3)
    record = read_view(scenario.store).fragments[f"pairing.{name}"].record
    assert record.secondary is not None
    world, alone = scenario.world, record.secondary.node
    host = world.hosts[alone]
    others = [other for other in world.hosts if other != alone]
    for other in others:
        world.links.cut(alone, other)
        world.links.cut(other, alone)
        if noticed:
            world.tell_lost(alone, other)
            world.tell_lost(other, alone)
    if not reaches_store:
        world.part_from_store(host)
    scenario.run_for(for_s)
    for other in others:
        world.mend(alone, other)
    if not reaches_store:
        world.reach_store(host)
    scenario.run_for(4)
    scenario.heal()
    played = scenario.finish()
    assert_exact(played, recording)
    for stream in recording.expected():
        assert float(np.max(played.delivered(stream).latencies_ms)) < RESUMES_MS
    assert "state lost" not in {each.event.kind for each in scenario.store.history()}
