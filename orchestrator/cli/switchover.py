"""`vivace switchover`: have primary and secondary of a fragment change roles."""

from __future__ import annotations

from orchestrator.cli.invocation import (
    ClusterOption,
    DryRunOption,
    FormOption,
    FragmentArgument,
    OutputForm,
    WaitOption,
    connected,
    progress,
    show,
)
from orchestrator.cli.render.moves import exit_status, moves_view


def command(
    fragment: FragmentArgument,
    dry_run: DryRunOption = False,
    wait: WaitOption = True,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> int:
    """Have primary and secondary of a fragment change roles. Nothing is lost, repeated or late.

    [bold]Example:[/] vivace switchover alerts
    """
    with connected(cluster) as client, progress("Switchover") as line:
        document = client.switchover(fragment, dry_run=dry_run, wait=wait, on_progress=line.tell)
    show(document, form, lambda: moves_view(document))
    return exit_status(document)
