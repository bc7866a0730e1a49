"""Generated networks for experiments and tests: transit-stub, line, grid, ring, two clusters.

*Transit-stub* networks imitate the two levels of the Internet (Zegura, Calvert, Bhattacharjee: "How
to model an internetwork", INFOCOM 1996). Their generator, GT-ITM, made the networks of the reliable
placement experiments. Transit domains carry traffic between regions. Each of their nodes serves
several stub domains, in which traffic starts and ends. A domain is a random graph of nodes in a
plane, and the latency of a link is proportional to its length.

Deviations from GT-ITM:

- If a random graph is not connected, the shortest possible links join its parts. GT-ITM draws the
  graph again until it is connected, which rarely happens if links are rare.
- A stub lies at a given distance from its transit node, in any direction. GT-ITM uses a grid.
- The length of a link is the distance of its ends. GT-ITM adds routing weights.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import pdist, squareform

from bench.networks.latency_graph import LatencyGraph, links
from foundation.arrays import FloatArray, IntArray
from topology.latency import LatencyMatrix


class GeneratorError(ValueError):
    """A parameter from which no network can be generated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitStub:
    """Parameters of a transit-stub network; the default is GT-ITM's `ts100`, 100 nodes.

    Attributes
    ----------
    transit_domains
        Number of transit domains, ≥ 1.
    transit_nodes
        Nodes of each transit domain, ≥ 1.
    stubs_per_transit_node
        Stub domains that each transit node serves, ≥ 0.
    stub_nodes
        Nodes of each stub domain, ≥ 1.
    domain_edge
        Probability of a link between two transit domains, in [0, 1].
    transit_edge
        Probability of a link between two nodes of one transit domain.
    stub_edge
        Probability of a link between two nodes of one stub domain.
    extra_transit_stub
        Number of further links between any stub node and any transit node.
    extra_stub_stub
        Number of further links between nodes of two stub domains.
    domains_extent_ms
        Side of the square in which the centres of the transit domains lie, one-way ms, > 0.
        A single transit domain lies at its centre.
    transit_extent_ms
        Side of the square over which one transit domain spreads.
    stub_distance_ms
        From a transit node to the centre of each of its stub domains.
    stub_extent_ms
        Side of the square over which one stub domain spreads.
    """

    transit_domains: int = 1
    transit_nodes: int = 4
    stubs_per_transit_node: int = 3
    stub_nodes: int = 8
    domain_edge: float = 1.0
    transit_edge: float = 0.6
    stub_edge: float = 0.42
    extra_transit_stub: int = 0
    extra_stub_stub: int = 0
    domains_extent_ms: float = 300.0
    transit_extent_ms: float = 100.0
    stub_distance_ms: float = 30.0
    stub_extent_ms: float = 6.0

    def __post_init__(self) -> None:
        least = {"transit_domains": 1, "transit_nodes": 1, "stub_nodes": 1}
        for name in (one.name for one in fields(self)):
            value = getattr(self, name)
            if name.endswith("_ms"):
                _check(name, value, 0 < value < math.inf, "a number of ms > 0")
            elif name.endswith("_edge"):
                _check(name, value, 0 <= value <= 1, "a probability in [0, 1]")
            else:
                _check(name, value, value >= least.get(name, 0), f"≥ {least.get(name, 0)}")
        for name, least_stubs, stubs in (
            ("extra_transit_stub", 1, "stubs"),
            ("extra_stub_stub", 2, "two stubs"),
        ):
            extra = getattr(self, name)
            possible = not extra or self.stubs >= least_stubs
            _check(name, extra, possible, f"possible without {stubs}")

    @property
    def backbone_nodes(self) -> int:
        """Number of transit nodes."""
        return self.transit_domains * self.transit_nodes

    @property
    def stubs(self) -> int:
        """Number of stub domains."""
        return self.backbone_nodes * self.stubs_per_transit_node

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.backbone_nodes + self.stubs * self.stub_nodes


