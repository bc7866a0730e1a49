"""Planned switchovers and moves: what the leader writes, step by step, from what hosts report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
import pytest

from ha.roles import ReplicaRole
from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.decide.moving import REMEMBERED_US, SETTLES_US
from orchestrator.control.decide.writes import decide
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import MoveRefused, relocate
from orchestrator.records import (
    CordonRecord,
    FragmentRecord,
    HostLoad,
    MovePlan,
    MoveStep,
    NodeCoordinate,
    Processors,
    ReplicaStatus,
)
from orchestrator.store.protocol import CORDONS, MOVES
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft

ALERTS = "proximity.alerts"

Role = Literal["primary", "secondary"]


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def record(cluster: ObedientCluster, key: str = ALERTS) -> FragmentRecord:
    return cluster.view().fragments[key].record


def nodes(record: FragmentRecord) -> tuple[str, str]:
    assert record.secondary is not None
    return record.primary.node, record.secondary.node


def free(cluster: ObedientCluster, key: str = ALERTS) -> str:
    """A live node without a replica of the fragment."""
    taken = [replica.node for replica in record(cluster, key).replicas]
    return next(name for name in EXECUTORS if name in cluster.hosts and name not in taken)


def submit(
    cluster: ObedientCluster,
    *steps: tuple[str, Role, str],
    name: str = "test",
    at_a_time: int = 1,
    keep_going: bool = False,
    throttle_bytes_s: float | None = None,
    drains: str | None = None,
) -> None:
    plan = MovePlan(
        name=name,
        steps=tuple(MoveStep(fragment=f, role=role, node=node) for f, role, node in steps),
        at_a_time=at_a_time,
        keep_going=keep_going,
        throttle_bytes_s=throttle_bytes_s,
        drains=drains,
        by="somebody",
        submitted_us=cluster.now_us,
    )
    cluster.store.create(MOVES.key(name), plan)


def plan(cluster: ObedientCluster, name: str = "test") -> MovePlan:
    return cluster.view().moves[name].record


def withdraw(cluster: ObedientCluster) -> None:
    found = cluster.view().moves["test"]
    cluster.store.update(
        MOVES.key("test"), msgspec.structs.replace(found.record, withdrawn=True), found.version
    )


def kinds(cluster: ObedientCluster) -> list[str]:
    return [e.event.kind for e in cluster.store.history() if e.event.subject == ALERTS]


def cordon(cluster: ObedientCluster, node: str) -> None:
    cluster.store.create(CORDONS.key(node), CordonRecord(node=node, since_us=cluster.now_us))


def report(cluster: ObedientCluster, node: str, role: ReplicaRole, epoch: int) -> None:
    host = cluster.hosts[node]
    status = ReplicaStatus(role=role, epoch=epoch, output_watermark_ms=None)
    host.tell(replicas=host.record.replicas | {"alerts": status})


def test_switchover_changes_the_roles_in_the_next_epoch(cluster: ObedientCluster) -> None:
    before = record(cluster)
    primary, secondary = nodes(before)
    submit(cluster, (ALERTS, "primary", secondary))
    cluster.settle()
    after = record(cluster)
    assert (nodes(after), after.epoch, after.generation) == (
        (secondary, primary),
        before.epoch + 1,
        before.generation,
    )
    assert after.took_over is None
    assert after.losses == ()
    (step,) = plan(cluster).steps
    assert step.done
    assert kinds(cluster)[-1] == "switched over"
    assert "redundancy lost" not in kinds(cluster)


def test_a_primary_moves_by_way_of_a_third_replica(cluster: ObedientCluster) -> None:
    before = record(cluster)
    primary, secondary = nodes(before)
    target = free(cluster)
    submit(cluster, (ALERTS, "primary", target))
    cluster.settle_coordinator()
    coming = record(cluster)
    assert nodes(coming) == (primary, secondary)
    assert coming.third is not None
    assert coming.third.replica.node == target
    # Everybody who reads the stream, and everybody who feeds it, knows the third one.
    assignment = cluster.view().assignments[primary].record
    (assigned,) = [each for each in assignment.fragments if each.fragment == "alerts"]
    assert assigned.others == (secondary, target)
    centre = cluster.view().assignments["control-centre"].record
    assert centre.producers["alerts"] == (primary, secondary, target)
    cluster.hosts[target].obey()
    cluster.settle_coordinator()
    going = record(cluster)
    assert nodes(going) == (target, secondary)
    assert going.epoch == before.epoch + 1
    assert going.third is not None
    assert going.third.replica.node == primary
    cluster.settle()
    after = record(cluster)
    assert (nodes(after), after.third) == ((target, secondary), None)
    assert kinds(cluster)[-3:] == ["move begun", "switched over", "moved"]
    assert "redundancy lost" not in kinds(cluster)
    assert "alerts" not in cluster.hosts[primary].record.replicas


def test_a_secondary_moves_without_a_new_epoch(cluster: ObedientCluster) -> None:
    before = record(cluster)
    primary, _ = nodes(before)
    target = free(cluster)
    submit(cluster, (ALERTS, "secondary", target))
    cluster.settle()
    after = record(cluster)
    assert (nodes(after), after.third, after.epoch) == ((primary, target), None, before.epoch)
    assert kinds(cluster)[-2:] == ["move begun", "moved"]
    assert "redundancy lost" not in kinds(cluster)


def test_a_secondary_that_has_taken_over_does_not_lose_its_place(cluster: ObedientCluster) -> None:
    """It has yet to record that. The store refuses that of a host without a replica."""
    before = record(cluster)
    primary, secondary = nodes(before)
    target = free(cluster)
    submit(cluster, (ALERTS, "secondary", target))
    cluster.settle_coordinator()
    cluster.hosts[target].obey()
    for node, role in (
        (primary, ReplicaRole.STANDBY),
        (secondary, ReplicaRole.PRIMARY),
        (target, ReplicaRole.STANDBY),
    ):
        report(cluster, node, role, before.epoch + 1)
    cluster.settle_coordinator()
    assert nodes(record(cluster)) == (primary, secondary)
    assert not plan(cluster).steps[0].done


def test_the_record_of_a_plan_goes_after_a_while(cluster: ObedientCluster) -> None:
    submit(cluster, (ALERTS, "primary", nodes(record(cluster))[1]))
    cluster.settle()
    ended_us = plan(cluster).ended_us
    assert ended_us is not None
    cluster.now_us = ended_us + REMEMBERED_US
    cluster.settle()
    assert not cluster.view().moves


def test_cold_third_replica_does_not_take_its_place_and_is_given_up(
    cluster: ObedientCluster,
) -> None:
    before = record(cluster)
    target = free(cluster)
    cluster.hosts[target].cold = True
    submit(cluster, (ALERTS, "primary", target))
    cluster.settle()
    assert nodes(record(cluster)) == nodes(before)
    cluster.now_us += DecisionSettings().warm_up_us
    cluster.settle()
    after = record(cluster)
    assert (nodes(after), after.third, after.epoch) == (nodes(before), None, before.epoch)
    (step,) = plan(cluster).steps
    assert "was not ready after 30 s" in (step.failed or "")
    assert kinds(cluster)[-1] == "move taken back"
    assert "alerts" not in cluster.hosts[target].record.replicas


def switched(cluster: ObedientCluster) -> tuple[str, str]:
    """Have a primary's move change the roles; its former and its new node, which yet have to
    hear that."""
    former, target = nodes(record(cluster))[0], free(cluster)
    submit(cluster, (ALERTS, "primary", target))
    cluster.settle_coordinator()
    cluster.hosts[target].obey()
    cluster.settle_coordinator()
    assert record(cluster).primary.node == target
    return former, target


def test_the_former_primary_stays_until_it_has_heard_of_its_successor(
    cluster: ObedientCluster,
) -> None:
    former, target = switched(cluster)
    cluster.hosts[target].obey()
    cluster.settle_coordinator()
    third = record(cluster).third
    assert third is not None
    assert third.replica.node == former
    assert not plan(cluster).steps[0].done
    cluster.hosts[former].obey()
    cluster.settle_coordinator()
    assert record(cluster).third is None
    assert plan(cluster).steps[0].done


def test_the_former_primary_stays_until_its_successor_acts(cluster: ObedientCluster) -> None:
    former, target = switched(cluster)
    cluster.hosts[former].obey()
    cluster.settle_coordinator()
    third = record(cluster).third
    assert third is not None
    assert third.replica.node == former
    assert not plan(cluster).steps[0].done
    cluster.hosts[target].obey()
    cluster.settle_coordinator()
    assert record(cluster).third is None
    assert plan(cluster).steps[0].done


@pytest.mark.parametrize("role", ["primary", "secondary"])
def test_withdrawn_while_the_third_replica_comes(cluster: ObedientCluster, role: Role) -> None:
    before = record(cluster)
    submit(cluster, (ALERTS, role, free(cluster)), ("proximity.north_tracks", role, "zurich"))
    cluster.settle_coordinator()
    withdraw(cluster)
    cluster.settle()
    assert msgspec.structs.replace(record(cluster), timing=before.timing) == before
    assert [step.failed for step in plan(cluster).steps] == [
        "taken back: it was withdrawn",
        "withdrawn before it was begun",
    ]


def test_withdrawn_after_the_roles_have_changed_is_done(cluster: ObedientCluster) -> None:
    target = free(cluster)
    submit(cluster, (ALERTS, "primary", target))
    cluster.settle_coordinator()
    cluster.hosts[target].obey()
    cluster.settle_coordinator()
    assert record(cluster).primary.node == target
    withdraw(cluster)
    cluster.settle()
    assert record(cluster).primary.node == target
    assert plan(cluster).steps[0].done


def test_target_that_dies_is_given_up(cluster: ObedientCluster) -> None:
    before = record(cluster)
    target = free(cluster)
    submit(cluster, (ALERTS, "primary", target))
    cluster.settle_coordinator()
    cluster.kill(target)
    cluster.settle()
    assert (nodes(record(cluster)), record(cluster).third) == (nodes(before), None)
    assert plan(cluster).steps[0].failed == f"taken back: {target} was lost"


def test_primary_dies_while_the_third_replica_comes(cluster: ObedientCluster) -> None:
    before = record(cluster)
    primary, secondary = nodes(before)
    target = free(cluster)
    submit(cluster, (ALERTS, "primary", target))
    cluster.settle_coordinator()
    cluster.kill(primary)
    cluster.hosts[target].obey()
    found = cluster.view().fragments[ALERTS]
    cluster.take_over(found.record, found.version)
    cluster.settle()
    after = record(cluster)
    # The third replica is warm already: it is the new secondary, and was never stopped.
    assert (nodes(after), after.third) == ((secondary, target), None)
    assert after.generation == before.generation
    assert plan(cluster).steps[0].failed is not None


def test_a_move_in_which_the_secondary_is_lost_says_what_has_interrupted_it(
    cluster: ObedientCluster,
) -> None:
    (_, secondary), target = nodes(record(cluster)), free(cluster)
    cluster.hosts[target].cold = True
    submit(cluster, (ALERTS, "primary", target))
    cluster.settle_coordinator()
    found = cluster.view().fragments[ALERTS]
    assert found.record.third is not None
    cluster.now_us += 1_000_000
    cluster.lose_secondary(found.record, found.version, "silent")
    cluster.settle()
    failed = plan(cluster).steps[0].failed or ""
    assert failed.startswith(f"was interrupted, since {secondary} was lost (silent); its replicas")


def test_both_replicas_die_while_the_third_is_warm(cluster: ObedientCluster) -> None:
    before = record(cluster)
    target = free(cluster)
    cluster.hosts[target].cold = True
    submit(cluster, (ALERTS, "primary", target))
    cluster.settle()
    report(cluster, target, ReplicaRole.STANDBY, before.epoch)
    for node in nodes(before):
        cluster.kill(node)
    cluster.now_us += DecisionSettings().takeover_grace_us
    cluster.settle_coordinator()
    cluster.now_us += DecisionSettings().takeover_grace_us
    cluster.settle_coordinator()
    after = record(cluster)
    assert (after.primary.node, after.generation) == (target, before.generation)


def test_successor_that_does_not_act_gives_the_fragment_back(cluster: ObedientCluster) -> None:
    before = record(cluster)
    primary, secondary = nodes(before)
    submit(cluster, (ALERTS, "primary", secondary))
    # Its host has no session: it does not read that it is primary. The other one acts until then.
    for _ in range(3):
        cluster.settle_coordinator()
        report(cluster, primary, ReplicaRole.PRIMARY, before.epoch)
    assert record(cluster).primary.node == secondary
    assert cluster.view().protected(record(cluster))
    cluster.now_us += DecisionSettings().takeover_grace_us
    cluster.settle_coordinator()
    after = record(cluster)
    assert (nodes(after), after.epoch) == ((primary, secondary), before.epoch + 2)
    assert "switched back" in kinds(cluster)
    cluster.settle()
    assert plan(cluster).steps[0].failed is not None


def unused(cluster: ObedientCluster) -> str:
    """A node without replicas: what another fragment stands by on would break the bound already."""
    placed = cluster.view().fragments.values()
    taken = {replica.node for found in placed for replica in found.record.replicas}
    return next(name for name in EXECUTORS if name not in taken)


def far_away(cluster: ObedientCluster, target: str) -> Callable[[], None]:
    """A host has just started, and its first round trips are slow; returns what settles that."""
    before = {name: host.record for name, host in cluster.hosts.items()}
    unsure = NodeCoordinate(position_ms=(0.0, 0.0), cpu_ms=0.0, error=0.9, error_ms=80.0)
    for name, was in before.items():
        slow = was.latencies_ms.keys() if name == target else {target}
        place = unsure if name == target else was.coordinate
        latencies_ms = was.latencies_ms | dict.fromkeys(slow, 900.0)
        cluster.hosts[name].tell(latencies_ms=latencies_ms, coordinate=place)

    def settle() -> None:
        for name, was in before.items():
            cluster.hosts[name].tell(latencies_ms=was.latencies_ms, coordinate=was.coordinate)

    return settle


def test_move_to_a_node_that_has_just_started_waits_until_its_latencies_are_known(
    cluster: ObedientCluster,
) -> None:
    target = unused(cluster)
    settle = far_away(cluster, target)
    submit(cluster, (ALERTS, "secondary", target))
    cluster.settle()
    assert not plan(cluster).steps[0].settled
    assert record(cluster).third is None
    cluster.now_us += 5_000_000
    settle()
    cluster.settle()
    assert plan(cluster).steps[0].done


def test_third_replica_waits_while_latencies_are_not_known(cluster: ObedientCluster) -> None:
    target = unused(cluster)
    submit(cluster, (ALERTS, "secondary", target))
    cluster.settle_coordinator()
    settle = far_away(cluster, target)
    cluster.settle()
    assert record(cluster).third is not None
    settle()
    cluster.settle()
    assert plan(cluster).steps[0].done


def test_latencies_that_never_settle_do_not_hold_a_move_up_for_ever(
    cluster: ObedientCluster,
) -> None:
    target = unused(cluster)
    far_away(cluster, target)
    submit(cluster, (ALERTS, "secondary", target))
    cluster.settle()
    cluster.now_us += SETTLES_US
    cluster.settle()
    assert "would take" in (plan(cluster).steps[0].failed or "")


def busy(cluster: ObedientCluster, **cores: float) -> None:
    """Have all hosts share a machine of two processors, and some take so much of it."""
    for name, host in cluster.hosts.items():
        load = HostLoad(cores=cores.get(name, 0.05), evaluating_cores=0.0)
        host.tell(load=load, processors=Processors(machine="m", shared="b", count=2.0))


def test_a_move_waits_while_its_target_is_busy_for_a_moment(cluster: ObedientCluster) -> None:
    target = unused(cluster)
    busy(cluster, **{target: 0.94})
    submit(cluster, (ALERTS, "secondary", target))
    cluster.settle()
    assert not plan(cluster).steps[0].settled
    assert any("waits until load has fallen" in each for each in cluster.coordination.problems)
    cluster.now_us += SETTLES_US // 2
    busy(cluster)
    cluster.settle()
    assert plan(cluster).steps[0].done


def test_a_target_that_stays_busy_does_not_hold_a_move_up_for_ever(
    cluster: ObedientCluster,
) -> None:
    target = unused(cluster)
    busy(cluster, **{target: 0.94})
    submit(cluster, (ALERTS, "secondary", target))
    cluster.settle()
    cluster.now_us += SETTLES_US
    cluster.settle()
    assert f"it would overload node {target}" in (plan(cluster).steps[0].failed or "")


def test_a_move_that_adds_next_to_nothing_is_made_on_a_machine_at_its_limit(
    cluster: ObedientCluster,
) -> None:
    """Here it is what a takeover needs that comes to be on one node with others."""
    together, _ = nodes(record(cluster))
    submit(cluster, (ALERTS, "primary", unused(cluster)), name="apart")
    cluster.settle()
    busy(cluster, **dict.fromkeys(cluster.hosts, 0.3))
    submit(cluster, (ALERTS, "primary", together))
    cluster.settle()
    assert plan(cluster).steps[0].done


def test_a_node_that_has_just_started_does_not_delay_other_refusals(
    cluster: ObedientCluster,
) -> None:
    target = unused(cluster)
    far_away(cluster, target)
    cordon(cluster, target)
    submit(cluster, (ALERTS, "secondary", target))
    cluster.settle()
    assert "is cordoned" in (plan(cluster).steps[0].failed or "")


def test_move_that_breaks_the_bound_is_refused_with_the_reason(cluster: ObedientCluster) -> None:
    before = record(cluster)
    primary, _ = nodes(before)
    target = unused(cluster)
    far = dict.fromkeys(cluster.hosts[target].record.latencies_ms, 900.0)
    cluster.hosts[target].tell(latencies_ms=far)
    for name, host in cluster.hosts.items():
        if name != target:
            host.tell(latencies_ms=host.record.latencies_ms | {target: 900.0})
    submit(cluster, (ALERTS, "secondary", target))
    cluster.settle()
    assert record(cluster) == before
    failed = plan(cluster).steps[0].failed or ""
    assert "recovery of alerts" in failed
    assert "300 ms" in failed
    submit(cluster, (ALERTS, "primary", target), name="other")
    cluster.settle()
    assert nodes(record(cluster))[0] == primary
    assert "of its deadline, 300 ms" in (plan(cluster, "other").steps[0].failed or "")


def test_nothing_moves_while_part_of_the_query_runs_nowhere(cluster: ObedientCluster) -> None:
    view = cluster.view()
    planning = Planning.of(view)
    del planning.running["north_tracks"]
    primary, secondary = nodes(record(cluster))
    with pytest.raises(MoveRefused, match="north_tracks runs nowhere at present"):
        relocate(planning, ALERTS, secondary, primary)


def test_nothing_goes_to_a_cordoned_node(cluster: ObedientCluster) -> None:
    primary, secondary = nodes(record(cluster))
    cordoned = [name for name in EXECUTORS if name not in (primary, secondary)][:3]
    for node in cordoned:
        cordon(cluster, node)
    submit(cluster, (ALERTS, "secondary", cordoned[0]))
    cluster.settle()
    assert "is cordoned" in (plan(cluster).steps[0].failed or "")
    cluster.kill(secondary)
    cluster.settle()
    assert nodes(record(cluster))[1] not in (*cordoned, secondary)


def test_cordon_leaves_what_runs_and_lets_it_fail_over(cluster: ObedientCluster) -> None:
    before = record(cluster)
    primary, secondary = nodes(before)
    cordon(cluster, secondary)
    cluster.settle()
    assert record(cluster) == before
    found = cluster.view().fragments[ALERTS]
    cluster.kill(primary)
    cluster.take_over(found.record, found.version)
    cluster.settle()
    after = record(cluster)
    assert after.primary.node == secondary
    assert after.generation == before.generation
    assert cluster.view().protected(after)


def test_as_many_moves_at_a_time_as_are_allowed(cluster: ObedientCluster) -> None:
    keys = [ALERTS, "proximity.north_tracks", "proximity.south_tracks"]
    steps: list[tuple[str, Role, str]] = [(key, "secondary", free(cluster, key)) for key in keys]
    submit(cluster, *steps, at_a_time=2)
    cluster.settle_coordinator()
    moving = [record(cluster, key).third is not None for key in keys]
    assert moving == [True, True, False]
    cluster.settle()
    assert all(step.done for step in plan(cluster).steps)


def test_other_fragments_have_their_time_until_the_third_replica_takes_its_place(
    cluster: ObedientCluster,
) -> None:
    """Also if another fragment's roles change meanwhile: that writes what became tighter."""
    south, north = "proximity.south_tracks", "proximity.north_tracks"
    switch: tuple[str, Role, str] = (north, "primary", nodes(record(cluster, north))[1])
    alone = ObedientCluster()
    alone.apply(aircraft())
    alone.settle()
    submit(alone, switch)
    alone.settle_coordinator()
    submit(cluster, (ALERTS, "primary", free(cluster)), switch, at_a_time=2)
    cluster.settle_coordinator()
    assert record(cluster).third is not None
    assert record(cluster, north).primary.node == switch[2]
    assert record(cluster, south).timing == record(alone, south).timing
    # The new place is further away.
    cluster.settle()
    due_ms = record(alone, south).timing.sub_deadline_ms
    assert record(cluster, south).timing.sub_deadline_ms < due_ms


