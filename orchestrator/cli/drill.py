"""`vivace drill`: fail on purpose, and measure the failover."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from orchestrator import api
from orchestrator.cli.invocation import EXIT_FAILED, ClusterOption, JsonOption, progress, show
from orchestrator.cli.render.verdict import report_view

app = typer.Typer(help="Failure drills: kill something on purpose, and measure the failover.")


@app.command("list")
def list_drills(as_json: JsonOption = False) -> None:
    """List the drills.

    [bold]Example:[/] vivace drill list
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("drill", style="bold")
    table.add_column("effect")
    drills = api.drills()
    for each in drills:
        table.add_row(each.name, each.what)
    show(drills, as_json, lambda: table)


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
    """Run a drill on the running cluster. A drill that would lose state is refused.

    [bold]Example:[/] vivace drill run kill-executor --target alerts
    """
    with api.connect(cluster) as connected, progress("Drill") as line:
        report = api.drill(connected, name, target, line.tell)
    show(report, as_json, lambda: report_view(report))
    if report.failures:
        raise typer.Exit(EXIT_FAILED)
