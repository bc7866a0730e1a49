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
w          weight                  e_i / (e_i + e_j): who of the two is to move
δ          delta, gain·w           share of the stretch that is corrected at once
e_t        rest_ms                 stretch below which Algorithm 2 stops
=========  ======================  ======================================================

Algorithm 2's `repeat … until e < e_t` is taken across exchanges: each brings a fresh measurement
and a fresh peer coordinate, and a stretch below e_t moves nothing. Run to its end on one sample,
the loop would fit that sample's noise and forget all others, whatever δ is. Its test is on |e|,
since a coordinate may be too far away as well as too near.

Real measurements are robustly taken: the median of a peer's last few round trips counts (one
late packet is no distance), impossible values are refused and counted, and a coordinate that
stopped being a number starts over, counted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

MAX_RTT_MS = 10_000.0
"""A longer round trip is a stalled process or a broken clock: no link on Earth takes it."""

MAX_ERROR = 1.5
"""Ceiling of the error estimate: beyond this a coordinate says nothing, however much worse."""

MIN_ERROR = 1e-3
"""Floor of the error estimate: no measured coordinate is exact, and two zeros have no weight."""


class VivaldiError(ValueError):
    """Parameters or a peer's coordinate that do not fit this coordinate space."""


class PeerCoordinate(Protocol):
    """What is needed of a peer: its place and how sure it is of it."""

    @property
    def position_ms(self) -> Sequence[float]:
        """Coordinate; its distance to ours approximates the round trip, ms."""
        ...

    @property
    def error(self) -> float:
        """Relative error estimate, > 0."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """A place in latency space with its relative error estimate (0 certain, ≥ 1 unknown)."""

    position_ms: tuple[float, ...]
    error: float


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

    Attributes
    ----------
    error
        Relative error estimate in [`MIN_ERROR`, `MAX_ERROR`], 1 at the start.
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
        self._position_ms: FloatArray = np.zeros(dimensions)
        self.error = 1.0
        self.rejected = 0
        self.resets = 0

    @property
    def position_ms(self) -> FloatArray:
        """The coordinate, ms, shape (dimensions,); a copy."""
        return self._position_ms.copy()

    @property
    def coordinate(self) -> Coordinate:
        """What peers are told."""
        return Coordinate(position_ms=tuple(self._position_ms.tolist()), error=self.error)

    def observe(self, peer: str, rtt_ms: float, peer_coordinate: PeerCoordinate) -> None:
        """Take in one exchange with a peer.

        Raises
        ------
        VivaldiError
            If the peer's coordinate has another number of dimensions: it belongs to a cluster
            with other settings, which no amount of measuring cures.
        """
        theirs = np.asarray(peer_coordinate.position_ms, dtype=np.float64)
        if theirs.shape != self._position_ms.shape:
            raise VivaldiError(
                f"peer {peer!r} has a coordinate of shape {theirs.shape}, this node one of "
                f"{self._position_ms.shape}; all nodes need the same number of dimensions"
            )
        # NaN compares false, so it is refused here as well.
        possible = 0 < rtt_ms <= MAX_RTT_MS
        if not possible or not np.all(np.isfinite(theirs)) or math.isnan(peer_coordinate.error):
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
        self._position_ms = np.zeros_like(self._position_ms)
        self.error = 1.0
        self._samples.clear()

    def _move(self, rtt_ms: float, theirs: FloatArray, their_error: float) -> None:
        # A peer's absurd but finite coordinate may overflow here; the reset below answers it.
        with np.errstate(over="ignore", invalid="ignore"):
            apart = self._position_ms - theirs
            distance_ms = float(np.linalg.norm(apart))
            stretch_ms = rtt_ms - distance_ms
            weight = self.error / (self.error + their_error)
            match self._timestep:
                case Adaptive(gain=gain):
                    delta = gain * weight
                case Constant(delta=constant, rest_ms=rest_ms):
                    delta = constant if abs(stretch_ms) >= rest_ms else 0.0
            direction = apart / distance_ms if distance_ms > 0 else self._any_direction()
            moved = self._position_ms + delta * stretch_ms * direction
        if not np.all(np.isfinite(moved)):
            self.resets += 1
            self.reset()
            return
        self._position_ms = moved
        trust = self._error_gain * weight
        sample_error = min(abs(stretch_ms) / rtt_ms, MAX_ERROR)
        self.error = _bounded(sample_error * trust + self.error * (1 - trust))

    def _any_direction(self) -> FloatArray:
        direction = self._rng.normal(size=self._position_ms.shape)
        length = float(np.linalg.norm(direction))
        if length == 0:  # Has probability zero, but would divide by it.
            return np.eye(1, len(direction))[0]
        return direction / length


def _bounded(error: float) -> float:
    return min(max(error, MIN_ERROR), MAX_ERROR)
