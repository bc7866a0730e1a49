"""`vivace drain`: bring everything that runs on a node to other nodes."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator import api
from orchestrator.cli.invocation import (
    ClusterOption,
    DryRunOption,
    JsonOption,
    NodeArgument,
    WaitOption,
    progress,
    show,
)
from orchestrator.cli.render.moves import exit_status, moves_view


def command(
    node: NodeArgument,
    at_a_time: Annotated[
        int, typer.Option("--at-a-time", min=1, help="Most fragments that are moved at once.")
    ] = 1,
    dry_run: DryRunOption = False,
    wait: WaitOption = True,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cordon a node, and bring its replicas to other nodes, one after the other.

    `vivace uncordon` ends a drain that is under way.

    [bold]Example:[/] vivace drain germany-west-central --dry-run
    """
    with api.connect(cluster) as connected, progress("Drain") as line:
        document = api.drain(
            connected,
            node,
            at_a_time=at_a_time,
            dry_run=dry_run,
            wait=wait,
            on_progress=line.tell,
        )
    show(document, as_json, lambda: moves_view(document))
    if status := exit_status(document):
        raise typer.Exit(status)
