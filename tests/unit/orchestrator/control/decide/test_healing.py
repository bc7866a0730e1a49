"""Which replica replaces which, and when: losses, cold secondaries, epochs that collide."""

from __future__ import annotations

import msgspec
import pytest

from ha.roles import ReplicaRole
from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.observe.missing_hosts import AWAITED_US
from orchestrator.records import (
    FragmentRecord,
    MovePlan,
    MoveStep,
    ReplicaId,
    ReplicaLoss,
    ReplicaStatus,
    ThirdReplica,
)
from orchestrator.store.protocol import FRAGMENTS, MOVES, NODES
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft

ALERTS = "proximity.alerts"
SETTINGS = DecisionSettings()


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def alerts(cluster: ObedientCluster) -> FragmentRecord:
    return cluster.view().fragments[ALERTS].record


def secondary_of(cluster: ObedientCluster) -> str:
    record = alerts(cluster)
    assert record.secondary is not None
    return record.secondary.node


def lose_secondary(cluster: ObedientCluster) -> str:
    found = cluster.view().fragments[ALERTS]
    lost = secondary_of(cluster)
    cluster.lose_secondary(found.record, found.version)
    return lost


def nth(record: FragmentRecord, number: int) -> int:
    """An epoch of a fragment, counted from 1."""
    return record.generation + number - 1


def report(cluster: ObedientCluster, node: str, role: ReplicaRole, epoch: int) -> None:
    """Have a host say something of its replica of alerts."""
    host = cluster.hosts[node]
    record = alerts(cluster)
    status = ReplicaStatus(
        role=role,
        epoch=nth(record, epoch),
        generation=record.generation,
        output_watermark_ms=None,
    )
    host.tell(replicas=host.record.replicas | {"alerts": status}, reported_us=cluster.now_us)


def details(cluster: ObedientCluster, kind: str) -> list[str]:
    events = [entry.event for entry in cluster.store.history()]
    return [e.detail for e in events if (e.kind, e.subject) == (kind, ALERTS)]


def test_time_without_protection_is_told_from_the_loss_to_the_warm_secondary(
    cluster: ObedientCluster,
) -> None:
    cluster.now_us += 5_000_000
    lost_us = cluster.now_us
    found = cluster.view().fragments[ALERTS]
    cluster.lose_secondary(found.record, found.version)
    # The coordinator hears of it 200 ms later, and the new secondary is warm after 600 ms.
    cluster.now_us += 200_000
    cluster.settle_coordinator()
    cluster.now_us += 400_000
    cluster.settle()
    events = [e.event for e in cluster.store.history() if e.event.subject == ALERTS]
    restored = events[-1]
    assert restored.kind == "redundancy restored"
    assert restored.lasted_ms == (cluster.now_us - lost_us) / 1e3 == 600.0
    assert "after 0.60 s without protection" in restored.detail
    assert "silent" in details(cluster, "redundancy lost")[-1]


def test_the_time_when_nothing_ran_is_no_time_without_protection(cluster: ObedientCluster) -> None:
    """Some hours after a loss, everything ends, and is started again later."""
    lose_secondary(cluster)
    cluster.settle()
    cluster.now_us += 3_600_000_000
    names = [*cluster.hosts]
    cluster.down()
    known = len(cluster.store.history())
    for name in names:
        cluster.up(name)
    cluster.settle()
    told = [each.event for each in cluster.store.history()[known:]]
    restored = [each for each in told if each.kind == "redundancy restored"]
    assert len(restored) == len(cluster.view().fragments)
    assert {each.lasted_ms for each in restored} == {0.0}
    assert all(
        each.detail.startswith("the cluster begins again; epoch")
        for each in told
        if each.kind == "state lost"
    )


def test_time_without_protection_ends_when_the_secondary_is_warm_and_not_when_the_leader_looks(
    cluster: ObedientCluster,
) -> None:
    cluster.now_us += 5_000_000
    lost_us = cluster.now_us
    lose_secondary(cluster)
    cluster.now_us += 200_000
    cluster.settle_coordinator()
    host = cluster.hosts[secondary_of(cluster)]
    host.obey()
    cluster.now_us += 100_000
    host.tell(reported_us=cluster.now_us)
    cluster.now_us += 3_000_000
    cluster.settle_coordinator()
    (restored,) = [
        e.event
        for e in cluster.store.history()
        if (e.event.kind, e.event.subject) == ("redundancy restored", ALERTS)
        and e.event.at_us > lost_us
    ]
    assert restored.lasted_ms == 300.0


