"""What hosts spend besides evaluating, for each evaluation."""

from __future__ import annotations

import pytest

from ha.roles import ReplicaRole
from orchestrator.control.planning.evaluations import ExpectedEvaluations
from orchestrator.control.planning.overhead import (
    OFTEN_S,
    OVERHEAD_US,
    RECEIVED,
    overhead_us,
)
from orchestrator.records import HostLoad, ReplicaLoad, ReplicaStatus
from orchestrator.records.speed import HOST_CORES
from streams.scheduling.batching import BELIEVED_US
from tests.obedient_cluster import EXECUTORS, ObedientCluster

TUPLES_S = 100.0
"""How many tuples the fragment expects."""


def expected(
    primary_s: float, standby_s: float | None = None, tuples_s: float = 0.0, chunks_s: float = 0.0
) -> ExpectedEvaluations:
    """Of one fragment, whose standby evaluates half as often if nothing is said."""
    return ExpectedEvaluations(
        inputs={"f": ("north",)},
        evaluations_s={"f": primary_s},
        standby_evaluations_s={"f": primary_s / 2 if standby_s is None else standby_s},
        tuples_s={"f": tuples_s},
        chunks_s={"north": chunks_s, "f": primary_s},
    )


def measured(
    cores: float,
    evaluating_cores: float,
    evaluations_s: float,
    expected_s: float = 100.0,
    role: ReplicaRole = ReplicaRole.PRIMARY,
    tuples_s: float = TUPLES_S,
    speed: float = 1.0,
    chunks_s: float = 0.0,
) -> float:
    """Overhead of a cluster with one busy node, of which so many evaluations are expected."""
    cluster = ObedientCluster()
    load = ReplicaLoad(
        cores=evaluating_cores, evaluations_s=evaluations_s, timestamps_s=0.0, tuples_s=tuples_s
    )
    status = ReplicaStatus(role=role, epoch=1, output_watermark_ms=None, load=load)
    cluster.hosts["paris"].tell(
        load=HostLoad(
            cores=cores,
            evaluating_cores=evaluating_cores,
            evaluations_s=evaluations_s,
            speed=speed,
        ),
        replicas={"f": status},
    )
    for other in cluster.view().executors.keys() - {"paris"}:
        cluster.hosts[other].tell(load=HostLoad(cores=0.0, evaluating_cores=0.0, speed=speed))
    return overhead_us(cluster.view(), expected(expected_s, tuples_s=TUPLES_S, chunks_s=chunks_s))


def assumed(expected_s: float = 100.0) -> float:
    """What is taken for it before anything is measured."""
    return OVERHEAD_US / (1 + 1.5 * expected_s / len(EXECUTORS) / OFTEN_S)


def test_it_is_what_is_left_beside_evaluations_and_an_idle_host() -> None:
    assert measured(HOST_CORES + 0.1, 0.07, 100.0) == pytest.approx(300.0)


def test_a_host_that_evaluates_more_rarely_has_no_greater_overhead() -> None:
    assert measured(HOST_CORES + 0.1, 0.07, 60.0) == pytest.approx(300.0)


def test_a_secondary_is_expected_to_evaluate_more_rarely() -> None:
    standby = ReplicaRole.STANDBY
    assert measured(HOST_CORES + 0.1, 0.07, 50.0, role=standby) == pytest.approx(600.0)
    assert measured(HOST_CORES + 0.1, 0.07, 50.0) == assumed()


def test_what_is_spent_while_replicas_are_prepared_or_streams_begin_is_no_overhead() -> None:
    assert measured(0.5, 0.1, 40.0) == assumed()
    assert measured(HOST_CORES + 0.014, 0.007, 9.0) == assumed()
    assert measured(0.5, 0.1, 25.0, expected_s=1000.0) == assumed(1000.0)


def test_nothing_is_concluded_from_next_to_nothing() -> None:
    assert measured(HOST_CORES + 0.01, 0.0, 1.0) == assumed()
    assert overhead_us(ObedientCluster().view(), expected(0.0)) == OVERHEAD_US


def test_where_only_watermarks_come_half_as_many_evaluations_are_expected() -> None:
    assert measured(HOST_CORES + 0.1, 0.07, 50.0, tuples_s=0.0) == pytest.approx(600.0)
    assert measured(HOST_CORES + 0.1, 0.07, 75.0, tuples_s=50.0) == pytest.approx(400.0)
    assert measured(HOST_CORES + 0.1, 0.07, 29.0, tuples_s=0.0) == assumed()


