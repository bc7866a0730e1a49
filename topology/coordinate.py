"""Coordinates of the latency space, with or without a height, and their arithmetic.

In a flat space, a round trip is the Euclidean distance between two coordinates. That model fails
for a node behind a slow access link, which delays every packet of the node to near and far peers
alike. A *height* models this link (Dabek, Cox, Kaashoek, Morris: "Vivaldi: a decentralized network
coordinate system", SIGCOMM 2004, §5.4): a packet travels down the height of one node, through the
Euclidean space, and up the height of the other.

===========================  ==============================  ===================================
Dabek et al.                 name here                       meaning
===========================  ==============================  ===================================
[x, x_h]                     position_ms, height_ms          a position and its access link
[x, x_h] − [y, y_h]          `Vector.minus`                  [x − y, x_h + y_h]
‖[x, x_h]‖                   `Vector.length_ms`              ‖x‖ + x_h
α · [x, x_h]                 in `Vector.moved`               [α·x, α·x_h]
u([x, x_h])                  `Vector.unit`                   [x, x_h] / ‖[x, x_h]‖
===========================  ==============================  ===================================

Heights stay above a small minimum, as in that paper. A flat coordinate has no height, and its
arithmetic is Euclidean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topology.arrays import FloatArray

MAX_RTT_MS = 10_000.0
"""A longer round trip comes from a stalled process or a wrong clock; no link on Earth takes it."""

MIN_HEIGHT_MS = 0.01
"""No packet leaves a machine in less time, and a height of zero could not be scaled up again."""


class CoordinateError(ValueError):
    """Coordinates of two spaces: different dimensions, or only one of them with a height."""


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """A position, or the difference between two positions; height 0 in a flat space."""

    position_ms: FloatArray
    height_ms: float = 0.0

    @property
    def length_ms(self) -> float:
        """‖x‖ + x_h."""
        return float(np.linalg.norm(self.position_ms)) + self.height_ms

    def unit(self) -> Vector:
        """u(x): the vector of length 1 in the same direction."""
        return Vector(self.position_ms / self.length_ms, self.height_ms / self.length_ms)

    def minus(self, other: Vector) -> Vector:
        """The difference to another position; its height is the sum of both heights."""
        return Vector(self.position_ms - other.position_ms, self.height_ms + other.height_ms)

    def moved(self, direction: Vector, by_ms: float, min_height_ms: float) -> Vector:
        """This position moved in a direction, with a height of at least the minimum."""
        height_ms = max(self.height_ms + by_ms * direction.height_ms, min_height_ms)
        return Vector(self.position_ms + by_ms * direction.position_ms, height_ms)

    def is_finite(self) -> bool:
        """Whether all components are finite numbers."""
        return bool(np.all(np.isfinite(self.position_ms)) and np.isfinite(self.height_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """A position in the latency space and its estimated error.

    Attributes
    ----------
    position_ms
        Euclidean part, ms.
    error
        Relative error estimate: share of a round trip by which distances are off. 0 is certain,
        ≥ 1 is unknown.
    height_ms
        Access link, ms, > 0; None in a flat space.
    error_ms
        Absolute error estimate: by how many ms distances to peers are off. `MAX_RTT_MS` before the
        first measurement.
    """

    position_ms: tuple[float, ...]
    error: float
    height_ms: float | None = None
    error_ms: float = MAX_RTT_MS

    @property
    def vector(self) -> Vector:
        """The position for arithmetic."""
        return Vector(np.asarray(self.position_ms, dtype=np.float64), self.height_ms or 0.0)

    def distance_ms(self, other: Coordinate) -> float:
        """The round trip that two coordinates predict, ms.

        Raises
        ------
        CoordinateError
            If the coordinates belong to different spaces.

        Examples
        --------
        >>> here = Coordinate(position_ms=(0, 0), height_ms=2, error=0.1)
        >>> here.distance_ms(Coordinate(position_ms=(3, 4), height_ms=1, error=0.1))
        8.0
        """
        check_same_space(self, other, "coordinate")
        return self.vector.minus(other.vector).length_ms


def check_same_space(ours: Coordinate, theirs: Coordinate, whose: str) -> None:
    """Check that two coordinates belong to one space.

    Raises
    ------
    CoordinateError
        Naming the owner of the other coordinate, and what both coordinates have.
    """
    if len(theirs.position_ms) != len(ours.position_ms):
        raise CoordinateError(
            f"{whose} has {len(theirs.position_ms)} dimensions, this node "
            f"{len(ours.position_ms)}; all nodes need the same number"
        )
    if (theirs.height_ms is None) != (ours.height_ms is None):
        flat = "is flat" if theirs.height_ms is None else f"has a height of {theirs.height_ms} ms"
        mine = "is flat" if ours.height_ms is None else "has one"
        raise CoordinateError(f"{whose} {flat}, this node's {mine}; all nodes need the same space")
