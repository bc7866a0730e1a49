"""`vivace tail`: see a stream's tuples as they come."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated

import msgspec
import typer

from orchestrator.cli.invocation import ClusterOption, context, messages
from orchestrator.cli.render.rows import RowPrinter
from orchestrator.control.view import ClusterView, read_view
from orchestrator.deploy.context import ClusterContext
from orchestrator.errors import InvalidInput
from orchestrator.host.observer import Observer
from topology.suggestions import nearest

POLL_S = 0.5
"""Ctrl-C is noticed at least this often."""


def command(
    stream: Annotated[str, typer.Argument(help="A stream from outside, or what a query makes.")],
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="End after so many rows.")
    ] = None,
    cluster: ClusterOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each row as a JSON document on a line.")
    ] = False,
) -> None:
    """Print a stream's tuples, from the oldest that is still kept, until Ctrl-C.

    [bold]Example:[/] vivace tail alerts --limit 10
    """
    found = context(cluster)
    with found.open_store() as store:
        columns = _columns(read_view(store), stream)
    try:
        _follow(found, stream, columns, limit, as_json)
    except KeyboardInterrupt:
        # The usual way to end it.
        return


def _columns(view: ClusterView, stream: str) -> Mapping[str, str]:
    columns = view.dataflow.columns.get(stream)
    if columns is None:
        known = view.dataflow.columns
        raise InvalidInput(
            "command line", "STREAM", stream, "is not a stream here", nearest(stream, known)
        )
    return columns


def _follow(
    reach: ClusterContext, stream: str, columns: Mapping[str, str], limit: int | None, as_json: bool
) -> None:
    printer = RowPrinter(columns)
    left = limit
    with Observer(reach, [stream]) as observer:
        while left is None or left > 0:
            for delivery in observer.poll(POLL_S):
                if delivery.lost:
                    messages().print(f"[yellow]! {delivery.lost} tuples are missing here[/]")
                first_seq, rows = delivery.chunk.first_seq, delivery.chunk.rows.to_pylist()
                if left is not None:
                    rows = rows[:left]
                    left -= len(rows)
                for seq, row in enumerate(rows, first_seq):
                    if as_json:
                        line = msgspec.json.encode({"_seq": seq, **row}).decode()
                    else:
                        line = printer.line(seq, row)
                    sys.stdout.write(line + "\n")
                sys.stdout.flush()
