"""`vivace delete`: take a query or a stream out of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator import api
from orchestrator.cli.invocation import ClusterOption, JsonOption, show


def command(
    name: Annotated[
        str, typer.Argument(help="Name of a query, or of a stream that no query reads.")
    ],
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a query, and the streams that nothing else reads; or a stream that no query reads.

    [bold]Example:[/] vivace delete proximity
    """
    with api.connect(cluster) as connected:
        deleted = api.delete(connected, name)
    what = [] if deleted.query is None else [f"query [bold]{deleted.query}[/]"]
    what += [f"stream{'s' * (len(deleted.streams) > 1)} {', '.join(deleted.streams)}"] * bool(
        deleted.streams
    )
    show({"deleted": deleted}, as_json, lambda: f"Deleted {', and '.join(what)}.")
