"""How certain the measured latencies of an output are.

A tuple's latency is the time from its ingestion, which its source's site reads off its clock, to
its arrival at the output's site. What matters is therefore how far the clocks of these sites may be
apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.control.observe.clocks import uncertainty_us
from orchestrator.control.observe.dataflow import Dataflow
from orchestrator.control.observe.entering import EnteringStream
from orchestrator.control.observe.view import ClusterView


def latency_uncertainty_ms(
    view: ClusterView, flow: Dataflow, streams: Mapping[str, EnteringStream], output: str, site: str
) -> float | None:
    """By how much latencies of an output may be wrong, ms.

    None if a site is gone, or if nobody knows how far its machine's clock is off.

    Parameters
    ----------
    streams
        Those that enter from outside.
    site
        Where the output leaves.
    """
    nodes = {site, *(streams[name].feeding_site for name in _entering(flow, output))}
    if not nodes <= view.nodes.keys():
        return None
    machines = {node: view.nodes[node].record.machine for node in nodes}
    clocks, worst_us = view.cluster_clocks, 0
    for machine in machines.values():
        found_us = uncertainty_us(clocks, machine, machines[site])
        if found_us is None:
            return None
        worst_us = max(worst_us, found_us)
    return worst_us / 1000


def _entering(flow: Dataflow, output: str) -> set[str]:
    """Streams from outside that an output depends on."""
    entering: set[str] = set()
    pending, seen = [output], set[str]()
    while pending:
        if (stream := pending.pop()) in seen:
            continue
        seen.add(stream)
        if stream in flow.fragments:
            pending += flow.fragments[stream].inputs
        else:
            entering.add(stream)
    return entering
