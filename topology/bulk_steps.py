"""The two rules by which a batch of latency samples moves many coordinates.

`by_protocol` cuts the batch into rounds in which each node takes in one sample, all nodes at once,
each against its peer's coordinate of the round before. A round is what as many `Vivaldi.observe`
would do with simultaneous messages.

`averaged` takes in all samples of a node as one: it moves by gain · Σ ω·e·u / Σ ω, u the unit
vector away from the peer. What samples disagree about cancels before it moves anything, so that
coordinates come to rest, where the protocol's keep trembling by δ times the disagreement. With
pull 1 and all pairs known it is the Guttman transform of SMACOF, damped by the gain. Both ends of
a spring may move at once: a gain ≤ 0.5 cannot overshoot, a larger one needs many samples a node
or momentum. p = 1 weighs stretches between absolute (p = 0) and relative (p = 2), as Sammon's
mapping does.

Both work on bare arrays, of possible samples, and leave those that they are given as they are; a
coordinate that is not a number starts over. `topology.bulk_coordinates` names the symbols.

References
----------
J. de Leeuw, "Applications of convex analysis to multidimensional scaling", 1977 (SMACOF).
J. W. Sammon, "A nonlinear mapping for data structure analysis", IEEE Trans. Computers, 1969.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from topology.arrays import BoolArray, FloatArray
from topology.latency_samples import LatencySamples, sums
from topology.vivaldi import MAX_ERROR, MIN_ERROR, Adaptive, Constant
from topology.vivaldi_forces import rounds, sample_errors, stretched


@dataclass(frozen=True, slots=True, kw_only=True)
class Averaged:
    """All samples of a node move it as one.

    Attributes
    ----------
    gain
        Share of the mean stretch that is corrected at once, in (0, 1]; above 0.5 nodes that
        measured each other may overshoot.
    rtt_exponent
        p: a sample's pull falls with rtt^p, in [0, 2].
    """

    gain: float = 0.5
    rtt_exponent: float = 1.0


class Moved(NamedTuple):
    """Coordinates, shape (n, d), and error estimates, shape (n,), after a batch of samples.

    `resets` of them had stopped being numbers and started over, counted as often as they did.
    """

    positions_ms: FloatArray
    errors: FloatArray
    resets: int


def by_protocol(
    positions_ms: FloatArray,
    errors: FloatArray,
    samples: LatencySamples,
    *,
    rng: np.random.Generator,
    timestep: Adaptive | Constant,
    error_gain: float,
) -> Moved:
    """Round after round, in each one sample a node: the body of `Vivaldi.observe`."""
    positions_ms, errors = positions_ms.copy(), errors.copy()
    resets = _start_over(positions_ms, errors)
    own = (positions_ms, errors)
    for batch in rounds(samples):
        forces = stretched(batch, own, own, rng)
        match timestep:
            case Adaptive(gain=gain):
                delta = gain * forces.weight
            case Constant(delta=constant, rest_ms=rest_ms):
                delta = np.where(np.abs(forces.stretch_ms) >= rest_ms, constant, 0.0)
        nodes = batch.nodes
        moved = positions_ms[nodes] + (delta * forces.stretch_ms)[:, None] * forces.direction
        trust = error_gain * forces.weight
        learnt = errors[nodes] + trust * (sample_errors(forces, batch) - errors[nodes])
        resets += _start_over(moved, learnt)
        positions_ms[nodes], errors[nodes] = moved, learnt
    return Moved(positions_ms, errors, resets)


def averaged(
    positions_ms: FloatArray,
    errors: FloatArray,
    samples: LatencySamples,
    *,
    rng: np.random.Generator,
    timestep: Averaged,
    error_gain: float,
    movable: int,
) -> Moved:
    """All samples of a node as one; only the first `movable` nodes have any, and are returned."""
    theirs = (positions_ms, errors)
    positions_ms, errors = positions_ms[:movable].copy(), errors[:movable].copy()
    resets = _start_over(positions_ms, errors)
    forces = stretched(samples, (positions_ms, errors), theirs, rng)
    nodes, weight = samples.nodes, forces.weight
    pull = weight / samples.rtt_ms**timestep.rtt_exponent
    move_ms = timestep.gain * forces.stretch_ms * pull / sums(nodes, pull, movable)[nodes]
    for axis in range(positions_ms.shape[1]):
        positions_ms[:, axis] += sums(nodes, move_ms * forces.direction[:, axis], movable)
    count = np.bincount(nodes, minlength=movable)
    total = sums(nodes, weight, movable)
    mean_error = sums(nodes, weight * sample_errors(forces, samples), movable)
    has_samples = count > 0
    mean_error[has_samples] /= total[has_samples]
    # As far as so many samples of that mean, one after the other, would have brought it.
    trust = 1 - (1 - error_gain * total / np.maximum(count, 1)) ** count
    errors += trust * (mean_error - errors)
    resets += _start_over(positions_ms, errors)
    return Moved(positions_ms, errors, resets)


def broken(positions_ms: FloatArray, errors: FloatArray) -> BoolArray:
    """Which coordinates have stopped being numbers, shape (n,)."""
    return ~(np.isfinite(positions_ms).all(axis=1) & np.isfinite(errors))


def _start_over(positions_ms: FloatArray, errors: FloatArray) -> int:
    """Put what is no number at the origin, in place; how many that were."""
    lost = broken(positions_ms, errors)
    positions_ms[lost] = 0.0
    errors[lost] = 1.0
    np.clip(errors, MIN_ERROR, MAX_ERROR, out=errors)
    return int(lost.sum())
