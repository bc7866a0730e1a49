"""Network coordinates of many nodes at once: Vivaldi on arrays.

A million nodes cannot be embedded by a million objects. Here the coordinates of all nodes (or of
one block of them and the peers it has measured) are arrays, and a batch of latency samples moves
them together, by the rule of `topology.vivaldi` (Dabek, Cox, Kaashoek, Morris: "Vivaldi: a
decentralized network coordinate system", SIGCOMM 2004, figures 2–4).

=========  ======================  ======================================================
symbol     name here               meaning
=========  ======================  ======================================================
x_i, x_j   positions_ms            coordinates, ms; their distance is the round trip
rtt        rtt_ms                  measured round trips, ms
e          stretch_ms              rtt − ‖x_i − x_j‖
e_i, e_j   errors                  relative error estimates
w          weight                  e_i / (e_i + e_j)
δ          gain·w, delta           share of the stretch that is corrected at once
ω          pull                    w / rtt^p: how hard a sample pulls among a node's samples
=========  ======================  ======================================================

There are two ways of taking in a batch (`topology.bulk_steps`). `Adaptive` and `Constant` follow
the protocol, one sample a node at a time. `Averaged` takes in all samples of a node as one, and so
comes to rest.

What is no round trip, or has no peer, is refused and counted; a coordinate that is not a number
starts over, counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topology.arrays import FloatArray, IntArray
from topology.bulk_steps import Averaged, averaged, broken, by_protocol
from topology.latency_samples import LatencySamples, possible
from topology.vivaldi import Adaptive, Constant
from topology.vivaldi_forces import lengths

ERROR_GAIN = 0.25
"""c_e of the original: how fast an error estimate follows the samples."""


class BulkCoordinatesError(ValueError):
    """Arrays that do not fit each other, or parameters out of their range."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BulkCoordinates:
    """Coordinates of many nodes.

    Attributes
    ----------
    positions_ms
        Shape (n, d); the distance of two approximates their round trip, ms.
    errors
        Relative error estimates, shape (n,), within `topology.vivaldi`'s limits; 1 at the start.
    rejected
        Samples refused so far: impossible round trips, peers whose coordinate is not a number,
        nodes that measured themselves.
    resets
        Coordinates so far that had stopped being numbers and started over.
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
        apart = self.positions_ms[nodes] - self.positions_ms[peers]
        return lengths(apart)

    def relative_errors(self, samples: LatencySamples) -> FloatArray:
        """|distance − rtt| / rtt of each sample, shape (s,)."""
        distance_ms = self.distances_ms(samples.nodes, samples.peers)
        return np.abs(distance_ms - samples.rtt_ms) / samples.rtt_ms


Timestep = Adaptive | Constant | Averaged


def unplaced(count: int, dimensions: int) -> BulkCoordinates:
    """Nodes that know nothing: all at the origin, with error 1, as Vivaldi begins."""
    return BulkCoordinates(positions_ms=np.zeros((count, dimensions)), errors=np.ones(count))


def relax(
    coordinates: BulkCoordinates,
    samples: LatencySamples,
    *,
    rng: np.random.Generator,
    timestep: Timestep | None = None,
    error_gain: float = ERROR_GAIN,
    movable: int | None = None,
) -> BulkCoordinates:
    """Let a batch of samples move the nodes that measured them.

    Parameters
    ----------
    coordinates
        Of the nodes and of all their peers; nodes without samples of their own stay.
    samples
        In the order in which each node took them.
    rng
        Draws a direction for nodes that lie on the same point as their peer.
    timestep
        `Averaged` if not given (see the module).
    error_gain
        c_e, in (0, 1].
    movable
        Only the first so many nodes have samples of their own; all if not given. The others are
        peers whose coordinates another block moves.

    Returns
    -------
    BulkCoordinates
        Of the movable nodes, in new arrays; the counts raised by what was refused and reset.

    Raises
    ------
    LatencySamplesError
        An index without a coordinate.
    BulkCoordinatesError
        A parameter out of its range.

    Examples
    --------
    >>> springs = LatencySamples(
    ...     nodes=np.array([0, 1]), peers=np.array([1, 0]), rtt_ms=np.array([20.0, 20.0])
    ... )
    >>> placed = unplaced(2, 3)
    >>> for _ in range(20):
    ...     placed = relax(placed, springs, rng=np.random.default_rng())
    >>> placed.distances_ms(np.array([0]), np.array([1])).round(3).tolist()
    [20.0]
    """
    timestep = timestep or Averaged()
    movable = len(coordinates) if movable is None else movable
    _check(coordinates, samples, timestep, error_gain, movable)
    positions_ms, errors = coordinates.positions_ms, coordinates.errors
    usable = possible(samples) & ~broken(positions_ms, errors)[samples.peers]
    kept = samples if usable.all() else samples.take(usable)
    # An absurd but finite coordinate may overflow here; it starts over then.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if isinstance(timestep, Averaged):
            moved = averaged(
                positions_ms,
                errors,
                kept,
                rng=rng,
                timestep=timestep,
                error_gain=error_gain,
                movable=movable,
            )
        else:
            moved = by_protocol(
                positions_ms, errors, kept, rng=rng, timestep=timestep, error_gain=error_gain
            )
    return BulkCoordinates(
        positions_ms=moved.positions_ms[:movable],
        errors=moved.errors[:movable],
        rejected=coordinates.rejected + len(samples) - len(kept),
        resets=coordinates.resets + moved.resets,
    )


def carried_on(
    before: BulkCoordinates, now: BulkCoordinates, moved: BulkCoordinates, momentum: float
) -> BulkCoordinates:
    """What `relax` made of `now`, and a share of the last move on top (Polyak's heavy ball).

    Springs along a chain pass a correction on by one node a batch; with momentum 0.8 the same
    rest is found in a fraction of the batches.
    """
    positions_ms = moved.positions_ms + momentum * (now.positions_ms - before.positions_ms)
    return replace(moved, positions_ms=positions_ms)


def _check(
    coordinates: BulkCoordinates,
    samples: LatencySamples,
    timestep: Timestep,
    error_gain: float,
    movable: int,
) -> None:
    delta = timestep.delta if isinstance(timestep, Constant) else timestep.gain
    for name, value in (("timestep", delta), ("error_gain", error_gain)):
        if not 0 < value <= 1:
            raise BulkCoordinatesError(f"{name} {value} is not in (0, 1]")
    if isinstance(timestep, Constant) and not timestep.rest_ms >= 0:
        raise BulkCoordinatesError(f"rest_ms {timestep.rest_ms} is not ≥ 0")
    if isinstance(timestep, Averaged) and not 0 <= timestep.rtt_exponent <= 2:
        raise BulkCoordinatesError(f"rtt_exponent {timestep.rtt_exponent} is not in [0, 2]")
    if not 0 <= movable <= len(coordinates):
        raise BulkCoordinatesError(
            f"movable {movable} is not in [0, {len(coordinates)}], the number of coordinates"
        )
    samples.check(movable, len(coordinates))
