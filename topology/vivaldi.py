"""Network coordinates: each node finds its own place from round trips to a few peers.

Vivaldi (Dabek, Cox, Kaashoek, Morris: "Vivaldi: a decentralized network coordinate system",
SIGCOMM 2004, figures 2–4; reliable placement, §4.2, Algorithm 2) treats every measured round trip
as a spring. A node moves along the spring to its peer until distance and measurement agree; the
distance of two coordinates then approximates the round trip of a pair that was never measured.

=========  ======================  ======================================================
symbol     name here               meaning
=========  ======================  ======================================================
x_i, x_j   position_ms             coordinates of this node and the peer, ms
rtt        rtt_ms                  measured round trip, ms
e          stretch_ms              rtt − ‖x_i − x_j‖
e_i, e_j   error                   relative error estimates of both
           error_ms                this node's, in ms
w          weight                  e_i / (e_i + e_j): who of the two is to move
δ          delta, gain·w           share of the stretch that is corrected at once
e_t        rest_ms                 stretch below which Algorithm 2 stops
=========  ======================  ======================================================

Algorithm 2's `repeat … until e < e_t` is taken across exchanges: each brings a fresh measurement
and a fresh peer coordinate, and a stretch below e_t moves nothing. Run to its end on one sample,
the loop would fit that sample's noise and forget all others, whatever δ is; `topology.pairwise`
has it. Its test is on |e|, since a coordinate may be too far away as well as too near.

Either timestep works with heights (§5.4 of the original); vectors, and what u(x_i − x_j) and ‖·‖
mean for them, are in `topology.coordinate`.

Real measurements are robustly taken: the median of a peer's last few round trips counts (one
late packet is no distance), impossible values are refused and counted, and a coordinate that
stopped being a number starts over, counted.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median

import numpy as np

from topology.arrays import FloatArray
from topology.coordinate import MAX_RTT_MS, MIN_HEIGHT_MS, Coordinate, Vector, check_same_space

MAX_ERROR = 1.5
"""Ceiling of the error estimate: beyond this a coordinate says nothing, however much worse."""

MIN_ERROR = 1e-3
"""Floor of the error estimate: no measured coordinate is exact, and two zeros have no weight."""


class VivaldiError(ValueError):
    """Parameters out of their range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """Dabek's adaptive timestep: δ = gain · w, so the unsure move and the sure stay.

    Attributes
    ----------
    gain
        c_c of the original, in (0, 1]; its authors' 0.25.
    """

    gain: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """The paper's Algorithm 2: the same δ whoever the peer is, no move below e_t.

    Attributes
    ----------
    delta
        δ, in (0, 1].
    rest_ms
        e_t, ms, ≥ 0.
    """

    delta: float = 0.25
    rest_ms: float = 0.1


