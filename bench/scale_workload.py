"""The workload of benchmark `placement_scale`: §5's queries on larger and larger networks.

A network of n nodes is n/100 transit domains, each like the network of `bench.placement_workload`.
No table of its latencies is made: all nodes measure some landmarks, and their coordinates follow
from that (`topology.bulk_embedding`). To the planner the coordinates are the network, as in a
cluster of which few pairs have measured each other. They are scaled so that a round trip takes
`MEAN_RTT_MS` on average, whatever n; the recovery bound is that of reliable placement, §5.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial.distance import cdist

from bench.networks.generators import transit_stub_graph
from bench.networks.latency_graph import LatencyGraph
from bench.placement_workload import (
    BOUND_MS,
    DEADLINE_MS,
    DIMENSIONS,
    NETWORK,
    Workload,
    tree,
)
from foundation.arrays import FloatArray
from placement.network import NetworkView, Node
from placement.records import Request
from topology.bulk_embedding import embed
from topology.latency_samples import LatencySamples

DOMAIN_NEIGHBOURS = 10
"""Transit domains that one is linked with on average, where there are more."""

LANDMARKS = 32
"""Nodes that all nodes measure."""

CHECKED = 50
"""Nodes by whose latencies to all others the network is scaled."""

MEAN_RTT_MS = 110.0


def scale_workload(nodes: int, queries: int, seed: int = 1) -> Workload:
    """Draw a network of so many nodes, a multiple of 100, and queries."""
    rng = np.random.default_rng(seed)
    domains = max(1, nodes // NETWORK.nodes)
    parameters = replace(
        NETWORK, transit_domains=domains, domain_edge=min(1.0, DOMAIN_NEIGHBOURS / domains)
    )
    graph = transit_stub_graph(parameters, rng)
    positions_ms = _positions_ms(graph, rng)
    view = NetworkView(
        nodes=tuple(
            Node(name=name, position_ms=position)
            for name, position in zip(graph.names, positions_ms, strict=True)
        )
    )
    names = np.array(graph.names)
    requests: list[Request] = []
    for number in range(queries):
        sources: list[str] = names[rng.choice(len(names), size=4, replace=False)].tolist()
        query = tree(f"q{number:05d}", sources, str(names[rng.integers(len(names))]))
        requests.append(Request(query, DEADLINE_MS, BOUND_MS, 0.0))
    return Workload(view=view, requests=tuple(requests))


def _positions_ms(graph: LatencyGraph, rng: np.random.Generator) -> FloatArray:
    """Scaled coordinates from what all nodes measure of the landmarks, shape (n, d)."""
    count = len(graph.names)
    landmarks = rng.choice(count, size=min(LANDMARKS, count), replace=False)
    rtt_ms = 2 * graph.latencies_from(landmarks)
    peers, nodes = np.nonzero(rtt_ms)
    samples = LatencySamples(nodes=nodes, peers=landmarks[peers], rtt_ms=rtt_ms[peers, nodes])
    positions_ms = embed(samples, count, DIMENSIONS, rng).positions_ms
    some = rng.choice(count, size=min(CHECKED, count), replace=False)
    return positions_ms * (MEAN_RTT_MS / float(cdist(positions_ms[some], positions_ms).mean()))