def transit_stub(parameters: TransitStub, rng: np.random.Generator) -> LatencyMatrix:
    """Round trips of a transit-stub network along shortest paths.

    Nodes are named `t<domain>.<node>` and `s<stub>.<node>`, transit nodes first. `domain_of` gives
    the failure domain of a node.

    Raises
    ------
    TooManyNodes
        If the network is too large for a table; use `transit_stub_graph`.

    Examples
    --------
    >>> matrix = transit_stub(TransitStub(), np.random.default_rng(1))
    >>> len(matrix.names), matrix.names[5], domain_of(matrix.names[5])
    (100, 's0.1', 's0')
    """
    return transit_stub_graph(parameters, rng).latency_matrix()


def domain_of(name: str) -> str:
    """The transit or stub domain that a node's name begins with."""
    return name.partition(".")[0]


def transit_stub_graph(parameters: TransitStub, rng: np.random.Generator) -> LatencyGraph:
    """Links and positions of a transit-stub network of any size."""
    p = parameters
    transit = np.arange(p.backbone_nodes).reshape(p.transit_domains, p.transit_nodes)
    stub = np.arange(p.backbone_nodes, p.nodes).reshape(p.stubs, p.stub_nodes)
    positions_ms = _positions_ms(p, rng)
    parts = [
        *(_connected(positions_ms, domain, p.transit_edge, rng) for domain in transit),
        *(_connected(positions_ms, domain, p.stub_edge, rng) for domain in stub),
        _between_domains(positions_ms, transit, p.domain_edge, rng),
        _up_links(p, stub, rng),
        _extra_links(p, stub, rng),
    ]
    ends = np.concatenate(parts)
    one_way_ms = np.linalg.norm(positions_ms[ends[:, 0]] - positions_ms[ends[:, 1]], axis=1)
    names = (
        *(f"t{d}.{i}" for d in range(p.transit_domains) for i in range(p.transit_nodes)),
        *(f"s{d}.{i}" for d in range(p.stubs) for i in range(p.stub_nodes)),
    )
    return LatencyGraph(
        names=names,
        domains=tuple(map(domain_of, names)),
        places=positions_ms,
        one_way_ms=links(p.nodes, ends, one_way_ms),
    )


def _positions_ms(p: TransitStub, rng: np.random.Generator) -> FloatArray:
    """Positions of transit nodes, then of stub nodes, shape (nodes, 2), ms."""
    centres = _square(p.domains_extent_ms, (p.transit_domains, 1), rng)
    if p.transit_domains == 1:
        centres[:] = 0
    transit = centres + _square(p.transit_extent_ms, (p.transit_domains, p.transit_nodes), rng)
    transit = transit.reshape(-1, 2)
    angles = rng.uniform(0, 2 * np.pi, size=p.stubs)
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    stubs = transit.repeat(p.stubs_per_transit_node, axis=0) + p.stub_distance_ms * directions
    stub = stubs[:, None] + _square(p.stub_extent_ms, (p.stubs, p.stub_nodes), rng)
    return np.concatenate([transit, stub.reshape(-1, 2)])


