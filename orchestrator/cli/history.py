"""`vivace history`: the events of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import RenderableType

from orchestrator import api
from orchestrator.cli.invocation import ClusterOption, JsonOption, show
from orchestrator.cli.render.history import events_table


def command(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The newest so many.")] = 50,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show events: nodes that came and went, takeovers, applied and deleted queries.

    [bold]Example:[/] vivace history --limit 20
    """
    with api.connect(cluster) as connected:
        document = api.history(connected, limit)

    def view() -> RenderableType:
        return events_table(document.history) if document.history else "Nothing has happened yet."

    show(document, as_json, view)
