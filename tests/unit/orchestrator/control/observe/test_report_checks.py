"""Loads that cannot be are left out, and the host's problems name them."""

from __future__ import annotations

import msgspec
import pytest

from ha.roles import ReplicaRole
from orchestrator.records import HostLoad, ReplicaLoad, ReplicaStatus
from orchestrator.records.speed import SPEEDS
from tests.obedient_cluster import ObedientCluster

LOAD = HostLoad(cores=0.5, evaluating_cores=0.2, evaluations_s=90.0, speed=0.3)
REPLICA_LOAD = ReplicaLoad(cores=0.1, evaluations_s=9.0, timestamps_s=9.0, tuples_s=90.0)


def reported(load: HostLoad, replica_load: ReplicaLoad = REPLICA_LOAD) -> ObedientCluster:
    cluster = ObedientCluster()
    status = ReplicaStatus(
        role=ReplicaRole.PRIMARY, epoch=1, output_watermark_ms=None, load=replica_load
    )
    cluster.hosts["paris"].tell(load=load, replicas={"f": status})
    return cluster


def test_what_can_be_is_believed() -> None:
    node = reported(LOAD).view().hosts["paris"]
    assert (node.load, node.replicas["f"].load, node.problems) == (LOAD, REPLICA_LOAD, ())


@pytest.mark.parametrize(
    "wrong",
    [
        {"speed": 0.0},
        {"speed": -1.0},
        {"speed": SPEEDS[0] / 2},
        {"speed": SPEEDS[1] * 2},
        {"cores": -0.5},
        {"cores": 1e300},
        {"evaluations_s": -1.0},
    ],
)
def test_a_load_of_a_host_that_cannot_be_is_not_believed(wrong: dict[str, float]) -> None:
    node = reported(msgspec.structs.replace(LOAD, **wrong)).view().hosts["paris"]
    assert node.load is None
    assert node.replicas["f"].load == REPLICA_LOAD
    (problem,) = node.problems
    assert problem.startswith("reports a load that cannot be")


@pytest.mark.parametrize("wrong", [{"cores": -0.5}, {"tuples_s": 1e300}, {"window_share": 1e6}])
def test_a_load_of_a_replica_that_cannot_be_is_not_believed(wrong: dict[str, float]) -> None:
    replica_load = msgspec.structs.replace(REPLICA_LOAD, **wrong)
    node = reported(LOAD, replica_load).view().hosts["paris"]
    assert node.load == LOAD
    assert node.replicas["f"].load is None
    assert node.replicas["f"].role is ReplicaRole.PRIMARY
    (problem,) = node.problems
    assert problem.startswith("reports a load of f that cannot be")


@pytest.mark.parametrize("wrong", [-1, 10**16])
def test_a_state_of_a_size_that_cannot_be_is_not_believed(wrong: int) -> None:
    cluster = reported(LOAD)
    host = cluster.hosts["paris"]
    status = msgspec.structs.replace(host.record.replicas["f"], state_bytes=wrong)
    host.tell(replicas={"f": status}, spreads_ms={"zurich": -1.0, "lyon": 2.0})
    found = cluster.view().hosts["paris"]
    assert found.replicas["f"].state_bytes is None
    assert found.spreads_ms == {"lyon": 2.0}
    assert any("a state of f that cannot be" in problem for problem in found.problems)
    assert any("round trips to zurich that differ" in problem for problem in found.problems)
