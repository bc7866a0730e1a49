"""Coordinates of the latency space: the Euclidean distance of two of them predicts a round trip.

Heights (Dabek, Cox, Kaashoek, Morris: "Vivaldi: a decentralized network coordinate system",
SIGCOMM 2004, §5.4), which model slow access links, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray
from foundation.bounds import MAX_RTT_MS


class CoordinateError(ValueError):
    """Coordinates of two spaces, which have different dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """A position in the latency space and its estimated error.

    Attributes
    ----------
    position_ms
        Shape (d,), ms.
    error
        Relative error estimate: share of a round trip by which distances are off. 0 is certain,
        ≥ 1 is unknown.
    error_ms
        Absolute error estimate: by how many ms distances to peers are off. `MAX_RTT_MS` before the
        first measurement.
    """

    position_ms: tuple[float, ...]
    error: float
    error_ms: float = MAX_RTT_MS

    @property
    def vector(self) -> FloatArray:
        """The position for arithmetic."""
        return np.asarray(self.position_ms, dtype=np.float64)

    def distance_ms(self, other: Coordinate) -> float:
        """The round trip that two coordinates predict, ms.

        Raises
        ------
        CoordinateError
            If the coordinates belong to different spaces.

        Examples
        --------
        >>> here = Coordinate(position_ms=(0, 0), error=0.1)
        >>> here.distance_ms(Coordinate(position_ms=(3, 4), error=0.1))
        5.0
        """
        check_same_space(self, other, "coordinate")
        return float(np.linalg.norm(self.vector - other.vector))


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
