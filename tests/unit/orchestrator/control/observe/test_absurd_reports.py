"""A host's record that can be read and says absurd things: the rest of the cluster is healed.

"A host that lies about them gets worse places, or spoils those of others […]. It changes no output,
no takeover" (docs/security.md); "a bug in deciding about one fragment or query leaves that one as
it is" (docs/protocol/store.md).
"""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.records import ClockOffset, CostStatus
from tests.obedient_cluster import EXECUTORS, ObedientCluster, ObedientHost, aircraft

ALERTS = "proximity.alerts"


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    # What a person sees of a bug is the problem; the coordinator goes on.
    made.raises_bugs = False
    return made


def nodes(cluster: ObedientCluster) -> tuple[str, str]:
    """Of the primary and of the secondary."""
    record = cluster.view().fragments[ALERTS].record
    assert record.secondary is not None
    return record.primary.node, record.secondary.node


def bystander(cluster: ObedientCluster) -> ObedientHost:
    """A host without a replica of the fragment."""
    return next(cluster.hosts[name] for name in EXECUTORS if name not in nodes(cluster))


def coordinate(host: ObedientHost, **changes: object) -> None:
    assert host.record.coordinate is not None
    host.tell(coordinate=msgspec.structs.replace(host.record.coordinate, **changes))


def negative_load(host: ObedientHost) -> None:
    coordinate(host, cpu_ms=-5.0)


def further_dimension(host: ObedientHost) -> None:
    """As a newer version may have it, while hosts are replaced one after the other."""
    coordinate(host, position_ms=(1.0, 2.0, 3.0))


def negative_latencies(host: ObedientHost) -> None:
    host.tell(latencies_ms=dict.fromkeys(host.record.latencies_ms, -5.0))


@pytest.mark.parametrize("lie", [negative_load, further_dimension, negative_latencies])
def test_secondary_is_replaced_whatever_a_host_reports_that_has_no_replica_of_it(
    cluster: ObedientCluster, lie: object
) -> None:
    assert callable(lie)
    lie(bystander(cluster))
    cluster.settle()
    primary, lost = nodes(cluster)
    cluster.kill(lost)
    cluster.settle()
    after = cluster.view().fragments[ALERTS].record
    assert after.primary.node == primary
    problems = cluster.coordination.problems
    assert after.secondary is not None, problems
    assert after.secondary.node != lost, problems


def test_leader_writes_no_record_that_it_cannot_read(cluster: ObedientCluster) -> None:
    primary, lost = nodes(cluster)
    cluster.hosts[primary].costs["alerts"] = CostStatus(
        fixed_us=1.0, per_tuple_us=1e308, samples=1000
    )
    cluster.settle()
    cluster.kill(lost)
    cluster.settle()
    # The host has come to its senses; nothing that it says counts any more.
    cluster.hosts[primary].costs.clear()
    cluster.settle()
    assert ALERTS in cluster.view().fragments, cluster.coordination.problems


def test_offset_that_claims_to_be_more_than_certain_does_not_keep_the_leader_busy(
    cluster: ObedientCluster,
) -> None:
    bystander(cluster).tell(
        machine="moon", clocks={"here": ClockOffset(ahead_us=5000, uncertainty_us=-9000)}
    )
    cluster.settle()
