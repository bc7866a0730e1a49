"""`vivace verify`: compute archived results again, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from orchestrator import api
from orchestrator.cli.invocation import EXIT_FAILED, ClusterOption, JsonOption, progress, show
from orchestrator.cli.render.figures import event_time


def command(
    query: Annotated[str, typer.Argument(help="Name of the query.")],
    begin: Annotated[
        str | None,
        typer.Option("--from", help="First timestamp to compare, such as 2021-10-07T12:00:00Z."),
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Last timestamp to compare.")] = None,
    sql: Annotated[
        Path | None,
        typer.Option(
            "--sql",
            help="Statements of Spark SQL that leave a view for each output, instead of a "
            "translation of the query.",
        ),
    ] = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compute archived results again from the input, in Spark SQL, and compare them row for row.

    The exit status is 1 if they differ.

    [bold]Example:[/] vivace verify proximity
    """
    begin_ms, until_ms = api.moment("--from", begin), api.moment("--to", until)
    with api.connect(cluster) as connected, progress(f"Verifying {query}") as line:
        found = api.verify(
            connected, query, begin_ms=begin_ms, until_ms=until_ms, sql=sql, on_progress=line.tell
        )
    show(found, as_json, lambda: _view(found))
    return 0 if found.equal else EXIT_FAILED


def _view(found: api.VerifyDocument) -> Text:
    text = Text(
        f"Query {found.query}, {event_time(found.begin_ms)} to {event_time(found.until_ms)}\n"
    )
    read = ", ".join(f"{stream} {count:,}" for stream, count in found.inputs.items())
    text.append(f"input    {read} tuples\n")
    if found.joined_ms is not None:
        joined = f"applied when its input had begun: joined it at {event_time(found.joined_ms)}"
        text.append(f"! {joined}; earlier windows are not compared\n", "yellow")
    for name, one in found.not_in_sql.items():
        how = f"in parts by {', '.join(one.by)}" if one.by else f"in one piece ({one.whole})"
        text.append(f"! {name} was evaluated again {how}, not in SQL: {one.why}\n", "yellow")
    for each in found.outputs:
        if not each.missing and not each.unexpected:
            text.append("✓ ", "green")
            text.append(f"{each.output}: {each.archived:,} rows, equal row for row\n")
            continue
        text.append("✗ ", "red")
        text.append(
            f"{each.output}: of {each.recomputed:,} rows {each.missing:,} are missing, and of "
            f"{each.archived:,} archived ones {each.unexpected:,} should not be there\n"
        )
        for sign, rows in (("missing", each.first_missing), ("unexpected", each.first_unexpected)):
            for row in rows:
                values = ", ".join(f"{k} {v}" for k, v in row.items() if k != "_ts")
                text.append(f"  {sign:<10}  {event_time(int(row['_ts']))}  {values}\n", "red")
    text.rstrip()
    return text
