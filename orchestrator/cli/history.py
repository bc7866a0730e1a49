"""`vivace history`: what happened in a cluster."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import RenderableType

from orchestrator.cli.invocation import ClusterOption, JsonOption, context, show
from orchestrator.cli.render.history import event_document, events_table


def command(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The newest so many.")] = 50,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what happened: nodes that came and went, takeovers, what was applied.

    [bold]Example:[/] vivace history --limit 20
    """
    with context(cluster).open_store() as store:
        events = [event_document(entry) for entry in store.history()[-limit:]]

    def view() -> RenderableType:
        return events_table(events) if events else "Nothing has happened yet."

    show({"history": events}, as_json, view)
