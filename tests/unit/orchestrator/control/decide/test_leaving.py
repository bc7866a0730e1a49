"""What runs on hosts that are about to end goes elsewhere."""

from __future__ import annotations

import pytest

from orchestrator.control.decide.leaving import PATIENT_US, REST_US
from orchestrator.records import CordonRecord, FailureLabels, Leaving, MovePlan, MoveStep
from orchestrator.store.protocol import CORDONS, MOVES
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft

FIRST, SECOND = EXECUTORS[::2], EXECUTORS[1::2]


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def leave(cluster: ObedientCluster, *nodes: str) -> None:
    until_us = cluster.now_us + 75_000_000
    for node in nodes:
        cluster.hosts[node].tell(leaving=Leaving(since_us=cluster.now_us, until_us=until_us))


def pass_time(cluster: ObedientCluster, us: int) -> None:
    """Let all be done that is done within a time, in steps of a second."""
    end_us = cluster.now_us + us
    while cluster.now_us < end_us:
        cluster.now_us += 1_000_000
        cluster.settle()
        cluster.check_invariants()


def on(cluster: ObedientCluster, node: str) -> dict[str, str]:
    """Fragments with a replica on a node → its role."""
    found = [each.record for each in cluster.view().fragments.values() if each.record.runs_on(node)]
    return {r.key: "primary" if r.primary.node == node else "secondary" for r in found}


def busiest(cluster: ObedientCluster) -> str:
    """The node with most primaries."""
    records = [found.record for found in cluster.view().fragments.values()]
    return max(EXECUTORS, key=lambda name: sum(r.primary.node == name for r in records))


def plans(cluster: ObedientCluster) -> list[MovePlan]:
    return [found.record for found in cluster.view().moves.values()]


def test_primaries_change_roles_at_once_and_then_all_replicas_go(cluster: ObedientCluster) -> None:
    node = busiest(cluster)
    before = {key: f.record for key, f in cluster.view().fragments.items()}
    primaries = [key for key, role in on(cluster, node).items() if role == "primary"]
    assert primaries
    leave(cluster, node)
    cluster.settle_coordinator()
    for key in primaries:
        record = cluster.view().fragments[key].record
        assert (record.primary, record.secondary) == (before[key].secondary, before[key].primary)
    assert not cluster.assignment(node).may_end
    pass_time(cluster, 5_000_000)
    assert not on(cluster, node)
    assert cluster.assignment(node).may_end
    assert not any(each.ended_us is None for each in plans(cluster))
    view = cluster.view()
    assert all(view.settled(found.record) for found in view.fragments.values())
    # The same name in another life is used at once.
    cluster.restart(node)
    cluster.settle()
    assert not cluster.view().closed
    assert not cluster.assignment(node).may_end


def test_a_standby_that_is_not_warm_is_awaited(cluster: ObedientCluster) -> None:
    node = busiest(cluster)
    key = next(key for key, role in on(cluster, node).items() if role == "primary")
    secondary = cluster.view().fragments[key].record.secondary
    assert secondary is not None
    cluster.hosts[secondary.node].cold = True
    cluster.settle()
    leave(cluster, node)
    pass_time(cluster, 3_000_000)
    assert on(cluster, node)[key] == "primary"
    assert not cluster.assignment(node).may_end
    cluster.hosts[secondary.node].cold = False
    pass_time(cluster, 5_000_000)
    assert not on(cluster, node)
    assert cluster.assignment(node).may_end


def test_what_no_plan_has_tried_is_tried_however_late_it_can_go(cluster: ObedientCluster) -> None:
    node = busiest(cluster)
    record = next(iter(cluster.view().fragments.values())).record
    assert record.primary.node == node
    assert record.secondary is not None
    step = MoveStep(fragment=record.key, role="primary", node=record.secondary.node)
    plan = MovePlan(name="roles", steps=(step,), by="somebody", submitted_us=cluster.now_us)
    cluster.store.create(MOVES.key("roles"), plan)
    cluster.settle()
    assert {*on(cluster, node).values()} == {"primary", "secondary"}
    for name in {*EXECUTORS} - {node}:
        cluster.hosts[name].cold = True
    cluster.settle()
    leave(cluster, node)
    pass_time(cluster, 2 * PATIENT_US)
    for name in EXECUTORS:
        cluster.hosts[name].cold = False
    pass_time(cluster, PATIENT_US)
    assert not on(cluster, node)
    assert cluster.assignment(node).may_end


def test_two_hosts_leave_at_once(cluster: ObedientCluster) -> None:
    record = next(iter(cluster.view().fragments.values())).record
    assert record.secondary is not None
    nodes = record.primary.node, record.secondary.node
    leave(cluster, *nodes)
    pass_time(cluster, 9_000_000)
    assert not any(on(cluster, node) for node in nodes)
    assert all(cluster.assignment(node).may_end for node in nodes)


def test_a_whole_application_leaves(cluster: ObedientCluster) -> None:
    """Its fragments need not stay apart while there is no other application."""
    for name in EXECUTORS:
        application = "application-1" if name in FIRST else "application-2"
        cluster.hosts[name].tell(labels=FailureLabels(application=application))
    pass_time(cluster, 20_000_000)
    leave(cluster, *FIRST)
    pass_time(cluster, 9_000_000)
    assert not any(on(cluster, name) for name in FIRST)
    view = cluster.view()
    assert all(view.settled(found.record) for found in view.fragments.values())
    for name in FIRST:
        cluster.restart(name)
        cluster.hosts[name].tell(labels=FailureLabels(application="application-1"))
    pass_time(cluster, 20_000_000)
    for found in cluster.view().fragments.values():
        assert len({each.node in FIRST for each in found.record.replicas}) == 2


def test_what_can_go_nowhere_is_told(cluster: ObedientCluster) -> None:
    record = next(iter(cluster.view().fragments.values())).record
    pair = {each.node for each in record.replicas}
    for name in {*EXECUTORS} - pair:
        cluster.store.create(CORDONS.key(name), CordonRecord(node=name, since_us=0))
    cluster.settle()
    node = record.primary.node
    leave(cluster, node)
    pass_time(cluster, 2_000_000)
    assert on(cluster, node)[record.key] == "secondary"
    told = [
        p for p in cluster.coordination.problems if p.startswith(f"{node} leaves, and {record.key}")
    ]
    assert told
    assert "every other live node is cordoned" in told[0]
    (plan,) = plans(cluster)
    assert any(each.failed and each.fragment == record.key for each in plan.steps)
    assert f"moves ended: {plan.name}" in cluster.history()
    # Nothing else can be done, since no node is open but the other one.
    pass_time(cluster, PATIENT_US)
    assert cluster.assignment(node).may_end
    assert len(plans(cluster)) <= 1 + PATIENT_US // REST_US
    # An operator's cordon is no matter of who leaves.
    assert cluster.view().cordoned == {*EXECUTORS} - pair


def test_a_host_where_nothing_runs_may_end_at_once(cluster: ObedientCluster) -> None:
    node = next(name for name in EXECUTORS if not on(cluster, name))
    leave(cluster, node)
    cluster.settle()
    assert cluster.assignment(node).may_end


def test_nothing_new_is_placed_on_it(cluster: ObedientCluster) -> None:
    node = next(name for name in EXECUTORS if not on(cluster, name))
    others = [name for name in EXECUTORS if name != node]
    leave(cluster, node)
    cluster.settle()
    for _ in range(3):
        cluster.kill(others.pop())
        cluster.settle()
    assert not on(cluster, node)
