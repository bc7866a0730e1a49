"""`vivace status`: how a cluster is."""

from __future__ import annotations

from orchestrator.cli.invocation import ClusterOption, JsonOption, connected, show
from orchestrator.cli.render.status import status_view


def command(cluster: ClusterOption = None, as_json: JsonOption = False) -> None:
    """Show problems, nodes, fragments, streams, outputs and the last events.

    [bold]Example:[/] vivace status
    """
    with connected(cluster) as client:
        document = client.status()
    show(document, as_json, lambda: status_view(document))
