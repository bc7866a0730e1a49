"""`vivace move`: bring one replica of a fragment to another node."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator import api
from orchestrator.cli.invocation import (
    ClusterOption,
    DryRunOption,
    FragmentArgument,
    JsonOption,
    WaitOption,
    progress,
    show,
)
from orchestrator.cli.render.moves import exit_status, moves_view


def command(
    fragment: FragmentArgument,
    role: Annotated[str | None, typer.Argument(help="Which replica: primary or secondary.")] = None,
    node: Annotated[str | None, typer.Argument(help="Where it goes.")] = None,
    abort: Annotated[
        bool, typer.Option("--abort", help="Take back a move of the fragment that is under way.")
    ] = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = True,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a replica of a fragment to another node. A third one starts there and takes its place.

    [bold]Example:[/] vivace move alerts primary uk-south
    """
    if abort:
        with api.connect(cluster) as connected:
            names = api.withdraw(connected, fragment)
        show({"withdrawn": names}, as_json, lambda: f"Withdrawn: {', '.join(names)}.")
        return
    if role not in ("primary", "secondary"):
        problem = "is missing" if role is None else "is no role"
        raise api.InvalidInput("command line", "ROLE", role, problem, "Say primary or secondary.")
    if node is None:
        raise api.InvalidInput("command line", "NODE", None, "is missing", "Say where it goes.")
    with api.connect(cluster) as connected, progress("Move") as line:
        document = api.move(
            connected, fragment, role, node, dry_run=dry_run, wait=wait, on_progress=line.tell
        )
    show(document, as_json, lambda: moves_view(document))
    if status := exit_status(document):
        raise typer.Exit(status)
