"""One fault at a time on a small query: nothing is lost and nothing is repeated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ha.roles import ReplicaRole
from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.records import FragmentRecord
from orchestrator.simulation.world.scenario import Scenario, ScenarioOutcome
from orchestrator.simulation.world.world import SimulatedHost
from tests.long_tests import mostly_long
from tests.pairs import FRAGMENTS, SETTLE_S, Input, answer


@pytest.fixture(scope="module")
def recording() -> Input:
    return Input.random(seed=7, seconds=18)


@pytest.fixture
def scenario(recording: Input, tmp_path: Path) -> Scenario:
    """The replay has run for three seconds."""
    made = Scenario(
        recording.manifests(tmp_path),
        seed=1,
        check_invariants=True,
        settle_s=SETTLE_S,
        candidates=2,
    )
    made.begin()
    made.run_for(3)
    return made


def assert_exact(played: ScenarioOutcome, recording: Input) -> None:
    for stream, expected in recording.expected().items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == expected


def fragment(scenario: Scenario, name: str) -> FragmentRecord:
    return read_view(scenario.store).fragments[f"pairing.{name}"].record


def history(scenario: Scenario) -> list[str]:
    return [f"{e.event.kind}: {e.event.subject}" for e in scenario.store.history()]


def roles(scenario: Scenario, name: str) -> list[ReplicaRole]:
    """Roles of a fragment's replicas on live hosts."""
    statuses = [
        host.core.replica_statuses(host.clock.now_us()).get(name)
        for host in scenario.world.hosts.values()
        if host.alive
    ]
    return sorted((s.role for s in statuses if s is not None), key=lambda role: role.value)


def count(scenario: Scenario, counter: str) -> int:
    return sum(host.core.counters[counter] for host in hosts(scenario))


def hosts(scenario: Scenario) -> Iterator[SimulatedHost]:
    yield from scenario.world.hosts.values()


def test_without_a_fault_the_answer_is_exact(scenario: Scenario, recording: Input) -> None:
    assert_exact(scenario.finish(), recording)
    assert count(scenario, "takeovers") == count(scenario, "chunks_gap") == 0


@pytest.mark.parametrize("name", mostly_long(FRAGMENTS))
def test_killed_primary(scenario: Scenario, recording: Input, name: str) -> None:
    before = fragment(scenario, name)
    scenario.drill(name)
    after = fragment(scenario, name)
    assert before.secondary is not None
    assert after.primary == before.secondary
    assert after.epoch == before.epoch + 1
    assert_exact(scenario.finish(), recording)


@pytest.mark.parametrize("name", mostly_long(FRAGMENTS))
def test_killed_secondary(scenario: Scenario, recording: Input, name: str) -> None:
    before = fragment(scenario, name)
    assert before.secondary is not None
    scenario.kill(before.secondary.node)
    scenario.run_for(8)
    scenario.heal()
    assert fragment(scenario, name).primary == before.primary
    assert_exact(scenario.finish(), recording)


def test_link_between_peer_replicas_cut_leaves_two_primaries_until_it_is_mended(
    scenario: Scenario, recording: Input
) -> None:
    before = fragment(scenario, "pairs")
    assert before.secondary is not None
    peer_replicas = before.primary.node, before.secondary.node
    scenario.world.cut(*peer_replicas)
    scenario.run_for(0.03)
    assert roles(scenario, "pairs") == [ReplicaRole.PRIMARY, ReplicaRole.PRIMARY]
    scenario.run_for(1)
    scenario.world.mend(*peer_replicas)
    scenario.run_for(1)
    scenario.heal()
    # The deposed replica has stepped down, or the leader has replaced it meanwhile: one is left.
    assert roles(scenario, "pairs") == [ReplicaRole.PRIMARY, ReplicaRole.STANDBY]
    # Each may have suspected the other more than once: what counts is that they agree.
    assert fragment(scenario, "pairs").epoch > before.epoch
    assert_exact(scenario.finish(), recording)


def test_link_from_primary_to_its_consumer_cut(scenario: Scenario, recording: Input) -> None:
    primary = fragment(scenario, "pair_counts").primary.node
    scenario.world.cut(primary, "exit")
    scenario.run_for(2)
    scenario.world.mend(primary, "exit")
    assert_exact(scenario.finish(), recording)


