"""How long recoveries and moves took: counted once, whoever leads and whatever the record says."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.control.process import Coordination
from orchestrator.control.publishing import EVERY_US
from orchestrator.records import (
    DurationsRecord,
    FragmentRecord,
    MovePlan,
    MoveStep,
    RecoverySplit,
    RecoveryStatus,
)
from orchestrator.records.durations import NO_MOVE, NO_RECOVERY
from orchestrator.store.protocol import DURATIONS, MOVES
from tests.obedient_cluster import ObedientCluster, aircraft

ALERTS = "proximity.alerts"


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def record(cluster: ObedientCluster) -> FragmentRecord:
    return cluster.view().fragments[ALERTS].record


def recover(cluster: ObedientCluster, ms: float) -> None:
    """The primary says that its takeover took so long."""
    found = record(cluster)
    host = cluster.hosts[found.primary.node]
    status = msgspec.structs.replace(
        host.record.replicas[found.fragment],
        recovered=RecoveryStatus(
            measured=RecoverySplit(detection_ms=ms, resend_ms=0.0, reprocess_ms=0.0)
        ),
    )
    host.tell(replicas={**host.record.replicas, found.fragment: status})


def counted(cluster: ObedientCluster) -> DurationsRecord:
    """The record once it is due."""
    cluster.settle_coordinator()
    cluster.now_us += EVERY_US
    cluster.settle_coordinator()
    found = cluster.store.get(DURATIONS)
    return DurationsRecord() if found is None else found.record


def test_a_recovery_is_counted_once_under_its_query(cluster: ObedientCluster) -> None:
    assert counted(cluster) == DurationsRecord()
    recover(cluster, 250)
    assert counted(cluster).recoveries == {"proximity": NO_RECOVERY.plus(250)}
    assert counted(cluster).recoveries == {"proximity": NO_RECOVERY.plus(250)}


def test_the_next_leader_counts_on(cluster: ObedientCluster) -> None:
    recover(cluster, 250)
    counted(cluster)
    cluster.coordinator_store.expire()
    second = Coordination(cluster.server.connect(), "coordinator-2")
    second.run_once(cluster.now_us)
    recover(cluster, 40)
    for _ in range(2):
        cluster.now_us += EVERY_US
        second.run_once(cluster.now_us)
    found = cluster.store.get(DURATIONS)
    assert found is not None
    assert found.record.recoveries == {"proximity": NO_RECOVERY.plus(250).plus(40)}


def test_what_no_recovery_can_take_is_not_counted(cluster: ObedientCluster) -> None:
    for ms in (-1.0, 1e300):
        recover(cluster, ms)
        assert counted(cluster) == DurationsRecord()


def test_a_query_that_is_gone_is_left_out(cluster: ObedientCluster) -> None:
    gone = DurationsRecord(recoveries={"gone": NO_RECOVERY.plus(1)}, moves=NO_MOVE.plus(1))
    cluster.store.create(DURATIONS, gone)
    assert counted(cluster) == gone, "nothing is written without a reason"
    recover(cluster, 250)
    left = DurationsRecord(recoveries={"proximity": NO_RECOVERY.plus(250)}, moves=gone.moves)
    assert counted(cluster) == left


def test_a_step_of_a_move_is_counted_from_its_beginning_until_it_was_noted(
    cluster: ObedientCluster,
) -> None:
    found = record(cluster)
    assert found.secondary is not None
    step = MoveStep(fragment=ALERTS, role="primary", node=found.secondary.node)
    plan = MovePlan(name="test", steps=(step,), submitted_us=cluster.now_us)
    cluster.store.create(MOVES.key("test"), plan)
    cluster.settle()
    (done,) = cluster.view().moves["test"].record.steps
    assert done.done
    moves = counted(cluster).moves
    assert sum(moves.counts) == 1
    assert moves.counts == NO_MOVE.plus(moves.sum_ms).counts
    assert counted(cluster).moves == moves


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'{"moves": {"least_ms": 0, "counts": []}, "recoveries": {"proximity": {"least_ms": 7}}}',
    ],
)
def test_a_record_that_cannot_be_used_is_written_anew(
    cluster: ObedientCluster, data: bytes
) -> None:
    cluster.server.plant(DURATIONS.path, data)
    recover(cluster, 250)
    assert counted(cluster) == DurationsRecord(recoveries={"proximity": NO_RECOVERY.plus(250)})
