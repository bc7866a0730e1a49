"""Algorithm 2 of reliable placement (§4.2) as printed: one sample, repeated until it fits.

=========  ===========  =================================================
symbol     name here    meaning
=========  ===========  =================================================
x_i, x_j   mine, peer   coordinates of this node and of the peer, ms
rtt        rtt_ms       measured round trip, ms
e          stretch_ms   rtt − ‖x_i − x_j‖
δ          delta        fraction of the stretch that is corrected at once
e_t        rest_ms      stretch below which the algorithm stops
=========  ===========  =================================================

Each step leaves (1 − δ)·e of the stretch, so the loop ends after log(e_t/e) / log(1 − δ) steps.
Then the coordinate fits this one sample and no other. `topology.vivaldi` takes the same step once
per exchange instead; the benchmark `coordinates` compares the two.

Deviation from the text: its test is e < e_t, which would leave a coordinate that is too far away
where it is. Here the test is |e| < e_t.
"""

from __future__ import annotations

import math

import numpy as np

from foundation.arrays import FloatArray
from foundation.bounds import MAX_RTT_MS
from topology.coordinate import CoordinateError
from topology.vivaldi import ConstantTimestep, Vivaldi, spring

PRINTED = ConstantTimestep(delta=0.25, rest_ms=0.1)
"""δ and e_t of hosts, which the paper leaves open."""


class PairwiseError(ValueError):
    """A sample or parameter with which Algorithm 2 would not end."""


def fit_sample(
    rtt_ms: float,
    mine_ms: FloatArray,
    peer_ms: FloatArray,
    *,
    timestep: ConstantTimestep,
    rng: np.random.Generator,
) -> FloatArray:
    """The coordinate of this node after one measurement.

    Parameters
    ----------
    rtt_ms
        In (0, `MAX_RTT_MS`].
    mine_ms, peer_ms
        Coordinates, ms, shape (d,).
    timestep
        δ and e_t; here e_t has to be > 0.
    rng
        Draws a direction if both are at the same point.

    Returns
    -------
    FloatArray
        The new coordinate, shape (d,). Its distance to the peer differs from the round trip by
        less than e_t.

    Raises
    ------
    PairwiseError
        Naming the value outside its range.
    CoordinateError
        If the coordinates differ in shape.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> here, there = np.array([0.0, 10.0]), np.array([0.0, 30.0])
    >>> fit_sample(10, here, there, timestep=ConstantTimestep(delta=1), rng=rng)
    array([ 0., 20.])
    """
    _validate(rtt_ms, mine_ms, peer_ms, timestep.rest_ms)
    mine_ms = mine_ms.astype(np.float64)
    stretch_ms = rtt_ms - float(np.linalg.norm(mine_ms - peer_ms))
    # Rounding could keep the stretch above a tiny e_t; exact arithmetic needs no more steps.
    for _ in range(_steps(abs(stretch_ms), timestep)):
        stretch_ms, direction = spring(mine_ms, peer_ms, rtt_ms, rng)
        mine_ms = mine_ms + timestep.delta * stretch_ms * direction
        if abs(rtt_ms - np.linalg.norm(mine_ms - peer_ms)) < timestep.rest_ms:
            break
    return mine_ms


class PairwiseVivaldi(Vivaldi):
    """The coordinate of one node, which fits each measurement completely (Algorithm 2).

    What it has of `Vivaldi` beside the steps is what protects a host: impossible values are
    rejected, and the median of a peer's last round trips counts.

    Parameters
    ----------
    dimensions, rng
        As of `Vivaldi`.
    """

    def __init__(self, dimensions: int, rng: np.random.Generator) -> None:
        super().__init__(dimensions, rng, timestep=PRINTED)

    def _step(
        self, rtt_ms: float, theirs_ms: FloatArray, weight: float
    ) -> tuple[FloatArray, float]:
        stretch_ms = rtt_ms - float(np.linalg.norm(self._place_ms - theirs_ms))
        if not math.isfinite(stretch_ms):
            return np.full_like(self._place_ms, math.nan), stretch_ms
        moved_ms = fit_sample(rtt_ms, self._place_ms, theirs_ms, timestep=PRINTED, rng=self._rng)
        return moved_ms, stretch_ms


def _steps(stretch_ms: float, timestep: ConstantTimestep) -> int:
    """Steps until the stretch is below e_t; at least one, since the loop tests after its step."""
    if stretch_ms < timestep.rest_ms or timestep.delta == 1:
        return 1
    return 1 + math.ceil(math.log(timestep.rest_ms / stretch_ms) / math.log1p(-timestep.delta))


def _validate(rtt_ms: float, mine_ms: FloatArray, peer_ms: FloatArray, rest_ms: float) -> None:
    if mine_ms.shape != peer_ms.shape or mine_ms.ndim != 1:
        raise CoordinateError(
            f"the peer's coordinate has shape {peer_ms.shape}, this node's {mine_ms.shape}"
        )
    for name, position_ms in (("this node's", mine_ms), ("the peer's", peer_ms)):
        if not np.all(np.isfinite(position_ms)):
            raise PairwiseError(f"{name} coordinate {position_ms.tolist()} is not finite")
    # NaN compares false, so it is rejected here as well.
    if not 0 < rtt_ms <= MAX_RTT_MS:
        raise PairwiseError(f"rtt_ms {rtt_ms} is not in (0, {MAX_RTT_MS:g}]")
    if not 0 < rest_ms < math.inf:
        raise PairwiseError(f"rest_ms {rest_ms} is not above 0")
