"""Switchovers, moves and drains while tuples flow: nothing is lost, repeated or late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ha.roles import ReplicaRole
from orchestrator import api
from orchestrator.control.observe.view import read_view
from orchestrator.control.process import Coordination
from orchestrator.deploy.context import ClusterContext
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.progress import Progress
from orchestrator.records import FragmentRecord, MovePlan, MoveStep
from orchestrator.simulation.trials.campaign import ScheduleSelection, judge
from orchestrator.simulation.trials.schedule import Shape
from orchestrator.simulation.world.memory_store import OutOfWrites
from orchestrator.simulation.world.scenario import Scenario, ScenarioOutcome
from orchestrator.store.protocol import MOVES
from tests.long_tests import mostly_long
from tests.pairs import FRAGMENTS, NODES, SETTLE_S, Input, answer

FARTHER_MS = 25.0
"""By how much an output may be later than the latest of a quiet run: two more links of this
network, of which the farthest takes 9 ms, and a batch."""

SLOW_BYTES_S = 2_000.0
"""At this rate the state of a few seconds is on its way for seconds."""


@pytest.fixture(scope="module")
def recording() -> Input:
    return Input.random(seed=7, seconds=14)


@pytest.fixture(scope="module")
def quiet_ms(recording: Input, tmp_path_factory: pytest.TempPathFactory) -> float:
    """The greatest latency of a run without any move."""
    scenario = Scenario(
        recording.manifests(tmp_path_factory.mktemp("quiet")), seed=1, settle_s=SETTLE_S
    )
    scenario.begin()
    return latency_ms(scenario.finish())


@pytest.fixture
def scenario(recording: Input, tmp_path: Path) -> Scenario:
    """The replay has run for a second."""
    made = Scenario(recording.manifests(tmp_path), seed=1, check_invariants=True, settle_s=SETTLE_S)
    made.begin()
    made.run_for(1)
    return made


def cluster(scenario: Scenario) -> api.Cluster:
    reach = ClusterContext(cluster="pairs", pid=1, started_s=0.0, folder="nowhere")
    return api.Cluster(reach, scenario.store)


def passing(scenario: Scenario) -> Progress:
    """Lets virtual time pass while a client waits."""
    return lambda step, detail: scenario.run_for(0.05)


def latency_ms(played: ScenarioOutcome) -> float:
    """The greatest latency of any completed timestamp."""
    return max(
        (delivery.arrived_us - int(us)) / 1000
        for kept in played.deliveries.values()
        for delivery in kept
        for us in delivery.chunk.ingestion_times_us
    )


def assert_exact(played: ScenarioOutcome, recording: Input) -> None:
    for stream, expected in recording.expected().items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == expected


def records(scenario: Scenario) -> dict[str, FragmentRecord]:
    found = read_view(scenario.store).fragments.values()
    return {each.record.fragment: each.record for each in found}


def nodes(record: FragmentRecord) -> tuple[str, str]:
    assert record.secondary is not None
    return record.primary.node, record.secondary.node


def role(scenario: Scenario, node: str, name: str) -> ReplicaRole:
    return scenario.world.hosts[node].core.replica_manager.replicas[name].replica.role


def free(scenario: Scenario, name: str) -> Iterator[str]:
    taken = nodes(records(scenario)[name])
    return (node for node in NODES if node not in taken)


def settle(scenario: Scenario) -> None:
    """Let time pass until every plan of moves has ended, all of it done."""
    for _ in range(100):
        scenario.run_for(0.1)
        view = read_view(scenario.store)
        plans = [found.record for found in view.moves.values()]
        if all(plan.ended_us is not None for plan in plans):
            assert all(step.done for plan in plans for step in plan.steps), plans
            return
    raise AssertionError("the moves do not end")


@pytest.mark.parametrize("name", mostly_long(FRAGMENTS))
def test_switchovers(scenario: Scenario, recording: Input, name: str, quiet_ms: float) -> None:
    before = records(scenario)[name]
    for _ in range(3):
        api.switch(cluster(scenario), name, wait=False, on_progress=passing(scenario))
        settle(scenario)
    after = records(scenario)[name]
    assert (nodes(after), after.epoch) == (nodes(before)[::-1], before.epoch + 3)
    played = scenario.finish()
    assert_exact(played, recording)
    assert latency_ms(played) <= quiet_ms + FARTHER_MS


@pytest.mark.parametrize("name", mostly_long(FRAGMENTS))
def test_both_replicas_move(
    scenario: Scenario, recording: Input, name: str, quiet_ms: float
) -> None:
    there, elsewhere = free(scenario, name)
    api.move(cluster(scenario), name, "primary", there, wait=False, on_progress=passing(scenario))
    settle(scenario)
    api.move(
        cluster(scenario), name, "secondary", elsewhere, wait=False, on_progress=passing(scenario)
    )
    settle(scenario)
    assert nodes(records(scenario)[name]) == (there, elsewhere)
    played = scenario.finish()
    assert_exact(played, recording)
    assert latency_ms(played) <= quiet_ms + FARTHER_MS


def test_every_node_is_drained_in_turn(
    scenario: Scenario, recording: Input, quiet_ms: float
) -> None:
    for node in NODES:
        api.drain(cluster(scenario), node, wait=False, on_progress=passing(scenario))
        settle(scenario)
        assert all(node not in nodes(record) for record in records(scenario).values())
        api.uncordon(cluster(scenario), node)
    played = scenario.finish()
    assert_exact(played, recording)
    assert latency_ms(played) <= quiet_ms + FARTHER_MS


def test_drained_node_is_killed_and_nobody_notices(
    scenario: Scenario, recording: Input, quiet_ms: float
) -> None:
    node = records(scenario)["pairs"].primary.node
    api.drain(cluster(scenario), node, wait=False, on_progress=passing(scenario))
    settle(scenario)
    scenario.kill(node)
    played = scenario.finish()
    assert_exact(played, recording)
    assert latency_ms(played) <= quiet_ms + FARTHER_MS
    assert sum(host.core.counters["takeovers"] for host in scenario.world.hosts.values()) == 0


def test_host_stopped_while_it_sends_a_state_is_suspected_as_soon_as_any_other(
    scenario: Scenario, recording: Input
) -> None:
    """Otherwise a move, which strikes nobody as dangerous, would make the next recovery longer."""
    record = records(scenario)["pairs"]
    primary, secondary = nodes(record)
    scenario.world.bulk_us = 1_000_000_000
    target = next(free(scenario, "pairs"))
    api.move(
        cluster(scenario), "pairs", "secondary", target, wait=False, on_progress=passing(scenario)
    )
    scenario.run_for(1)
    assert role(scenario, target, "pairs") is ReplicaRole.WARMING
    scenario.world.pause(primary)
    suspect_after_ms = scenario.world.cluster.suspect_after_ms
    scenario.run_for((suspect_after_ms + 2 * scenario.world.cluster.heartbeat_ms) / 1000)
    assert role(scenario, secondary, "pairs") is ReplicaRole.PRIMARY
    scenario.world.resume(scenario.world.hosts[primary])
    assert_exact(scenario.finish(), recording)


def test_state_comes_no_faster_than_the_plan_allows(
    scenario: Scenario, recording: Input, quiet_ms: float
) -> None:
    scenario.run_for(4)
    step = MoveStep(fragment="pairing.pairs", role="secondary", node=next(free(scenario, "pairs")))
    plan = MovePlan(name="slow", steps=(step,), submitted_us=0, throttle_bytes_s=SLOW_BYTES_S)
    scenario.store.create(MOVES.key("slow"), plan)
    seen: set[int] = set()
    while plan.ended_us is None:
        scenario.run_for(0.1)
        plan = read_view(scenario.store).moves["slow"].record
        seen.add(plan.steps[0].moved_bytes)
    begun_us = plan.steps[0].begun_us
    assert plan.steps[0].done
    assert begun_us is not None
    assert len(seen) > 3, "progress is told"
    assert plan.ended_us - begun_us > max(seen) * 1e6 / SLOW_BYTES_S
    played = scenario.finish()
    assert_exact(played, recording)
    assert latency_ms(played) <= quiet_ms + FARTHER_MS


def ten_moves(scenario: Scenario) -> MovePlan:
    """Every fragment goes to and fro, in both roles."""
    places = {name: nodes(record) for name, record in records(scenario).items()}
    steps: list[MoveStep] = []
    for number in range(10):
        name = FRAGMENTS[number % 3]
        primary, secondary = places[name]
        target = next(node for node in NODES if node not in (primary, secondary))
        key = f"pairing.{name}"
        if number % 4 == 0:
            steps.append(MoveStep(fragment=key, role="primary", node=target))
            places[name] = target, secondary
        elif number % 4 == 1:
            steps.append(MoveStep(fragment=key, role="secondary", node=target))
            places[name] = primary, target
        else:
            steps.append(MoveStep(fragment=key, role="primary", node=secondary))
            places[name] = secondary, primary
    return MovePlan(name="ten", steps=tuple(steps), at_a_time=2, submitted_us=0)


def test_leader_killed_at_every_write_of_ten_moves(
    scenario: Scenario, recording: Input, quiet_ms: float
) -> None:
    """No leader lives for longer than one to three writes."""
    scenario.kill_leader()
    scenario.world.run_for(11)
    world, leaders = scenario.world, 0
    scenario.store.create(MOVES.key("ten"), ten_moves(scenario))

    def lead() -> None:
        nonlocal leaders
        store = world.server.connect()
        # One is spent on the election.
        store.writes_left = 2 + leaders % 3
        leaders += 1
        with suppress(OutOfWrites):
            Coordination(store, f"leader {leaders}").run_once(world.now_us)
        world.server.end_session(store.session)
        world.at(world.now_us + 5_000, lead)

    world.at(world.now_us, lead)
    settle(scenario)
    assert leaders > 100
    view = read_view(scenario.store)
    assert all(view.settled(found.record) for found in view.fragments.values())
    kinds = {entry.event.kind for entry in scenario.store.history()}
    # A leader that dies right after a write has no time to tell of it.
    assert {"move begun", "switched over", "moved"} <= kinds
    played = scenario.finish()
    assert_exact(played, recording)
    assert latency_ms(played) <= quiet_ms + FARTHER_MS


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_long([6033, 6051, *range(6000, 6010)], quick=4))
def test_random_operations_without_a_fault(seed: int) -> None:
    """The first two: a plan was read by a replica that had heard of its epoch from another one."""
    failure = judge(seed, ScheduleSelection(shapes=(Shape.NONE,))).failure
    assert failure is None, failure.transcript