def test_two_nodes_lost_one_after_the_other_are_both_avoided_though_their_records_remain(
    cluster: ObedientCluster,
) -> None:
    lost: set[str] = set()
    for _ in range(3):
        cluster.now_us += 2_000_000
        lost.add(lose_secondary(cluster))
        cluster.settle_coordinator()
        view = cluster.view()
        assert lost <= view.nodes.keys()
        assert secondary_of(cluster) not in lost
        assert all(view.suspected(node) for node in lost)
    assert len(lost) == 3


@pytest.mark.parametrize("first", ["secondary", "primary"])
def test_two_executors_killed_one_after_the_other_leave_the_state_whole(
    cluster: ObedientCluster, first: str
) -> None:
    before = alerts(cluster)
    if first == "secondary":
        lose_secondary(cluster)
    else:
        found = cluster.view().fragments[ALERTS]
        cluster.take_over(found.record, found.version)
    cluster.settle()
    cluster.now_us += 2_000_000
    # The new secondary is warm by now; the second kill takes the primary beside it.
    found = cluster.view().fragments[ALERTS]
    assert cluster.view().protected(found.record)
    cluster.take_over(found.record, found.version)
    cluster.settle()
    after = alerts(cluster)
    assert after.generation == before.generation
    assert not details(cluster, "state lost")
    assert cluster.view().protected(after)


SITES = ("north-receiver", "control-centre")


@pytest.mark.parametrize("site", SITES)
def test_a_site_that_stays_away_keeps_no_fragment_from_being_protected(
    cluster: ObedientCluster, site: str
) -> None:
    cluster.kill(site)
    cluster.settle()
    lost = lose_secondary(cluster)
    cluster.settle()
    assert secondary_of(cluster) != lost
    assert cluster.view().protected(alerts(cluster))


@pytest.mark.parametrize("site", SITES)
def test_a_site_that_stays_away_keeps_no_fragment_from_starting_over(
    cluster: ObedientCluster, site: str
) -> None:
    cluster.kill(site)
    cluster.settle()
    due_ms = sub_deadlines_ms(cluster)
    for name in (alerts(cluster).primary.node, secondary_of(cluster)):
        cluster.up(name)
    cluster.settle()
    if site == "control-centre":
        # It is the one that could say what has been delivered.
        assert not details(cluster, "state lost")
        cluster.now_us += SETTINGS.site_patience_us
        cluster.settle()
    assert details(cluster, "state lost")
    assert cluster.view().protected(alerts(cluster))
    # The way to the site takes as long as before once it is back.
    assert sub_deadlines_ms(cluster) == due_ms


def test_without_any_host_nothing_can_start_over_and_that_is_said(
    cluster: ObedientCluster,
) -> None:
    for name in [*cluster.hosts]:
        cluster.kill(name)
    cluster.settle_coordinator()
    cluster.now_us += SETTINGS.site_patience_us
    cluster.settle_coordinator()
    assert any("is not a live site" in each for each in cluster.coordination.problems)
    assert not details(cluster, "state lost")


def sub_deadlines_ms(cluster: ObedientCluster) -> dict[str, float]:
    fragments = cluster.view().fragments.items()
    return {name: found.record.timing.sub_deadline_ms for name, found in fragments}


def test_lost_node_that_reports_again_is_trusted_but_avoided(cluster: ObedientCluster) -> None:
    lost = lose_secondary(cluster)
    cluster.settle()
    cluster.now_us += 1
    cluster.hosts[lost].tell(reported_us=cluster.now_us)
    assert not cluster.view().suspected(lost)
    lose_secondary(cluster)
    cluster.settle_coordinator()
    assert secondary_of(cluster) != lost


@pytest.mark.parametrize("hours", [1, -1])
def test_host_whose_clock_is_an_hour_off_is_suspected_until_it_reports_again(
    cluster: ObedientCluster, hours: int
) -> None:
    off_us = cluster.now_us + hours * 3_600_000_000
    for host in cluster.hosts.values():
        host.tell(reported_us=off_us)
    lost = lose_secondary(cluster)
    # Also for a coordinator, or a command, that sees the store for the first time.
    assert cluster.view().suspected(lost)
    cluster.hosts[lost].tell(reported_us=off_us + 1)
    assert not cluster.view().suspected(lost)