NORTH, SOUTH = "proximity.north_tracks", "proximity.south_tracks"


def test_refused_move_ends_a_plan_unless_it_is_to_keep_going(cluster: ObedientCluster) -> None:
    steps: tuple[tuple[str, Role, str], ...] = (
        (SOUTH, "secondary", free(cluster, SOUTH)),
        (ALERTS, "secondary", "nowhere"),
        (NORTH, "secondary", free(cluster, NORTH)),
        (ALERTS, "primary", free(cluster)),
    )
    submit(cluster, *steps)
    cluster.settle()
    assert [step.done for step in plan(cluster).steps] == [True, False, False, False]
    told = "proximity.alerts: nowhere is not a live node; live nodes: "
    assert plan(cluster).outcome.startswith(f"stopped after 1 of 4: {told}")
    assert "not begun" not in plan(cluster).outcome
    submit(cluster, *steps, name="going", keep_going=True)
    cluster.settle()
    # What rests on the move that failed is not begun in any case.
    assert [step.done for step in plan(cluster, "going").steps] == [True, False, True, False]
    assert plan(cluster, "going").steps[3].failed == f"not begun, because {ALERTS} was not moved"


def test_what_is_under_way_is_ended_before_a_plan_stops(cluster: ObedientCluster) -> None:
    submit(
        cluster,
        (SOUTH, "primary", free(cluster, SOUTH)),
        (ALERTS, "secondary", "nowhere"),
        (NORTH, "secondary", free(cluster, NORTH)),
        at_a_time=2,
    )
    cluster.settle_coordinator()
    assert plan(cluster).steps[1].failed is not None
    assert plan(cluster).ended_us is None
    cluster.settle()
    assert [step.done for step in plan(cluster).steps] == [True, False, False]


