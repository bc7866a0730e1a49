"""Links with one-way latencies, and the latencies along their shortest paths.

Generators and maps give links; a placement needs the latency of any pair of nodes. Packets are
assumed to take the fastest route, so the latency of a pair is the length of its shortest path
(Dijkstra). The table of a connected network is then a metric: symmetric, zero on the diagonal, and
no pair is farther apart than the detour over a third node.

A table has n² entries. It is computed as a whole for up to `DENSE_NODES` nodes; of a larger
network, only the rows that are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from foundation.arrays import FloatArray, IntArray
from topology.latency import LatencyMatrix, LatencyMatrixError

DENSE_NODES = 5_000
"""Limit of the nodes of a whole table: 200 MB, and a few times as much while it is computed."""


class TooManyNodes(LatencyMatrixError):
    """A table that does not fit into memory."""


class Unreachable(LatencyMatrixError):
    """Two nodes without a path between them."""

    def __init__(
        self, source: str, target: str, remedy: str = "add a link between their parts"
    ) -> None:
        super().__init__(f"no path joins {source!r} and {target!r}; {remedy}")
        self.source = source
        self.target = target


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LatencyGraph:
    """Nodes and the links between them.

    Attributes
    ----------
    names
        The nodes, distinct.
    domains
        The failure domain of each node; nodes of one domain fail together.
    places
        Position of each node on the network's map, shape (n, 2): ms in the plane of a generator,
        degrees of longitude and latitude on a real map.
    one_way_ms
        Latency of each link, ms, > 0, shape (n, n), symmetric, without an entry for other pairs.
    """

    names: tuple[str, ...]
    domains: tuple[str, ...]
    places: FloatArray
    one_way_ms: csr_array

    def latencies_from(self, sources: Sequence[int] | IntArray) -> FloatArray:
        """One-way latencies from some nodes to all, ms, shape (len(sources), n).

        Raises
        ------
        Unreachable
            Naming the first pair without a path.
        """
        indices = np.asarray(sources, dtype=np.int64)
        lengths_ms = cast(
            "FloatArray", dijkstra(self.one_way_ms, directed=False, indices=indices)
        ).reshape(len(indices), len(self.names))
        for row, target in np.argwhere(np.isinf(lengths_ms)).tolist():
            raise Unreachable(self.names[int(indices[row])], self.names[target])
        return lengths_ms

    def latency_matrix(self, nodes: Sequence[int] | None = None) -> LatencyMatrix:
        """Round trips of all pairs of some nodes (default: all): twice the one-way latency.

        Raises
        ------
        Unreachable
            Naming the first pair without a path.
        TooManyNodes
            Above `DENSE_NODES`.
        """
        chosen = range(len(self.names)) if nodes is None else nodes
        if len(chosen) > DENSE_NODES:
            raise TooManyNodes(
                f"a table of {len(chosen)} × {len(chosen)} latencies is too large (at most "
                f"{DENSE_NODES} nodes); use latencies_from for the rows that are needed"
            )
        one_way_ms = self.latencies_from(chosen)[:, list(chosen)]
        return LatencyMatrix(tuple(self.names[i] for i in chosen), 2 * one_way_ms)

    def is_connected(self) -> bool:
        """Whether every pair has a path."""
        parts, _ = connected_components(self.one_way_ms, directed=False)
        return int(parts) <= 1


def links(size: int, ends: IntArray, one_way_ms: FloatArray) -> csr_array:
    """The symmetric sparse table of links; of parallel links the fastest counts.

    Parameters
    ----------
    size
        Number of nodes.
    ends
        Both nodes of each link, shape (m, 2), in any order, distinct.
    one_way_ms
        Latency of each link, > 0, shape (m,).
    """
    low, high = ends.min(axis=1), ends.max(axis=1)
    # Sparse formats add up repeated entries, so only the fastest parallel link is kept.
    order = np.lexsort((one_way_ms, high, low))
    low, high, one_way_ms = low[order], high[order], one_way_ms[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    low, high, one_way_ms = low[first], high[first], one_way_ms[first]
    rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
    both_ms = np.concatenate([one_way_ms, one_way_ms])
    return csr_array(coo_array((both_ms, (rows, columns)), shape=(size, size)))