def test_only_other_node_rests_longer_from_loss_to_loss(cluster: ObedientCluster) -> None:
    # Only two executors are left: the link between them breaks again and again.
    primary, only = alerts(cluster).primary.node, secondary_of(cluster)
    for name in EXECUTORS:
        if name not in (primary, only):
            cluster.kill(name)
    cluster.settle()
    pauses_us: list[int] = []
    for _ in range(4):
        cluster.now_us += 1
        lose_secondary(cluster)
        lost_us = cluster.now_us
        while alerts(cluster).secondary is None:
            cluster.now_us += 250_000
            cluster.hosts[only].tell(reported_us=cluster.now_us)
            cluster.settle_coordinator()
        assert secondary_of(cluster) == only
        pauses_us.append(cluster.now_us - lost_us)
    assert pauses_us == sorted(set(pauses_us))
    assert pauses_us[-1] >= 8 * pauses_us[0]


def test_secondary_that_stays_cold_is_replaced_with_a_reason_and_not_tried_again_soon(
    cluster: ObedientCluster,
) -> None:
    for host in cluster.hosts.values():
        host.cold = True
    first = secondary_of(cluster)
    cluster.settle()
    tried = [first]
    waits_us: list[int] = []
    for _ in range(3):
        began_us = cluster.now_us
        while secondary_of(cluster) == tried[-1]:
            cluster.now_us += 5_000_000
            assert cluster.now_us - began_us < 1_000_000_000, "never replaced"
            cluster.settle()
        waits_us.append(cluster.now_us - began_us)
        assert secondary_of(cluster) not in tried
        tried.append(secondary_of(cluster))
    assert waits_us == [SETTINGS.warm_up_us, 2 * SETTINGS.warm_up_us, 4 * SETTINGS.warm_up_us]
    assert any("not warm after 30 s" in each for each in details(cluster, "secondary replaced"))
    # Its host lives and runs other replicas: it is not suspected.
    assert not cluster.view().suspected(first)


def test_cold_secondary_stays_if_there_is_no_other_node(cluster: ObedientCluster) -> None:
    record = alerts(cluster)
    for name in EXECUTORS:
        if name not in (record.primary.node, secondary_of(cluster)):
            cluster.kill(name)
    for host in cluster.hosts.values():
        host.cold = True
    cluster.settle()
    cluster.now_us += 10 * SETTINGS.warm_up_us
    cluster.settle()
    assert alerts(cluster).secondary == record.secondary
    assert any("no other node can stand by" in each for each in cluster.coordination.problems)


def test_slow_warm_up_within_its_time_is_left_alone(cluster: ObedientCluster) -> None:
    second = secondary_of(cluster)
    cluster.hosts[second].cold = True
    cluster.settle()
    cluster.now_us += SETTINGS.warm_up_us - 1
    cluster.settle()
    assert secondary_of(cluster) == second
    cluster.hosts[second].cold = False
    cluster.settle()
    cluster.now_us += 10 * SETTINGS.warm_up_us
    cluster.settle()
    assert secondary_of(cluster) == second


def test_a_secondary_is_awaited_as_long_as_more_of_its_state_comes(
    cluster: ObedientCluster,
) -> None:
    second, giver = secondary_of(cluster), cluster.hosts[alerts(cluster).primary.node]
    cluster.hosts[second].cold = True
    cluster.settle()
    # The third time the state is sent anew, of which it had as much before.
    for sent in (20_000_000, 40_000_000, 1_000_000):
        assert secondary_of(cluster) == second
        cluster.now_us += SETTINGS.warm_up_us - 1
        status = msgspec.structs.replace(giver.record.replicas["alerts"], giving_bytes=sent)
        giver.tell(replicas=giver.record.replicas | {"alerts": status})
        cluster.settle_coordinator()
    assert secondary_of(cluster) == second
    cluster.now_us += 1
    cluster.settle_coordinator()
    assert secondary_of(cluster) != second


