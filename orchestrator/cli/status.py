"""`vivace status`: how a cluster is."""

from __future__ import annotations

from orchestrator.cli.invocation import ClusterOption, JsonOption, context, show
from orchestrator.cli.render.status import status_document, status_view
from orchestrator.control.view import read_view


def command(cluster: ClusterOption = None, as_json: JsonOption = False) -> None:
    """Show nodes, fragments, outputs and what happened last.

    [bold]Example:[/] vivace status
    """
    with context(cluster).open_store() as store:
        document = status_document(read_view(store), store.history())
    show(document, as_json, lambda: status_view(document))
