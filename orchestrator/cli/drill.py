"""`vivace drill`: fail on purpose, and see what comes of it."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.table import Table

from orchestrator.cli.invocation import ClusterOption, JsonOption, context, progress, show
from orchestrator.cli.render.drill import report_view
from orchestrator.drills import kill_executor
from orchestrator.drills.report import run_kill_executor
from orchestrator.errors import InvalidInput

EXIT_FAILED = 1
"""The drill was carried out, and something that was promised did not hold."""

DRILLS = {kill_executor.NAME: (kill_executor.__doc__ or "").split("\n", 1)[0].split(": ", 1)[-1]}
"""Name → what it does."""

app = typer.Typer(help="Failure drills: kill something on purpose and measure what comes of it.")


class DrillDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A drill that can be run."""

    name: str
    what: str


@app.command("list")
def list_drills(as_json: JsonOption = False) -> None:
    """List the drills.

    [bold]Example:[/] vivace drill list
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("drill", style="bold")
    table.add_column("what it does")
    for name, what in DRILLS.items():
        table.add_row(name, what)
    show([DrillDocument(name=n, what=w) for n, w in DRILLS.items()], as_json, lambda: table)


@app.command("run")
def run(
    name: Annotated[str, typer.Argument(help="Which drill; `vivace drill list` names them.")],
    target: Annotated[
        str | None,
        typer.Option(help="A fragment (its primary is hit) or a node; default: a join."),
    ] = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a drill on the running cluster. Refused if it would lose state.

    [bold]Example:[/] vivace drill run kill-executor --target alerts
    """
    if name not in DRILLS:
        raise InvalidInput(
            "command line", "NAME", name, "is no drill", f"There is: {', '.join(DRILLS)}."
        )
    found = context(cluster)
    with found.open_store() as store, progress("Drill") as line:
        report = run_kill_executor(store, found, target, line.tell)
    show(report, as_json, lambda: report_view(report))
    if report.failures:
        raise typer.Exit(EXIT_FAILED)
