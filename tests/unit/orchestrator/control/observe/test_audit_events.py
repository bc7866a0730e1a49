"""Events that the history records of changes by others."""

import msgspec

from orchestrator.control.observe.audit_events import RECOVERED, audit_events
from orchestrator.records import Incident, RecoverySplit, RecoveryStatus
from orchestrator.store.protocol import FRAGMENTS
from streams.evaluate.rejected_count import RejectedCount
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


def test_what_a_takeover_took_is_told_although_the_host_says_it_before_the_record_does() -> None:
    """Nothing was to be sent again, so that the host reported before the record was read."""
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    found = next(iter(cluster.view().fragments.values()))
    record = found.record
    assert record.secondary is not None
    host = cluster.hosts[record.secondary.node]
    nothing = RecoverySplit(detection_ms=3.0, resend_ms=0.0, reprocess_ms=0.0)
    status = msgspec.structs.replace(
        host.record.replicas[record.fragment], recovered=RecoveryStatus(measured=nothing)
    )
    host.tell(replicas={**host.record.replicas, record.fragment: status})
    before = cluster.view()
    taken = msgspec.structs.replace(record, primary=record.secondary, secondary=record.primary)
    cluster.store.update(FRAGMENTS.key(record.key), taken, found.version)
    after = cluster.view()
    (event,) = audit_events(before, after, 7)
    assert (event.kind, event.subject) == (RECOVERED, record.key)
    assert audit_events(after, cluster.view(), 8) == ()


def test_tuples_that_were_left_out_are_told_once_whoever_is_primary() -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    record = next(iter(cluster.view().fragments.values())).record
    assert record.secondary is not None

    def tell(node: str, tuples: int) -> None:
        host, last = cluster.hosts[node], f"at {tuples} ms, ValueError: no"
        count = RejectedCount(tuples=tuples, groups=tuples, last=last)
        status = msgspec.structs.replace(host.record.replicas[record.fragment], rejected=count)
        host.tell(replicas={**host.record.replicas, record.fragment: status})

    nothing = cluster.view()
    tell(record.primary.node, 2)
    tell(record.secondary.node, 2)
    some = cluster.view()
    (event,) = audit_events(nothing, some, 7)
    assert (event.kind, event.subject) == ("tuples rejected", record.key)
    assert event.detail == "2 more, 2 in all; last at 2 ms, ValueError: no"
    tell(record.secondary.node, 3)
    assert audit_events(some, cluster.view(), 8) == ()
    # The secondary takes over: what it counts beyond is new.
    (found,) = (each for each in cluster.view().fragments.values() if each.record == record)
    taken = msgspec.structs.replace(record, primary=record.secondary, secondary=record.primary)
    cluster.store.update(FRAGMENTS.key(record.key), taken, found.version)
    (event,) = audit_events(some, cluster.view(), 9)
    assert event.detail == "1 more, 3 in all; last at 3 ms, ValueError: no"


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
