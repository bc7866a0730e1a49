"""`vivace status`: how a cluster is."""

from __future__ import annotations

from orchestrator.cli.invocation import ClusterOption, ListForm, ListFormOption, connected, show
from orchestrator.cli.render.status import status_view


def command(cluster: ClusterOption = None, form: ListFormOption = ListForm.TABLE) -> None:
    """Show problems, nodes, fragments, streams, outputs and the last events.

    Its names are those of fragments.

    [bold]Example:[/] vivace status
    """
    with connected(cluster) as client:
        document = client.status()
    show(
        document,
        form,
        lambda: status_view(document, wide=form is ListForm.WIDE),
        lambda: (each.name for each in document.fragments),
    )
