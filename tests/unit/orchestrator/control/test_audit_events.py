"""Events that the history records of changes by others."""

import msgspec

from orchestrator.control.audit_events import RECOVERED, audit_events
from orchestrator.records import RecoverySplit, RecoveryStatus
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
