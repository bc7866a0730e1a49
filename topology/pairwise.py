"""Algorithm 2 as the paper writes it: one sample, taken until it fits (reliable placement, §4.2).

=========  ===========  =================================================
symbol     name here    meaning
=========  ===========  =================================================
x_i, x_j   mine, their  coordinates of this node and the peer, ms
rtt        rtt_ms       measured round trip, ms
e          stretch_ms   rtt − ‖x_i − x_j‖
δ          delta        share of the stretch that is corrected at once
e_t        rest_ms      stretch below which it stops
=========  ===========  =================================================

Each step leaves (1 − δ)·e of the stretch, so that the loop ends after log(e_t/e) / log(1 − δ)
steps, and then the coordinate fits this one sample and no other. `topology.vivaldi` takes the
same step once an exchange instead; this is what it is held against. The text's test is e < e_t,
which would leave a coordinate that is too far away where it is; here it is |e| < e_t.
"""

from __future__ import annotations

import math

import numpy as np

from topology.arrays import FloatArray
from topology.coordinate import MAX_RTT_MS, CoordinateError


class PairwiseError(ValueError):
    """A sample or parameter on which Algorithm 2 would not end."""


def fit_sample(
    rtt_ms: float,
    mine_ms: FloatArray,
    theirs_ms: FloatArray,
    *,
    delta: float,
    rest_ms: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Where this node moves to on one measurement.

    Parameters
    ----------
    rtt_ms
        In (0, `MAX_RTT_MS`].
    mine_ms, theirs_ms
        Coordinates, ms, shape (d,).
    delta
        δ, in (0, 1].
    rest_ms
        e_t, ms, > 0.
    rng
        Draws a direction if both are on one point.

    Returns
    -------
    FloatArray
        The new coordinate, shape (d,): its distance to the peer's is off by less than `rest_ms`.

    Raises
    ------
    PairwiseError
        Naming the value out of range.
    CoordinateError
        If the coordinates differ in shape.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> here, there = np.array([0.0, 10.0]), np.array([0.0, 30.0])
    >>> fit_sample(10, here, there, delta=1, rest_ms=0.1, rng=rng)
    array([ 0., 20.])
    """
    _validate(rtt_ms, mine_ms, theirs_ms, delta, rest_ms)
    position_ms = mine_ms.astype(np.float64)
    stretch_ms = rtt_ms - float(np.linalg.norm(position_ms - theirs_ms))
    # Rounding could keep the stretch above a tiny e_t for ever; exact arithmetic needs no more.
    for _ in range(_steps(abs(stretch_ms), delta, rest_ms)):
        away = position_ms - theirs_ms
        if np.linalg.norm(away) == 0:
            away = rng.normal(size=position_ms.shape)
        force = stretch_ms * away / np.linalg.norm(away)
        position_ms = position_ms + delta * force
        stretch_ms = rtt_ms - float(np.linalg.norm(position_ms - theirs_ms))
        if abs(stretch_ms) < rest_ms:
            break
    return position_ms


def _steps(stretch_ms: float, delta: float, rest_ms: float) -> int:
    """Steps until the stretch is below e_t; the loop is of the kind that takes one at least."""
    if stretch_ms < rest_ms or delta == 1:
        return 1
    return 1 + math.ceil(math.log(rest_ms / stretch_ms) / math.log1p(-delta))


def _validate(
    rtt_ms: float, mine_ms: FloatArray, theirs_ms: FloatArray, delta: float, rest_ms: float
) -> None:
    if mine_ms.shape != theirs_ms.shape or mine_ms.ndim != 1:
        raise CoordinateError(
            f"the peer's coordinate has shape {theirs_ms.shape}, this node's {mine_ms.shape}"
        )
    for name, position_ms in (("this node's", mine_ms), ("the peer's", theirs_ms)):
        if not np.all(np.isfinite(position_ms)):
            raise PairwiseError(f"{name} coordinate {position_ms.tolist()} is not finite")
    # NaN compares false, so it is refused here as well.
    if not 0 < rtt_ms <= MAX_RTT_MS:
        raise PairwiseError(f"rtt_ms {rtt_ms} is not in (0, {MAX_RTT_MS:g}]")
    if not 0 < delta <= 1:
        raise PairwiseError(f"delta {delta} is not in (0, 1]")
    if not 0 < rest_ms < math.inf:
        raise PairwiseError(f"rest_ms {rest_ms} is not above 0")
