"""`vivace status`: how a cluster is."""

from __future__ import annotations

from orchestrator import api
from orchestrator.cli.invocation import ClusterOption, JsonOption, show
from orchestrator.cli.render.status import status_view


def command(cluster: ClusterOption = None, as_json: JsonOption = False) -> None:
    """Show problems, nodes, fragments, streams, outputs and the last events.

    [bold]Example:[/] vivace status
    """
    with api.connect(cluster) as connected:
        document = api.status(connected)
    show(document, as_json, lambda: status_view(document))