def test_primary_killed_while_the_store_is_away(scenario: Scenario, recording: Input) -> None:
    before = fragment(scenario, "pairs")
    scenario.world.server.go_away()
    scenario.run_for(1)
    scenario.world.kill(before.primary.node)
    scenario.run_for(3)
    assert count(scenario, "takeovers") > 0
    lag_ms = 1000
    for stream in ("pairs", "pair_counts"):
        newest = scenario.deliveries[stream][-1]
        assert newest.arrived_us > scenario.world.now_us - lag_ms * 1000
    scenario.world.server.come_back()
    scenario.run_for(1)
    after = fragment(scenario, "pairs")
    assert after.primary == before.secondary
    assert after.epoch == before.epoch + 1
    assert after.took_over is not None
    assert after.took_over.previous == before.primary
    scenario.world.restart(before.primary.node)
    scenario.run_for(5)
    scenario.heal()
    assert "state lost: pairing.pairs" not in history(scenario)
    assert_exact(scenario.finish(), recording)


def test_store_away_for_a_while(scenario: Scenario, recording: Input) -> None:
    scenario.world.server.go_away()
    scenario.run_for(6)
    scenario.world.server.come_back()
    scenario.run_for(2)
    scenario.heal()
    assert count(scenario, "takeovers") == 0
    assert_exact(scenario.finish(), recording)


def test_a_store_that_was_stopped_ends_all_sessions_and_disturbs_nobody(
    scenario: Scenario, recording: Input
) -> None:
    before = {name: fragment(scenario, name) for name in FRAGMENTS}
    peers = {host.spec.node: set(host.peers) for host in hosts(scenario)}
    scenario.world.server.go_away()
    scenario.run_for(1)
    scenario.world.end_all_sessions()
    for _ in range(40):
        scenario.run_for(0.05)
        for host in hosts(scenario):
            assert set(host.peers) == peers[host.spec.node]
    scenario.heal()
    assert count(scenario, "takeovers") == 0
    assert {name: fragment(scenario, name) for name in FRAGMENTS} == before
    assert_exact(scenario.finish(), recording)


@pytest.mark.parametrize("which", ["primary", "secondary"])
def test_a_host_whose_session_expires_lives_on(
    scenario: Scenario, recording: Input, which: str
) -> None:
    replica = getattr(fragment(scenario, "pairs"), which)
    store = scenario.world.hosts[replica.node].store
    store.expire()
    scenario.run_for(0.5)
    store.resume()
    scenario.run_for(5)
    scenario.heal()
    assert_exact(scenario.finish(), recording)


def test_three_kills_one_after_the_other(tmp_path: Path) -> None:
    recording = Input.random(seed=8, seconds=45)
    scenario = Scenario(
        recording.manifests(tmp_path), seed=2, check_invariants=True, settle_s=SETTLE_S
    )
    scenario.begin()
    epoch = fragment(scenario, "pairs").epoch
    for _ in range(3):
        scenario.run_for(3)
        scenario.drill("pairs")
    assert fragment(scenario, "pairs").epoch == epoch + 3
    assert_exact(scenario.finish(), recording)


def test_both_replicas_killed_at_once_is_said_aloud(scenario: Scenario) -> None:
    before = fragment(scenario, "pair_counts")
    assert before.secondary is not None
    for replica in (before.primary, before.secondary):
        scenario.kill(replica.node)
    scenario.run_for(15)
    scenario.heal()
    played = scenario.finish()
    assert "state lost: pairing.pair_counts" in history(scenario)
    after = fragment(scenario, "pair_counts")
    assert after.generation > before.generation
    assert scenario.world.hosts["exit"].core.counters["discontinuities"] > 0
    watermarks_ms = played.delivered("pair_counts").completed_column("watermark_ms")
    assert (watermarks_ms[1:] > watermarks_ms[:-1]).all()


def test_leader_killed_and_then_a_primary(scenario: Scenario, recording: Input) -> None:
    scenario.kill_leader()
    scenario.run_for(6)
    scenario.drill("pairs")
    assert_exact(scenario.finish(), recording)


def test_leader_and_primary_killed_at_once(scenario: Scenario, recording: Input) -> None:
    before = fragment(scenario, "pairs")
    scenario.kill_leader()
    scenario.kill(before.primary.node)
    scenario.run_for(9)
    scenario.heal()
    assert fragment(scenario, "pairs").primary == before.secondary
    assert_exact(scenario.finish(), recording)


@pytest.mark.parametrize("first", ["secondary", "primary"])
def test_two_executors_killed_two_seconds_apart_lose_no_state(
    scenario: Scenario, recording: Input, first: str
) -> None:
    before = fragment(scenario, "pairs")
    assert before.secondary is not None
    scenario.kill(before.secondary.node if first == "secondary" else before.primary.node)
    scenario.run_for(2)
    between = fragment(scenario, "pairs")
    assert between.secondary is not None
    assert between.secondary not in (before.primary, before.secondary)
    scenario.kill(between.primary.node)
    scenario.run_for(15)
    scenario.heal()
    assert_exact(scenario.finish(), recording)
    assert fragment(scenario, "pairs").primary == between.secondary
    assert not any(each.startswith("state lost") for each in history(scenario))
