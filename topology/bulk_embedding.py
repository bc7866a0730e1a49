"""Coordinates of many nodes from nothing but samples: spectral initialisation, then relaxation.

The steps are the same for one process (`embed`) and for blocks on Spark:

1. `topology.spectral_initialisation` gives approximate positions.
2. Relaxation by absolute stretches (exponent 0). Long round trips pull hardest, so clusters move to
   their positions as a whole; short round trips would tie a cluster together before it gets there.
   A few spare dimensions let nodes move around each other; without them a plane stays folded where
   its initialisation folded it.
3. The spare dimensions are removed: the coordinates are projected onto the axes along which they
   vary most (`Flattening`).
4. Relaxation between absolute and relative stretches (exponent 1) also fits short round trips,
   which relative errors depend on.

All relaxation is `Averaged`, with momentum. With momentum β, steps converge as long as the gain
times the largest eigenvalue of the springs' normalised Laplacian, at most 2, is below 2 (1 + β).
The full gain is therefore safe here, and on 100,000 nodes it needs half the iterations of gain
0.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from foundation.arrays import FloatArray
from topology.bulk_coordinates import BulkCoordinates, BulkCoordinatesError, with_momentum
from topology.bulk_steps import Averaged, relax
from topology.latency_samples import LatencySamples
from topology.spectral_initialisation import ITERATIONS, Moments, spectral_initialisation


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSteps:
    """Number and kind of the steps.

    Attributes
    ----------
    start_iterations
        Passes of the spectral initialisation, ≥ 1.
    iterations
        Passes of relaxation, ≥ 2.
    coarse_share
        Share of these passes that use absolute stretches and spare dimensions, in [0, 1]; at least
        one pass does and one does not.
    spare_dimensions
        Further dimensions of the coarse passes, ≥ 0.
    gain
        Fraction of a node's mean stretch that is corrected at once, in (0, 1].
    momentum
        Share of the last move that is repeated, in [0, 1).
    """

    start_iterations: int = ITERATIONS
    iterations: int = 40
    coarse_share: float = 0.5
    spare_dimensions: int = 2
    gain: float = 1.0
    momentum: float = 0.8

    def __post_init__(self) -> None:
        for name, least in {"start_iterations": 1, "iterations": 2, "spare_dimensions": 0}.items():
            if (count := getattr(self, name)) < least:
                raise BulkCoordinatesError(f"{name} {count} is not ≥ {least}")
        if not 0 <= self.coarse_share <= 1:
            raise BulkCoordinatesError(f"coarse_share {self.coarse_share} is not in [0, 1]")
        if not 0 < self.gain <= 1:
            raise BulkCoordinatesError(f"gain {self.gain} is not in (0, 1]")
        if not 0 <= self.momentum < 1:
            raise BulkCoordinatesError(f"momentum {self.momentum} is not in [0, 1)")

    @property
    def coarse_iterations(self) -> int:
        """Passes of relaxation with spare dimensions."""
        return min(max(round(self.coarse_share * self.iterations), 1), self.iterations - 1)

    def timestep(self, iteration: int) -> Averaged:
        """The rule of relaxation number `iteration`, counted from 0."""
        coarse = iteration < self.coarse_iterations
        return Averaged(gain=self.gain, rtt_exponent=0.0 if coarse else 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flattening:
    """Projection onto the axes along which coordinates vary most.

    Attributes
    ----------
    centre_ms
        Mean of the coordinates, shape (d + spare,), ms.
    axes
        Orthonormal columns, the least variance first, shape (d + spare, d).
    """

    centre_ms: FloatArray
    axes: FloatArray

    @classmethod
    def of(cls, moments: Moments, dimensions: int) -> Flattening:
        """The projection onto `dimensions` axes, from the moments of all nodes' coordinates."""
        centre_ms, _, axes = moments.principal_axes()
        return cls(centre_ms=centre_ms, axes=axes[:, -dimensions:])

    def positions_ms(self, spacious_ms: FloatArray) -> FloatArray:
        """Projected coordinates, shape (nodes, d), ms."""
        return (spacious_ms - self.centre_ms).dot(self.axes)


def embed(
    samples: LatencySamples,
    count: int,
    dimensions: int,
    rng: np.random.Generator,
    *,
    schedule: EmbeddingSteps | None = None,
    watch: Callable[[int, BulkCoordinates], None] | None = None,
) -> BulkCoordinates:
    """Coordinates of `count` nodes from their samples, in memory.

    Parameters
    ----------
    samples
        Each sample counts for both of its ends.
    count, dimensions
        Numbers of nodes, ≥ 2, and dimensions, ≥ 1.
    rng
        Draws the start of the initialisation and directions of nodes at one point.
    schedule
        `EmbeddingSteps()` by default.
    watch
        Called with the number of each relaxation and the coordinates after it.

    Raises
    ------
    BulkCoordinatesError
        If there are too few nodes or dimensions.
    LatencySamplesError
        If a sample names a node that does not exist.
    """
    if count < 2 or dimensions < 1:
        raise BulkCoordinatesError(
            f"{count} nodes in {dimensions} dimensions: at least 2 nodes and 1 dimension are needed"
        )
    schedule = schedule or EmbeddingSteps()
    forces = samples.both_ways()
    forces.check(count)
    spacious = dimensions + schedule.spare_dimensions
    placed = spectral_initialisation(forces, count, spacious, rng, schedule.start_iterations)
    now = BulkCoordinates(positions_ms=placed, errors=np.ones(count))
    before = now
    for iteration in range(schedule.iterations):
        if iteration == schedule.coarse_iterations:
            flat = Flattening.of(Moments.of(now.positions_ms), dimensions)
            before, now = (
                replace(each, positions_ms=flat.positions_ms(each.positions_ms))
                for each in (before, now)
            )
        moved = relax(now, forces, rng=rng, timestep=schedule.timestep(iteration))
        before, now = now, with_momentum(before, now, moved, schedule.momentum)
        if watch is not None:
            watch(iteration + 1, now)
    return now
