"""Whether the recovery bound still holds is told from what hosts say of their lags."""

from __future__ import annotations

import pytest
from msgspec import structs

from ha.failure_detector import LAGS_GRANTED
from orchestrator.records import PauseRecord
from orchestrator.store.protocol import FRAGMENTS, PAUSES
from tests.obedient_cluster import ObedientCluster, aircraft

ALERTS = "proximity.alerts"


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def told(cluster: ObedientCluster) -> list[str]:
    cluster.settle()
    return [each for each in cluster.coordination.problems if "hosts are late" in each]


def left_ms(cluster: ObedientCluster) -> float:
    """What the promise leaves of the bound."""
    promised = cluster.view().fragments[ALERTS].record.timing.promised
    assert promised is not None
    return cluster.view().query_records["proximity"].recovery_bound_ms - promised.total_ms


@pytest.mark.parametrize(("role", "weight"), [("primary", LAGS_GRANTED), ("secondary", 1)])
def test_a_lag_that_breaks_the_bound_is_told_until_it_has_gone(
    cluster: ObedientCluster, role: str, weight: int
) -> None:
    host = cluster.hosts[getattr(cluster.view().fragments[ALERTS].record, role).node]
    assert not told(cluster)
    host.tell(lag_ms=(left_ms(cluster) + 1) / weight)
    (problem,) = told(cluster)
    assert problem.startswith("proximity: the recovery bound of")
    host.tell(lag_ms=0.0)
    assert not told(cluster)


def test_a_lag_that_the_bound_leaves_room_for_is_not_told(cluster: ObedientCluster) -> None:
    for host in cluster.hosts.values():
        host.tell(lag_ms=(left_ms(cluster) - 40) / (LAGS_GRANTED + 1))
    assert not told(cluster)


def test_a_query_that_is_paused_breaks_no_bound(cluster: ObedientCluster) -> None:
    view = cluster.view()
    life = view.number_of(view.queries["proximity"])
    record = PauseRecord(query="proximity", life=life, asked_us=cluster.now_us)
    cluster.store.create(PAUSES.key("proximity"), record)
    for each in view.fragments.values():
        paused = structs.replace(each.record, paused=True)
        cluster.store.update(FRAGMENTS.key(each.record.key), paused, each.version)
    for host in cluster.hosts.values():
        host.tell(lag_ms=1000.0)
    assert not told(cluster)
