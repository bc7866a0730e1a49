"""Sine, cosine, powers, logarithms and exponentials with the same bits on every machine.

IEEE 754 specifies `+ - * /`, the square root, rounding to integers, comparisons and conversions
exactly. It does not specify the functions here. Their implementations differ: numpy and the C
library choose theirs by the processor, and the results differ in the last bit. One bit decides
whether a tuple passes a filter, so two replicas on unlike machines would diverge. Rounding such
results to fewer bits does not help: two values that lie on either side of a rounding boundary stay
different.

These functions therefore use specified operations only. Each operation is a numpy call of its own,
so no compiler can fuse a product and a sum into one rounding. The result for an element does not
depend on the other elements.

Error against exact values, in units in the last place: at most 0.51 for powers, logarithms and
exponentials (0.75 of results below 2.3e-308), 0.8 for sine and cosine. A power that a float
represents exactly is exact.

Sine and cosine: x = k·π/512 + y, |y| ≤ π/1024; then cos(a + y) = cos a·cos y - sin a·sin y with
cos a and sin a from a table (Tang, *Table-lookup algorithms for elementary functions*, 1991). The
reduction is exact enough for |k| < 2²⁰, unless y is tiny; whole numbers reduce the other angles.

Powers: x^y = exp(y·log x), with the logarithm and the product in two doubles (Tang, 1990, 1991; the
terms are arranged as in Arm's optimized routines, in the variant without fused operations).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from foundation.arrays import FloatArray, IntArray
from streams.arithmetic import elementary_tables as table

Floats = npt.NDArray[np.float64]

BLOCK = 4096
"""Elements per pass: the intermediate results of a pass stay in the processor's cache."""

