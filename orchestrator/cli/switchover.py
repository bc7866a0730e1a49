"""`vivace switchover`: have primary and secondary of a fragment change roles."""

from __future__ import annotations

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
    dry_run: DryRunOption = False,
    wait: WaitOption = True,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have primary and secondary of a fragment change roles. Nothing is lost, repeated or late.

    [bold]Example:[/] vivace switchover alerts
    """
    with api.connect(cluster) as connected, progress("Switchover") as line:
        document = api.switch(
            connected, fragment, dry_run=dry_run, wait=wait, on_progress=line.tell
        )
    show(document, as_json, lambda: moves_view(document))
    if status := exit_status(document):
        raise typer.Exit(status)