def test_the_history_keeps_a_plan_as_it_ended_beyond_its_record(cluster: ObedientCluster) -> None:
    before = nodes(record(cluster))
    submit(cluster, (ALERTS, "primary", free(cluster)))
    cluster.settle()
    ended = plan(cluster)
    assert [step.was for step in ended.steps] == [before]
    assert ended.ended_us is not None
    cluster.now_us = ended.ended_us + REMEMBERED_US
    cluster.settle()
    assert not cluster.view().moves
    (kept,) = [each.event for each in cluster.store.history() if each.event.moves]
    assert (kept.kind, kept.detail, kept.by) == ("moves ended", "1 of 1 done", "somebody")
    assert kept.moves == ended


def test_only_the_states_that_a_plan_moves_are_throttled(cluster: ObedientCluster) -> None:
    target, primary = free(cluster), record(cluster).primary.node

    def rates() -> dict[str, float | None]:
        found = cluster.assignment(primary).fragments
        return {each.fragment: each.state_rate_bytes_s for each in found}

    submit(cluster, (ALERTS, "secondary", target), throttle_bytes_s=2e6)
    cluster.settle_coordinator()
    assert rates()["alerts"] == 2e6
    assert not any(rate for name, rate in rates().items() if name != "alerts")
    cluster.settle()
    assert plan(cluster).steps[0].done
    assert not any(rates().values())


