"""`vivace uncordon`: let a node be used again."""

from __future__ import annotations

from orchestrator.cli.invocation import (
    ClusterOption,
    DryRunOption,
    FormOption,
    NodeArgument,
    OutputForm,
    connected,
    show,
)
from orchestrator.cli.render.moves import cordon_view


def command(
    node: NodeArgument,
    dry_run: DryRunOption = False,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Let a node be used again. A drain of it that is under way ends.

    [bold]Example:[/] vivace uncordon germany-west-central
    """
    with connected(cluster) as client:
        document = client.uncordon(node, dry_run=dry_run)
    show({"cordon": document}, form, lambda: cordon_view(document, dry_run=dry_run))
