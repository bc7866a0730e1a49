"""The workload of reliable placement, §5: queries over a transit-stub network.

100 nodes, 100 queries registered one by one. Each is a tree: four sources, a selection on each, two
joins of two selections, a join of both, one destination. Sources and destination are drawn from the
nodes, 2 KB/s flow from each source, links never saturate, and an operator counts 1 for the CPU use
of its node. The tree is that paper's Fig. 9, which is missing from our text. Table 2 confirms its
seven operators: round robin puts 14 replicas on each of 100 nodes, for 100 queries.

The text of the paper gives neither its network's parameters nor what operators let pass nor what a
tuple costs. They are chosen here so that the paper's own method and its baselines come out as in
its tables: `NETWORK`'s shape gives random placement the spread of recovery times of Table 1, and
latencies are scaled, each network by one factor, so that random placement recovers in
`RANDOM_RECOVERY_MS` on average; selections pass everything, joins three quarters; the cost of a
tuple is such that A-SAS saves about the share of traffic that it does there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from bench.networks.generators import TransitStub, transit_stub
from bench.placement_assessment import assess
from bench.placement_baselines import place_at_random
from foundation.arrays import FloatArray
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.records import Request
from topology.bulk_coordinates import unplaced
from topology.bulk_steps import relax
from topology.latency_samples import LatencySamples

NETWORK = TransitStub(
    transit_nodes=20,
    transit_edge=0.2,
    stubs_per_transit_node=1,
    stub_nodes=4,
    stub_distance_ms=10,
    stub_extent_ms=1,
)
"""100 nodes: sites of four machines around a wide backbone. Latencies are scaled afterwards."""

RANDOM_RECOVERY_MS = 111.7
"""Mean recovery time under random placement (Table 1), ms: what latencies are scaled to."""

BOUND_MS = 100.0
SOURCE_BYTES_S = 2000.0
TUPLE_BYTES = 20.0
COST_US = 1200.0
SELECTED = 1.0
JOINED = 0.75
DEADLINE_MS = 1e9
"""None: the paper has no deadlines."""

DIMENSIONS = 3
EXCHANGES = 150
"""Rounds of measuring all pairs, after which coordinates are at rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A network and the queries to be placed on it, in the order of their registration."""

    view: NetworkView
    requests: tuple[Request, ...]


def paper_workload(seed: int, queries: int = 100, parameters: TransitStub = NETWORK) -> Workload:
    """Draw a network and queries, calibrated as the module says."""
    rng = np.random.default_rng(seed)
    matrix = transit_stub(parameters, rng)
    requests = tuple(_request(f"q{i:03d}", matrix.names, rng) for i in range(queries))
    raw = _view(matrix.names, np.zeros((len(matrix.names), DIMENSIONS)), matrix.rtt_ms)
    scale = RANDOM_RECOVERY_MS / _random_recovery_ms(requests, raw, rng)
    rtt_ms = matrix.rtt_ms * scale
    return Workload(
        view=_view(matrix.names, vivaldi_positions_ms(rtt_ms, rng), rtt_ms), requests=requests
    )


def vivaldi_positions_ms(rtt_ms: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Coordinates of nodes that have all measured each other, shape (n, `DIMENSIONS`)."""
    nodes, peers = np.nonzero(~np.eye(len(rtt_ms), dtype=bool))
    samples = LatencySamples(nodes=nodes, peers=peers, rtt_ms=rtt_ms[nodes, peers])
    coordinates = unplaced(len(rtt_ms), DIMENSIONS)
    for _ in range(EXCHANGES):
        coordinates = relax(coordinates, samples, rng=rng)
    return coordinates.positions_ms


def tree(name: str, sources: Sequence[str], destination: str) -> QueryGraph:
    """The query of the module, between given nodes."""
    operators = [Operator(name=f"{name}.source{i}", pinned=node) for i, node in enumerate(sources)]
    operators.append(Operator(name=f"{name}.destination", pinned=destination))
    links: list[Link] = []
    bytes_s: dict[str, float] = {}

    def add(operator: str, inputs: Mapping[str, float], share: float) -> None:
        operators.append(Operator(name=operator, cost_us=COST_US))
        links.extend(_link(source, operator, rate) for source, rate in inputs.items())
        bytes_s[operator] = share * sum(inputs.values())

    selections = [f"{name}.selection{i}" for i in range(len(sources))]
    for i, selection in enumerate(selections):
        add(selection, {f"{name}.source{i}": SOURCE_BYTES_S}, SELECTED)
    joins = [f"{name}.join{i}" for i in range(len(sources) // 2)]
    for i, join in enumerate(joins):
        add(join, {each: bytes_s[each] for each in selections[2 * i : 2 * i + 2]}, JOINED)
    last = f"{name}.join"
    add(last, {each: bytes_s[each] for each in joins}, JOINED)
    links.append(_link(last, f"{name}.destination", bytes_s[last]))
    return QueryGraph(name=name, operators=tuple(operators), links=tuple(links))


def _request(name: str, nodes: Sequence[str], rng: np.random.Generator) -> Request:
    sources: list[str] = rng.choice(nodes, size=4, replace=False).tolist()
    graph = tree(name, sources, str(rng.choice(nodes)))
    return Request(graph, DEADLINE_MS, BOUND_MS, 0.0)


def _link(source: str, target: str, rate_bytes_s: float) -> Link:
    return Link(
        source=source, target=target, rate_bytes_s=rate_bytes_s, tuples_s=rate_bytes_s / TUPLE_BYTES
    )


def _view(names: Sequence[str], positions_ms: FloatArray, rtt_ms: FloatArray) -> NetworkView:
    return NetworkView(
        nodes=tuple(
            Node(name=name, position_ms=position)
            for name, position in zip(names, positions_ms, strict=True)
        ),
        rtt_ms={
            (names[i], names[j]): float(rtt_ms[i, j]) for i, j in combinations(range(len(names)), 2)
        },
    )


def _random_recovery_ms(
    requests: Sequence[Request], view: NetworkView, rng: np.random.Generator
) -> float:
    replicas = random_replicas(requests, view, rng)
    return float(assess(requests, replicas, view, dying_together=False).recovery_ms.mean())


def random_replicas(
    requests: Sequence[Request], view: NetworkView, rng: np.random.Generator
) -> dict[str, tuple[str, str]]:
    """Nodes of primaries and secondaries under random placement."""
    pairs: dict[str, tuple[str, str]] = {}
    for request in requests:
        drawn = place_at_random(request.graph, view, rng)
        pairs |= {name: (drawn.primaries[name], node) for name, node in drawn.secondaries.items()}
    return pairs
