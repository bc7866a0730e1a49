"""`vivace cordon`: have nothing new placed on a node."""

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
    """Have nothing new placed on a node. What runs there stays, and may still take over.

    [bold]Example:[/] vivace cordon germany-west-central
    """
    with connected(cluster) as client:
        document = client.cordon(node, dry_run=dry_run)
    show({"cordon": document}, form, lambda: cordon_view(document, dry_run=dry_run))