def _square(extent_ms: float, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    return rng.uniform(-extent_ms / 2, extent_ms / 2, size=(*shape, 2))


def _connected(
    positions_ms: FloatArray, nodes: IntArray, edge: float, rng: np.random.Generator
) -> IntArray:
    """Links of a random graph on some nodes, and the shortest further links that connect it."""
    lengths_ms = pdist(positions_ms[nodes])
    drawn = rng.random(len(lengths_ms)) < edge
    # With almost free drawn links, the minimum spanning tree uses others only where it must.
    cost = squareform(np.where(drawn, 1e-9 * lengths_ms, lengths_ms))
    tree = minimum_spanning_tree(cost).toarray() > 0
    chosen = squareform(drawn) | tree | tree.T
    return nodes[np.argwhere(np.triu(chosen, k=1))]


def _between_domains(
    positions_ms: FloatArray, transit: IntArray, edge: float, rng: np.random.Generator
) -> IntArray:
    """Links between transit domains; each joins a random node of one to one of the other."""
    centres_ms = positions_ms[transit].mean(axis=1)
    pairs = _connected(centres_ms, np.arange(len(transit)), edge, rng)
    return transit[pairs, rng.integers(transit.shape[1], size=pairs.shape)]


def _up_links(p: TransitStub, stub: IntArray, rng: np.random.Generator) -> IntArray:
    """The link from each stub domain to the transit node that serves it."""
    server = np.arange(p.backbone_nodes).repeat(p.stubs_per_transit_node)
    gateway = stub[np.arange(p.stubs), rng.integers(p.stub_nodes, size=p.stubs)]
    return np.column_stack([server, gateway])


def _extra_links(p: TransitStub, stub: IntArray, rng: np.random.Generator) -> IntArray:
    """Further links that do not follow the hierarchy."""
    homes = np.empty((p.extra_transit_stub, 2), dtype=np.int64)
    if p.extra_transit_stub:
        homes[:, 0] = rng.integers(p.backbone_nodes, size=p.extra_transit_stub)
        homes[:, 1] = rng.integers(p.backbone_nodes, p.nodes, size=p.extra_transit_stub)
    peers = np.empty((p.extra_stub_stub, 2), dtype=np.int64)
    if p.extra_stub_stub:
        one = rng.integers(p.stubs, size=p.extra_stub_stub)
        other = (one + rng.integers(1, p.stubs, size=p.extra_stub_stub)) % p.stubs
        domains = np.column_stack([one, other])
        peers = stub[domains, rng.integers(p.stub_nodes, size=domains.shape)]
    return np.concatenate([homes, peers])


def line(nodes: int, step_ms: float) -> LatencyMatrix:
    """Nodes `n0`, `n1`, … in a row, neighbours `step_ms` of round trip apart."""
    return _on_lattice((nodes, 1), step_ms)


def grid(rows: int, columns: int, step_ms: float) -> LatencyMatrix:
    """Nodes at the crossings of streets, neighbours `step_ms` of round trip apart."""
    return _on_lattice((columns, rows), step_ms)


def _on_lattice(size: tuple[int, int], step_ms: float) -> LatencyMatrix:
    for count in size:
        _check("nodes", count, count >= 1, "≥ 1")
    _check_step(step_ms)
    points = np.array(list(itertools.product(*map(range, size))), dtype=np.float64)
    return _named(step_ms * np.abs(points[:, None] - points[None]).sum(axis=2))


def ring(nodes: int, step_ms: float) -> LatencyMatrix:
    """Nodes in a circle, neighbours `step_ms` of round trip apart; the shorter direction counts."""
    _check("nodes", nodes, nodes >= 1, "≥ 1")
    _check_step(step_ms)
    apart = np.abs(np.arange(nodes)[:, None] - np.arange(nodes)[None])
    return _named(step_ms * np.minimum(apart, nodes - apart).astype(np.float64))


def two_clusters(nodes: int, near_ms: float, far_ms: float) -> LatencyMatrix:
    """Two sites of `nodes` nodes each: round trips `near_ms` within one, `far_ms` between.

    Raises
    ------
    GeneratorError
        Also if `near_ms` exceeds twice `far_ms`, since a detour would then be shorter.
    """
    _check("nodes", nodes, nodes >= 1, "≥ 1")
    _check_step(near_ms)
    _check_step(far_ms)
    _check("near_ms", near_ms, near_ms <= 2 * far_ms, f"≤ 2 × far_ms = {2 * far_ms:g}")
    cluster = np.repeat([0, 1], nodes)
    rtt_ms = np.where(cluster[:, None] == cluster[None], near_ms, far_ms)
    np.fill_diagonal(rtt_ms, 0)
    return _named(rtt_ms)


def _named(rtt_ms: FloatArray) -> LatencyMatrix:
    return LatencyMatrix(tuple(f"n{i}" for i in range(len(rtt_ms))), rtt_ms)


def _check_step(step_ms: float) -> None:
    _check("latency", step_ms, 0 < step_ms < math.inf, "a number of ms > 0")


def _check(name: str, value: object, good: bool, wanted: str) -> None:
    if not good:
        raise GeneratorError(f"{name} {value!r} is not {wanted}")
