"""`vivace metrics`: a cluster's figures for Prometheus."""

from __future__ import annotations

import sys

from orchestrator.cli.invocation import ClusterOption, FormOption, OutputForm, connected, show
from orchestrator.operations import table
from orchestrator.operations.parameters import Parameters


def command(cluster: ClusterOption = None, form: FormOption = OutputForm.TABLE) -> None:
    """Print tuples, misses, latencies and counters in Prometheus' text format.

    [bold]Example:[/] vivace metrics > /var/lib/node_exporter/vivace.prom
    """
    with connected(cluster) as client:
        if form is OutputForm.TABLE:
            sys.stdout.write(client.text("/metrics"))
        else:
            show(client.call(table.METRICS, Parameters()), form, str)
