"""Events that the history records of changes by others, found by comparing two views.

Changes that the coordinator makes itself come with their own events.
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.control.view import ClusterView
from orchestrator.records import HistoryEvent


def audit_events(before: ClusterView, after: ClusterView, now_us: int) -> tuple[HistoryEvent, ...]:
    """Events in the order of their subjects: nodes, takeovers, redundancy."""
    found = (*_nodes(before, after), *_takeovers(before, after), *_redundancy(before, after))
    return tuple(
        HistoryEvent(at_us=now_us, kind=kind, subject=subject, detail=detail)
        for kind, subject, detail in found
    )


def _nodes(before: ClusterView, after: ClusterView) -> Iterator[tuple[str, str, str]]:
    for name in sorted(before.hosts.keys() | after.hosts.keys()):
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


def _redundancy(before: ClusterView, after: ClusterView) -> Iterator[tuple[str, str, str]]:
    for name, found in sorted(after.fragments.items()):
        old, record = before.fragments.get(name), found.record
        if old is None:
            continue
        was, protected = before.protected(old.record), after.protected(record)
        if protected and not was and record.secondary is not None:
            yield "redundancy restored", name, f"{record.secondary.node} is warm"
        elif was and not protected:
            yield "redundancy lost", name, "no warm secondary stands by"
