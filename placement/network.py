"""The network as the planner sees it: nodes in coordinate space, and measured latencies.

Coordinates answer for pairs that were never measured; where a round trip was measured, it counts.

Nodes have names for people and indices, their places in `NetworkView.nodes`, for arrays. A point's
nearest nodes are found in blocks of neighbours (`placement.host_blocks`). The CPU axis changes with
every operator placed: the least one in a block and the block's distance bound those of its nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.distance import cdist

from foundation.arrays import BoolArray, FloatArray, IntArray
from foundation.suggestions import hint
from placement.errors import NetworkError
from placement.failure_domains import LABELS, FailureDomains
from placement.host_blocks import HostBlocks

TABLED = 256
"""Nodes of the largest network of which all latencies are kept in a table."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One place an operator can run, or where streams enter and leave.

    Attributes
    ----------
    position_ms
        Coordinate, ms, shape (d,); distances approximate round trips.
    error_ms
        Uncertainty of the coordinate, ms, ≥ 0: how far a distance to it may be off.
    cpu_ms
        The CPU axis as measured, ≥ 0 (`topology.cpu`).
    capacity_cores
        CPU that the replicas of operators on it may need together, > 0.
    application, machine, driver, zone, domain
        Nodes that share one may die together (`placement.failure_domains`). Empty: none.
    hosts_operators
        False for sites: nothing is placed there.
    operators
        Replicas of operators it runs that are not part of this plan.
    """

    name: str
    position_ms: FloatArray
    error_ms: float = 0.0
    cpu_ms: float = 0.0
    capacity_cores: float = math.inf
    application: str = ""
    machine: str = ""
    driver: str = ""
    zone: str = ""
    domain: str = ""
    hosts_operators: bool = True
    operators: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkView:
    """All nodes, and the round trips measured between them.

    Parameters
    ----------
    nodes
        With distinct names and coordinates of the same dimension.
    rtt_ms
        Measured round trips, ms, by pair. Where both directions were measured their mean counts.
    spread_ms
        By how much the last measurements of a pair differ, ms, as far as known; the same mean.

    Attributes
    ----------
    index
        Name → index.
    positions_ms
        Shape (n, d), ms.
    hosts
        Nodes that operators may be placed on, by name.
    host_indices
        Their indices, in that order.
    domains
        Which nodes may hold both replicas of an operator.
    capacity_cores
        Shape (n,), cores.
    blocks
        The hosts in blocks of neighbours; None if there are no hosts.

    Raises
    ------
    NetworkError
        Naming the node or pair, and the value.
    """

    nodes: tuple[Node, ...]
    rtt_ms: Mapping[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    spread_ms: Mapping[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    by_name: dict[str, Node] = field(init=False, repr=False)
    index: dict[str, int] = field(init=False, repr=False)
    positions_ms: FloatArray = field(init=False, repr=False)
    hosts: tuple[Node, ...] = field(init=False, repr=False)
    host_indices: IntArray = field(init=False, repr=False)
    domains: FailureDomains = field(init=False, repr=False)
    capacity_cores: FloatArray = field(init=False, repr=False)
    _errors_ms: FloatArray = field(init=False, repr=False)
    _measured: _MeasuredPairs = field(init=False, repr=False)
    _spreads: _MeasuredPairs = field(init=False, repr=False)
    _table_ms: FloatArray | None = field(init=False, repr=False)
    blocks: HostBlocks | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        by_name: dict[str, Node] = {}
        for node in self.nodes:
            if node.name in by_name:
                raise NetworkError(f"node {node.name!r} occurs twice")
            _check_node(node, self.nodes[0])
            by_name[node.name] = node
        index = {node.name: i for i, node in enumerate(self.nodes)}
        hosts = tuple(by_name[name] for name in sorted(by_name) if by_name[name].hosts_operators)
        host_indices = np.array([index[node.name] for node in hosts], dtype=np.int64)
        labels = {kind: [getattr(node, kind) for node in self.nodes] for kind in LABELS}
        hosting = np.array([node.hosts_operators for node in self.nodes], dtype=np.bool_)
        positions_ms = np.array([node.position_ms for node in self.nodes], dtype=np.float64)
        derived = {
            "by_name": by_name,
            "index": index,
            "positions_ms": positions_ms,
            "hosts": hosts,
            "host_indices": host_indices,
            "domains": FailureDomains.of(labels, hosting),
            "capacity_cores": np.array([node.capacity_cores for node in self.nodes]),
            "_errors_ms": np.array([node.error_ms for node in self.nodes], dtype=np.float64),
            "_measured": _MeasuredPairs.of(self.rtt_ms, index),
            "_spreads": _MeasuredPairs.of(self.spread_ms, index),
            "_table_ms": None,
            "blocks": HostBlocks.of(positions_ms, host_indices) if hosts else None,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        if 0 < len(self.nodes) <= TABLED:
            every = np.arange(len(self.nodes))
            object.__setattr__(self, "_table_ms", self.one_way_between(every, every))

    def loosened(self, looseness: int) -> NetworkView:
        """The same with failure domains of another looseness."""
        return self.with_domains(self.domains.loosened(looseness))

    def with_domains(self, domains: FailureDomains) -> NetworkView:
        """The same with other failure domains of its nodes."""
        found = copy(self)
        object.__setattr__(found, "domains", domains)
        return found

    def node(self, name: str) -> Node:
        """A node by name.

        Raises
        ------
        NetworkError
            With the nearest name, if there is no such node.
        """
        try:
            return self.by_name[name]
        except KeyError:
            raise NetworkError(f"no node is named {name!r}{hint(name, self.by_name)}") from None

    def at(self, name: str) -> int:
        """Index of a node by name; raises as `node`."""
        return self.index[self.node(name).name]

    def can_host(self, name: str | None) -> bool:
        """Whether an operator may be on that node."""
        return name is not None and name in self.by_name and self.by_name[name].hosts_operators

    def names(self, indices: Sequence[int] | IntArray) -> tuple[str, ...]:
        """Names of nodes by index."""
        return tuple(self.nodes[i].name for i in indices)

    def one_way_ms(self, source: str, target: str) -> float:
        """One-way latency, ms: half of the measured round trip, else of the distance.

        Zero within a node: nothing travels.
        """
        return float(self.one_way_of(np.array([self.at(source)]), np.array([self.at(target)]))[0])

    def one_way_of(self, sources: IntArray, targets: IntArray) -> FloatArray:
        """`one_way_ms` of pairs of nodes, element by element.

        Parameters
        ----------
        sources, targets
            Indices of nodes, of shapes that broadcast.

        Returns
        -------
        FloatArray
            In the common shape, ms.
        """
        if self._table_ms is not None:
            return self._table_ms[sources, targets]
        way_ms = self.positions_ms.take(sources, axis=0) - self.positions_ms.take(targets, axis=0)
        return self._one_way(np.linalg.norm(way_ms, axis=-1), sources, targets)

    def one_way_between(self, sources: IntArray, targets: IntArray) -> FloatArray:
        """`one_way_ms` from each of some nodes to each of others.

        Parameters
        ----------
        sources, targets
            Indices of nodes, shapes (s,) and (t,).

        Returns
        -------
        FloatArray
            Shape (s, t), ms.
        """
        if self._table_ms is not None:
            return self._table_ms[sources[:, None], targets]
        # Rows are fetched by `take`, several times as fast as by index.
        apart = cdist(
            self.positions_ms.take(sources, axis=0), self.positions_ms.take(targets, axis=0)
        )
        return self._one_way(apart, sources[:, None], targets)

    def uncertainty_of(self, sources: IntArray, targets: IntArray) -> FloatArray:
        """How far round trips between nodes may be off, ms, in the shape of `one_way_of`.

        The errors of both coordinates together. Where the round trip was measured, half the spread
        of its last measurements, zero if that is not known. Zero within a node.
        """
        errors_ms = self._errors_ms[sources] + self._errors_ms[targets]
        _, measured = self._measured.find(sources, targets)
        spread_ms = self._spreads.over(np.zeros(errors_ms.shape), sources, targets)
        errors_ms = np.where(measured, spread_ms / 2, errors_ms)
        return np.where(sources == targets, 0.0, errors_ms)

    def _one_way(self, apart_ms: FloatArray, sources: IntArray, targets: IntArray) -> FloatArray:
        """One-way latencies of pairs whose coordinates are so far apart, ms."""
        rtt_ms = self._measured.over(apart_ms, sources, targets)
        rtt_ms[sources == targets] = 0.0
        return rtt_ms / 2

    def nearest(
        self, point_ms: FloatArray, cpu_ms: FloatArray, count: int | None = None
    ) -> IntArray:
        """Nodes that may host operators, nearest to a point first.

        The distance is that of the coordinate space with the CPU axis (reliable placement, §4.2),
        the point itself lying at CPU = 0: of two equally near nodes the idle one comes first.

        Parameters
        ----------
        point_ms
            Shape (d,), ms.
        cpu_ms
            The CPU axis by node, shape (n,), ms, ≥ 0.
        count
            How many; all of them if None or more than there are.

        Returns
        -------
        IntArray
            Indices of nodes; ties by name.
        """
        blocks = self.blocks
        if blocks is None:
            return self.host_indices
        bounds = np.hypot(blocks.apart_ms(point_ms), blocks.least(cpu_ms))

        def distances_ms(nodes: IntArray) -> FloatArray:
            reach_ms = cdist(point_ms[None], self.positions_ms.take(nodes, axis=0))[0]
            return np.hypot(reach_ms, cpu_ms.take(nodes))

        total = len(self.hosts)
        nearest, _ = blocks.best(
            bounds, distances_ms, min(total if count is None else count, total)
        )
        return nearest


@dataclass(frozen=True, slots=True, eq=False)
class _MeasuredPairs:
    """Round trips by unordered pair of indices, sorted for search.

    Attributes
    ----------
    size
        Number of nodes n; the key of nodes i ≤ j is i·n + j.
    keys, rtt_ms
        Shape (pairs,), rising keys.
    """

    size: int
    keys: IntArray
    rtt_ms: FloatArray

    @classmethod
    def of(
        cls, rtt_ms: Mapping[tuple[str, str], float], index: Mapping[str, int]
    ) -> _MeasuredPairs:
        """Mean of both directions, for pairs of nodes that there are."""
        size = len(index)
        samples: dict[int, list[float]] = {}
        for (source, target), sample_ms in rtt_ms.items():
            if not math.isfinite(sample_ms) or sample_ms < 0:
                raise NetworkError(f"{source} to {target}: {sample_ms} is no round-trip time in ms")
            if source in index and target in index:
                low, high = sorted((index[source], index[target]))
                samples.setdefault(low * size + high, []).append(sample_ms)
        keys = sorted(samples)
        return cls(
            size,
            np.array(keys, dtype=np.int64),
            np.array([sum(samples[key]) / len(samples[key]) for key in keys]),
        )

    def over(self, apart_ms: FloatArray, sources: IntArray, targets: IntArray) -> FloatArray:
        """The given round trips of pairs, ms, with the measured ones in their places."""
        if not len(self.keys):
            return apart_ms
        at, measured = self.find(sources, targets)
        return np.where(measured, self.rtt_ms[at], apart_ms)

    def find(self, sources: IntArray, targets: IntArray) -> tuple[IntArray, BoolArray]:
        """Places in `keys` of pairs, and which of the pairs are there; in the pairs' shape."""
        wanted = np.minimum(sources, targets) * self.size + np.maximum(sources, targets)
        if not len(self.keys):
            return np.zeros_like(wanted), np.zeros(wanted.shape, dtype=np.bool_)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return at, self.keys[at] == wanted


def _check_node(node: Node, first: Node) -> None:
    if node.position_ms.ndim != 1 or node.position_ms.shape != first.position_ms.shape:
        raise NetworkError(
            f"node {node.name!r} has a coordinate of shape {node.position_ms.shape}, "
            f"node {first.name!r} one of {first.position_ms.shape}"
        )
    if not np.all(np.isfinite(node.position_ms)):
        raise NetworkError(f"node {node.name!r} has coordinate {node.position_ms.tolist()}")
    for name in ("error_ms", "cpu_ms"):
        value: float = getattr(node, name)
        if not math.isfinite(value) or value < 0:
            raise NetworkError(f"node {node.name!r} has {name} {value}, not a number ≥ 0")
    if not node.capacity_cores > 0:
        raise NetworkError(f"node {node.name!r} has capacity_cores {node.capacity_cores}, not > 0")
    if node.operators < 0:
        raise NetworkError(f"node {node.name!r} has {node.operators} operators")
