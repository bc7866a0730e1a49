"""Coordinates of the latency space, flat or with a height, and their arithmetic.

A flat coordinate says that a round trip is a distance in Euclidean space. Where every packet of a
node passes one slow access link, no place in that space tells the truth: the link is part of the
way to all peers, near and far. A *height* models it (Dabek, Cox, Kaashoek, Morris: "Vivaldi: a
decentralized network coordinate system", SIGCOMM 2004, §5.4): a packet goes down the height of
one node, through the space, and up that of the other.

===========================  ==============================  ===================================
paper                        name here                       meaning
===========================  ==============================  ===================================
[x, x_h]                     position_ms, height_ms          a place, and its access link
[x, x_h] − [y, y_h]          `Vector.minus`                  [x − y, x_h + y_h]
‖[x, x_h]‖                   `Vector.length_ms`              ‖x‖ + x_h
α · [x, x_h]                 within `Vector.moved`           [α·x, α·x_h]
u([x, x_h])                  `Vector.unit`                   [x, x_h] / ‖[x, x_h]‖
===========================  ==============================  ===================================

Heights stay above a small minimum, as in the paper; a flat coordinate has none, and its arithmetic
is that of Euclid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topology.arrays import FloatArray

MAX_RTT_MS = 10_000.0
"""A longer round trip is a stalled process or a broken clock: no link on Earth takes it."""

MIN_HEIGHT_MS = 0.01
"""No packet leaves a machine in less, and a height of zero could not be scaled back up."""


class CoordinateError(ValueError):
    """Coordinates of two different spaces: other dimensions, or a height on one side only."""


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """A place, or the way from one to another; of a flat space with height 0."""

    position_ms: FloatArray
    height_ms: float = 0.0

    @property
    def length_ms(self) -> float:
        """‖x‖ + x_h."""
        return float(np.linalg.norm(self.position_ms)) + self.height_ms

    def unit(self) -> Vector:
        """u(x): this way at length 1."""
        return Vector(self.position_ms / self.length_ms, self.height_ms / self.length_ms)

    def minus(self, other: Vector) -> Vector:
        """The way from the other place to this one: down one height and up the other."""
        return Vector(self.position_ms - other.position_ms, self.height_ms + other.height_ms)

    def moved(self, direction: Vector, by_ms: float, min_height_ms: float) -> Vector:
        """This place moved in a direction, its height kept from falling below a minimum."""
        height_ms = max(self.height_ms + by_ms * direction.height_ms, min_height_ms)
        return Vector(self.position_ms + by_ms * direction.position_ms, height_ms)

    def is_finite(self) -> bool:
        """Whether all components are numbers."""
        return bool(np.all(np.isfinite(self.position_ms)) and np.isfinite(self.height_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """A place in latency space, and how sure its node is of it.

    Attributes
    ----------
    position_ms
        Euclidean part, ms.
    error
        Relative error estimate: share of a round trip by which distances are off; 0 certain, ≥ 1
        unknown.
    height_ms
        Access link, ms, > 0; None in a flat space.
    error_ms
        The same error in ms: by how much distances to peers are off. `MAX_RTT_MS` while nothing
        was measured.
    """

    position_ms: tuple[float, ...]
    error: float
    height_ms: float | None = None
    error_ms: float = MAX_RTT_MS

    @property
    def vector(self) -> Vector:
        """For arithmetic."""
        return Vector(np.asarray(self.position_ms, dtype=np.float64), self.height_ms or 0.0)

    def distance_ms(self, other: Coordinate) -> float:
        """The round trip that two coordinates tell, ms.

        Raises
        ------
        CoordinateError
            If they are not of one space.

        Examples
        --------
        >>> here = Coordinate(position_ms=(0, 0), height_ms=2, error=0.1)
        >>> here.distance_ms(Coordinate(position_ms=(3, 4), height_ms=1, error=0.1))
        8.0
        """
        check_same_space(self, other, "coordinate")
        return self.vector.minus(other.vector).length_ms


def check_same_space(ours: Coordinate, theirs: Coordinate, whose: str) -> None:
    """Refuse coordinates that cannot be subtracted.

    Raises
    ------
    CoordinateError
        Naming whose coordinate it is, and what both have.
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
