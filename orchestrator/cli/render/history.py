"""The audit trail."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.figures import clock, moment
from orchestrator.cli.render.tables import Table

_styles = {
    "took over": "yellow",
    "node lost": "red",
    "redundancy lost": "yellow",
    "redundancy restored": "green",
}


def events_table(
    events: Sequence[api.EventDocument], title: str | None = None, *, wide: bool = False
) -> Table:
    """Events for people, oldest first; where more is asked for, with dates and numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    table.add_column("time", style="dim")
    for column in ("event", "subject", "detail", *(["number"] if wide else [])):
        table.add_column(column)
    for event in events:
        style = _styles.get(event.kind, "")
        kind = Text(event.kind, style)
        asked = f" (by {event.by})" if "@" in event.by else ""
        # What a client wrote is no markup.
        at = f"{moment(event.at_us)[:10]} {clock(event.at_us)}" if wide else clock(event.at_us)
        number = [str(event.sequence)] if wide else []
        table.add_row(at, kind, Text(event.subject), Text(event.detail + asked), *number)
    return table