def test_a_state_is_awaited_as_long_as_more_of_it_comes(cluster: ObedientCluster) -> None:
    """At a throttle a large one takes longer than a replica may else take to get warm."""
    target, giver = free(cluster), cluster.hosts[record(cluster).primary.node]
    cluster.hosts[target].cold = True
    submit(cluster, (ALERTS, "secondary", target), throttle_bytes_s=1e6)
    cluster.settle()
    for sent in (20_000_000, 40_000_000, 60_000_000):
        cluster.now_us += DecisionSettings().warm_up_us - 1
        status = msgspec.structs.replace(giver.record.replicas["alerts"], giving_bytes=sent)
        giver.tell(replicas=giver.record.replicas | {"alerts": status})
        cluster.settle_coordinator()
        assert plan(cluster).steps[0].moved_bytes == plan(cluster).moved_bytes == sent
        assert not plan(cluster).steps[0].settled
    cluster.now_us += DecisionSettings().warm_up_us
    cluster.settle_coordinator()
    assert "was not ready after 30 s" in (plan(cluster).steps[0].failed or "")


@pytest.mark.parametrize("role", ["primary", "secondary"])
def test_what_is_ready_takes_its_place_however_long_nobody_has_led(
    cluster: ObedientCluster, role: Role
) -> None:
    target = free(cluster)
    cluster.hosts[target].cold = True
    submit(cluster, (ALERTS, role, target))
    cluster.settle()
    assert record(cluster).third is not None
    cluster.hosts[target].cold = False
    for host in cluster.hosts.values():
        host.obey()
    cluster.now_us += 2 * DecisionSettings().warm_up_us
    cluster.settle()
    assert plan(cluster).steps[0].done, plan(cluster).steps[0].failed