# As arrays without dimensions, numpy takes these constants in half the time.
_steps_per_radian = np.array(table.STEPS_PER_RADIAN)
_step_high, _step_low = np.array(table.STEP_HIGH), np.array(table.STEP_LOW)
_least_exact_rest = np.array(2.0**-28)
_half, _1_6, _1_24, _1_120 = np.array(1 / 2), np.array(1 / 6), np.array(1 / 24), np.array(1 / 120)
_last_step = np.array(2 * table.HALF_TURN_STEPS - 1)
_no_steps, _quarter_turn = np.array(0), np.array(table.HALF_TURN_STEPS // 2)


def radians(degrees: npt.NDArray[Any]) -> Floats:
    """Degrees as radians: one multiplication."""
    return np.multiply(degrees, table.RADIANS_PER_DEGREE)


def cosine(angles: npt.NDArray[Any]) -> Floats:
    """Cosine; not a number for angles that are not finite."""
    return _cosine(np.asarray(angles, dtype=np.float64), _no_steps)


def sine(angles: npt.NDArray[Any]) -> Floats:
    """Sine; not a number for angles that are not finite."""
    return _cosine(np.asarray(angles, dtype=np.float64), _quarter_turn)


def _cosine(angles: Floats, steps_back: IntArray) -> Floats:
    """cos(angle - steps_back·π/512)."""
    if angles.size > BLOCK:
        return _in_blocks(lambda block: _cosine(block, steps_back), angles)
    rounded = np.rint(angles * _steps_per_radian)
    high = angles - rounded * _step_high
    low = rounded * _step_low
    rest = high - low
    tail = (high - rest) - low
    steps = rounded.astype(np.int64)
    # False also where a step above gave no number. From 2²⁰ steps on it is always false.
    exact_enough = np.abs(rest) >= np.abs(rounded * _least_exact_rest)
    if np.count_nonzero(exact_enough) < exact_enough.size:
        rest, tail, steps = _reduce_exactly(angles, rest, tail, steps, exact_enough)
    steps = (steps - steps_back) & _last_step
    cosines, sines = table.COSINE[steps], table.SINE[steps]
    square = rest * rest
    # sin y = y - y³/6 + y⁵/120, cos y - 1 = -y²/2 + y⁴/24.
    sine_of_rest = rest + (tail + rest * square * (square * _1_120 - _1_6))
    less_than_one = square * (square * _1_24 - _half)
    change = cosines * less_than_one - sines * sine_of_rest
    return cosines + (table.COSINE_REST[steps] + change)


def _reduce_exactly(
    angles: Floats, rest: Floats, tail: Floats, steps: IntArray, kept: npt.NDArray[np.bool_]
) -> tuple[Floats, Floats, IntArray]:
    """Replace the reduced angles that are not `kept`."""
    angles, kept = np.atleast_1d(angles), np.atleast_1d(kept)
    shape = np.shape(rest)
    rest, tail, steps = np.array(rest, ndmin=1), np.array(tail, ndmin=1), np.array(steps, ndmin=1)
    for place in zip(*np.nonzero(~kept), strict=True):
        angle = float(angles[place])
        steps[place], rest[place], tail[place] = _reduced(angle)
    return rest.reshape(shape), tail.reshape(shape), steps.reshape(shape)


def _reduced(angle: float) -> tuple[int, float, float]:
    """Steps modulo a full turn, and the rest of the angle in two doubles."""
    if not np.isfinite(angle):
        return 0, np.nan, np.nan
    numerator, denominator = angle.as_integer_ratio()
    unit = 1 << table.BITS
    steps, rest = divmod(numerator * unit // denominator + table.STEP // 2, table.STEP)
    rest -= table.STEP // 2
    high = rest / unit
    numerator, denominator = high.as_integer_ratio()
    return (
        steps % (2 * table.HALF_TURN_STEPS),
        high,
        (rest - numerator * unit // denominator) / unit,
    )


def logarithm(values: npt.NDArray[Any]) -> Floats:
    """Natural logarithm; not a number where there is none."""
    given = np.asarray(values, dtype=np.float64)
    defined = (given > 0) & np.isfinite(given)
    found = _in_blocks(lambda block: _log(block)[0], np.where(defined, given, 1.0))
    return np.where(defined, found, np.nan)


def exponential(values: npt.NDArray[Any]) -> Floats:
    """The base of natural logarithms to a power; infinite where too large."""
    given = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(given)
    # Past these bounds every result is infinite or zero.
    bounded = np.where(known, np.minimum(np.maximum(given, -800.0), 800.0), 0.0)
    found = _in_blocks(lambda block: _exponential(block, np.zeros_like(block)), bounded)
    return np.where(known, found, np.nan)


def _in_blocks(compute: Callable[[Floats], Floats], values: Floats) -> Floats:
    """A function of each element, in passes whose intermediate results are small."""
    flat, result = values.ravel(), np.empty(values.size)
    for start in range(0, len(flat), BLOCK):
        result[start : start + BLOCK] = compute(flat[start : start + BLOCK])
    return result.reshape(values.shape)


def power(base: npt.NDArray[Any], exponent: npt.NDArray[Any]) -> Floats:
    """Base to the exponent, as in C: infinite where too large, not a number where undefined."""
    bases = np.asarray(base, dtype=np.float64)
    exponents = np.asarray(exponent, dtype=np.float64)
    if exponents.ndim == 0 and exponents == 2:
        return bases * bases
    shape = np.broadcast_shapes(bases.shape, exponents.shape)
    bases = np.broadcast_to(bases, shape).ravel()
    exponents = np.broadcast_to(exponents, shape).ravel()
    if len(bases) <= BLOCK:
        return _power(bases, exponents).reshape(shape)
    result = np.empty(bases.shape)
    for start in range(0, len(bases), BLOCK):
        block = slice(start, start + BLOCK)
        result[block] = _power(bases[block], exponents[block])
    return result.reshape(shape)


def _power(bases: Floats, exponents: Floats) -> Floats:
    ordinary = (bases > 0) & np.isfinite(bases) & np.isfinite(exponents)
    compute = _positive_power if ordinary.all() else _any_power
    result = compute(bases, exponents)
    squares = exponents == 2
    # A square has one way to be computed, whether the exponent is a constant or a column.
    return np.where(squares, bases * bases, result) if squares.any() else result


def _any_power(bases: Floats, exponents: Floats) -> Floats:
    """Powers of negative bases and zeros too."""
    finite = np.isfinite(bases) & np.isfinite(exponents)
    exponents = np.where(finite, exponents, 1.0)
    regular = finite & (bases != 0)
    size = _positive_power(np.where(regular, np.abs(bases), 1.0), exponents)
    size = np.where(bases == 0, np.where(exponents > 0, 0.0, np.inf), size)
    odd = np.abs(np.fmod(exponents, 2.0)) == 1
    result = np.where(odd, np.copysign(size, bases), size)
    undefined = (bases < 0) & (exponents != np.trunc(exponents))
    result = np.where(exponents == 0, 1.0, result)
    return np.where(undefined | ~finite, np.nan, result)


def _positive_power(bases: Floats, exponents: Floats) -> Floats:
    """Powers of positive finite numbers."""
    log, log_tail = _log(bases)
    log_high = _high_half(log)
    log_low = log - log_high + log_tail
    exponent_high = _high_half(exponents)
    product = exponent_high * log_high
    product_low = (exponents - exponent_high) * log_high + exponents * log_low
    # Past these bounds every result is infinite or zero.
    product = np.minimum(np.maximum(product, -800.0), 800.0)
    product_low = np.minimum(np.maximum(product_low, -1.0), 1.0)
    return _exponential(product, product_low)


def _high_half(values: Floats) -> Floats:
    """The leading 26 bits: a product of two such numbers is exact."""
    return (values.view(np.int64) & -(1 << 27)).view(np.float64)


def _log(values: Floats) -> tuple[Floats, Floats]:
    """Natural logarithm of positive numbers in two doubles."""
    significands, binary_exponents = np.frexp(values)
    cells = (significands * (2 * table.LOG_CELLS)).astype(np.int64) - table.LOG_CELLS
    scaled = significands * table.LOG_SCALE.take(cells)
    twos = binary_exponents - table.LOG_SHIFT.take(cells)
    inverse = table.LOG_INVERSE.take(cells)
    # ratio = scaled · inverse - 1 without rounding, as a sum of which the first part has few bits.
    short = ((scaled.view(np.int64) + (1 << 31)) & -(1 << 32)).view(np.float64)
    ratio_high = short * inverse - 1.0
    ratio_low = (scaled - short) * inverse
    ratio = ratio_high + ratio_low
    # log = twos·log 2 - log(inverse) + log(1 + ratio); the first sum is exact.
    whole = twos * table.LOG_2_HIGH + table.LOG_HIGH.take(cells)
    first = whole + ratio
    lost = (whole - first) + ratio
    # The term -ratio²/2 in two doubles.
    half = -0.5 * ratio
    half_square = ratio * half
    half_high = -0.5 * ratio_high
    half_square_high = ratio_high * half_high
    second = first + half_square_high
    lost = lost + ((first - second) + half_square_high) + ratio_low * (half + half_high)
    # The terms from ratio³/3 to -ratio⁸/8.
    series: FloatArray = ratio * (-1 / 8) + 1 / 7
    for coefficient in (-1 / 6, 1 / 5, -1 / 4, 1 / 3):
        series = series * ratio + coefficient
    lost = lost + (twos * table.LOG_2_LOW + table.LOG_LOW.take(cells))
    lost = lost + -2.0 * half_square * ratio * series
    log = second + lost
    return log, (second - log) + lost


def _exponential(values: Floats, tails: Floats) -> Floats:
    """exp(value + tail), for values within ±801 and small tails."""
    rounded = np.rint(values * table.ROOTS_PER_LOG)
    rest = (values - rounded * table.ROOT_LOG_HIGH) - rounded * table.ROOT_LOG_LOW + tails
    steps = rounded.astype(np.int64)
    roots = steps & (table.ROOTS - 1)
    square = rest * rest
    # exp y - 1 = y + y²/2 + y³/6 + y⁴/24 + y⁵/120.
    more = square * ((rest * (1 / 6) + 0.5) + square * (rest * (1 / 120) + 1 / 24))
    root = table.ROOT.take(roots)
    scaled = root + root * (table.ROOT_REST.take(roots) + rest + more)
    return np.ldexp(scaled, (steps - roots) >> (table.ROOTS.bit_length() - 1))
