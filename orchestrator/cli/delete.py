"""`vivace delete`: take a query out of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.api.applying import delete
from orchestrator.cli.invocation import ClusterOption, JsonOption, context, show
from orchestrator.control.view import read_view


def command(
    query: Annotated[str, typer.Argument(help="Name of the query.")],
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a query, and the streams that nothing else reads.

    [bold]Example:[/] vivace delete proximity
    """
    with context(cluster).open_store() as store:
        streams = delete(store, read_view(store), query)

    def view() -> str:
        also = f", and the streams {', '.join(streams)}" if streams else ""
        return f"Deleted query [bold]{query}[/]{also}."

    show({"deleted": {"query": query, "streams": streams}}, as_json, view)
