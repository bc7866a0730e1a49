"""Events that the history records of changes by others, found by comparing two views.

Changes that the coordinator makes itself come with their own events.
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.control.observe.durations import recovered
from orchestrator.control.observe.measured_load import measured_places
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import FragmentRecord, HistoryEvent, RecoveryStatus
from orchestrator.store.protocol import NODES

RECOVERED = "recovered"
"""Kind of the event that a replica has taken over, and has caught up."""

LOST = "redundancy lost"
"""Kind of the event that a fragment has no warm secondary any more; `lasted_ms` says for how long
it had had none when the leader noticed."""

RESTORED = "redundancy restored"
"""Kind of the event that it has one again; `lasted_ms` says how long it had none."""


def audit_events(before: ClusterView, after: ClusterView, now_us: int) -> tuple[HistoryEvent, ...]:
    """Events by subject: nodes, takeovers, failures, lost input, overload, redundancy."""
    found = (
        *_nodes(before, after),
        *_takeovers(before, after),
        *_recoveries(before, after),
        *_failures(before, after),
        *_rejections(before, after),
        *_incidents(before, after),
        *_overload(before, after),
    )
    happened = [
        HistoryEvent(at_us=now_us, kind=kind, subject=subject, detail=detail)
        for kind, subject, detail in found
    ]
    return (*happened, *_redundancy(before, after, now_us))


def _nodes(before: ClusterView, after: ClusterView) -> Iterator[tuple[str, str, str]]:
    unreadable = before.broken(NODES).keys() | after.broken(NODES).keys()
    for name in sorted((before.hosts.keys() | after.hosts.keys()) - unreadable):
        old, new = before.hosts.get(name), after.hosts.get(name)
        if new is None:
            yield "node lost", name, "its record is gone"
        elif old is None:
            yield "node joined", name, f"{new.kind.value}, pid {new.pid}"
        elif old.incarnation != new.incarnation:
            yield "node lost", name, "another process has taken its place"
            yield "node joined", name, f"{new.kind.value}, pid {new.pid}"


def _takeovers(before: ClusterView, after: ClusterView) -> Iterator[tuple[str, str, str]]:
    for name, found in sorted(after.fragments.items()):
        old = before.fragments.get(name)
        record = found.record
        if old is None or old.record.epoch >= record.epoch or record.took_over is None:
            continue
        took_over = record.took_over
        yield (
            "took over",
            name,
            f"{took_over.previous.node} → {record.primary.node}, epoch {record.epoch}, "
            f"{took_over.cause}",
        )


def _recoveries(before: ClusterView, after: ClusterView) -> Iterator[tuple[str, str, str]]:
    """What takeovers have taken, once the replicas have caught up."""
    for record, status in recovered(before, after):
        yield RECOVERED, record.key, recovery_detail(status)


def recovery_detail(recovered: RecoveryStatus) -> str:
    """The parts of a takeover, and those that were promised."""
    promised = recovered.promised
    detail = f"detection, resend, reprocess {recovered.measured} "
    detail += f"= {recovered.measured.total_ms:.0f} ms, {recovered.tuples} tuples"
    if promised is not None:
        detail += f"; the plan says at most {promised} = {promised.total_ms:.0f} ms"
    return detail


def _failures(before: ClusterView, after: ClusterView) -> Iterator[tuple[str, str, str]]:
    """Replicas that could not evaluate their input or read a state; each attempt is told once."""
    for name, found in sorted(after.fragments.items()):
        record = found.record
        for replica in record.replicas:
            old, new = (view.status(replica, record.fragment) for view in (before, after))
            if new is None or new.failure is None:
                continue
            if old is None or (old.failure, old.epoch) != (new.failure, new.epoch):
                yield "replica failed", name, f"on {replica.node}: {new.failure}"


def _rejections(before: ClusterView, after: ClusterView) -> Iterator[tuple[str, str, str]]:
    """Tuples that fragments have left out. Whoever is primary counts all of them."""
    for name, found in sorted(after.fragments.items()):
        record, old = found.record, before.fragments.get(name)
        now = after.rejected(record)
        if now is None or now.groups == 0:
            continue
        was = None
        if old is not None and old.record.generation == record.generation:
            was = before.rejected(old.record)
        if was is None or was.groups < now.groups:
            more = now.tuples - (0 if was is None else was.tuples)
            yield "tuples rejected", name, f"{more} more, {now.tuples} in all; last {now.last}"


def _incidents(before: ClusterView, after: ClusterView) -> Iterator[tuple[str, str, str]]:
    """Failures of sources and sinks, and input that was lost, as hosts tell of them."""
    for node, host in sorted(after.hosts.items()):
        known = before.hosts[node].incidents if node in before.hosts else ()
        for each in host.incidents:
            if each not in known:
                yield each.kind, each.subject, f"{each.detail}; at {node}"


def _overload(before: ClusterView, after: ClusterView) -> Iterator[tuple[str, str, str]]:
    """Nodes and machines that have become busier than they may be, or are so no longer."""
    emulated = after.settings.emulate_costs
    for place in measured_places(after.hosts, after.service_records, emulated=emulated):
        was, is_now = (place.subject in view.overloaded for view in (before, after))
        detail = f"{place.takers} take {place.busy_cores:.2f} of {place.capacity_cores:g} "
        detail += f"cores, the limit is {place.limit_cores:.2f}"
        if is_now and not was:
            yield "overloaded", place.subject, detail
        elif was and not is_now:
            yield "overload over", place.subject, detail


def _redundancy(before: ClusterView, after: ClusterView, now_us: int) -> Iterator[HistoryEvent]:
    for name, found in sorted(after.fragments.items()):
        old, record = before.fragments.get(name), found.record
        if old is None or record.paused or _untold(before, old.record) or _untold(after, record):
            continue
        was, protected = before.protected(old.record), after.protected(record)
        if protected and not was and record.secondary is not None:
            warm = record.secondary.node
            # When it got warm, its host reported at once.
            warm_us = max(after.nodes[warm].record.reported_us, 0)
            since_us = before.unprotected_since_us.get(name, now_us)
            lasted_ms = ((warm_us if since_us < warm_us < now_us else now_us) - since_us) / 1e3
            detail = f"{warm} is warm, after {lasted_ms / 1e3:.2f} s without protection"
            yield HistoryEvent(
                at_us=now_us,
                kind=RESTORED,
                subject=name,
                detail=detail,
                lasted_ms=lasted_ms,
            )
        elif was and not protected:
            yield HistoryEvent(
                at_us=now_us,
                kind=LOST,
                subject=name,
                detail=_why(old.record, record, after),
                lasted_ms=(now_us - after.unprotected_since_us.get(name, now_us)) / 1e3,
            )


def _untold(view: ClusterView, record: FragmentRecord) -> bool:
    """Whether nobody knows how a replica is, because its node's record cannot be read."""
    return any(each.node in view.broken(NODES) for each in record.replicas)


def _why(before: FragmentRecord, after: FragmentRecord, view: ClusterView) -> str:
    """The reason for which no warm secondary stands by, if a record tells it."""
    if after.secondary is not None and view.lags(after):
        return f"the secondary on {after.secondary.node} lags behind the primary"
    new = [loss for loss in after.losses if loss not in before.losses]
    told = "no warm secondary stands by"
    return f"{told}: {new[-1].replica.node} lost, {new[-1].cause}" if new else told
