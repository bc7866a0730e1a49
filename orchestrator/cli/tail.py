"""`vivace tail`: see a stream's tuples as they come."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import msgspec
from rich.markup import escape

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import ClusterOption, connected, messages
from orchestrator.cli.render.rows import RowPrinter


def command(
    stream: Annotated[str, Argument(help="A stream from outside, or what a query makes.")],
    limit: Annotated[
        int | None, Option("--limit", "-n", min=1, help="End after so many tuples.")
    ] = None,
    cluster: ClusterOption = None,
    as_json: Annotated[
        bool, Option("--json", help="Print each tuple as a JSON document on a line.")
    ] = False,
) -> None:
    """Print a stream's tuples, from the oldest that is still kept, until Ctrl-C.

    [bold]Example:[/] vivace tail alerts --limit 10
    """
    with connected(cluster) as client:
        try:
            _print(client.tail(stream, limit), as_json)
        except KeyboardInterrupt:
            # The usual way to end it.
            return


def _remark(reason: str) -> None:
    messages().print(f"[dim]{escape(reason)}[/]", soft_wrap=True)


def _print(followed: Iterator[api.TailEvent], as_json: bool) -> None:
    printer = RowPrinter({})
    for event in followed:
        if event.columns is not None:
            printer = RowPrinter(event.columns)
        if event.remark is not None:
            _remark(event.remark)
        if (batch := event.batch) is None:
            continue
        if batch.lost:
            messages().print(f"[yellow]! {batch.lost} tuples are missing here[/]")
        for row in batch.rows:
            if as_json:
                document = {"_seq": row.seq, "_ts": row.timestamp_ms, **row.values}
                line = msgspec.json.encode(document).decode()
            else:
                line = printer.line(row)
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
