"""`vivace metrics`: a cluster's figures for Prometheus."""

from __future__ import annotations

import sys

from orchestrator import api
from orchestrator.cli.invocation import ClusterOption, JsonOption, show


def command(cluster: ClusterOption = None, as_json: JsonOption = False) -> None:
    """Print tuples, misses, latencies and counters in Prometheus' text format.

    [bold]Example:[/] vivace metrics > /var/lib/node_exporter/vivace.prom
    """
    with api.connect(cluster) as connected:
        if as_json:
            show(api.metrics(connected), as_json, str)
        else:
            sys.stdout.write(api.exposition(connected))
