"""Consumers that cannot follow: queues stay within the budget, sources wait, nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ha.roles import ReplicaRole
from orchestrator.control.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.host.events import Durable
from orchestrator.manifest import Manifests
from orchestrator.records import FragmentRecord
from orchestrator.simulation import schedule
from orchestrator.simulation.campaign import check
from orchestrator.simulation.memory_sink import MemorySink
from orchestrator.simulation.scenario import Played, Scenario
from orchestrator.simulation.setting import Setting, random_setting
from orchestrator.simulation.world import Costs
from tests.pairs import NODES, Input, answer

MEMORY_BYTES = 512 * 1024
"""Of each host: a second or two of the streams below."""

LOAD_S = 60.0
RECOVERED_S = 5.0
RECOVERED_MS = 250


def with_memory(manifests: Manifests, memory_bytes: int = MEMORY_BYTES) -> Manifests:
    """The manifests with a smaller budget than a user may choose."""
    cluster = manifests.cluster
    assert cluster is not None
    record = msgspec.structs.replace(cluster.record, memory_bytes=memory_bytes)
    return msgspec.structs.replace(
        manifests, cluster=msgspec.structs.replace(cluster, record=record)
    )


class Watched:
    """A scenario whose hosts keep their budgets at every moment that is looked at."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = scenario.world
        self.most_used = 0
        self._look()

    def _look(self) -> None:
        for node, host in self.world.hosts.items():
            memory = host.core.replica_manager.memory()
            self.most_used = max(self.most_used, memory.used)
            assert memory.used <= memory.budget, f"budgets kept: {node} uses {memory}"
        self.world.at(self.world.now_us + 50_000, self._look)

    def slow_down(self, nodes: tuple[str, ...], factor: float) -> None:
        for node in nodes:
            self.world.hosts[node].slowness = factor

    def slipped_ms(self, stream: str) -> float:
        return max(
            source.status.slipped_ms
            for host in self.world.hosts.values()
            for name, source in host.core.replica_manager.sources.items()
            if name == stream
        )

    def count(self, counter: str) -> int:
        return sum(host.core.counters[counter] for host in self.world.hosts.values())

    def throttled(self) -> set[str]:
        """Sources and fragments that wait for their consumers."""
        waiting: set[str] = set()
        for host in self.world.hosts.values():
            manager = host.core.replica_manager
            waiting |= {name for name, each in manager.sources.items() if each.status.throttled}
            statuses = host.core.replica_statuses(self.world.now_us)
            waiting |= {name for name, each in statuses.items() if each.throttled}
        return waiting

    def fragment(self, name: str) -> FragmentRecord:
        return read_view(self.scenario.store).fragments[f"pairing.{name}"].record

    def is_warm(self, node: str, fragment: str) -> bool:
        hosted = self.world.hosts[node].core.replica_manager.replicas.get(fragment)
        return hosted is not None and hosted.replica.role is not ReplicaRole.WARMING


def begun(
    recording: Input,
    folder: Path,
    memory_bytes: int = MEMORY_BYTES,
    statements: str | None = None,
) -> Watched:
    """The replay has run for three seconds."""
    manifests = with_memory(recording.manifests(folder), memory_bytes)
    scenario = Scenario(manifests, seed=1, check_invariants=True, costs=Costs(effort_us=100.0))
    scenario.begin()
    scenario.run_for(3)
    return Watched(scenario)


def assert_exact(played: Played, recording: Input) -> None:
    for stream, expected in recording.expected().items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == expected


def assert_recovered(played: Played, recording: Input, recovered_us: int) -> None:
    for stream in recording.expected():
        delivered = played.delivered(stream)
        after = delivered.completed_column("ingestion_time_us") > recovered_us
        assert np.count_nonzero(after) > 50
        assert np.max(delivered.latencies_ms[after]) < RECOVERED_MS