def fail_both(cluster: ObedientCluster, *, unevaluable: bool = False) -> None:
    """Neither replica can evaluate its input, and both hosts say so."""
    record = alerts(cluster)
    assert record.secondary is not None
    for replica in (record.primary, record.secondary):
        host = cluster.hosts[replica.node]
        status = ReplicaStatus(
            role=ReplicaRole.WARMING,
            epoch=record.epoch,
            output_watermark_ms=None,
            failure="evaluation failed: ValueError: poison",
            unevaluable=unevaluable,
        )
        host.tell(replicas=host.record.replicas | {"alerts": status}, reported_us=cluster.now_us)


def test_fragment_that_cannot_evaluate_its_input_is_stopped_after_some_attempts(
    cluster: ObedientCluster,
) -> None:
    generations = {alerts(cluster).generation}
    cluster.now_us += SETTINGS.longest_rest_us
    while alerts(cluster).stopped is None:
        fail_both(cluster, unevaluable=True)
        cluster.settle_coordinator()
        cluster.now_us += 500_000
        if alerts(cluster).generation not in generations:
            generations.add(alerts(cluster).generation)
            cluster.settle()
    assert len(generations) == 1 + SETTINGS.most_restarts
    (why,) = details(cluster, "stopped")
    assert "ValueError: poison" in why
    assert f"each of {SETTINGS.most_restarts} attempts" in why
    # It runs nowhere, nobody keeps anything for it, and it holds up no stream.
    cluster.settle()
    record = alerts(cluster)
    for found in cluster.view().assignments.values():
        assert "alerts" not in [each.fragment for each in found.record.fragments]
        assert found.record.producers.get("alerts", ()) == ()
    # Neither time nor the loss of its nodes starts it again, and the problem says what does.
    cluster.now_us += 10 * SETTINGS.longest_rest_us
    cluster.kill(record.primary.node)
    cluster.now_us += SETTINGS.takeover_grace_us
    cluster.settle()
    assert alerts(cluster) == record
    (problem,) = [each for each in cluster.coordination.problems if ALERTS in each]
    assert "with `onError: skip`: `vivace apply`" in problem


def failing_for_us(cluster: ObedientCluster) -> int:
    """How long the fragment is left alone after it has failed on both nodes."""
    generation, began_us = alerts(cluster).generation, cluster.now_us
    fail_both(cluster)
    while alerts(cluster).generation == generation:
        cluster.settle_coordinator()
        if alerts(cluster).generation == generation:
            assert any(
                "to start over" in each and "ValueError: poison" in each
                for each in cluster.coordination.problems
            )
            cluster.now_us += 500_000
    waited_us = cluster.now_us - began_us
    cluster.settle()
    return waited_us


def test_input_that_nobody_can_evaluate_is_tried_again_ever_more_rarely(
    cluster: ObedientCluster,
) -> None:
    grace_us = SETTINGS.takeover_grace_us
    waits_us = [failing_for_us(cluster) for _ in range(3)]
    assert waits_us == [grace_us, 2 * grace_us, 4 * grace_us]
    assert any("ValueError: poison" in each for each in details(cluster, "replica failed"))
    assert all("ValueError: poison" in each for each in details(cluster, "state lost"))
    # All else stays as it is.
    others = [found.record for n, found in cluster.view().fragments.items() if n != ALERTS]
    assert all(record.epoch == nth(record, 1) for record in others)
    for _ in range(8):
        assert failing_for_us(cluster) <= SETTINGS.longest_rest_us
    # After a long time without a failure, the next one is a first one.
    cluster.settle()
    cluster.now_us += SETTINGS.longest_rest_us
    assert failing_for_us(cluster) == grace_us


def test_lagging_secondary_protects_nothing_and_is_replaced_if_it_does_not_catch_up(
    cluster: ObedientCluster,
) -> None:
    first = secondary_of(cluster)
    cluster.now_us += 5_000_000
    began_us = cluster.now_us - 1_500_000
    cluster.hosts[first].lags_since_us = began_us
    cluster.settle()
    assert not cluster.view().protected(alerts(cluster))
    assert secondary_of(cluster) == first
    assert details(cluster, "redundancy lost") == [
        f"the secondary on {first} lags behind the primary"
    ]
    cluster.now_us += SETTINGS.warm_up_us
    cluster.settle()
    assert secondary_of(cluster) != first
    assert "still lagging after 30 s" in details(cluster, "secondary replaced")[-1]
    restored = [e.event for e in cluster.store.history() if e.event.subject == ALERTS][-1]
    assert (restored.kind, restored.lasted_ms) == (
        "redundancy restored",
        (cluster.now_us - began_us) / 1e3,
    )


