"""The audit trail."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.table import Table

from orchestrator.cli.render.figures import clock
from orchestrator.store import HistoryEntry

_styles = {
    "took over": "yellow",
    "node lost": "red",
    "redundancy lost": "yellow",
    "redundancy restored": "green",
}


class EventDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened; `at_us` on the cluster's clock, µs since 1970."""

    sequence: int
    at_us: int
    kind: str
    subject: str
    detail: str


def event_document(entry: HistoryEntry) -> EventDocument:
    """An entry as it is printed."""
    event = entry.event
    return EventDocument(
        sequence=entry.sequence,
        at_us=event.at_us,
        kind=event.kind,
        subject=event.subject,
        detail=event.detail,
    )


def events_table(events: Sequence[EventDocument], title: str | None = None) -> Table:
    """Events for people, oldest first."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    table.add_column("when", style="dim")
    for column in ("what", "whom", "how"):
        table.add_column(column)
    for event in events:
        style = _styles.get(event.kind, "")
        kind = f"[{style}]{event.kind}[/]" if style else event.kind
        table.add_row(clock(event.at_us), kind, event.subject, event.detail)
    return table
