"""`vivace try`: a query on files, without a cluster."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

from rich.text import Text

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import EXIT_FAILED, OutputForm, messages, progress, show
from orchestrator.cli.render.comparison import comparison, evaluated_again

STANDARD = "-"


class RowFormat(Enum):
    """Forms of rows in files."""

    CSV = "csv"
    JSON = "jsonl"
    PARQUET = "parquet"


def command(
    query: Annotated[
        str | None,
        Argument(
            help="A file of CQL, a manifest, the name of a query in manifests (-f), or a statement."
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        Option(
            "--input",
            "-i",
            metavar="STREAM=FILE",
            help="Rows of a stream: CSV, JSON lines or Parquet, as the suffix says; - is standard "
            "input. Default: the recordings that manifests name.",
        ),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        Option(
            "--output",
            metavar="STREAM=FILE",
            help="Where to write rows of a result, as the suffix says; - is standard output. "
            "Default: CSV on standard output.",
        ),
    ] = None,
    expected: Annotated[
        list[str] | None,
        Option(
            "--expect",
            metavar="STREAM=FILE",
            help="Rows that a result must have. The exit status is 1 if it has others.",
        ),
    ] = None,
    files: Annotated[
        list[Path] | None,
        Option("-f", "--file", help="A manifest, or a folder of them; may be repeated."),
    ] = None,
    input_format: Annotated[
        RowFormat | None, Option(help="If the names of input files do not say it.")
    ] = None,
    output_format: Annotated[
        RowFormat | None, Option(help="If the names of output files do not say it.")
    ] = None,
    timestamp: Annotated[
        str | None, Option(metavar="COLUMN", help="The column with the timestamp.")
    ] = None,
    time_format: Annotated[
        str | None,
        Option(
            metavar="FORMAT",
            help="How it is written: s, ms, us, ns, iso, or a pattern such as '%d.%m.%Y %H:%M:%S'.",
        ),
    ] = None,
    is_sorted: Annotated[
        bool, Option("--sort", help="Sort the rows of inputs by their timestamps.")
    ] = False,
    check: Annotated[
        bool,
        Option(
            "--check",
            help="Compute the results in Spark SQL, too, and compare. The exit status is 1 if they "
            "differ.",
        ),
    ] = False,
    form: Annotated[
        OutputForm,
        Option("-o", help="table, json or yaml: one document; --json is short for -o json."),
    ] = OutputForm.TABLE,
) -> int:
    """Try a query on files and pipes, without a cluster.

    The engine is the one that runs in a cluster. A stream that no manifest describes is described
    by its file's header and first rows; what it is taken for is said. STREAM= may be left out if
    there is but one.

    [bold]Example:[/] vivace try query.cql --input readings=readings.csv

    [bold]Example:[/] vivace try examples/http/hot.yaml -i examples/http/readings.csv
    --expect hot.csv
    """
    written, is_document = list(outputs or ()), form is not OutputForm.TABLE
    if is_document and any(each.rpartition("=")[2] == STANDARD for each in written):
        raise api.InvalidInput(
            "command line", "--output", STANDARD,
            "is standard output, where the document goes", "Name a file.",
        )  # fmt: skip
    asked = api.AskedTry(
        query=query,
        files=files or (),
        inputs=inputs or (),
        outputs=written,
        expected=expected or (),
        input_format=None if input_format is None else input_format.value,
        output_format=None if output_format is None else output_format.value,
        timestamp=timestamp,
        time_format=time_format,
        is_sorted=is_sorted,
        checks=check,
        prints=not is_document and not written and not expected,
    )
    # On a terminal, rows would tear a line of progress.
    with progress("Trying", shown=not is_document and not sys.stdout.isatty()) as line:
        found = api.try_query(
            asked,
            sys.stdin.buffer,
            sys.stdout.buffer,
            on_input=lambda one: None if is_document else _describe(one),
            on_progress=line.tell,
        )
    if is_document:
        show(found, form, str)
    else:
        messages().print(_view(found), end="")
    return 0 if found.equal else EXIT_FAILED


def _describe(one: api.TriedInput) -> None:
    """Say what an input is taken for, unless a manifest says it."""
    if not one.inferred:
        return
    columns = ", ".join(f"{name} {kind}" for name, kind in one.columns.items())
    told = f"{one.stream}: {columns}; timestamp {one.timestamp} ({one.timestamp_format})"
    told += f", as the first rows of {one.source} show"
    messages().print(told, markup=False, soft_wrap=True, style="dim")
    for name, why in one.left_out.items():
        messages().print(f"! {one.stream}: {name} is left out: {why}", markup=False, style="yellow")
    for name, value in one.doubtful.items():
        told = f"! {one.stream}: {name} is taken for text because of {value}"
        messages().print(told, markup=False, style="yellow")


def _view(found: api.TryDocument) -> Text:
    text = Text()
    read = ", ".join(f"{one.stream} {one.tuples:,}" for one in found.inputs)
    made = ", ".join(f"{one.stream} {one.rows:,}" for one in found.outputs)
    text.append(f"{read} tuples → {made} rows in {found.seconds:.2f} s\n", "dim")
    for one in found.outputs:
        if one.rejected:
            text.append(f"! {one.stream}: {one.rejected:,} tuples left out (onError)\n", "yellow")
    for each in found.expected:
        text.append(comparison(each, "as expected", "that came"))
    text.append(evaluated_again(found.not_in_sql))
    equal = "equal to Spark SQL's" if not found.not_in_sql else "equal when evaluated once more"
    for each in found.checked or ():
        text.append(comparison(each, f"{equal}, row for row", "that came"))
    return text