def test_third_replica_that_no_plan_wants_ends(cluster: ObedientCluster) -> None:
    submit(cluster, (ALERTS, "primary", free(cluster)))
    cluster.settle_coordinator()
    cluster.store.delete(MOVES.key("test"), cluster.view().moves["test"].version)
    cluster.settle()
    assert record(cluster).third is None


def moves_of_everything(cluster: ObedientCluster) -> None:
    """Ten moves: all three fragments go to and fro, in both roles."""
    keys = [ALERTS, "proximity.north_tracks", "proximity.south_tracks"]
    steps: list[tuple[str, Role, str]] = []
    at = {key: nodes(record(cluster, key)) for key in keys}
    for number in range(10):
        key = keys[number % 3]
        primary, secondary = at[key]
        target = next(name for name in EXECUTORS if name not in (primary, secondary))
        match number % 4:
            case 0:
                steps.append((key, "primary", target))
                at[key] = target, secondary
            case 1:
                steps.append((key, "secondary", target))
                at[key] = primary, target
            case _:
                steps.append((key, "primary", secondary))
                at[key] = secondary, primary
    submit(cluster, *steps, at_a_time=2, throttle_bytes_s=1e6)


def test_leader_killed_at_every_write_of_ten_moves(cluster: ObedientCluster) -> None:
    """Each write is the last one of its leader; the next one decides from what it finds."""
    moves_of_everything(cluster)
    generations = {key: f.record.generation for key, f in cluster.view().fragments.items()}
    for _ in range(1000):
        writes = decide(cluster.view(), cluster.now_us, DecisionSettings()).writes
        if not writes:
            for host in cluster.hosts.values():
                host.obey()
            writes = decide(cluster.view(), cluster.now_us, DecisionSettings()).writes
        if not writes:
            break
        cluster.write(writes[0])
        cluster.check_invariants()
        cluster.now_us += 10_000
    assert all(step.done for step in plan(cluster).steps), plan(cluster)
    view = cluster.view()
    assert all(view.settled(found.record) for found in view.fragments.values())
    assert generations == {key: f.record.generation for key, f in view.fragments.items()}
    assert decide(view, cluster.now_us, DecisionSettings()).writes == ()


