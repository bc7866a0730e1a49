"""Network coordinates of many nodes as arrays.

A million nodes cannot be embedded as a million objects. Here the coordinates of all nodes (or of
one block of nodes and of the peers that it has measured) are arrays, which `topology.bulk_steps`
moves by batches of latency samples.

=========  ======================  ======================================================
symbol     name here               meaning
=========  ======================  ======================================================
x_i, x_j   positions_ms            coordinates, ms; their distance predicts the round trip
rtt        rtt_ms                  measured round trips, ms
e          stretch_ms              rtt − ‖x_i − x_j‖
e_i, e_j   errors                  relative error estimates
w          weight                  e_i / (e_i + e_j)
δ          fraction                fraction of the stretch that is corrected at once
ω          pull                    w / rtt^p: weight of a sample among its node's samples
=========  ======================  ======================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from foundation.arrays import BoolArray, FloatArray, IntArray
from topology.latency_samples import LatencySamples
from topology.vivaldi import MAX_ERROR, MIN_ERROR


class BulkCoordinatesError(ValueError):
    """Arrays that do not fit each other, or parameters outside their range."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BulkCoordinates:
    """Coordinates of many nodes.

    Attributes
    ----------
    positions_ms
        Shape (n, d), ms; the distance of two nodes predicts their round trip.
    errors
        Relative error estimates, shape (n,), within the limits of `topology.vivaldi`; 1 at first.
    rejected
        Number of rejected samples: impossible round trips, peers whose coordinate is not finite,
        and nodes that measured themselves.
    resets
        Number of coordinates that were no longer finite and started over.
    """

    positions_ms: FloatArray
    errors: FloatArray
    rejected: int = 0
    resets: int = 0

    def __post_init__(self) -> None:
        if self.positions_ms.ndim != 2 or self.positions_ms.shape[1] < 1:
            raise BulkCoordinatesError(
                f"positions of shape {self.positions_ms.shape} are not (nodes, dimensions ≥ 1)"
            )
        if self.errors.shape != self.positions_ms.shape[:1]:
            raise BulkCoordinatesError(
                f"{len(self.positions_ms)} nodes need as many error estimates, "
                f"not an array of shape {self.errors.shape}"
            )

    def __len__(self) -> int:
        return len(self.errors)

    def distances_ms(self, nodes: IntArray, peers: IntArray) -> FloatArray:
        """Round trips that the coordinates predict, ms, shape (s,)."""
        return lengths(self.positions_ms[nodes] - self.positions_ms[peers])

    def relative_errors(self, samples: LatencySamples) -> FloatArray:
        """|distance − rtt| / rtt of each sample, shape (s,)."""
        distance_ms = self.distances_ms(samples.nodes, samples.peers)
        return np.abs(distance_ms - samples.rtt_ms) / samples.rtt_ms

    def broken(self) -> BoolArray:
        """Which coordinates are not finite, shape (n,)."""
        return ~(np.isfinite(self.positions_ms).all(axis=1) & np.isfinite(self.errors))

    def first(self, count: int) -> BulkCoordinates:
        """The first `count` nodes."""
        return replace(self, positions_ms=self.positions_ms[:count], errors=self.errors[:count])

    def repaired(self) -> BulkCoordinates:
        """A copy in which broken coordinates start over at position zero, counted as resets."""
        broken = self.broken()
        return replace(
            self,
            positions_ms=np.where(broken[:, None], 0.0, self.positions_ms),
            errors=np.clip(np.where(broken, 1.0, self.errors), MIN_ERROR, MAX_ERROR),
            resets=self.resets + int(broken.sum()),
        )


def unplaced(count: int, dimensions: int) -> BulkCoordinates:
    """Nodes without measurements: all at position zero with error 1, as Vivaldi starts."""
    return BulkCoordinates(positions_ms=np.zeros((count, dimensions)), errors=np.ones(count))


def with_momentum(
    before: BulkCoordinates, now: BulkCoordinates, moved: BulkCoordinates, momentum: float
) -> BulkCoordinates:
    """Add a share of the last move, from `before` to `now`, to `moved` (Polyak's heavy ball).

    A correction passes along a chain of springs by one node per batch. With momentum 0.8 the
    coordinates come to the same rest in a fraction of the batches.
    """
    positions_ms = moved.positions_ms + momentum * (now.positions_ms - before.positions_ms)
    return replace(moved, positions_ms=positions_ms)


def lengths(vectors: FloatArray) -> FloatArray:
    """Euclidean length of each row; faster than `np.linalg.norm` for short rows."""
    squares: FloatArray = np.einsum("sd,sd->s", vectors, vectors)
    return np.sqrt(squares)
