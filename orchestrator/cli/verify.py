"""`vivace verify`: compute archived results again, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.text import Text

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import (
    EXIT_FAILED,
    ClusterOption,
    FormOption,
    OutputForm,
    connected,
    messages,
    progress,
    show,
)
from orchestrator.cli.render.comparison import comparison, evaluated_again
from orchestrator.cli.render.figures import event_time, lasting
from orchestrator.operations import table
from orchestrator.operations.parameters import VerifyParameters


def command(
    query: Annotated[str, Argument(help="Name of the query.")],
    begin: Annotated[
        str | None,
        Option("--from", help="First timestamp to compare, such as 2021-10-07T12:00:00Z."),
    ] = None,
    until: Annotated[str | None, Option("--to", help="Last timestamp to compare.")] = None,
    last: Annotated[
        str | None,
        Option(
            help='How much to compare, such as "30 min". '
            "Default: the last 10 min, or more while these are of few tuples."
        ),
    ] = None,
    everything: Annotated[
        bool, Option("--all", help="Compare everything that is archived.")
    ] = False,
    sql: Annotated[
        Path | None,
        Option(
            "--sql",
            help="Statements of Spark SQL that leave a view for each output, instead of a "
            "translation of the query.",
        ),
    ] = None,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> int:
    """Compute archived results again from the input, in Spark SQL, and compare them row for row.

    By default it compares the last minutes. The exit status is 1 if they differ.

    [bold]Example:[/] vivace verify proximity
    """
    asked = VerifyParameters(
        query=query,
        begin_ms=api.moment("--from", begin),
        until_ms=api.moment("--to", until),
        last_ms=api.lasting("--last", last),
        everything=everything,
        sql=None if sql is None else api.read_sql(sql),
    )
    try:
        with (
            connected(cluster) as client,
            progress(f"Verifying {query}", shown=form is OutputForm.TABLE) as line,
        ):
            found = client.run(table.VERIFY, asked, line.tell)
    except KeyboardInterrupt:
        messages().print(f"stopped: {query} is not verified", markup=False)
        raise
    show(found, form, lambda: _view(found))
    return 0 if found.equal else EXIT_FAILED


def _view(found: api.VerifyDocument) -> Text:
    text = Text(
        f"Query {found.query}, {event_time(found.begin_ms)} to {event_time(found.until_ms)}\n"
    )
    if found.last_ms is not None:
        whole = lasting(found.archived_ms[1] - found.archived_ms[0])
        text.append(
            f"span     the last {lasting(found.until_ms - found.begin_ms)} of {whole} that are "
            "archived; --all compares everything\n"
        )
    read = ", ".join(f"{stream} {count:,}" for stream, count in found.inputs.items())
    text.append(f"input    {read} tuples, {_read(found)}\n")
    if found.joined_ms is not None:
        joined = f"applied when its input had begun: joined it at {event_time(found.joined_ms)}"
        text.append(f"! {joined}; earlier windows are not compared\n", "yellow")
    if found.kept_ms is not None:
        kept = f"input is kept from {event_time(found.kept_ms)} on"
        text.append(f"! {kept}; windows with tuples from before are not compared\n", "yellow")
    text.append(evaluated_again(found.not_in_sql))
    for each in found.outputs:
        text.append(comparison(each, "equal row for row", "archived ones"))
    text.rstrip()
    return text


def _read(found: api.VerifyDocument) -> str:
    """Where the input was read from."""
    if found.read_from_ms is not None:
        return f"from {event_time(found.read_from_ms)} on: windows reach no further back"
    if found.endless:
        return f"from the beginning: windows of {', '.join(found.endless)} have no end in time"
    return "from the beginning"
