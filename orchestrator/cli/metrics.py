"""`vivace metrics`: a cluster's figures for Prometheus."""

from __future__ import annotations

import sys

from orchestrator.cli.invocation import ClusterOption, JsonOption, context, show
from orchestrator.cli.render.metrics import exposition, samples
from orchestrator.cli.render.status import status_document
from orchestrator.control.view import read_view


def command(cluster: ClusterOption = None, as_json: JsonOption = False) -> None:
    """Print tuples, misses, latencies and counters in Prometheus' text format.

    [bold]Example:[/] vivace metrics > /var/lib/node_exporter/vivace.prom
    """
    with context(cluster).open_store() as store:
        document = status_document(read_view(store), history=())
    if as_json:
        show({"metrics": samples(document)}, as_json, str)
    else:
        sys.stdout.write(exposition(document))