def test_a_chunk_that_comes_counts_as_part_of_an_evaluation() -> None:
    found = measured(HOST_CORES + 0.1, 0.04, 100.0, chunks_s=250.0)
    assert found == pytest.approx(0.06e6 / (100 + RECEIVED * 250.0))
    # While no tuples come, half as many are expected of both.
    found = measured(HOST_CORES + 0.1, 0.04, 50.0, tuples_s=0.0, chunks_s=250.0)
    assert found == pytest.approx(0.06e6 / (50 + RECEIVED * 125.0))


def test_what_several_replicas_of_a_host_read_comes_once_and_what_is_made_there_does_not() -> None:
    of = ExpectedEvaluations(
        inputs={"f": ("north",), "g": ("north", "f")},
        evaluations_s={},
        standby_evaluations_s={},
        tuples_s={},
        chunks_s={"north": 100.0, "f": 20.0},
    )
    assert of.received_s({"f", "g"}, {"f"}) == {"f": 50.0, "g": 50.0}
    assert of.received_s({"g"}, set()) == {"g": 120.0}
    assert of.received_s({"g"}, {"f"}) == {"g": 100.0}


def test_on_a_slow_processor_an_idle_host_takes_more_and_more_is_assumed() -> None:
    assert measured(2 * HOST_CORES + 0.1, 0.07, 100.0, speed=0.5) == pytest.approx(300.0)
    assert measured(0.5, 0.1, 40.0, speed=0.5) == pytest.approx(2 * assumed())


def test_nodes_that_evaluate_often_are_taken_to_have_less_overhead() -> None:
    view = ObedientCluster().view()
    nodes = len(view.executors)
    often_s = nodes * OFTEN_S / 2
    assert overhead_us(view, expected(often_s, often_s)) == pytest.approx(OVERHEAD_US / 2)


def test_no_less_is_assumed_than_would_be_believed() -> None:
    # With `batch: 0 ms` each tuple may be evaluated for itself, on a node thousands a second.
    view = ObedientCluster().view()
    often_s = len(view.executors) * 20_000.0
    assert overhead_us(view, expected(often_s, often_s)) == BELIEVED_US[0]


def test_what_cannot_be_is_not_believed() -> None:
    assert measured(0.0, 0.0, 100.0) == BELIEVED_US[0]
    assert measured(1.0, 0.0, 100.0) == BELIEVED_US[1]


STEADY = HostLoad(cores=HOST_CORES + 0.03, evaluating_cores=0.0, evaluations_s=100.0)
"""Of an executor that makes a hundred evaluations a second."""


def overhead(**hosts: tuple[HostLoad, float]) -> float:
    """Overhead of executors that have taken so much; a primary there makes so many evaluations."""
    cluster = ObedientCluster()
    for name, (load, evaluations_s) in hosts.items():
        own = ReplicaLoad(cores=0.0, evaluations_s=evaluations_s, timestamps_s=0.0, tuples_s=0.0)
        status = ReplicaStatus(
            role=ReplicaRole.PRIMARY, epoch=1, output_watermark_ms=None, load=own
        )
        cluster.hosts[name].tell(load=load, replicas={"f": status} if evaluations_s else {})
    return overhead_us(cluster.view(), expected(100.0))


def test_what_an_executor_takes_that_starts_is_no_overhead_of_the_others() -> None:
    started = HostLoad(cores=0.6, evaluating_cores=0.0, evaluations_s=0.0)
    assert overhead(paris=(STEADY, 100.0)) == pytest.approx(300.0)
    assert overhead(paris=(STEADY, 100.0), lyon=(started, 0.0)) == pytest.approx(300.0)
    # A replica that has just come evaluates as often as it should, but not for long enough.
    fetching = HostLoad(cores=0.6, evaluating_cores=0.0, evaluations_s=30.0)
    assert overhead(paris=(STEADY, 100.0), lyon=(fetching, 100.0)) == pytest.approx(300.0)


def test_a_drained_executor_has_taken_its_time_for_the_evaluations_that_it_made() -> None:
    drained = HostLoad(cores=HOST_CORES + 0.06, evaluating_cores=0.0, evaluations_s=200.0)
    assert overhead(paris=(STEADY, 100.0), lyon=(drained, 0.0)) == pytest.approx(300.0)
    partly = HostLoad(cores=HOST_CORES + 0.09, evaluating_cores=0.0, evaluations_s=300.0)
    assert overhead(paris=(STEADY, 100.0), lyon=(partly, 100.0)) == pytest.approx(300.0)
