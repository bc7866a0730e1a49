"""`vivace status`: how a cluster is."""

from __future__ import annotations

from orchestrator.cli.invocation import ClusterOption, Form, FormOption, connected, show
from orchestrator.cli.render.status import status_view


def command(cluster: ClusterOption = None, form: FormOption = Form.TABLE) -> None:
    """Show problems, nodes, fragments, streams, outputs and the last events.

    [bold]Example:[/] vivace status
    """
    with connected(cluster) as client:
        document = client.status()
    show(document, form, lambda: status_view(document))
