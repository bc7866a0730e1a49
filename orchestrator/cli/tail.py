"""`vivace tail`: see a stream's tuples as they come."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

from rich.markup import escape

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import (
    ClusterOption,
    FormOption,
    OutputForm,
    connected,
    messages,
    written,
)
from orchestrator.cli.render.rows import RowPrinter


def command(
    stream: Annotated[str, Argument(help="A stream from outside, or what a query makes.")],
    limit: Annotated[
        int | None,
        Option(
            "--limit",
            "-n",
            min=1,
            help="End after so many tuples. Where fewer are kept, wait for the others.",
        ),
    ] = None,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Print a stream's tuples, from the oldest that is still kept, until Ctrl-C.

    As JSON or YAML, each tuple is a document; of JSON, on a line.

    [bold]Example:[/] vivace tail alerts --limit 10
    """
    with connected(cluster) as client:
        try:
            _print(client.tail(stream, limit), form)
        except KeyboardInterrupt:
            # The usual way to end it.
            return


def _remark(reason: str) -> None:
    messages().print(f"[dim]{escape(reason)}[/]", soft_wrap=True)


def _print(followed: Iterator[api.TailEvent], form: OutputForm) -> None:
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
            document = {"_seq": row.seq, "_ts": row.timestamp_ms, **row.values}
            between = "---\n" if form is OutputForm.YAML else ""
            told = printer.line(row) + "\n" if form is OutputForm.TABLE else written(document, form)
            sys.stdout.write(between + told)
        sys.stdout.flush()
