"""Latency samples as arrays: the node that measured, its peer, and the round trip.

`topology.vivaldi` filters one exchange at a time. This module does the same for millions of samples
at once: it tells impossible values from possible ones, and reduces several samples of one pair to
their median, since a single late packet is no distance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foundation.arrays import BoolArray, FloatArray, IntArray
from foundation.bounds import MAX_RTT_MS


class LatencySamplesError(ValueError):
    """Arrays that do not fit each other, or a node that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatencySamples:
    """Measured round trips.

    Attributes
    ----------
    nodes, peers
        Indices into the coordinates, shape (s,).
    rtt_ms
        Round trips, ms, shape (s,); impossible ones are rejected later, one by one.
    """

    nodes: IntArray
    peers: IntArray
    rtt_ms: FloatArray

    def __post_init__(self) -> None:
        shapes = (self.nodes.shape, self.peers.shape, self.rtt_ms.shape)
        if self.nodes.ndim != 1 or len(set(shapes)) > 1:
            raise LatencySamplesError(
                f"nodes, peers and rtt_ms have shapes {shapes}; each sample needs one of each"
            )

    def __len__(self) -> int:
        return len(self.rtt_ms)

    def check(self, nodes: int, peers: int | None = None) -> None:
        """Check that all indices are below the number of nodes, and of peers if it differs.

        Raises
        ------
        LatencySamplesError
            Naming the first index that is not.
        """
        for name, indices, end in (
            ("node", self.nodes, nodes),
            ("peer", self.peers, nodes if peers is None else peers),
        ):
            if not len(indices):
                continue
            low, high = int(indices.min()), int(indices.max())
            if low < 0 or high >= end:
                raise LatencySamplesError(
                    f"a sample names {name} {low if low < 0 else high}; "
                    f"there are {end}, counted from 0"
                )

    def both_ways(self) -> LatencySamples:
        """Each sample also as its peer's: a round trip is the same for both ends."""
        return LatencySamples(
            nodes=np.concatenate([self.nodes, self.peers]),
            peers=np.concatenate([self.peers, self.nodes]),
            rtt_ms=np.concatenate([self.rtt_ms, self.rtt_ms]),
        )

    def take(self, which: BoolArray | IntArray) -> LatencySamples:
        """Some of the samples, by mask or index."""
        return LatencySamples(
            nodes=self.nodes[which], peers=self.peers[which], rtt_ms=self.rtt_ms[which]
        )


def possible(samples: LatencySamples) -> BoolArray:
    """Which samples can be round trips between two nodes, shape (s,)."""
    # NaN compares false, so it is rejected here as well.
    rtt_ms = samples.rtt_ms
    return (rtt_ms > 0) & (rtt_ms <= MAX_RTT_MS) & (samples.nodes != samples.peers)


def medians(samples: LatencySamples) -> LatencySamples:
    """The (lower) median sample of each node and peer, ordered by node, then by peer."""
    order = np.lexsort((samples.rtt_ms, samples.peers, samples.nodes))
    ordered = samples.take(order)
    if not len(ordered):
        return ordered
    changes = (np.diff(ordered.nodes) != 0) | (np.diff(ordered.peers) != 0)
    starts = np.flatnonzero(np.concatenate([[True], changes]))
    ends = np.append(starts[1:], len(ordered))
    return ordered.take((starts + ends - 1) // 2)


def sums(nodes: IntArray, values: FloatArray, count: int) -> FloatArray:
    """Sum of the values of each of the first `count` nodes, shape (count,)."""
    return np.bincount(nodes, values, count).astype(np.float64, copy=False)
