"""Replicas that are replaced while their host is out of reach, or wait to take over in vain: they
must not disturb a primary that lives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ha.memory import MemoryBudget
from ha.messages import Data, Message, Snapshot
from orchestrator.control.observe.view import read_view
from orchestrator.host.shell.pace import StatePace
from orchestrator.records import FragmentRecord
from orchestrator.simulation.world.hosts import SimulatedHost
from orchestrator.simulation.world.scenario import Scenario
from streams.vectors.chunk import Position
from tests.pairs import SETTLE_S, Input, assert_exact

LONGER_US = 100_000


def record_of(scenario: Scenario, name: str) -> FragmentRecord:
    return read_view(scenario.store).fragments[f"pairing.{name}"].record


def secondary_of(scenario: Scenario, name: str) -> str:
    record = record_of(scenario, name)
    assert record.secondary is not None
    return record.secondary.node


def replaced(scenario: Scenario, name: str, former: str) -> str:
    """The node that stands by instead of another one, once there is one."""
    for _ in range(200):
        scenario.run_for(0.1)
        record = record_of(scenario, name)
        if record.secondary is not None and record.secondary.node != former:
            return record.secondary.node
    raise AssertionError("never replaced")


def assert_nothing_lost(scenario: Scenario, recording: Input) -> None:
    scenario.heal()
    assert_exact(scenario.finish(), recording)


@pytest.mark.slow
@pytest.mark.parametrize("primary", ["is far from it", "hears of decisions late"])
def test_a_primary_that_acts_is_not_deposed_by_a_replica_with_older_input_that_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, primary: str
) -> None:
    recording = Input.random(seed=7, seconds=45)
    scenario = Scenario(recording.manifests(tmp_path), seed=1, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(3)
    world = scenario.world
    before, first = record_of(scenario, "pairs"), secondary_of(scenario, "pairs")
    world.part_from_store(world.hosts[first])
    second = replaced(scenario, "pairs", first)
    scenario.run_for(3)
    # It is warm, and its consumers no longer need what the first one lacks.
    assert read_view(scenario.store).protected(record_of(scenario, "pairs"))
    late = set(world.hosts) - {first, second}
    transmit_bulk = world.transmit_bulk

    def send_late(
        host: SimulatedHost, to: str, snapshot: Snapshot, paces: Sequence[StatePace]
    ) -> None:
        """Have a large state not arrive for the time being."""
        if to not in late or snapshot.fragment != "pairs":
            transmit_bulk(host, to, snapshot, paces)

    monkeypatch.setattr(world, "transmit_bulk", send_late)
    scenario.kill(second)
    replaced(scenario, "pairs", second)
    here = before.primary.node
    if primary == "is far from it":
        world.links.slow_down(here, first, LONGER_US)
    world.reach_store(world.hosts[first])
    if primary != "is far from it":
        world.part_from_store(world.hosts[here])
        world.at(world.now_us + 1_500_000, lambda: world.reach_store(world.hosts[here]))
    scenario.run_for(3)
    late.clear()
    scenario.run_for(3)
    assert record_of(scenario, "pairs").primary == before.primary
    assert_nothing_lost(scenario, recording)


@pytest.mark.slow
def test_a_secondary_that_acts_unseen_is_not_deposed_by_a_replica_with_older_input_that_is_back(
    tmp_path: Path,
) -> None:
    """The store has not heard that it was warm when its own host, too, was cut off from it."""
    recording = Input.random(seed=7, seconds=20)
    scenario = Scenario(recording.manifests(tmp_path), seed=1, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(3)
    world = scenario.world
    here, first = record_of(scenario, "pairs").primary.node, secondary_of(scenario, "pairs")
    world.part_from_store(world.hosts[first])
    second = first
    while second == first or "pairs" not in world.hosts[second].core.replica_manager.replicas:
        scenario.run_for(0.005)
        record = record_of(scenario, "pairs")
        second = first if record.secondary is None else record.secondary.node
    world.part_from_store(world.hosts[second])
    scenario.run_for(2)
    scenario.kill(here, 1.0)
    scenario.run_for(0.3)
    world.reach_store(world.hosts[first])
    scenario.run_for(1.5)
    world.reach_store(world.hosts[second])
    assert_nothing_lost(scenario, recording)


@pytest.mark.slow
def test_a_standby_that_waits_for_input_in_vain_does_not_hold_its_primary_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Input.random(seed=7, seconds=20, every_ms=20.0)
    manifests = recording.manifests(tmp_path, standby="upstream")
    scenario = Scenario(manifests, seed=1, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(4)
    world, record = scenario.world, record_of(scenario, "pairs")
    alone, here = secondary_of(scenario, "pairs"), record.primary.node
    manager = world.hosts[alone].core.replica_manager
    manager.budget = MemoryBudget(64 * 1024)
    manager.input_bytes = manager.budget.input_bytes(len(manager.subscriptions))
    makers = record_of(scenario, "strong")
    cut = {here, makers.primary.node, secondary_of(scenario, "strong")} - {alone}
    sent: list[Position] = []
    transmit = world.transmit

    def note(host: SimulatedHost, to: str, message: Message) -> None:
        if to == alone and isinstance(message, Data):
            sent.append(message.chunk.end)
        transmit(host, to, message)

    monkeypatch.setattr(world, "transmit", note)
    world.server.go_away()
    for other in cut:
        world.cut(alone, other)
    reached_ms: list[int] = []
    for _ in range(8):
        scenario.run_for(1)
        primary = world.hosts[here].core.replica_manager.replicas["pairs"].replica
        reached_ms.append(primary.output_watermark_ms or 0)
        waiting = manager.memory()
        assert waiting.inputs <= waiting.budget
    assert sorted(set(reached_ms)) == reached_ms
    # What it has no room for is not sent to it again and again.
    assert len(sent) < 2 * len(set(sent))
    for other in cut:
        world.mend(alone, other)
    world.server.starts += 1
    world.server.come_back()
    scenario.run_for(5)
    assert_nothing_lost(scenario, recording)
