"""The audit trail of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.store.protocol import HistoryEntry


class EventDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened; `at_us` on the cluster's clock, µs since 1970."""

    sequence: int
    at_us: int
    kind: str
    subject: str
    detail: str


class HistoryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Events, oldest first."""

    history: tuple[EventDocument, ...]


def history(cluster: Cluster, limit: int = 50) -> HistoryDocument:
    """The newest events: nodes that came and went, takeovers, applied and deleted queries."""
    return HistoryDocument(history=event_documents(cluster.store.history()[-limit:]))


def event_documents(entries: Sequence[HistoryEntry]) -> tuple[EventDocument, ...]:
    """Entries of the store as documents."""
    return tuple(
        EventDocument(sequence=entry.sequence, **msgspec.structs.asdict(entry.event))
        for entry in entries
    )
