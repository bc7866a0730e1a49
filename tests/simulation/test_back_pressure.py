"""Consumers that cannot follow: queues stay within the budget, sources wait, nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ha.roles import ReplicaRole
from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, longest_silence, sequence_faults
from orchestrator.edges.events import Durable
from orchestrator.manifest import Manifests
from orchestrator.records import FragmentRecord, Overflow
from orchestrator.simulation.trials import schedule
from orchestrator.simulation.trials.campaign import check
from orchestrator.simulation.trials.setting import FIRST_FORMS_ONLY, Setting, random_setting
from orchestrator.simulation.world.memory_sink import MemorySink
from orchestrator.simulation.world.scenario import Scenario, ScenarioOutcome
from orchestrator.simulation.world.world import Costs
from tests.long_tests import mostly_long
from tests.pairs import NODES, SETTLE_S, Input, Rows, answer

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
) -> Watched:
    """The replay has run for three seconds."""
    return begun_with(recording.manifests(folder), memory_bytes)


def begun_with(manifests: Manifests, memory_bytes: int) -> Watched:
    """The same, of other manifests."""
    scenario = Scenario(
        with_memory(manifests, memory_bytes),
        seed=1,
        check_invariants=True,
        costs=Costs(effort_us=100.0),
        settle_s=SETTLE_S,
    )
    scenario.begin()
    scenario.run_for(3)
    return Watched(scenario)


def assert_exact(played: ScenarioOutcome, recording: Input) -> None:
    for stream, expected in recording.expected().items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == expected


def assert_recovered(played: ScenarioOutcome, recording: Input, recovered_us: int) -> None:
    for stream in recording.expected():
        delivered = played.delivered(stream)
        after = delivered.completed_column("ingestion_time_us") > recovered_us
        assert np.count_nonzero(after) > 50
        assert np.max(delivered.latencies_ms[after]) < RECOVERED_MS


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.slow
def test_a_sink_whose_disk_hangs_slows_the_sources_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.simulation.world.memory_sink.MemorySink", HangingSink)
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
@pytest.mark.parametrize("seed", mostly_long([781001, 781000, 781006, 781015]))
def test_random_queries_with_hardly_any_memory_come_to_their_end(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams that split and join, fragments at different paces, and a fault or two.

    Output comes at the pace of acknowledgements then: later than elsewhere, but by its deadline.
    """

    def with_little_memory(of_seed: int, *, edition: int) -> Setting:
        made = random_setting(of_seed, edition=edition)
        cluster = msgspec.structs.replace(made.cluster, memory_bytes=24 * 1024)
        return replace(made, cluster=cluster)

    monkeypatch.setattr(schedule, "random_setting", with_little_memory)
    drawn = schedule.random_schedule(seed, shapes=schedule.STRUCK, edition=FIRST_FORMS_ONLY)
    seen, found = check(drawn)
    late = [each for each in found if " ms late " in each]
    assert [each for each in found if not each.startswith("bound") and each not in late] == []
    deadline_ms = min(query.deadline_ms for query in seen.setting.queries)
    assert all(int(each.split()[3]) <= deadline_ms for each in late)
    sources = [
        s for h in seen.world.hosts.values() for s in h.core.replica_manager.sources.values()
    ]
    assert max(source.slipped_us for source in sources) > 1_000_000


@pytest.mark.long
@pytest.mark.slow
def test_a_site_that_is_started_again_goes_on_where_its_source_had_waited(tmp_path: Path) -> None:
    """Else its input would come again at full speed, as late as it had waited."""
    recording = Input.random(seed=11, seconds=45)
    watched = begun(recording, tmp_path)
    scenario = watched.scenario
    watched.slow_down(NODES, 160.0)
    scenario.run_for(15)
    watched.slow_down(NODES, 1.0)
    scenario.run_for(5)
    slipped_ms = watched.slipped_ms("west")
    assert slipped_ms > 2_000
    scenario.kill("west-site")
    scenario.run_for(1)
    scenario.heal()
    scenario.run_for(1)
    assert watched.slipped_ms("west") >= slipped_ms
    # What came due while the site was away comes late, and nothing after that.
    recovered_us = scenario.world.now_us + round(RECOVERED_S * 1e6)
    played = scenario.finish()
    assert_exact(played, recording)
    assert_recovered(played, recording, recovered_us)


