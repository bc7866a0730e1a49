"""Replicas that have come to lie in one failure domain go apart once there are others."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from orchestrator.control.decide.separation import AT_A_TIME, GOES_APART
from orchestrator.records import CordonRecord, FailureLabels, MovePlan, MoveStep
from orchestrator.simulation.paper.losses import possible_losses
from orchestrator.store.protocol import CORDONS, MOVES
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft

FIRST = EXECUTORS[::2]
SECOND = EXECUTORS[1::2]


def domain_of(node: str) -> str:
    return "application-1" if node in FIRST else "application-2"


def divide(cluster: ObedientCluster) -> None:
    for name in EXECUTORS:
        if name in cluster.hosts:
            cluster.hosts[name].tell(labels=FailureLabels(application=domain_of(name)))


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    divide(made)
    made.apply(aircraft())
    made.settle()
    return made


def domains(cluster: ObedientCluster) -> dict[str, set[str]]:
    """Fragment → failure domains of its replicas."""
    return {
        name: {domain_of(each.node) for each in found.record.replicas}
        for name, found in cluster.view().fragments.items()
    }


def lose_application(cluster: ObedientCluster, nodes: tuple[str, ...]) -> None:
    """All of its hosts die; their peer replicas notice, and the cluster heals."""
    for name in nodes:
        cluster.kill(name)
    for found in cluster.view().fragments.values():
        record = found.record
        assert record.secondary is not None
        if record.primary.node in nodes:
            cluster.take_over(record, found.version)
        else:
            cluster.lose_secondary(record, found.version)
    cluster.settle()


def come_back(cluster: ObedientCluster, nodes: tuple[str, ...]) -> None:
    for name in nodes:
        cluster.up(name)
    divide(cluster)


def test_replicas_of_a_fragment_lie_in_different_applications(cluster: ObedientCluster) -> None:
    assert set(map(len, domains(cluster).values())) == {2}


@pytest.mark.parametrize("nodes", [FIRST, SECOND])
def test_an_application_that_dies_leaves_every_fragment_protected_in_the_other_one(
    cluster: ObedientCluster, nodes: tuple[str, ...]
) -> None:
    lose_application(cluster, nodes)
    view = cluster.view()
    assert all(view.protected(found.record) for found in view.fragments.values())
    assert not view.moves
    assert set(map(len, domains(cluster).values())) == {1}


@pytest.mark.parametrize("nodes", [FIRST, SECOND])
def test_once_it_is_back_replicas_go_apart_and_stay_so(
    cluster: ObedientCluster, nodes: tuple[str, ...]
) -> None:
    lose_application(cluster, nodes)
    come_back(cluster, nodes)
    primaries = {n: f.record.primary for n, f in cluster.view().fragments.items()}
    most = 0
    for _ in range(60):
        cluster.now_us += 200_000
        cluster.settle()
        cluster.check_invariants()
        moves = cluster.view().moves.values()
        most = max(most, sum(found.record.ended_us is None for found in moves))
    assert set(map(len, domains(cluster).values())) == {2}
    assert most <= AT_A_TIME
    assert {n: f.record.primary for n, f in cluster.view().fragments.items()} == primaries
    told = [each for each in cluster.history() if each.startswith(GOES_APART)]
    assert len(told) == len(set(told)) == len(primaries)
    for _ in range(3):
        lose_application(cluster, SECOND if nodes is FIRST else FIRST)
        come_back(cluster, SECOND if nodes is FIRST else FIRST)
        for _ in range(6):
            cluster.now_us += 61_000_000
            cluster.settle()
        assert set(map(len, domains(cluster).values())) == {2}


def test_nothing_goes_apart_where_it_is_while_no_node_of_the_other_application_will_do(
    cluster: ObedientCluster,
) -> None:
    lose_application(cluster, SECOND)
    steps = tuple(
        MoveStep(fragment=key, role="secondary", node=node, failed="it was not ready")
        for key in cluster.view().fragments
        for node in SECOND
    )
    now_us = cluster.now_us
    failed = MovePlan(name="apart-failed", steps=steps, submitted_us=now_us, ended_us=now_us)
    cluster.store.create(MOVES.key("apart-failed"), failed)
    come_back(cluster, SECOND)
    cluster.settle()
    assert [*cluster.view().moves] == ["apart-failed"]
    assert not [e for e in cluster.store.history() if e.event.kind == GOES_APART]
    assert any("both replicas share" in problem for problem in cluster.coordination.problems)


def test_what_an_operator_could_not_move_while_the_application_was_away_goes_apart_at_once(
    cluster: ObedientCluster,
) -> None:
    lose_application(cluster, SECOND)
    steps = tuple(
        MoveStep(fragment=key, role="primary", node=node, failed=f"{node} is silent at present")
        for key in cluster.view().fragments
        for node in SECOND
    )
    now_us = cluster.now_us
    failed = MovePlan(name="q-1", steps=steps, submitted_us=now_us, ended_us=now_us)
    cluster.store.create(MOVES.key("q-1"), failed)
    come_back(cluster, SECOND)
    for _ in range(60):
        cluster.now_us += 200_000
        cluster.settle()
    assert set(map(len, domains(cluster).values())) == {2}


def test_they_stay_together_while_a_site_is_away_without_which_no_move_is_judged(
    cluster: ObedientCluster,
) -> None:
    lose_application(cluster, FIRST)
    cluster.kill("control-centre")
    come_back(cluster, FIRST)
    cluster.settle()
    assert not cluster.view().moves
    assert any("'control-centre' is not a live site" in p for p in cluster.coordination.problems)
    cluster.up("control-centre")
    for _ in range(60):
        cluster.now_us += 200_000
        cluster.settle()
    assert set(map(len, domains(cluster).values())) == {2}


def test_a_cordoned_application_is_left_free(cluster: ObedientCluster) -> None:
    lose_application(cluster, FIRST)
    for name in FIRST:
        cluster.store.create(CORDONS.key(name), CordonRecord(node=name, since_us=0))
    come_back(cluster, FIRST)
    cluster.settle()
    assert not cluster.view().moves


LABELS = {
    name: FailureLabels(application=f"application-{number % 2}", machine=f"m{number // 2 % 2}")
    for number, name in enumerate(EXECUTORS)
}
"""Two applications on two machines, each with nodes on both."""


DRIVERS = {
    name: FailureLabels(
        application=f"application-{number % 2}",
        machine=f"m{number}",
        driver="m1" if number % 2 == 0 else "elsewhere",
    )
    for number, name in enumerate(EXECUTORS)
}
"""Two applications, each node on a machine of its own; the driver of the one is on a machine where
the other has a node."""


def on_machines(labels: Mapping[str, FailureLabels] | None = None) -> ObedientCluster:
    made = ObedientCluster()
    label(made, labels or LABELS)
    made.apply(aircraft())
    made.settle()
    return made


def label(cluster: ObedientCluster, labels: Mapping[str, FailureLabels] = LABELS) -> None:
    for name in EXECUTORS:
        if name in cluster.hosts:
            cluster.hosts[name].tell(labels=labels[name])


def shared(cluster: ObedientCluster) -> set[str]:
    """What the replicas of any fragment share."""
    pairs = [found.record.replicas[:2] for found in cluster.view().fragments.values()]
    return {
        kind
        for one, other in pairs
        for kind in ("application", "machine")
        if getattr(LABELS[one.node], kind) == getattr(LABELS[other.node], kind)
    }


def test_of_two_applications_on_two_machines_replicas_share_neither() -> None:
    assert shared(on_machines()) == set()


def test_no_fragment_dies_with_the_machine_of_a_driver() -> None:
    cluster = on_machines(DRIVERS)
    pairs = [found.record.replicas[:2] for found in cluster.view().fragments.values()]
    assert pairs
    for one, other in pairs:
        here, there = DRIVERS[one.node], DRIVERS[other.node]
        assert here.application != there.application
        assert not {here.machine, here.driver} & {there.machine, there.driver}
    (loss,) = [each for each in possible_losses(cluster.view()) if each.name == "m1"]
    assert loss.kind == "machine"
    assert {*loss.hosts} == {*FIRST, "lyon"}


def test_once_a_machine_is_back_replicas_that_shared_the_other_one_go_apart(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = on_machines()
    lost = tuple(name for name in EXECUTORS if LABELS[name].machine == "m1")
    lose_application(cluster, lost)
    assert shared(cluster) == {"machine"}
    assert not any("share" in problem for problem in cluster.coordination.problems)
    for name in lost:
        cluster.up(name)
    label(cluster)
    cluster.settle()
    assert "both replicas share machine m0" in caplog.text
    for _ in range(60):
        cluster.now_us += 200_000
        cluster.settle()
        cluster.check_invariants()
    assert shared(cluster) == set()
    assert not any("share" in problem for problem in cluster.coordination.problems)