def test_lagging_secondary_that_catches_up_stays(cluster: ObedientCluster) -> None:
    first = secondary_of(cluster)
    cluster.now_us += 5_000_000
    cluster.hosts[first].lags_since_us = cluster.now_us
    cluster.settle()
    cluster.now_us += SETTINGS.warm_up_us - 1
    cluster.hosts[first].lags_since_us = None
    cluster.settle()
    cluster.now_us += 10 * SETTINGS.warm_up_us
    cluster.settle()
    assert secondary_of(cluster) == first
    assert cluster.view().protected(alerts(cluster))


@pytest.mark.parametrize(
    ("role", "known", "expected"),
    [
        (ReplicaRole.STANDBY, 1, 2),
        (ReplicaRole.STANDBY, 5, 6),
        (ReplicaRole.PRIMARY, 5, 5),
        (ReplicaRole.PRIMARY, 1, 2),
    ],
    ids=["standby", "standby-of-a-newer-epoch", "acting-in-a-newer-epoch", "acting-in-this-epoch"],
)
def test_promotion_rests_on_the_epoch_that_the_secondary_knows(
    cluster: ObedientCluster, role: ReplicaRole, known: int, expected: int
) -> None:
    before = alerts(cluster)
    second = secondary_of(cluster)
    cluster.kill(before.primary.node)
    cluster.settle_coordinator()
    cluster.now_us += SETTINGS.takeover_grace_us
    report(cluster, second, role, known)
    cluster.settle_coordinator()
    after = alerts(cluster)
    assert (after.primary, after.epoch) == (before.secondary, nth(before, expected))


def replace_secondary_that_is_out_of_reach(cluster: ObedientCluster) -> str:
    """Its host has its state, and comes back in the same process; the new one never gets warm."""
    out = secondary_of(cluster)
    incarnation = cluster.hosts[out].record.incarnation
    cluster.kill(out)
    for host in cluster.hosts.values():
        host.cold = True
    cluster.settle()
    assert secondary_of(cluster) != out
    cluster.up(out)
    cluster.hosts[out].tell(incarnation=incarnation)
    return out


@pytest.mark.parametrize("role", [ReplicaRole.STANDBY, ReplicaRole.PRIMARY])
@pytest.mark.parametrize("primary", ["is gone", "has another process", "is dead unnoticed"])
def test_replaced_replica_that_alone_has_the_state_is_promoted_instead_of_starting_over(
    cluster: ObedientCluster, primary: str, role: ReplicaRole
) -> None:
    before = alerts(cluster)
    kept = replace_secondary_that_is_out_of_reach(cluster)
    report(cluster, kept, role, 2)
    if primary == "is gone":
        cluster.kill(before.primary.node)
    elif primary == "has another process":
        cluster.restart(before.primary.node)
    cluster.settle_coordinator()
    # The secondary that was named may have got warm, and may act, without anybody's knowledge.
    assert alerts(cluster).primary == before.primary
    assert keeps(cluster, kept)
    if primary == "is dead unnoticed":
        cluster.kill(before.primary.node)
        cluster.settle_coordinator()
    cluster.now_us += SETTINGS.takeover_grace_us
    cluster.settle_coordinator()
    after = alerts(cluster)
    assert (after.primary.node, after.generation) == (kept, before.generation)
    assert not details(cluster, "state lost")


def test_replaced_replica_is_promoted_at_once_if_all_that_are_listed_are_dead(
    cluster: ObedientCluster,
) -> None:
    before = alerts(cluster)
    kept = replace_secondary_that_is_out_of_reach(cluster)
    report(cluster, kept, ReplicaRole.STANDBY, 2)
    second = secondary_of(cluster)
    for node in (before.primary.node, second):
        cluster.restart(node)
    cluster.settle_coordinator()
    assert alerts(cluster).primary.node == kept


def keeps(cluster: ObedientCluster, node: str) -> bool:
    """Whether a host is to keep a replica of alerts, and to take over from nobody."""
    found = [a for a in cluster.assignment(node).fragments if a.fragment == "alerts"]
    assert all((a.role, a.others) == ("secondary", ()) for a in found)
    return bool(found)