@pytest.mark.long
@pytest.mark.slow
def test_a_sink_that_may_lose_output_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.simulation.world.memory_sink.MemorySink", HangingSink)
    monkeypatch.setattr(HangingSink, "hangs", False)
    recording = Input.random(seed=10, seconds=45)
    manifests = recording.manifests(tmp_path)
    (query,) = manifests.queries
    dropping = dict.fromkeys(query.record.outputs, Overflow.DROP)
    record = msgspec.structs.replace(query.record, overflow=dropping)
    queries = (msgspec.structs.replace(query, record=record),)
    watched = begun_with(msgspec.structs.replace(manifests, queries=queries), 128 * 1024)
    scenario = watched.scenario
    monkeypatch.setattr(HangingSink, "hangs", True)
    scenario.run_for(20)
    assert watched.throttled() == set()
    exit_sinks = watched.world.hosts["exit"].core.replica_manager.sinks
    now_us = watched.world.hosts["exit"].core.clock.at(watched.world.now_us)
    assert max(sink.status(now_us).unkept_ms for sink in exit_sinks.values()) > 15_000
    monkeypatch.setattr(HangingSink, "hangs", False)
    played = scenario.finish()
    assert watched.slipped_ms("west") == watched.slipped_ms("east") == 0
    for stream, expected in recording.expected().items():
        delivered = played.delivered(stream)
        faults = sequence_faults(delivered)
        assert faults.repeated == 0
        assert len(expected) - len(answer(delivered)) == faults.lost
        assert set(answer(delivered)) <= set(expected)
        assert faults.lost == exit_sinks[stream].status(now_us).lost
    assert sum(sink.status(now_us).lost for sink in exit_sinks.values()) > 0


def diamond(folder: Path, recording: Input) -> Manifests:
    """`west` is split, and joined again after ways of unequal length: one branch goes by distant
    nodes and holds three seconds back, the other hardly anything."""
    manifests = recording.manifests(folder)
    (query,) = manifests.queries
    statements = """
      REGISTER QUERY left RSTREAM(SELECT key, value FROM west [NOW] WHERE value >= 20);
      REGISTER QUERY far RSTREAM(SELECT key, value FROM west [NOW]);
      REGISTER QUERY further RSTREAM(SELECT key, value FROM far [NOW]);
      REGISTER QUERY right RSTREAM(
        SELECT f.key AS key, count(*) AS found FROM further [RANGE 3 SECONDS] AS f GROUP BY f.key);
      REGISTER QUERY joined RSTREAM(
        SELECT l.key AS key, l.value AS value, r.found AS found
        FROM left [NOW] AS l, right [NOW] AS r WHERE l.key = r.key);
      REGISTER QUERY both RSTREAM(
        SELECT j.key AS key, j.found AS found, e.value AS value
        FROM joined [NOW] AS j, west [NOW] AS e WHERE j.key = e.key);
    """
    primaries = {
        name: (node,)
        for name, node in zip(
            ("left", "far", "further", "right", "joined", "both"),
            ("n1", "n4", "n1", "n4", "n2", "n3"),
            strict=True,
        )
    }
    record = msgspec.structs.replace(
        query.record,
        statements=statements,
        outputs={"joined": "exit", "both": "exit"},
        primaries=primaries,
        deadline_ms=1000.0,
        recovery_bound_ms=1000.0,
    )
    streams = tuple(each for each in manifests.streams if each.record.name == "west")
    queries = (msgspec.structs.replace(query, record=record),)
    return msgspec.structs.replace(manifests, streams=streams, queries=queries)


