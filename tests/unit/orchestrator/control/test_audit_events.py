"""Events that the history records of changes by others."""

import msgspec

from orchestrator.control.audit_events import RECOVERED, audit_events
from orchestrator.records import Incident, RecoverySplit, RecoveryStatus
from tests.obedient_cluster import ObedientCluster, aircraft


def test_what_a_takeover_took_is_told_once_beside_what_was_promised() -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    before = cluster.view()
    record = next(iter(before.fragments.values())).record
    assert record.timing.promised is not None
    host = cluster.hosts[record.primary.node]
    recovered = RecoveryStatus(
        measured=RecoverySplit(detection_ms=3.0, resend_ms=41.0, reprocess_ms=6.4),
        promised=RecoverySplit(detection_ms=250.0, resend_ms=60.0, reprocess_ms=20.0),
        tuples=12,
    )
    status = host.record.replicas[record.fragment]
    told = msgspec.structs.replace(status, recovered=recovered)
    host.tell(replicas={**host.record.replicas, record.fragment: told})
    after = cluster.view()
    (event,) = audit_events(before, after, 7)
    assert (event.kind, event.subject) == (RECOVERED, record.key)
    assert event.detail == (
        "detection, resend, reprocess 3 + 41 + 6 ms = 50 ms, 12 tuples; "
        "the plan says at most 250 + 60 + 20 ms = 330 ms"
    )
    assert audit_events(after, cluster.view(), 8) == ()


def test_each_incident_at_a_host_is_told_once() -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    full = Incident(at_us=5, kind="sink failed", subject="alerts", detail="No space left")
    lost = Incident(at_us=6, kind="input lost", subject="tracks", detail="7 tuples from 3 on")
    told = len(cluster.history())
    cluster.hosts["control-centre"].tell(incidents=(full,))
    cluster.settle()
    cluster.hosts["control-centre"].tell(incidents=(full, lost))
    cluster.settle()
    cluster.hosts["control-centre"].tell(incidents=(lost,))
    cluster.settle()
    found = [each.event for each in cluster.store.history()][told:]
    assert [(each.kind, each.subject, each.detail) for each in found] == [
        ("sink failed", "alerts", "No space left; at control-centre"),
        ("input lost", "tracks", "7 tuples from 3 on; at control-centre"),
    ]
