"""The hosts of a network in blocks of neighbours, to find the best ones without looking at all.

A block is a box of the latency space that holds about as many hosts as there are blocks. Whoever
looks for hosts of least value gives a lower bound of the value in each block; blocks are then
looked into, the least bound first, until none left can hold a better host. The result is that of
looking at all hosts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray, IntArray

LEAST_HOSTS = 32
"""In a block: looking into a smaller one takes as long."""

ROUNDING = 1e-9
"""Share by which a bound may exceed the values that it bounds: sums of the same terms in another
order differ by less."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostBlocks:
    """h hosts in b blocks.

    Attributes
    ----------
    nodes, ranks
        Indices of the hosts, block by block, and their places in the order of names, shape (h,).
    starts
        Place of the first host of each block, and h, shape (b + 1,).
    low_ms, high_ms
        Corners of the boxes around the blocks, shape (b, d), ms.
    """

    nodes: IntArray
    ranks: IntArray
    starts: IntArray
    low_ms: FloatArray
    high_ms: FloatArray

    @classmethod
    def of(cls, positions_ms: FloatArray, hosts: IntArray) -> HostBlocks:
        """Halve the hosts, again and again, where they lie farthest apart.

        Parameters
        ----------
        positions_ms
            Of all nodes, shape (n, d).
        hosts
            Indices in the order of names, at least one.
        """
        at_ms = positions_ms[hosts]
        most = max(LEAST_HOSTS, math.isqrt(len(hosts)))
        waiting, blocks = [np.arange(len(hosts))], list[IntArray]()
        while waiting:
            block = waiting.pop()
            if len(block) <= most:
                blocks.append(block)
                continue
            inside_ms = at_ms[block]
            axis = int(np.ptp(inside_ms, axis=0).argmax())
            half = len(block) // 2
            order = block[np.argpartition(inside_ms[:, axis], half)]
            waiting += [order[:half], order[half:]]
        ranks = np.concatenate(blocks)
        return cls(
            nodes=hosts[ranks],
            ranks=ranks,
            starts=np.cumsum([0, *map(len, blocks)]),
            low_ms=np.array([at_ms[block].min(axis=0) for block in blocks]),
            high_ms=np.array([at_ms[block].max(axis=0) for block in blocks]),
        )

    def apart_ms(self, point_ms: FloatArray) -> FloatArray:
        """Distance of a point from each of the boxes, shape (b,), ms."""
        outside = np.maximum(np.maximum(self.low_ms - point_ms, point_ms - self.high_ms), 0.0)
        return np.sqrt(np.einsum("bd,bd->b", outside, outside))

    def least(self, by_node: FloatArray) -> FloatArray:
        """The least figure of the hosts in each block, shape (b,), of figures by node."""
        return np.minimum.reduceat(by_node.take(self.nodes), self.starts[:-1])

    def best(
        self, bounds: FloatArray, values: Callable[[IntArray], FloatArray], count: int
    ) -> tuple[IntArray, FloatArray]:
        """The hosts of least value, and their values; ties by name.

        Parameters
        ----------
        bounds
            Least value that a host in each block can have, shape (b,).
        values
            Of hosts by index; infinite for those that are out of question.
        count
            How many.

        Returns
        -------
        tuple
            Fewer than `count` if there are no more of finite value.
        """
        order = np.argsort(bounds, kind="stable")
        rising = bounds[order] * (1 - ROUNDING)
        starts: list[int] = self.starts.tolist()
        nodes = ranks = np.empty(0, dtype=np.int64)
        found = np.empty(0)
        limit, at, width = math.inf, 0, 2
        while at < len(order) and rising[at] <= limit:
            end = min(at + width, int(np.searchsorted(rising, limit, side="right")))
            chosen: list[int] = order[at:end].tolist()
            places = np.concatenate([np.arange(starts[b], starts[b + 1]) for b in chosen])
            at, width = end, 2 * width
            looked = values(self.nodes[places])
            finite = looked < math.inf
            places, looked = places[finite], looked[finite]
            nodes = np.concatenate([nodes, self.nodes[places]])
            ranks = np.concatenate([ranks, self.ranks[places]])
            found = np.concatenate([found, looked])
            if len(found) > count:
                # Ties with the last one are kept until they are in order.
                near = np.flatnonzero(found <= np.partition(found, count - 1)[count - 1])
                near = near[np.lexsort((ranks[near], found[near]))[:count]]
                nodes, ranks, found = nodes[near], ranks[near], found[near]
            if len(found) == count:
                limit = float(found.max())
        in_order = np.lexsort((ranks, found))
        return nodes[in_order], found[in_order]
