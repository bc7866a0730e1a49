"""Moves many coordinates by a batch of latency samples, by one of two rules.

*Protocol* (`AdaptiveTimestep`, `ConstantTimestep`): the batch is divided into rounds in which each
node takes in one sample, all nodes at once, each against the coordinate its peer had in the round
before. One round does what as many calls of `Vivaldi.observe` would do with simultaneous messages.

*Averaged*: all samples of a node move it together, by gain · Σ ω·e·u / Σ ω, where u is the unit
vector away from the peer. Disagreements between samples cancel before anything moves, so the
coordinates come to rest. Under the protocol they keep trembling by δ times the disagreement. With
ω = 1 and all pairs known the rule is the Guttman transform of SMACOF, damped by the gain. Both ends
of a spring may move at once: a gain ≤ 0.5 cannot overshoot, a larger gain needs many samples per
node or momentum. An exponent p = 1 is between absolute stretches (p = 0) and relative ones (p = 2),
as in Sammon's mapping.

Averaging is not in the Vivaldi paper; it replaces the protocol where all samples are at hand.
`topology.bulk_coordinates` explains the symbols.

References
----------
F. Dabek, R. Cox, F. Kaashoek, R. Morris, "Vivaldi: a decentralized network coordinate system",
SIGCOMM 2004, figures 2-4.
J. de Leeuw, "Applications of convex analysis to multidimensional scaling", 1977 (SMACOF).
J. W. Sammon, "A nonlinear mapping for data structure analysis", IEEE Trans. Computers, 1969.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topology.bulk_coordinates import BulkCoordinates, BulkCoordinatesError
from topology.latency_samples import LatencySamples, possible, sums
from topology.vivaldi import (
    ERROR_GAIN,
    AdaptiveTimestep,
    ConstantTimestep,
    VivaldiError,
    check_fraction,
)
from topology.vivaldi_forces import forces_of, rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Averaged:
    """All samples of a node move it together.

    Attributes
    ----------
    gain
        Fraction of the mean stretch that is corrected at once, in (0, 1]; above 0.5 nodes that
        measured each other may overshoot.
    rtt_exponent
        p: the weight of a sample falls with rtt^p, in [0, 2].
    """

    gain: float = 0.5
    rtt_exponent: float = 1.0

    def __post_init__(self) -> None:
        check_fraction("gain", self.gain)
        if not 0 <= self.rtt_exponent <= 2:
            raise VivaldiError(f"rtt_exponent {self.rtt_exponent} is not in [0, 2]")


Timestep = AdaptiveTimestep | ConstantTimestep | Averaged


def relax(
    coordinates: BulkCoordinates,
    samples: LatencySamples,
    *,
    rng: np.random.Generator,
    timestep: Timestep | None = None,
    error_gain: float = ERROR_GAIN,
    movable: int | None = None,
) -> BulkCoordinates:
    """Move nodes by their samples.

    Samples that are impossible or whose peer is broken are rejected and counted. A coordinate that
    is no longer finite starts over, which is counted.

    Parameters
    ----------
    coordinates
        Of the nodes and of all their peers; nodes without samples of their own do not move.
    samples
        In the order in which each node took them.
    rng
        Draws a direction for nodes at the same point as their peer.
    timestep
        The rule, `Averaged` by default.
    error_gain
        c_e, in (0, 1].
    movable
        Only the first `movable` nodes have samples of their own; all by default. The others are
        peers whose coordinates another block moves.

    Returns
    -------
    BulkCoordinates
        Of the movable nodes, in new arrays, with higher counts of rejected samples and resets.

    Raises
    ------
    LatencySamplesError
        If a sample's index has no coordinate.
    BulkCoordinatesError, VivaldiError
        If a parameter is outside its range.

    Examples
    --------
    >>> from topology.bulk_coordinates import unplaced
    >>> samples = LatencySamples(
    ...     nodes=np.array([0, 1]), peers=np.array([1, 0]), rtt_ms=np.array([20.0, 20.0])
    ... )
    >>> placed = unplaced(2, 3)
    >>> for _ in range(20):
    ...     placed = relax(placed, samples, rng=np.random.default_rng())
    >>> placed.distances_ms(np.array([0]), np.array([1])).round(3).tolist()
    [20.0]
    """
    timestep = timestep or Averaged()
    movable = len(coordinates) if movable is None else movable
    check_fraction("error_gain", error_gain)
    if not 0 <= movable <= len(coordinates):
        raise BulkCoordinatesError(
            f"movable {movable} is not in [0, {len(coordinates)}], the number of coordinates"
        )
    samples.check(movable, len(coordinates))
    usable = possible(samples) & ~coordinates.broken()[samples.peers]
    kept = samples if usable.all() else samples.take(usable)
    # A finite but absurd coordinate may overflow here; it then starts over.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if isinstance(timestep, Averaged):
            moved = _averaged(coordinates, kept, rng, timestep, error_gain, movable)
        else:
            moved = _by_protocol(coordinates, kept, rng, timestep, error_gain).first(movable)
    return replace(moved, rejected=moved.rejected + len(samples) - len(kept))


def _by_protocol(
    coordinates: BulkCoordinates,
    samples: LatencySamples,
    rng: np.random.Generator,
    timestep: AdaptiveTimestep | ConstantTimestep,
    error_gain: float,
) -> BulkCoordinates:
    """Round by round, one sample per node: the step of `Vivaldi.observe`."""
    now, resets = coordinates.repaired(), 0
    for batch in rounds(samples):
        forces, nodes = forces_of(batch, now, now, rng), batch.nodes
        move_ms = timestep.fraction(forces.stretch_ms, forces.weight) * forces.stretch_ms
        errors, trust = now.errors[nodes], error_gain * forces.weight
        moved = BulkCoordinates(
            positions_ms=now.positions_ms[nodes] + move_ms[:, None] * forces.direction,
            errors=errors + trust * (forces.errors - errors),
        ).repaired()
        # The arrays of `now` are a copy made above.
        now.positions_ms[nodes], now.errors[nodes] = moved.positions_ms, moved.errors
        resets += moved.resets
    return replace(now, resets=now.resets + resets)


def _averaged(
    coordinates: BulkCoordinates,
    samples: LatencySamples,
    rng: np.random.Generator,
    timestep: Averaged,
    error_gain: float,
    movable: int,
) -> BulkCoordinates:
    """All samples of a node at once; only the first `movable` nodes move and are returned."""
    own = coordinates.first(movable).repaired()
    forces = forces_of(samples, own, coordinates, rng)
    nodes, weight = samples.nodes, forces.weight
    pull = weight / samples.rtt_ms**timestep.rtt_exponent
    move_ms = timestep.gain * forces.stretch_ms * pull / sums(nodes, pull, movable)[nodes]
    for axis in range(own.positions_ms.shape[1]):
        own.positions_ms[:, axis] += sums(nodes, move_ms * forces.direction[:, axis], movable)
    count = np.bincount(nodes, minlength=movable)
    total = sums(nodes, weight, movable)
    mean_error = sums(nodes, weight * forces.errors, movable)
    has_samples = count > 0
    mean_error[has_samples] /= total[has_samples]
    # As far as the same number of samples with this mean would move it one after the other.
    trust = 1 - (1 - error_gain * total / np.maximum(count, 1)) ** count
    errors = own.errors + trust * (mean_error - own.errors)
    return replace(own, errors=errors).repaired()
