"""The network of a cluster as its hosts report it, in the planner's terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from orchestrator.records import ClusterRecord, NodeKind, NodeRecord
from placement.network import NetworkView, Node

MIN_EXECUTORS = 2
"""A primary and its secondary stand on different nodes."""


def detection_ms(cluster: ClusterRecord) -> float:
    """Longest time until a silent death is noticed.

    Silence is suspected after a fixed time, and looked for at every heartbeat. A crash that
    breaks its connections is noticed sooner.
    """
    return cluster.suspect_after_ms + cluster.heartbeat_ms


def measured_pairs(nodes: Mapping[str, NodeRecord]) -> dict[tuple[str, str], float]:
    """Round trips among the given nodes, ms, as each of them measured."""
    return {
        (name, peer): rtt_ms
        for name, node in nodes.items()
        for peer, rtt_ms in node.latencies_ms.items()
        if peer in nodes and peer != name
    }


def settled(nodes: Mapping[str, NodeRecord]) -> bool:
    """Whether the network is known well enough to plan.

    Every host must have a coordinate and have measured at least half of the others. If all were
    required, one broken link would stop planning.
    """
    measured = Counter(name for name, _ in measured_pairs(nodes))
    return all(
        node.coordinate is not None and 2 * measured[name] >= len(nodes) - 1
        for name, node in nodes.items()
    )


def network_view(nodes: Mapping[str, NodeRecord], replicas: Counter[str]) -> NetworkView:
    """The hosts that have a coordinate.

    Parameters
    ----------
    nodes
        Live executors and sites.
    replicas
        Replicas of fragments by node that are not part of the plan to be made.
    """
    located = {name: node for name, node in nodes.items() if node.coordinate is not None}
    dimensions = max(
        (len(n.coordinate.position_ms) for n in located.values() if n.coordinate), default=0
    )
    return NetworkView(
        nodes=tuple(
            Node(
                name=name,
                position_ms=np.array(node.coordinate.position_ms, dtype=np.float64),
                error_ms=node.coordinate.error_ms,
                cpu_ms=node.coordinate.cpu_ms,
                domain=node.domain,
                hosts_operators=node.kind is NodeKind.EXECUTOR,
                operators=replicas[name],
            )
            for name, node in sorted(located.items())
            if node.coordinate is not None and len(node.coordinate.position_ms) == dimensions
        ),
        rtt_ms=measured_pairs(located),
    )