def diamond_answer(recording: Input) -> dict[str, Rows]:
    """The answer of the diamond, worked out without anything of the product."""
    joined = Rows()
    for at, key, value in recording.west:
        if value >= 20:
            found = sum(
                same == key and at - 3000 < before <= at for before, same, _ in recording.west
            )
            joined.append((at, key, value, found))
    both = [
        (at, key, found, other)
        for at, key, _, found in joined
        for then, same, other in recording.west
        if (then, same) == (at, key)
    ]
    return {"joined": sorted(joined), "both": sorted(both)}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory_bytes", "victims"),
    [(24 * 1024, ()), (24 * 1024, ("n2", "n3")), (96 * 1024, ("n4",)), (24 * 1024, ("west-site",))],
    ids=["nothing", "joins", "branch", "site"],
)
def test_a_stream_that_splits_and_joins_again_gets_through_little_memory(
    tmp_path: Path, memory_bytes: int, victims: tuple[str, ...]
) -> None:
    recording = Input.random(seed=12, seconds=8, every_ms=25.0)
    watched = begun_with(diamond(tmp_path, recording), memory_bytes)
    scenario = watched.scenario
    watched.slow_down(("n4",), 300.0)
    scenario.run_for(2)
    for victim in victims:
        scenario.kill(victim)
        scenario.run_for(1)
        scenario.heal()
    watched.slow_down(("n4",), 1.0)
    played = scenario.finish()
    for stream, expected in diamond_answer(recording).items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == expected


@pytest.mark.long
@pytest.mark.slow
def test_many_readers_of_one_stream_share_its_memory(tmp_path: Path) -> None:
    """Several primaries on a node wait for the same input, which a host keeps once."""
    recording = Input.random(seed=13, seconds=8)
    manifests = recording.manifests(tmp_path)
    (query,) = manifests.queries
    names = [f"copy_{number}" for number in range(8)]
    statements = "".join(
        f"REGISTER QUERY {name} RSTREAM(SELECT w.key AS key, e.value AS value "
        "FROM west [NOW] AS w, east [RANGE 1 SECONDS] AS e WHERE w.key = e.key);\n"
        for name in names
    )
    record = msgspec.structs.replace(
        query.record,
        statements=statements,
        outputs=dict.fromkeys(names, "exit"),
        deadline_ms=1000.0,
        recovery_bound_ms=1000.0,
    )
    queries = (msgspec.structs.replace(query, record=record),)
    watched = begun_with(msgspec.structs.replace(manifests, queries=queries), 64 * 1024)
    scenario = watched.scenario
    # Readers get `west` and wait for `east`, whose site can send nothing.
    watched.slow_down(("east-site",), 20_000.0)
    scenario.run_for(3)
    watched.slow_down(("east-site",), 1.0)
    played = scenario.finish()
    for name in names:
        assert sequence_faults(played.delivered(name)) == SequenceFaults(lost=0, repeated=0)


@pytest.mark.slow
def test_a_paused_consumer_demands_nothing_once_it_is_replaced(tmp_path: Path) -> None:
    """It would hold full logs up for three seconds, and with them whoever took over."""
    recording = Input.random(seed=14, seconds=12, every_ms=12.0)
    watched = begun_with(recording.manifests(tmp_path), 384 * 1024)
    scenario, hosts = watched.scenario, watched.world.hosts
    paused = watched.fragment("pairs").primary.node
    paused_us = scenario.world.now_us
    host = hosts[paused]
    scenario.world.pause(paused)
    scenario.run_for(1)
    assert watched.fragment("pairs").primary.node != paused
    logs = [
        producer.log
        for node, each in hosts.items()
        if node != paused
        for producer in each.core.replica_manager.producers()
    ]
    known = [log.subscribers[paused] for log in logs if paused in log.subscribers]
    assert [each.demanded for each in known] == [None] * len(known)
    scenario.run_for(2)
    scenario.world.resume(host)
    scenario.heal()
    played = scenario.finish()
    assert_exact(played, recording)
    assert longest_silence_ms(played, paused_us, 2_900_000) < 750


def longest_silence_ms(played: ScenarioOutcome, since_us: int, for_us: int) -> float:
    arrived_us = played.delivered("pairs").completed_column("arrived_us")
    silence = longest_silence(np.sort(arrived_us), since_us, since_us + for_us)
    assert silence is not None
    return silence.gap_ms
