"""`vivace apply`: bring streams and queries into a cluster."""

from __future__ import annotations

from typing import Annotated

from rich.console import Group, RenderableType

from orchestrator import api
from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import (
    ClusterOption,
    FilesOption,
    Form,
    FormOption,
    connected,
    progress,
    show,
)
from orchestrator.cli.render.changes import changes_view
from orchestrator.cli.render.plan import plan_view


def command(
    files: FilesOption,
    wait: Annotated[
        bool, Option("--wait/--no-wait", help="Wait until all runs with a warm standby.")
    ] = True,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Check and plan, but change nothing.")
    ] = False,
    cluster: ClusterOption = None,
    form: FormOption = Form.TABLE,
) -> None:
    """Apply streams and queries. All of it is checked and planned before anything is changed.

    [bold]Example:[/] vivace apply -f examples/aircraft
    """
    with connected(cluster) as client, progress("Applying") as line:
        applied = client.apply(files, dry_run=dry_run, wait=wait, on_progress=line.tell)
    show(applied, form, lambda: _view(applied))


def _view(applied: api.Applied) -> RenderableType:
    parts: list[RenderableType] = [changes_view(applied.changes, dry_run=not applied.applied)]
    if any(change.effect is api.Effect.NEW for change in applied.changes):
        parts += ["", plan_view(applied.plan)]
    for query, why in applied.planned_again.items():
        parts += ["", f"[yellow]Query {query} was planned again by the leader:[/] {why}."]
    if applied.protected and any(change.kind == "Query" for change in applied.changes):
        parts += ["", "[green]✓[/] Every fragment runs, with a warm standby."]
    return Group(*parts)
