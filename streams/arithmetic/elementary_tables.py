"""Constants of `streams.arithmetic.elementary`, computed with whole numbers at import.

A real number v is held as the integer nearest to v·2^BITS. Integer arithmetic is the same on every
machine, and so is the division of two integers, which Python rounds correctly. Every constant is
therefore reproducible, and no table of digits needs to be trusted.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from foundation.arrays import FloatArray

BITS = 1200
"""Enough for π to reduce the largest angle, 2¹⁰²⁴, and 176 bits more."""

TABLE_BITS = 200
"""Enough for tables: a double, its remainder as a double, and spare bits."""

HALF_TURN_STEPS = 512
"""Sine and cosine are tabulated at the multiples of π/512."""

ROOTS = 128
"""Powers of two are tabulated at the multiples of 1/128."""

LOG_CELLS = 256
"""Logarithms are tabulated in 256 cells of a significand, [0.5, 1)."""


def _arctan_of_inverse(n: int, bits: int) -> int:
    """Arctan(1/n), by its series."""
    term = total = (1 << bits) // n
    odd, sign = 3, -1
    while term:
        term //= n * n
        total += sign * (term // odd)
        odd, sign = odd + 2, -sign
    return total


def _log(numerator: int, denominator: int) -> int:
    """Logarithm of a ratio: log(a/b) = 2·artanh((a - b)/(a + b)), by its series."""
    ratio = ((numerator - denominator) << TABLE_BITS) // (numerator + denominator)
    square = (ratio * ratio) >> TABLE_BITS
    total, term, odd = 0, ratio, 1
    while term not in (0, -1):
        total += term // odd
        term = (term * square) >> TABLE_BITS
        odd += 2
    return 2 * total


def _split(value: int, bits: int = TABLE_BITS) -> tuple[float, float]:
    """The nearest double, and the nearest double of what remains."""
    unit = 1 << bits
    high = value / unit
    numerator, denominator = high.as_integer_ratio()
    return high, (value - numerator * unit // denominator) / unit


def _rounded(value: int, last_bit: int) -> float:
    """The nearest multiple of 2^-last_bit."""
    shift = TABLE_BITS - last_bit
    return ((value + (1 << (shift - 1))) >> shift) / (1 << last_bit)


def _remainder(value: int, high: float) -> float:
    """The nearest double of value - high."""
    numerator, denominator = high.as_integer_ratio()
    unit = 1 << TABLE_BITS
    return (value - numerator * unit // denominator) / unit


PI = 4 * (4 * _arctan_of_inverse(5, BITS + 32) - _arctan_of_inverse(239, BITS + 32)) >> 32
"""π·2^BITS, by Machin's formula."""

STEP = PI // HALF_TURN_STEPS
"""π/512, as an integer."""

STEPS_PER_RADIAN = (HALF_TURN_STEPS << BITS) / PI
"""512/π."""
_step = STEP >> (BITS - TABLE_BITS)
STEP_HIGH = ((_step >> (TABLE_BITS - 40)) + 1) / (1 << 40)
"""π/512 rounded up to 33 bits, so that its product with 20 bits is exact."""
STEP_LOW = _remainder(_step, STEP_HIGH)
"""π/512 - STEP_HIGH; negative."""

RADIANS_PER_DEGREE = PI / (180 << BITS)
"""π/180."""


def _trigonometric() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Cosine, what its rounding lost, and sine, at the multiples of π/512 in a full turn."""
    one = 1 << TABLE_BITS
    square = (_step * _step) >> TABLE_BITS
    first_cosine = first_sine = 0
    cosine_term, sine_term, n = one, _step, 0
    while cosine_term or sine_term:
        first_cosine += cosine_term
        first_sine += sine_term
        n += 2
        cosine_term = -((cosine_term * square) >> TABLE_BITS) // (n * (n - 1))
        sine_term = -((sine_term * square) >> TABLE_BITS) // (n * (n + 1))
        if abs(cosine_term) <= 1 and abs(sine_term) <= 1:
            break
    quarter = HALF_TURN_STEPS // 2
    cosines, sines = [one], [0]
    for _ in range(quarter // 2):
        cosine, sine = cosines[-1], sines[-1]
        cosines.append((cosine * first_cosine - sine * first_sine) >> TABLE_BITS)
        sines.append((sine * first_cosine + cosine * first_sine) >> TABLE_BITS)
    # The first eighth of a turn gives the rest, with exact symmetry.
    cosines += sines[-2::-1]
    cosines += [-cosine for cosine in cosines[-2::-1]]
    cosines += cosines[-2:0:-1]
    split = np.array([_split(cosine) for cosine in cosines])
    high, low = split[:, 0].copy(), split[:, 1].copy()
    return high, low, np.roll(high, quarter)


COSINE, COSINE_REST, SINE = _trigonometric()

LOG_LAST_BIT = 42
"""Multiples of 2⁻⁴² up to 2¹⁰ add without rounding."""
_log_2 = _log(2, 1)
LOG_2_HIGH = _rounded(_log_2, LOG_LAST_BIT)
LOG_2_LOW = _remainder(_log_2, LOG_2_HIGH)


def _logarithms() -> tuple[FloatArray, ...]:
    """For each cell of a significand m in [0.5, 1): scale, shift, inverse, log, rest.

    The significand times its scale, 1 or 2, lies in [0.7, 1.42); the shift is 1 where the scale is
    2. The inverse is near 1/(m·scale), and log + rest = -log(inverse).
    """
    rows: list[tuple[float, ...]] = []
    for cell in range(LOG_CELLS):
        # The centre is middle / (4 LOG_CELLS).
        middle = 2 * LOG_CELLS + 2 * cell + 1
        doubled = middle * middle < 8 * LOG_CELLS * LOG_CELLS
        scale = 2 if doubled else 1
        # With these many bits, m·scale·inverse - 1 is exact.
        unit = 2 * LOG_CELLS if doubled else LOG_CELLS
        inverse = round(unit * 4 * LOG_CELLS / (middle * scale))
        if cell in (0, LOG_CELLS - 1):
            inverse = unit
        log = _log(unit, inverse)
        high = _rounded(log, LOG_LAST_BIT)
        rows.append((scale, scale - 1, inverse / unit, high, _remainder(log, high)))
    return tuple(column.copy() for column in np.array(rows).T)


LOG_SCALE, LOG_SHIFT, LOG_INVERSE, LOG_HIGH, LOG_LOW = _logarithms()

ROOTS_PER_LOG = (ROOTS << TABLE_BITS) / _log_2
"""128/log 2."""
ROOT_LOG_HIGH = _rounded(_log_2 // ROOTS, LOG_LAST_BIT - 1)
"""log 2/128 in so few bits that its product with 17 bits is exact."""
ROOT_LOG_LOW = _remainder(_log_2 // ROOTS, ROOT_LOG_HIGH)


def _roots() -> tuple[FloatArray, FloatArray]:
    """2^(j/128), and its relative error."""
    root = 2 << TABLE_BITS
    for _ in range(ROOTS.bit_length() - 1):
        root = isqrt(root << TABLE_BITS)
    value, rows = 1 << TABLE_BITS, list[tuple[float, float]]()
    for _ in range(ROOTS):
        high, rest = _split(value)
        rows.append((high, rest / high))
        value = (value * root) >> TABLE_BITS
    table = np.array(rows)
    return table[:, 0].copy(), table[:, 1].copy()


ROOT, ROOT_REST = _roots()
