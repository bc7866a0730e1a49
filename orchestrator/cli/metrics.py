"""`vivace metrics`: a cluster's figures for Prometheus."""

from __future__ import annotations

import sys

from orchestrator.cli.invocation import ClusterOption, JsonOption, connected, show
from orchestrator.operations import table
from orchestrator.operations.parameters import Parameters


def command(cluster: ClusterOption = None, as_json: JsonOption = False) -> None:
    """Print tuples, misses, latencies and counters in Prometheus' text format.

    [bold]Example:[/] vivace metrics > /var/lib/node_exporter/vivace.prom
    """
    with connected(cluster) as client:
        if as_json:
            show(client.call(table.METRICS, Parameters()), as_json, str)
        else:
            sys.stdout.write(client.text("/metrics"))