class Vivaldi:
    """One node's coordinate, moved by what it measures.

    Parameters
    ----------
    dimensions
        Of the latency space, ≥ 1; all nodes of a cluster must agree.
    rng
        Draws a direction when two nodes lie on the same point, as all do at the start.
    timestep
        `Adaptive` or the paper's `Constant`.
    error_gain
        c_e of the original, in (0, 1]: how fast the error estimate follows the samples.
    filter_samples
        Round trips a peer whose median counts, ≥ 1.
    height
        Whether coordinates have a height (`topology.coordinate`); all nodes must agree.

    Attributes
    ----------
    error
        Relative error estimate in [`MIN_ERROR`, `MAX_ERROR`], 1 at the start.
    error_ms
        Absolute error estimate, ms: the stretches seen, averaged with the weights of `error`. It
        is averaged by itself rather than taken as error × round trip, as a network's short links
        make the relative error and its long ones the round trip. `MAX_RTT_MS` before the first
        sample, which sets it to its round trip: all that is known is which of the two is less.
    rejected
        Samples refused: impossible round trips, and peers whose coordinate is not a number.
    resets
        Times the own coordinate had stopped being a number and started over.
    """

    def __init__(
        self,
        dimensions: int,
        rng: np.random.Generator,
        *,
        timestep: Adaptive | Constant | None = None,
        error_gain: float = 0.25,
        filter_samples: int = 3,
        height: bool = False,
    ) -> None:
        timestep = timestep or Adaptive()
        delta = timestep.gain if isinstance(timestep, Adaptive) else timestep.delta
        for name, value in (("timestep", delta), ("error_gain", error_gain)):
            if not 0 < value <= 1:
                raise VivaldiError(f"{name} {value} is not in (0, 1]")
        if isinstance(timestep, Constant) and not timestep.rest_ms >= 0:
            raise VivaldiError(f"rest_ms {timestep.rest_ms} is not ≥ 0")
        for name, count in (("dimensions", dimensions), ("filter_samples", filter_samples)):
            if count < 1:
                raise VivaldiError(f"{name} {count} is not ≥ 1")
        self._rng = rng
        self._timestep = timestep
        self._error_gain = error_gain
        self._filter_samples = filter_samples
        self._samples: dict[str, deque[float]] = {}
        self._min_height_ms = MIN_HEIGHT_MS if height else 0.0
        self._place = Vector(np.zeros(dimensions), self._min_height_ms)
        self.error = 1.0
        self.error_ms = MAX_RTT_MS
        self.rejected = 0
        self.resets = 0

    @property
    def position_ms(self) -> FloatArray:
        """The coordinate's Euclidean part, ms, shape (dimensions,); a copy."""
        return self._place.position_ms.copy()

    @property
    def coordinate(self) -> Coordinate:
        """What peers are told."""
        return Coordinate(
            position_ms=tuple(self._place.position_ms.tolist()),
            height_ms=self._place.height_ms if self._min_height_ms else None,
            error=self.error,
            error_ms=self.error_ms,
        )

    def observe(self, peer: str, rtt_ms: float, peer_coordinate: Coordinate) -> None:
        """Take in one exchange with a peer.

        Raises
        ------
        CoordinateError
            If the peer's coordinate has another number of dimensions, or a height where this
            node's has none: it belongs to a cluster with other settings, which no amount of
            measuring cures.
        """
        check_same_space(self.coordinate, peer_coordinate, f"the coordinate of peer {peer!r}")
        theirs = peer_coordinate.vector
        # NaN compares false, so it is refused here as well.
        possible = 0 < rtt_ms <= MAX_RTT_MS and theirs.height_ms >= self._min_height_ms
        if not possible or not theirs.is_finite() or math.isnan(peer_coordinate.error):
            self.rejected += 1
            return
        samples = self._samples.setdefault(peer, deque(maxlen=self._filter_samples))
        samples.append(rtt_ms)
        self._move(median(samples), theirs, _bounded(peer_coordinate.error))

    def forget(self, peer: str) -> None:
        """Drop the samples of a peer that left, or came back somewhere else."""
        self._samples.pop(peer, None)

    def reset(self) -> None:
        """Start over from the origin, knowing nothing."""
        self._place = Vector(np.zeros_like(self._place.position_ms), self._min_height_ms)
        self.error = 1.0
        self.error_ms = MAX_RTT_MS
        self._samples.clear()

    def _move(self, rtt_ms: float, theirs: Vector, their_error: float) -> None:
        # A peer's absurd but finite coordinate may overflow here; the reset below answers it.
        with np.errstate(over="ignore", invalid="ignore"):
            apart = self._place.minus(theirs)
            distance_ms = apart.length_ms
            stretch_ms = rtt_ms - distance_ms
            weight = self.error / (self.error + their_error)
            match self._timestep:
                case Adaptive(gain=gain):
                    delta = gain * weight
                case Constant(delta=constant, rest_ms=rest_ms):
                    delta = constant if abs(stretch_ms) >= rest_ms else 0.0
            # Two nodes on one point are to part sideways, whatever their heights.
            together = float(np.linalg.norm(apart.position_ms)) == 0
            direction = self._any_direction() if together else apart.unit()
            moved = self._place.moved(direction, delta * stretch_ms, self._min_height_ms)
        if not moved.is_finite():
            self.resets += 1
            self.reset()
            return
        self._place = moved
        self._learn(abs(stretch_ms), rtt_ms, self._error_gain * weight)

    def _learn(self, off_ms: float, rtt_ms: float, trust: float) -> None:
        """Let the error estimates follow a sample."""
        sample_error = min(off_ms / rtt_ms, MAX_ERROR)
        self.error = _bounded(sample_error * trust + self.error * (1 - trust))
        before_ms = rtt_ms if self.error_ms == MAX_RTT_MS else self.error_ms
        self.error_ms = min(off_ms * trust + before_ms * (1 - trust), MAX_RTT_MS)

    def _any_direction(self) -> Vector:
        direction = Vector(self._rng.normal(size=self._place.position_ms.shape))
        if direction.length_ms == 0:  # Has probability zero, but would divide by it.
            return Vector(np.eye(1, len(direction.position_ms))[0])
        return direction.unit()


def _bounded(error: float) -> float:
    return min(max(error, MIN_ERROR), MAX_ERROR)
