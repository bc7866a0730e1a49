"""Queries deleted and applied again while hosts cannot hear of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestrator.control.observe.view import read_view
from orchestrator.edges.events import Deliver
from orchestrator.records import FragmentRecord
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.store.protocol import QUERIES
from tests.long_tests import mostly_long
from tests.pairs import BEGIN_MS, SETTLE_S, Input

SECONDS = 14


@pytest.fixture(scope="module")
def recording() -> Input:
    return Input.random(seed=5, seconds=SECONDS)


@pytest.fixture
def scenario(recording: Input, tmp_path: Path) -> Scenario:
    """The replay has run for three seconds."""
    made = Scenario(recording.manifests(tmp_path), seed=1, check_invariants=True, settle_s=SETTLE_S)
    made.begin()
    made.run_for(3)
    return made


def strong(scenario: Scenario) -> FragmentRecord:
    return read_view(scenario.store).fragments["pairing.strong"].record


def apply_anew(scenario: Scenario) -> None:
    """Delete the query, wait until nothing of it is left, and apply one with other statements."""
    found = scenario.store.get(QUERIES.key("pairing"))
    assert found is not None
    scenario.store.delete(QUERIES.key("pairing"), found.version)
    scenario.run_for(0.5)
    assert not read_view(scenario.store).retiring
    for kept in scenario.deliveries.values():
        kept.clear()
    changed = msgspec.structs.replace(
        found.record,
        statements=found.record.statements.replace("value * 2 AS twice", "value * 3 AS twice"),
    )
    scenario.store.create(QUERIES.key("pairing"), changed)


@pytest.mark.parametrize("role", ["primary", "secondary"])
@pytest.mark.parametrize("lost_session", mostly_long([True, False]), ids=["expired", "suspended"])
def test_a_host_that_does_not_hear_of_it_runs_nothing_of_the_former_query(
    scenario: Scenario, recording: Input, role: str, lost_session: bool
) -> None:
    node = getattr(strong(scenario), role).node
    host = scenario.world.hosts[node]
    scenario.world.part_from_store(host)
    if lost_session:
        host.store.expire()
    apply_anew(scenario)
    scenario.run_for(1)
    scenario.world.reach_store(host)
    scenario.run_for(4)
    scenario.heal()
    played = scenario.finish()
    assert_correct_from(played.deliveries["pairs"], recording, BEGIN_MS + 10_500)


def assert_correct_from(kept: list[Deliver], recording: Input, from_ms: int) -> None:
    rows = [tuple(row.values()) for each in kept for row in each.chunk.rows.to_pylist()]
    times = [row[0] for row in rows]
    assert times == sorted(times)
    assert all(row[2] % 3 == 0 for row in rows)
    late = sorted(row for row in rows if row[0] > from_ms)
    pairs = recording.expected()["pairs"]
    wanted = [(at, key, twice // 2 * 3, value) for at, key, twice, value in pairs]
    assert late == [row for row in wanted if row[0] > from_ms]