@pytest.mark.parametrize("change", ["took over", "was placed there"])
def test_a_drain_ends_when_nothing_is_left_whatever_has_changed_since_it_was_planned(
    cluster: ObedientCluster, change: str
) -> None:
    primary, secondary = nodes(record(cluster))
    target = free(cluster)
    if change == "took over":
        # Planned while the primary was on the node: now only the secondary is.
        key, to, node = ALERTS, target, secondary
    else:
        key = next(key for key in cluster.view().fragments if key != ALERTS)
        to, node = nodes(record(cluster, key))[0], primary
    cordon(cluster, node)
    submit(cluster, (key, "primary", to), drains=node)
    cluster.settle()
    assert not any(each.record.runs_on(node) for each in cluster.view().fragments.values())
    ended = plan(cluster)
    assert ended.ended_us is not None
    assert all(each.done for each in ended.steps)
    assert len(ended.steps) > 1


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_drain_does_not_try_again_what_has_failed(
    cluster: ObedientCluster, *, keep_going: bool
) -> None:
    primary, secondary = nodes(record(cluster))
    for name in EXECUTORS:
        if name != secondary:
            cordon(cluster, name)
    submit(cluster, (ALERTS, "primary", "nowhere"), drains=primary, keep_going=keep_going)
    cluster.settle()
    ended = plan(cluster)
    assert ended.ended_us is not None
    assert [each.fragment for each in ended.steps if each.failed is not None].count(ALERTS) == 1


def test_a_drain_of_a_node_that_is_open_again_does_not_go_on(cluster: ObedientCluster) -> None:
    primary, secondary = nodes(record(cluster))
    submit(cluster, (ALERTS, "primary", secondary), drains=primary)
    cluster.settle()
    assert len(plan(cluster).steps) == 1
    assert plan(cluster).ended_us is not None
