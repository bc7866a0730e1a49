"""`vivace drain`: bring everything that runs on a node to other nodes."""

from __future__ import annotations

from orchestrator.cli.invocation import (
    ClusterOption,
    DryRunOption,
    FormOption,
    NodeArgument,
    OutputForm,
    WaitOption,
    connected,
    progress,
    show,
)
from orchestrator.cli.plan_options import AtATimeOption
from orchestrator.cli.render.moves import exit_status, moves_view


def command(
    node: NodeArgument,
    at_a_time: AtATimeOption = 1,
    dry_run: DryRunOption = False,
    wait: WaitOption = True,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> int:
    """Cordon a node, and bring its replicas to other nodes, one after the other.

    `vivace uncordon` ends a drain that is under way.

    [bold]Example:[/] vivace drain germany-west-central --dry-run
    """
    with connected(cluster) as client, progress("Drain") as line:
        document = client.drain(
            node, at_a_time=at_a_time, dry_run=dry_run, wait=wait, on_progress=line.tell
        )
    show(document, form, lambda: moves_view(document))
    return exit_status(document)
