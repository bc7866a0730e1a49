"""`vivace delete`: take a query out of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator import api
from orchestrator.cli.invocation import ClusterOption, JsonOption, show


def command(
    query: Annotated[str, typer.Argument(help="Name of the query.")],
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a query, and the streams that nothing else reads.

    [bold]Example:[/] vivace delete proximity
    """
    with api.connect(cluster) as connected:
        deleted = api.delete(connected, query)
    also = f", and the streams {', '.join(deleted.streams)}" if deleted.streams else ""
    show({"deleted": deleted}, as_json, lambda: f"Deleted query [bold]{query}[/]{also}.")