@pytest.mark.slow
def test_twice_the_capacity_for_a_minute_slows_the_sources_and_loses_nothing(
    tmp_path: Path,
) -> None:
    recording = Input.random(seed=7, seconds=50)
    watched = begun(recording, tmp_path)
    scenario = watched.scenario
    watched.slow_down(NODES, 160.0)
    scenario.run_for(LOAD_S)
    watched.slow_down(NODES, 1.0)
    recovered_us = scenario.world.now_us + round(RECOVERED_S * 1e6)
    played = scenario.finish()
    assert watched.slipped_ms("west") > 20_000
    assert (watched.count("takeovers"), watched.count("demotions")) == (0, 0)
    assert_exact(played, recording)
    assert_recovered(played, recording, recovered_us)


@pytest.mark.slow
def test_a_takeover_under_back_pressure_loses_nothing(tmp_path: Path) -> None:
    recording = Input.random(seed=8, seconds=30)
    watched = begun(recording, tmp_path)
    scenario = watched.scenario
    watched.slow_down(NODES, 160.0)
    scenario.run_for(15)
    assert watched.slipped_ms("west") > 2_000
    scenario.kill(watched.fragment("pairs").primary.node)
    scenario.run_for(15)
    watched.slow_down(NODES, 1.0)
    played = scenario.finish()
    assert watched.count("takeovers") >= 1
    assert_exact(played, recording)


@pytest.mark.slow
def test_a_standby_that_cannot_follow_gets_cold_and_stalls_nobody(tmp_path: Path) -> None:
    recording = Input.random(seed=9, seconds=30)
    watched = begun(recording, tmp_path, memory_bytes=128 * 1024)
    scenario = watched.scenario
    secondary = watched.fragment("pair_counts").secondary
    primary = watched.fragment("pair_counts").primary
    assert secondary is not None
    watched.slow_down((secondary.node,), 5_000.0)
    cold = False
    for _ in range(200):
        scenario.run_for(0.1)
        cold |= not watched.is_warm(secondary.node, "pair_counts")
    assert cold
    assert watched.fragment("pair_counts").primary == primary
    watched.slow_down((secondary.node,), 1.0)
    scenario.heal()
    played = scenario.finish()
    assert max(watched.slipped_ms(stream) for stream in ("west", "east")) < 500
    assert_exact(played, recording)


class HangingSink(MemorySink):
    """A sink whose disk does not answer for a while; a flush that was asked for ends after that."""

    hangs = False
    asked = False

    @property
    def durable(self) -> Durable | None:
        if self.asked and not HangingSink.hangs:
            self.asked = False
            super().flush()
        return super().durable

    def flush(self) -> None:
        self.asked = True


@pytest.mark.slow
def test_a_sink_whose_disk_hangs_slows_the_sources_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.simulation.memory_sink.MemorySink", HangingSink)
    monkeypatch.setattr(HangingSink, "hangs", False)
    recording = Input.random(seed=10, seconds=25)
    watched = begun(recording, tmp_path, memory_bytes=256 * 1024)
    scenario = watched.scenario
    monkeypatch.setattr(HangingSink, "hangs", True)
    scenario.run_for(20)
    assert watched.throttled() >= {"west", "east", "pairs", "pair_counts"}
    slipped_ms = watched.slipped_ms("west")
    monkeypatch.setattr(HangingSink, "hangs", False)
    recovered_us = scenario.world.now_us + round(RECOVERED_S * 1e6)
    played = scenario.finish()
    assert watched.slipped_ms("west") > slipped_ms
    assert (watched.count("takeovers"), watched.count("demotions")) == (0, 0)
    assert_exact(played, recording)
    assert_recovered(played, recording, recovered_us)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [781000, 781001, 781006, 781015])
def test_random_queries_with_hardly_any_memory_come_to_their_end(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams that split and join, fragments at different paces, and a fault or two."""

    def with_little_memory(of_seed: int) -> Setting:
        made = random_setting(of_seed)
        cluster = msgspec.structs.replace(made.cluster, memory_bytes=24 * 1024)
        return replace(made, cluster=cluster)

    monkeypatch.setattr(schedule, "random_setting", with_little_memory)
    seen, found = check(schedule.random_schedule(seed))
    assert [each for each in found if not each.startswith("bound")] == []
    sources = [
        s for h in seen.world.hosts.values() for s in h.core.replica_manager.sources.values()
    ]
    assert max(source.slipped_us for source in sources) > 1_000_000