def test_replaced_replica_is_dismissed_once_the_primary_has_shown_that_it_lives(
    cluster: ObedientCluster,
) -> None:
    kept = replace_secondary_that_is_out_of_reach(cluster)
    before = alerts(cluster)
    report(cluster, kept, ReplicaRole.PRIMARY, 2)
    cluster.settle_coordinator()
    assert keeps(cluster, kept)
    cluster.now_us += 500_000
    cluster.hosts[before.primary.node].tell(reported_us=cluster.now_us)
    cluster.settle_coordinator()
    assert not keeps(cluster, kept)
    assert alerts(cluster) == before


def test_state_of_a_former_generation_is_of_no_use(cluster: ObedientCluster) -> None:
    before = alerts(cluster)
    kept = replace_secondary_that_is_out_of_reach(cluster)
    report(cluster, kept, ReplicaRole.STANDBY, 2)
    host = cluster.hosts[kept]
    status = msgspec.structs.replace(host.record.replicas["alerts"], generation=0)
    host.tell(replicas={"alerts": status})
    cluster.settle_coordinator()
    assert not keeps(cluster, kept)
    cluster.kill(before.primary.node)
    cluster.settle_coordinator()
    cluster.now_us += SETTINGS.takeover_grace_us
    cluster.settle_coordinator()
    assert alerts(cluster).generation > before.generation


@pytest.mark.parametrize("suspected", ["primary", "secondary"])
def test_a_moment_of_suspicion_brings_no_replaced_replica_back(
    cluster: ObedientCluster, suspected: str
) -> None:
    kept = replace_secondary_that_is_out_of_reach(cluster)
    if suspected == "secondary":
        cluster.hosts[secondary_of(cluster)].cold = False
        cluster.settle()
    before = alerts(cluster)
    report(cluster, kept, ReplicaRole.STANDBY, 2)
    replica = before.primary if suspected == "primary" else before.secondary
    assert replica is not None
    name, found = next(
        (name, found) for name, found in cluster.view().fragments.items() if name != ALERTS
    )
    loss = ReplicaLoss(
        replica=replica,
        cause="silent",
        detected_at_us=cluster.now_us,
        report=cluster.view().nodes[replica.node].report,
    )
    told = msgspec.structs.replace(found.record, losses=(loss,))
    cluster.store.update(FRAGMENTS.key(name), told, found.version)
    assert cluster.view().suspected(replica.node)
    cluster.settle_coordinator()
    cluster.now_us += 1
    cluster.hosts[replica.node].tell(reported_us=cluster.now_us)
    cluster.settle_coordinator()
    after = alerts(cluster)
    assert (after.primary, after.secondary) == (before.primary, before.secondary)
    assert not keeps(cluster, kept)


def test_primary_that_yielded_to_a_dismissed_replica_is_reinstated_without_waiting(
    cluster: ObedientCluster,
) -> None:
    before = alerts(cluster)
    report(cluster, before.primary.node, ReplicaRole.STANDBY, 2)
    report(cluster, secondary_of(cluster), ReplicaRole.STANDBY, 2)
    cluster.settle_coordinator()
    after = alerts(cluster)
    assert (after.primary, after.secondary) == (before.primary, before.secondary)
    assert after.epoch == nth(before, 3)


def test_primary_whose_evaluation_failed_is_replaced_by_its_warm_secondary_at_once(
    cluster: ObedientCluster,
) -> None:
    before = alerts(cluster)
    report(cluster, before.primary.node, ReplicaRole.WARMING, 1)
    cluster.settle_coordinator()
    after = alerts(cluster)
    assert (after.primary, after.epoch) == (before.secondary, nth(before, 2))
    assert after.generation == before.generation
    assert "has lost its state" in details(cluster, "promoted")[0]


def test_fragment_whose_evaluation_failed_on_both_nodes_starts_over_after_the_grace(
    cluster: ObedientCluster,
) -> None:
    before = alerts(cluster)
    assert before.secondary is not None
    for node in (before.primary.node, before.secondary.node):
        report(cluster, node, ReplicaRole.WARMING, 1)
    cluster.settle_coordinator()
    assert alerts(cluster) == before
    cluster.now_us += SETTINGS.takeover_grace_us
    for node in (before.primary.node, before.secondary.node):
        report(cluster, node, ReplicaRole.WARMING, 1)
    cluster.settle_coordinator()
    assert alerts(cluster).generation > before.generation
    assert "has lost its state" in details(cluster, "state lost")[0]


