"""`vivace send`: lines from a file or a pipe into a stream."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from orchestrator import api
from orchestrator.cli.invocation import EXIT_FAILED, ClusterOption, JsonOption, progress, show


class Written(Enum):
    """Forms of lines."""

    CSV = "csv"
    JSON = "json"


def command(
    stream: Annotated[str, typer.Argument(help="A stream whose source is `http`.")],
    file: Annotated[
        Path,
        typer.Argument(
            help="Lines of CSV, the first of which names the columns, or of JSON; "
            "- for standard input."
        ),
    ],
    written: Annotated[
        Written | None, typer.Option("--format", help="If the first line does not show it.")
    ] = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> int:
    """Send lines to a stream as they come, until they end.

    A stream's token is read from its token file; on another machine, set VIVACE_TOKEN to it. Lines
    that are sent by two commands are different tuples. The exit status is 1 if there are tuples,
    and none of them enters.

    [bold]Example:[/] vivace send north flights.csv
    """
    opened = nullcontext(sys.stdin.buffer) if str(file) == "-" else api.opened(file)
    with api.connect(cluster) as connected, opened as lines, progress(f"To {stream}") as line:
        form = None if written is None else written.value
        sent = api.send(connected, stream, lines, written=form, on_progress=line.tell)
    show(sent, as_json, lambda: _view(sent))
    return EXIT_FAILED if _nothing_entered(sent) else 0


def _nothing_entered(sent: api.SentDocument) -> bool:
    return not (sent.accepted or sent.undecided) and bool(sent.late or sent.ahead)


def _view(sent: api.SentDocument) -> Text:
    if _nothing_entered(sent):
        text = Text.assemble(("✗ ", "red"), f"None of the tuples has entered {sent.stream}.")
    elif not (sent.accepted or sent.undecided):
        text = Text.assemble(("! ", "yellow"), f"There were no tuples to send to {sent.stream}.")
    else:
        has = "has" if sent.accepted == 1 else "have"
        text = Text.assemble(
            ("✓ ", "green"), f"{_tuples(sent.accepted)} {has} entered {sent.stream}."
        )
    lie = "lies" if sent.ahead == 1 else "lie"
    for count, why in ((sent.late, "came too late"), (sent.ahead, f"{lie} too far ahead")):
        if count:
            text.append(f"\n! {_tuples(count)} {why} and did not enter.", "yellow")
    if sent.undecided:
        text.append(
            f"\n! {_tuples(sent.undecided)} entered before the stream's site failed, or came too "
            "late and did not enter: nobody can tell which.",
            "yellow",
        )
    return text


def _tuples(count: int) -> str:
    return "1 tuple" if count == 1 else f"{count:,} tuples"
