"""Sums of floats without rounding, as whole numbers in *digits* of 32 bits.

Every float is a whole multiple of 2⁻¹⁰⁷⁴, so a sum of floats is one too. It is kept as

    Σ digits[j] · 2^(32·j − 1074),   lowest ≤ j < lowest + width,

with signed digits of 64 bits. A float's 53 bits fall into three neighbouring digits, of which the
highest has the sign: three additions of whole numbers, the same whatever the order, and undone by
their subtraction. A digit has room for 2³¹ of them before its carry must be passed on. `lowest` and
`width` span the values that have occurred, which are few digits in practice instead of the 67 that
all floats need.

A sum is rounded once, when it is read, and then correctly.

References
----------
Neal, *Fast exact summation using small and large superaccumulators*, arXiv 1505.05571, 2015. There,
a digit takes 53 bits at once and passes its carry on every 2,000 additions; here it takes 32 bits,
so that the loop over values needs no such count.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np

from foundation.arrays import BoolArray, IntArray
from streams.vectors.arrays import Bits

DIGIT_BITS = 32
DIGIT_MASK = 0xFFFFFFFF

LEAST_EXPONENT = -1074
"""The least positive float is 2⁻¹⁰⁷⁴."""

SPAN = 4
"""Digits from the lowest one of a float to the one that takes the carry of its highest."""

EXTRA_DIGITS = 3
"""Digits below a sum that a mean needs: a quotient by less than 2³¹ keeps 65 bits then."""

LARGEST_DIVISOR = 2**31
"""Means of so many values and more are rounded without kernels."""

MOST_DIGITS = 136
"""More than sums of any floats, and of their squares, need."""

ROOT_BITS = 64
"""Bits of a root that are computed: more than a float has, and than rounding it needs."""

UNSPANNED: tuple[int, int] = (2**31, -(2**31))
"""The span of no values: lowest digit, end."""


def split(values: Bits) -> tuple[IntArray, IntArray, IntArray]:
    """Position of each float's lowest bit over 2⁻¹⁰⁷⁴; its significand; whether it is negative."""
    bits = values.astype(np.int64)
    raw = (bits >> 52) & 0x7FF
    fraction = bits & 0xFFFFFFFFFFFFF
    fraction = np.where(raw > 0, fraction | 0x10000000000000, fraction)
    return np.maximum(raw - 1, 0), fraction, (bits < 0).astype(np.int64)


def spanned(values: Bits) -> tuple[int, int]:
    """The lowest digit that some floats need, and the end of the digits."""
    positions, fraction, _ = split(values)
    digits = positions[fraction != 0] >> 5
    if not len(digits):
        return UNSPANNED
    return int(digits.min()), int(digits.max()) + SPAN


def widened(digits: IntArray, lowest: int, wider: tuple[int, int]) -> IntArray:
    """The same sums in the digits of a span that holds theirs; shape (n, width)."""
    begin, end = wider
    made = np.zeros((len(digits), max(end - begin, 0)), dtype=np.int64)
    if digits.shape[1]:
        made[:, lowest - begin : lowest - begin + digits.shape[1]] = digits
    return made


def pass_carries_on(digits: IntArray) -> None:
    """Bring all digits but the highest into [0, 2³²), in place: then equal sums look alike."""
    for place in range(digits.shape[1] - 1):
        digits[:, place + 1] += digits[:, place] >> DIGIT_BITS
        digits[:, place] &= DIGIT_MASK


def total_of(row: Any) -> int:
    """A sum as a whole number of units of its lowest digit."""
    total = 0
    for digit in reversed(row.tolist()):
        total = (total << DIGIT_BITS) + int(digit)
    return total


def totals_of(rows: IntArray) -> list[int]:
    """`total_of` of each row."""
    totals = [0] * len(rows)
    columns: list[list[int]] = rows.T.tolist()
    for digits in reversed(columns):
        totals = [
            (total << DIGIT_BITS) + digit for total, digit in zip(totals, digits, strict=True)
        ]
    return totals


def rounded(total: int, exponent: int, divisor: int) -> float | None:
    """A whole number of units of 2^exponent, divided and rounded once; None if out of range."""
    try:
        # Division of whole numbers rounds correctly whatever their size. Floats have one zero: not
        # the one with a sign, which a small negative mean may give.
        if exponent < 0:
            return total / (divisor << -exponent) + 0.0
        return (total << exponent) / divisor + 0.0
    except OverflowError:
        return None


def correct_root(dividend: int, divisor: int, bits: int) -> float | None:
    """√(dividend / divisor) · 2⁻ᵇⁱᵗˢ, rounded correctly; None if out of range."""
    if not dividend:
        return 0.0
    finer = max(ROOT_BITS - (dividend.bit_length() - divisor.bit_length()) // 2, 0)
    whole, left = divmod(dividend << 2 * finer, divisor)
    root = isqrt(whole)
    # One bit more that says whether anything is cut off: rounding then knows on which side it is.
    root = 2 * root + (left > 0 or root * root != whole)
    try:
        return root / (1 << finer + bits + 1)
    except OverflowError:
        return None


def fit_int(digits: IntArray) -> tuple[IntArray, BoolArray]:
    """Sums of integers in two digits as 64 bits, and whether they fit."""
    high = digits[:, 1] + (digits[:, 0] >> DIGIT_BITS)
    fits = (high >= -(2**31)) & (high < 2**31)
    return (high << DIGIT_BITS) | (digits[:, 0] & DIGIT_MASK), fits