def test_primary_that_yielded_waits_for_a_successor_who_may_not_have_heard(
    cluster: ObedientCluster,
) -> None:
    before = alerts(cluster)
    report(cluster, before.primary.node, ReplicaRole.STANDBY, 2)
    cluster.settle_coordinator()
    assert alerts(cluster) == before
    cluster.now_us += SETTINGS.takeover_grace_us
    cluster.settle_coordinator()
    assert alerts(cluster).epoch == nth(before, 3)


def test_successor_who_acts_and_cannot_record_it_is_recorded_in_its_own_epoch(
    cluster: ObedientCluster,
) -> None:
    before = alerts(cluster)
    report(cluster, before.primary.node, ReplicaRole.STANDBY, 4)
    report(cluster, secondary_of(cluster), ReplicaRole.PRIMARY, 4)
    cluster.settle_coordinator()
    assert alerts(cluster) == before, "the successor's to record"
    cluster.now_us += SETTINGS.takeover_grace_us
    cluster.settle_coordinator()
    after = alerts(cluster)
    assert (after.primary, after.epoch) == (before.secondary, nth(before, 4))


def test_of_several_warm_replicas_the_one_that_acts_already_is_promoted(
    cluster: ObedientCluster,
) -> None:
    """The primary came by a move and is lost before its predecessor, the third, heard it."""
    before = alerts(cluster)
    third = next(n for n in EXECUTORS if n not in (before.primary.node, secondary_of(cluster)))
    cluster.kill(before.primary.node)
    going = ThirdReplica(
        replica=cluster.view().replica(third), becomes=None, since_us=cluster.now_us
    )
    found = cluster.view().fragments[ALERTS]
    cluster.store.update(
        FRAGMENTS.key(ALERTS), msgspec.structs.replace(before, third=going), found.version
    )
    report(cluster, third, ReplicaRole.PRIMARY, 1)
    cluster.settle_coordinator()
    assert alerts(cluster).primary == before.primary
    cluster.now_us += SETTINGS.takeover_grace_us
    report(cluster, secondary_of(cluster), ReplicaRole.STANDBY, 1)
    report(cluster, third, ReplicaRole.PRIMARY, 1)
    cluster.settle_coordinator()
    after = alerts(cluster)
    assert (after.primary, after.generation) == (going.replica, before.generation)


def lose_elsewhere(cluster: ObedientCluster, replica: ReplicaId) -> None:
    """Have the primary of another fragment say that it does not hear a replica's host."""
    key = FRAGMENTS.key("proximity.north_tracks")
    other, node = cluster.store.get(key), cluster.store.get(NODES.key(replica.node))
    assert other is not None
    assert node is not None
    loss = ReplicaLoss(
        replica=replica, cause="silent", detected_at_us=cluster.now_us, report=node.report
    )
    record = msgspec.structs.replace(other.record, losses=(loss,))
    cluster.store.update(key, record, other.version)


def test_primary_whose_host_other_fragments_have_lost_is_replaced_after_the_grace(
    cluster: ObedientCluster,
) -> None:
    """Its record stays in the store until its session ends, and says that it is primary."""
    before = alerts(cluster)
    lose_elsewhere(cluster, before.primary)
    cluster.settle_coordinator()
    assert cluster.view().suspected(before.primary.node)
    assert alerts(cluster).primary == before.primary
    cluster.now_us += SETTINGS.takeover_grace_us
    cluster.settle_coordinator()
    after = alerts(cluster)
    assert (after.primary, after.generation) == (before.secondary, before.generation)


def test_reinstatement_rests_on_the_newest_epoch_that_anybody_knows(
    cluster: ObedientCluster,
) -> None:
    before = alerts(cluster)
    other = next(n for n in EXECUTORS if n not in (before.primary.node, secondary_of(cluster)))
    report(cluster, before.primary.node, ReplicaRole.STANDBY, 2)
    report(cluster, other, ReplicaRole.STANDBY, 7)
    cluster.settle_coordinator()
    cluster.now_us += SETTINGS.takeover_grace_us
    cluster.settle_coordinator()
    assert alerts(cluster).epoch == nth(before, 8)


