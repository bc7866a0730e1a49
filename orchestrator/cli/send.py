"""`vivace send`: lines from a file or a pipe into a stream."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from rich.text import Text

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import (
    EXIT_FAILED,
    ClusterOption,
    FormOption,
    OutputForm,
    connected,
    progress,
    show,
)
from orchestrator.operations import table
from orchestrator.operations.parameters import SendParameters, StreamParameters


class Written(Enum):
    """Forms of lines."""

    CSV = "csv"
    JSON = "json"


def command(
    stream: Annotated[str, Argument(help="A stream whose source is `http`.")],
    file: Annotated[
        Path,
        Argument(
            help="Lines of CSV, the first of which names the columns, or of JSON; "
            "- for standard input."
        ),
    ],
    written: Annotated[
        Written | None, Option("--format", help="If the first line does not show it.")
    ] = None,
    is_sorted: Annotated[
        bool,
        Option(
            "--sort",
            help="Send the lines in the order of event time, once all are there. Takes about 75 "
            "bytes of memory a line.",
        ),
    ] = False,
    skip_bad: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="A new file for lines that cannot be read; the others are sent. Without it, the "
            "first such line ends the command.",
        ),
    ] = None,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> int:
    """Send lines to a stream as they come, until they end.

    A stream's token is read from its token file; on another machine, set VIVACE_TOKEN to it. Lines
    that are sent by two commands are different tuples. The exit status is 1 if tuples were refused
    because they came too late or lie too far ahead.

    [bold]Example:[/] vivace send north flights.csv --sort
    """
    opened = nullcontext(sys.stdin.buffer) if str(file) == "-" else api.opened(file)

    def relayed(lines: str, written: str) -> api.SentDocument:
        how: Any = written
        asked = SendParameters(stream=stream, lines=lines, written=how)
        return client.call(table.SEND, asked).sent

    with connected(cluster) as client, opened as lines, progress(f"To {stream}") as line:
        how = None if written is None else written.value
        sent = api.send(
            lambda: client.call(table.STREAM, StreamParameters(stream=stream)), lines,
            relay=relayed,
            written=how, is_sorted=is_sorted, skip_bad=skip_bad, on_progress=line.tell,
        )  # fmt: skip
    show(sent, form, lambda: _view(sent, is_sorted=is_sorted, skip_bad=skip_bad))
    return EXIT_FAILED if sent.late or sent.ahead else 0


def _view(sent: api.SentDocument, *, is_sorted: bool = False, skip_bad: Path | None = None) -> Text:
    accepted = f"{_tuples(sent.accepted)} accepted by {sent.stream}."
    refused = sent.late + sent.ahead
    if refused:
        whole = _tuples(sent.accepted + sent.undecided + refused)
        text = Text.assemble(("✗ ", "red"), f"{refused:,} of {whole} refused by {sent.stream}.")
    elif sent.accepted or sent.undecided:
        text = Text.assemble(("✓ ", "green"), accepted)
    else:
        text = Text.assemble(("! ", "yellow"), f"There were no tuples to send to {sent.stream}.")
    if sent.late:
        text.append(f"\n! {_tuples(sent.late)} came too late{_late_remedy(is_sorted)}", "yellow")
    if sent.ahead:
        lie = "lies" if sent.ahead == 1 else "lie"
        remedy = "are they in the unit that the stream's `format` names? `maxAhead` is the limit."
        text.append(f"\n! {_tuples(sent.ahead)} {lie} too far ahead: {remedy}", "yellow")
    if refused and sent.accepted:
        text.append(f"\n{accepted}")
    if sent.undecided:
        text.append(
            f"\n! {_tuples(sent.undecided)} entered before the stream's site failed, or came too "
            "late and did not enter: nobody can tell which.",
            "yellow",
        )
    if sent.skipped:
        lines = "1 line" if sent.skipped == 1 else f"{sent.skipped:,} lines"
        text.append(f"\n! {lines} that cannot be read left out, and kept in {skip_bad}.", "yellow")
    if sent.waiting:
        wait = "waits" if sent.waiting == 1 else "wait"
        text.append(
            f"\n· {_tuples(sent.waiting)} of {sent.stream} {wait} to enter: `vivace status` says "
            "for what."
        )
    return text


_SILENT = "A stream that was silent goes on by the clock, unless it has `idleAfter: off`."


def _late_remedy(is_sorted: bool) -> str:
    if is_sorted:
        return f": the stream had gone on to later timestamps before. {_SILENT}"
    return (
        ": send them in the order of event time (--sort), or give the stream more `slack`. "
        f"{_SILENT}"
    )


def _tuples(count: int) -> str:
    return "1 tuple" if count == 1 else f"{count:,} tuples"
