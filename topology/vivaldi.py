"""Network coordinates: a node finds its own position from round trips to a few peers.

Vivaldi (Dabek, Cox, Kaashoek, Morris: "Vivaldi: a decentralized network coordinate system",
SIGCOMM 2004, figures 2-4; reliable placement, §4.2, Algorithm 2) treats each measured round trip
as a spring between two nodes. A node moves along the spring until distance and measurement agree.
The distance between two coordinates then approximates the round trip of a pair that was never
measured.

=========  ======================  ======================================================
symbol     name here               meaning
=========  ======================  ======================================================
x_i, x_j   position_ms             coordinates of this node and of the peer, ms
rtt        rtt_ms                  measured round trip, ms
e          stretch_ms              rtt − ‖x_i − x_j‖
e_i, e_j   error                   relative error estimates of both
           error_ms                error estimate of this node, ms
w          weight                  e_i / (e_i + e_j), this node's share of the correction
δ          delta, fraction         fraction of the stretch that is corrected at once
e_t        rest_ms                 stretch below which Algorithm 2 stops
=========  ======================  ======================================================

Deviations from Algorithm 2 of the reliable placement paper (`topology.pairwise` follows it):

- Algorithm 2 repeats its step on one sample until e < e_t. Here each exchange with a peer takes one
  step, with a fresh measurement and a fresh peer coordinate. Repeated on one sample, the step would
  fit that sample's noise and lose all earlier samples, whatever δ is.
- Its test is on |e|, since a coordinate may be too far away as well as too near.
- The default timestep is Dabek's adaptive one; the paper's constant δ is `ConstantTimestep`.
- Measurements are filtered: the median of a peer's last round trips counts, since a single late
  packet is no distance. Impossible values are rejected and counted. A coordinate that is no longer
  a finite number starts over, which is counted.

`topology.bulk_steps` takes the same step for many nodes at once.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median

import numpy as np

from foundation.arrays import FloatArray
from foundation.bounds import MAX_RTT_MS
from topology.coordinate import Coordinate, check_same_space

MAX_ERROR = 1.5
"""Upper limit of the error estimate: a coordinate with a larger error says nothing more."""

MIN_ERROR = 1e-3
"""Lower limit of the error estimate: no measured coordinate is exact, and the weight of two zero
errors would be undefined."""

ERROR_GAIN = 0.25
"""c_e of Dabek et al.: how fast an error estimate follows the samples."""


class VivaldiError(ValueError):
    """A parameter outside its range."""


def check_fraction(name: str, value: float) -> None:
    """Raise `VivaldiError` unless a parameter is in (0, 1]."""
    if not 0 < value <= 1:
        raise VivaldiError(f"{name} {value} is not in (0, 1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveTimestep:
    """Dabek's adaptive timestep: δ = gain · w, so that uncertain nodes move and certain ones stay.

    Attributes
    ----------
    gain
        c_c of Dabek et al., in (0, 1]; they recommend 0.25.
    """

    gain: float = 0.25

    def __post_init__(self) -> None:
        check_fraction("gain", self.gain)

    def fraction(self, stretch_ms: FloatArray, weight: FloatArray) -> FloatArray:
        """δ of each sample, from its stretch and weight, all of one shape."""
        return self.gain * weight


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantTimestep:
    """The timestep of Algorithm 2: the same δ for every peer, and no move below e_t.

    Attributes
    ----------
    delta
        δ, in (0, 1].
    rest_ms
        e_t, ms, ≥ 0.
    """

    delta: float = 0.25
    rest_ms: float = 0.1

    def __post_init__(self) -> None:
        check_fraction("delta", self.delta)
        if not self.rest_ms >= 0:
            raise VivaldiError(f"rest_ms {self.rest_ms} is not ≥ 0")

    def fraction(self, stretch_ms: FloatArray, weight: FloatArray) -> FloatArray:
        """δ of each sample, from its stretch and weight, all of one shape."""
        return np.where(np.abs(stretch_ms) >= self.rest_ms, self.delta, 0.0)


def spring(
    place_ms: FloatArray, peer_ms: FloatArray, rtt_ms: float, rng: np.random.Generator
) -> tuple[float, FloatArray]:
    """Stretch of the spring between a node and a peer, ms, and the unit vector from the peer.

    The unit vector is drawn at random if both are at the same point.
    """
    apart_ms = place_ms - peer_ms
    stretch_ms = rtt_ms - float(np.linalg.norm(apart_ms))
    if np.linalg.norm(apart_ms) == 0:
        apart_ms = rng.normal(size=apart_ms.shape)
    return stretch_ms, apart_ms / float(np.linalg.norm(apart_ms))


class Vivaldi:
    """The coordinate of one node, which its measurements move.

    Parameters
    ----------
    dimensions
        Dimensions of the latency space, ≥ 1; the same for all nodes of a cluster.
    rng
        Draws a direction when two nodes are at the same point, as all are at the start.
    timestep
        `AdaptiveTimestep` (default) or the paper's `ConstantTimestep`.
    error_gain
        c_e of Dabek et al., in (0, 1].
    filter_samples
        Number of a peer's last round trips of which the median counts, ≥ 1.

    Attributes
    ----------
    error
        Relative error estimate in [`MIN_ERROR`, `MAX_ERROR`], 1 at the start.
    error_ms
        Absolute error estimate, ms: the average of the stretches, with the weights of `error`. It
        is kept separately because error × round trip would mix the relative error of short links
        with the round trip of long ones. `MAX_RTT_MS` before the first sample; the first sample
        sets it to its round trip, since then only this upper limit is known.
    rejected
        Samples rejected: impossible round trips, and peers without a valid coordinate.
    resets
        Times that the node's own coordinate was no longer a finite number and started over.
    """

    def __init__(
        self,
        dimensions: int,
        rng: np.random.Generator,
        *,
        timestep: AdaptiveTimestep | ConstantTimestep | None = None,
        error_gain: float = ERROR_GAIN,
        filter_samples: int = 3,
    ) -> None:
        check_fraction("error_gain", error_gain)
        for name, count in (("dimensions", dimensions), ("filter_samples", filter_samples)):
            if count < 1:
                raise VivaldiError(f"{name} {count} is not ≥ 1")
        self._rng = rng
        self._timestep = timestep or AdaptiveTimestep()
        self._error_gain = error_gain
        self._filter_samples = filter_samples
        self._samples: dict[str, deque[float]] = {}
        self._start_ms = np.zeros(dimensions)
        self.rejected = 0
        self.resets = 0
        self.reset()

    @property
    def position_ms(self) -> FloatArray:
        """The position, ms, shape (dimensions,); a copy."""
        return self._place_ms.copy()

    @property
    def coordinate(self) -> Coordinate:
        """The coordinate as peers receive it."""
        return Coordinate(
            position_ms=tuple(self._place_ms.tolist()),
            error=self.error,
            error_ms=self.error_ms,
        )

    def observe(self, peer: str, rtt_ms: float, peer_coordinate: Coordinate) -> None:
        """Take in one exchange with a peer.

        Raises
        ------
        CoordinateError
            If the peer's coordinate has another number of dimensions: the peer belongs to a
            cluster with other settings.
        """
        check_same_space(self.coordinate, peer_coordinate, f"the coordinate of peer {peer!r}")
        theirs_ms = peer_coordinate.vector
        # NaN compares false, so it is rejected here as well.
        possible = 0 < rtt_ms <= MAX_RTT_MS and np.isfinite(theirs_ms).all()
        if not possible or math.isnan(peer_coordinate.error):
            self.rejected += 1
            return
        samples = self._samples.setdefault(peer, deque(maxlen=self._filter_samples))
        samples.append(rtt_ms)
        self._move(median(samples), theirs_ms, _bounded(peer_coordinate.error))

    def discard_samples(self, peer: str) -> None:
        """Discard the samples of a peer that left or came back elsewhere."""
        self._samples.pop(peer, None)

    def reset(self) -> None:
        """Start over at position zero, without samples."""
        self._place_ms = self._start_ms
        self.error = 1.0
        self.error_ms = MAX_RTT_MS
        self._samples.clear()

    def _move(self, rtt_ms: float, theirs_ms: FloatArray, their_error: float) -> None:
        weight = self.error / (self.error + their_error)
        # A peer's finite but absurd coordinate may overflow here; then the node starts over.
        with np.errstate(over="ignore", invalid="ignore"):
            moved_ms, stretch_ms = self._step(rtt_ms, theirs_ms, weight)
        if not np.isfinite(moved_ms).all():
            self.resets += 1
            self.reset()
            return
        self._place_ms = moved_ms
        self._learn(abs(stretch_ms), rtt_ms, self._error_gain * weight)

    def _step(
        self, rtt_ms: float, theirs_ms: FloatArray, weight: float
    ) -> tuple[FloatArray, float]:
        """Where a sample moves the node, and the stretch before."""
        stretch_ms, direction = spring(self._place_ms, theirs_ms, rtt_ms, self._rng)
        delta = float(self._timestep.fraction(np.array(stretch_ms), np.array(weight)))
        return self._place_ms + delta * stretch_ms * direction, stretch_ms

    def _learn(self, off_ms: float, rtt_ms: float, trust: float) -> None:
        """Let the error estimates follow a sample."""
        sample_error = min(off_ms / rtt_ms, MAX_ERROR)
        self.error = _bounded(sample_error * trust + self.error * (1 - trust))
        before_ms = rtt_ms if self.error_ms == MAX_RTT_MS else self.error_ms
        self.error_ms = min(off_ms * trust + before_ms * (1 - trust), MAX_RTT_MS)


def _bounded(error: float) -> float:
    return min(max(error, MIN_ERROR), MAX_ERROR)
