"""What hosts spend besides evaluating, for each evaluation."""

from __future__ import annotations

import pytest

from ha.roles import ReplicaRole
from orchestrator.control.planning.workload import (
    HOST_CORES,
    OVERHEAD_US,
    OVERHEADS_US,
    overhead_us,
)
from orchestrator.records import HostLoad, ReplicaLoad, ReplicaStatus
from tests.obedient_cluster import ObedientCluster


def measured(
    cores: float,
    evaluating_cores: float,
    evaluations_s: float,
    expected_s: float = 100.0,
    role: ReplicaRole = ReplicaRole.PRIMARY,
) -> float:
    """Overhead of a cluster with one busy node, of which so many evaluations are expected."""
    cluster = ObedientCluster()
    load = ReplicaLoad(
        cores=evaluating_cores, evaluations_s=evaluations_s, timestamps_s=0.0, tuples_s=0.0
    )
    status = ReplicaStatus(role=role, epoch=1, output_watermark_ms=None, load=load)
    cluster.hosts["paris"].tell(
        load=HostLoad(cores=cores, evaluating_cores=evaluating_cores), replicas={"f": status}
    )
    return overhead_us(cluster.view(), {"f": expected_s}, {"f": expected_s / 2})


def test_it_is_what_is_left_beside_evaluations_and_an_idle_host() -> None:
    assert measured(HOST_CORES + 0.1, 0.07, 100.0) == pytest.approx(300.0)


def test_a_host_that_evaluates_more_rarely_has_no_greater_overhead() -> None:
    assert measured(HOST_CORES + 0.1, 0.07, 60.0) == pytest.approx(300.0)


def test_a_secondary_is_expected_to_evaluate_more_rarely() -> None:
    standby = ReplicaRole.STANDBY
    assert measured(HOST_CORES + 0.1, 0.07, 50.0, role=standby) == pytest.approx(600.0)
    assert measured(HOST_CORES + 0.1, 0.07, 50.0) == OVERHEAD_US


def test_what_is_spent_while_replicas_are_prepared_or_streams_begin_is_no_overhead() -> None:
    assert measured(0.5, 0.1, 40.0) == OVERHEAD_US
    assert measured(HOST_CORES + 0.014, 0.007, 9.0) == OVERHEAD_US
    assert measured(0.5, 0.1, 25.0, expected_s=1000.0) == OVERHEAD_US


def test_nothing_is_concluded_from_next_to_nothing() -> None:
    assert measured(HOST_CORES + 0.01, 0.0, 1.0) == OVERHEAD_US
    assert overhead_us(ObedientCluster().view(), {}, {}) == OVERHEAD_US


def test_what_cannot_be_is_not_believed() -> None:
    assert measured(0.0, 0.0, 100.0) == OVERHEADS_US[0]
    assert measured(1.0, 0.0, 100.0) == OVERHEADS_US[1]
