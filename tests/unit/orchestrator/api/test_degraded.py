"""What is not as it should be: since when, what is done about it, until when."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.api.cluster_status import status
from orchestrator.api.connection import Cluster
from orchestrator.api.degraded import UNKNOWN
from orchestrator.clock import now_us
from orchestrator.records import CostStatus, HistoryEvent, ReplicaLoad, ReplicaStatus
from orchestrator.results.status import StatusDocument
from orchestrator.store.protocol import FRAGMENTS
from placement.standby_schemes import NEVER
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.served_cluster import reach

SECOND_US = 1_000_000


@pytest.fixture
def cluster() -> ObedientCluster:
    found = ObedientCluster(manifest=("paris", "lyon", "london", "north-receiver"))
    found.now_us = now_us()
    found.apply(aircraft())
    found.settle()
    return found


def seen(cluster: ObedientCluster) -> StatusDocument:
    return status(Cluster(reach(), cluster.store))


def tell(cluster: ObedientCluster, kind: str, subject: str, ago_s: float, **more: object) -> None:
    at_us = now_us() - round(ago_s * SECOND_US)
    event = HistoryEvent(at_us=at_us, kind=kind, subject=subject, detail="")
    cluster.store.append_history(msgspec.structs.replace(event, **more))


def test_nothing_is_degraded_in_a_cluster_that_is_well(cluster: ObedientCluster) -> None:
    assert seen(cluster).degraded == ()


def test_a_host_that_is_away_is_told_with_how_long_it_took_before(
    cluster: ObedientCluster,
) -> None:
    cluster.hosts.pop("north-receiver").store.close()
    (first,) = [e for e in seen(cluster).degraded if e.subject == "site north-receiver"]
    assert (first.state, first.until_us, first.until_why) == ("has no host", None, UNKNOWN)
    tell(cluster, "node lost", "north-receiver", 500)
    tell(cluster, "node joined", "north-receiver", 492)
    tell(cluster, "node lost", "north-receiver", 3)
    (found,) = [e for e in seen(cluster).degraded if e.subject == "site north-receiver"]
    assert found.since_us is not None
    assert found.until_us is not None
    assert found.until_us - found.since_us == pytest.approx(8 * SECOND_US, abs=1000)
    assert found.until_why == "it took 8.0 s the last time"


def test_a_fragment_without_a_warm_standby_is_told_with_what_is_done(
    cluster: ObedientCluster,
) -> None:
    (shown,) = [each for each in seen(cluster).fragments if each.fragment == "alerts"]
    assert shown.secondary is not None
    host = cluster.hosts[shown.secondary]
    tell(cluster, "redundancy restored", shown.name, 900, lasted_ms=4000.0)
    tell(cluster, "redundancy lost", shown.name, 2)
    host.cold = True
    host.obey()
    (found,) = seen(cluster).degraded
    assert found.subject == f"fragment {shown.name}"
    assert found.state == f"has a standby on {shown.secondary} that is not warm"
    assert found.doing.startswith(f"{shown.secondary} is given the state")
    assert found.until_us is not None


def test_an_output_that_its_sink_does_not_keep_is_told(cluster: ObedientCluster) -> None:
    site = cluster.hosts["control-centre"]
    (stream,) = site.record.sinks
    for unkept_ms, told in ((2000.0, 0), (9000.0, 1)):
        kept = msgspec.structs.replace(site.record.sinks[stream], unkept_ms=unkept_ms)
        site.tell(sinks={stream: kept})
        assert len(seen(cluster).degraded) == told
    document = seen(cluster)
    (found,) = document.degraded
    assert found.subject == f"output proximity.{stream}"
    assert found.since_us == document.at_us - 9 * SECOND_US
    assert found.until_us is None


def test_a_standby_would_have_to_redo_what_waits_there(cluster: ObedientCluster) -> None:
    def redo_ms(**changes: object) -> float | None:
        (shown,) = [each for each in seen(cluster).fragments if each.fragment == "alerts"]
        host = cluster.hosts[shown.secondary or ""]
        before: ReplicaStatus = host.record.replicas["alerts"]
        told = msgspec.structs.replace(before, **changes)
        host.tell(replicas={**host.record.replicas, "alerts": told})
        (shown,) = [each for each in seen(cluster).fragments if each.fragment == "alerts"]
        return shown.redo_ms

    assert redo_ms() == 0.0
    assert redo_ms(waiting=500) == 10.0, "by the cost that is stated"
    cost = CostStatus(fixed_us=1000.0, per_tuple_us=20.0, samples=9)
    assert redo_ms(waiting=500, cost=cost) == 11.0


def test_of_what_is_kept_back_a_standby_redoes_what_comes_while_checkpoints_cover(
    cluster: ObedientCluster,
) -> None:
    """It was told as quadrillions of ms where a checkpoint is all that is sent."""
    found = cluster.view().fragments["proximity.alerts"]
    timing = msgspec.structs.replace(
        found.record.timing, batch=NEVER, checkpoint_ms=100.0, covered_ms=500.0
    )
    record = msgspec.structs.replace(found.record, timing=timing)
    cluster.store.update(FRAGMENTS.key("proximity.alerts"), record, found.version)
    host = cluster.hosts[record.primary.node]
    status = host.record.replicas["alerts"]
    load = ReplicaLoad(cores=0.1, evaluations_s=10.0, timestamps_s=10.0, tuples_s=2000.0)
    host.tell(replicas={**host.record.replicas, "alerts": status})
    assert redo_of_alerts(cluster) is None, "nobody has told how much comes"
    told = msgspec.structs.replace(status, load=load)
    host.tell(replicas={**host.record.replicas, "alerts": told})
    assert redo_of_alerts(cluster) == 20.0, "2,000 tuples a second for half a second, 20 µs each"


def redo_of_alerts(cluster: ObedientCluster) -> float | None:
    (shown,) = [each for each in seen(cluster).fragments if each.fragment == "alerts"]
    return shown.redo_ms


def test_a_fragment_tells_how_many_days_ago_a_drill_struck_it(cluster: ObedientCluster) -> None:
    assert {each.drilled_days for each in seen(cluster).fragments} == {None}
    report: dict[str, object] = {"fragments": ["proximity.alerts"]}
    tell(cluster, "drill passed", "kill-executor", 2 * 86_400, report=report)
    days = {each.fragment: each.drilled_days for each in seen(cluster).fragments}
    assert days["alerts"] == pytest.approx(2.0, abs=0.01)
    assert days["north_tracks"] is None