def test_state_is_not_founded_anew_while_one_of_its_replicas_may_live(
    cluster: ObedientCluster,
) -> None:
    # The primary has lost its session only; the secondary's node certainly has a new process.
    before = alerts(cluster)
    cluster.hosts[before.primary.node].store.expire()
    cluster.settle_coordinator()
    cluster.now_us += AWAITED_US
    cluster.settle_coordinator()
    cluster.restart(secondary_of(cluster))
    cluster.settle_coordinator()
    assert alerts(cluster) == before
    cluster.hosts[before.primary.node].store.resume()
    host = cluster.hosts[before.primary.node]
    host.tell()
    cluster.settle()
    after = alerts(cluster)
    assert (after.primary, after.generation) == (before.primary, before.generation)
    assert cluster.view().protected(after)


def test_dead_replicas_are_not_named_as_producers(cluster: ObedientCluster) -> None:
    before = alerts(cluster)
    desk = "control-centre"
    assert before.secondary is not None
    assert cluster.view().assignments[desk].record.producers["alerts"] == (
        before.primary.node,
        before.secondary.node,
    )
    cluster.kill(before.primary.node)
    cluster.settle()
    assert cluster.view().assignments[desk].record.producers["alerts"] == (before.secondary.node,)
    # A node in another life holds nothing either.
    cluster.up(before.primary.node)
    cluster.settle()
    assert cluster.view().assignments[desk].record.producers["alerts"] == (before.secondary.node,)


def test_suspected_replicas_are_not_named_as_producers(cluster: ObedientCluster) -> None:
    found = cluster.view().fragments[ALERTS]
    primary = found.record.primary.node
    cluster.take_over(found.record, found.version)
    cluster.settle_coordinator()
    assert primary not in cluster.view().assignments["control-centre"].record.producers["alerts"]


def test_a_primary_that_somebody_does_not_hear_is_still_named(cluster: ObedientCluster) -> None:
    """It may live: if consumers left it, it would not keep what they lack."""
    before = alerts(cluster)
    named = cluster.view().assignments["control-centre"].record.producers["alerts"]
    assert named[0] == before.primary.node
    lose_elsewhere(cluster, before.primary)
    cluster.settle_coordinator()
    assert cluster.view().suspected(before.primary.node)
    assert cluster.view().assignments["control-centre"].record.producers["alerts"] == named


def test_losses_are_dropped_with_the_processes_they_name(cluster: ObedientCluster) -> None:
    lost = lose_secondary(cluster)
    cluster.settle()
    cluster.up(lost)
    cluster.settle()
    again = lose_secondary(cluster)
    cluster.settle()
    assert [loss.replica.node for loss in alerts(cluster).losses] == [again]


def test_record_with_a_loss_survives_its_encoding(cluster: ObedientCluster) -> None:
    lose_secondary(cluster)
    found = cluster.store.get(FRAGMENTS.key(ALERTS))
    assert found is not None
    assert msgspec.json.decode(msgspec.json.encode(found.record), type=FragmentRecord).losses


def test_moves_of_a_fragment_that_is_stopped_end(cluster: ObedientCluster) -> None:
    primary = alerts(cluster).primary.node
    other = next(name for name in EXECUTORS if name not in {primary, secondary_of(cluster)})
    cluster.now_us += SETTINGS.longest_rest_us
    generation = alerts(cluster).generation
    while alerts(cluster).stopped is None:
        fail_both(cluster, unevaluable=True)
        cluster.settle_coordinator()
        cluster.now_us += 500_000
        if alerts(cluster).generation != generation:
            generation = alerts(cluster).generation
            cluster.settle()
    # Such as of a drain that was asked for while it still ran.
    step = MoveStep(fragment=ALERTS, role="primary", node=other)
    plan = MovePlan(name="drain", steps=(step,), drains=primary, submitted_us=cluster.now_us)
    cluster.store.create(MOVES.key("drain"), plan)
    cluster.settle()
    cluster.settle()
    (step,) = cluster.view().moves["drain"].record.steps
    assert cluster.view().moves["drain"].record.ended_us is not None
    assert step.failed is not None
    assert step.failed.startswith("is stopped: ")
    assert "ValueError: poison" in step.failed
