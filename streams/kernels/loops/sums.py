"""Exact sums of the loop machine (`streams.arithmetic.exact_sums`), one at a time.

A sum of integers has a count and two digits. One of floats has a count, the first digit in use and
the end, then all digits that there may be. Only those in use take part in rounding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from streams.arithmetic.exact_sums import (
    DIGIT_BITS,
    DIGIT_MASK,
    EXTRA_DIGITS,
    LARGEST_DIVISOR,
    LEAST_EXPONENT,
)
from streams.kernels.loops.expressions import floats, words
from streams.kernels.loops.layout import (
    KNOWN,
    REGISTERS,
    SUM_COUNT,
    SUM_DIGITS,
    SUM_HIGH,
    SUM_LOW,
    WORK,
    Memory,
)
from streams.kernels.machine_code import kernel

_int = types.int64

SHORT = 1 << 20
"""Digits that are less, and one more below them, are at most 52 bits: a float has them all."""

HIGH_BIT = 1 << (DIGIT_BITS - 1)
LEAST_SHORT, MOST_SHORT = -900, 900
"""Powers of two between which quotients are neither too small nor too large for 53 bits."""


@kernel(types.void(words, _int, _int, _int), nogil=True)
def add_int(m: Memory, total: int, value: int, sign: int) -> None:
    """Add an integer, or take it out."""
    m[total + SUM_COUNT] += sign
    m[total + 1] += sign * (value & DIGIT_MASK)
    m[total + 2] += sign * (value >> DIGIT_BITS)


@kernel(types.void(words, _int, _int, _int), nogil=True)
def add_float(m: Memory, total: int, bits: int, sign: int) -> None:
    """Add a float, given by its bits, or take it out."""
    m[total + SUM_COUNT] += sign
    exponent = (bits >> 52) & 0x7FF
    fraction = bits & 0xFFFFFFFFFFFFF
    if exponent:
        fraction |= 0x10000000000000
        exponent -= 1
    elif fraction == 0:
        return
    if bits < 0:
        sign = -sign
    digit, shift = exponent >> 5, exponent & 31
    if m[total + SUM_HIGH] == 0:
        m[total + SUM_LOW] = digit
        m[total + SUM_HIGH] = digit + 4
    else:
        m[total + SUM_LOW] = min(m[total + SUM_LOW], digit)
        m[total + SUM_HIGH] = max(m[total + SUM_HIGH], digit + 4)
    fraction *= sign
    rest = fraction >> (DIGIT_BITS - shift)
    at = total + SUM_DIGITS + digit
    m[at] += (fraction << shift) & DIGIT_MASK
    m[at + 1] += rest & DIGIT_MASK
    m[at + 2] += rest >> DIGIT_BITS


@kernel(types.void(words, _int), nogil=True)
def settle(m: Memory, total: int) -> None:
    """Pass carries of a sum of floats on, and give up the digits of one that is 0."""
    some, carry = False, np.int64(0)
    begin, end = total + SUM_DIGITS + m[total + SUM_LOW], total + SUM_DIGITS + m[total + SUM_HIGH]
    for at in range(begin, end - 1):
        digit = m[at] + carry
        carry = digit >> DIGIT_BITS
        m[at] = digit & DIGIT_MASK
        some |= m[at] != 0
    if begin < end:
        m[end - 1] += carry
        if not some and m[end - 1] == 0:
            m[total + SUM_LOW] = m[total + SUM_HIGH] = 0


@kernel(_int(words, floats, _int, _int, _int, _int), nogil=True)
def round_sum(m: Memory, f: Memory, digits: int, width: int, exponent: int, divisor: int) -> int:
    """Put a sum, divided and rounded correctly, into the first register; NULL if it is too large.

    Parameters
    ----------
    digits, width
        Where its digits are, and how many; carries have been passed on, but of the highest.
    exponent
        The unit of the lowest, as a power of two.
    divisor
        From 1 to 2⁶² − 1.
    """
    m[REGISTERS] = 0
    m[KNOWN] = 1
    extra = EXTRA_DIGITS if divisor < LARGEST_DIVISOR else EXTRA_DIGITS + 2
    length = width + extra + 2
    exponent -= DIGIT_BITS * extra
    for place in range(length + 3):
        m[WORK + place] = 0
    carry: Any = np.int64(0)
    for place in range(width):
        digit = m[digits + place] + carry
        carry = digit >> DIGIT_BITS
        m[WORK + extra + place] = digit & DIGIT_MASK
    m[WORK + extra + width] = carry & DIGIT_MASK
    carry = carry >> DIGIT_BITS
    m[WORK + extra + width + 1] = carry & DIGIT_MASK
    negative = carry < 0
    if negative:
        carry = np.int64(1)
        for place in range(length):
            digit = (DIGIT_MASK - m[WORK + place]) + carry
            carry = digit >> DIGIT_BITS
            m[WORK + place] = digit & DIGIT_MASK
    # The quotient; a remainder only says that it is not exact.
    rest: Any = np.int64(0)
    highest = -1
    for place in range(length - 1, -1, -1):
        if divisor >= LARGEST_DIVISOR:
            # The rest and a digit have too many bits together: one bit after the other.
            digit, found = m[WORK + place], np.int64(0)
            for bit in range(DIGIT_BITS - 1, -1, -1):
                rest = (rest << 1) | ((digit >> bit) & 1)
                found <<= 1
                if rest >= divisor:
                    rest -= divisor
                    found |= 1
            m[WORK + place] = found
        elif divisor != 1:
            whole = (rest << DIGIT_BITS) | m[WORK + place]
            m[WORK + place] = whole // divisor
            rest = whole - m[WORK + place] * divisor
        if highest < 0 and m[WORK + place]:
            highest = place
    if highest < 0:
        return 0
    top = highest * DIGIT_BITS
    leading = m[WORK + highest]
    while leading > 1:
        leading >>= 1
        top += 1
    cut = max(top - 52, LEAST_EXPONENT - exponent)
    at, shift = cut >> 5, cut & 31
    mantissa: Any = np.int64(0)
    if at < length:
        mantissa = (m[WORK + at] | (m[WORK + at + 1] << DIGIT_BITS)) >> shift
        if shift:
            # The sign bit may have come along: keep the bits that belong here.
            mantissa &= (np.int64(1) << (64 - shift)) - 1
            mantissa |= m[WORK + at + 2] << (64 - shift)
    half = cut - 1
    if (m[WORK + (half >> 5)] >> (half & 31)) & 1:
        odd = (mantissa & 1) != 0 or rest != 0
        if not odd:
            odd = (m[WORK + (half >> 5)] & ((np.int64(1) << (half & 31)) - 1)) != 0
            place = (half >> 5) - 1
            while not odd and place >= 0:
                odd = m[WORK + place] != 0
                place -= 1
        if odd:
            mantissa += 1
    bits = mantissa
    if mantissa >= np.int64(1) << 52:
        biased = cut + exponent - LEAST_EXPONENT + 1
        bits = (np.int64(biased) << 52) + mantissa - (np.int64(1) << 52)
        if biased >= 0x7FF or bits >= np.int64(0x7FF0000000000000):
            m[KNOWN] = 0
            return 0
    m[REGISTERS] = bits
    if negative:
        f[REGISTERS] = -f[REGISTERS]
    f[REGISTERS] += 0.0
    return 0


@kernel(_int(words, _int), nogil=True)
def whole_sum(m: Memory, total: int) -> int:
    """Put a sum of integers into the first register; NULL if it has more than 64 bits."""
    low, high = m[total + 1], m[total + 2]
    high += low >> DIGIT_BITS
    low &= DIGIT_MASK
    fits = -(np.int64(1) << 31) <= high < (np.int64(1) << 31)
    m[KNOWN] = np.int64(fits)
    m[REGISTERS] = (high << DIGIT_BITS) | low if fits else np.int64(0)
    return 0


@kernel(_int(words, floats, _int, _int), nogil=True)
def mean_of_ints(m: Memory, f: Memory, total: int, count: int) -> int:
    """Put the mean of integers into the first register."""
    m[total + 2] += m[total + 1] >> DIGIT_BITS
    m[total + 1] &= DIGIT_MASK
    if -SHORT <= m[total + 2] < SHORT:
        # Both are floats, so their quotient is rounded once.
        whole = (m[total + 2] << DIGIT_BITS) + m[total + 1]
        f[REGISTERS] = np.float64(whole) / np.float64(count)
        m[KNOWN] = 1
        return 0
    return round_sum(m, f, total + 1, 2, 0, count)


@kernel(_int(words, floats, _int, _int, _int), nogil=True)
def short_sum(m: Memory, f: Memory, total: int, low: int, high: int) -> int:
    """Put a sum of floats that is a float itself into the first register; 0 if it may not be one.

    `low` and `high` are its first digit in use and the end.
    """
    at = total + SUM_DIGITS
    while m[at + low] == 0:
        low += 1
    high -= 1
    top = m[at + high]
    while high > low and (
        (top == 0 and m[at + high - 1] < HIGH_BIT) or (top == -1 and m[at + high - 1] >= HIGH_BIT)
    ):
        high -= 1
        top = (top << DIGIT_BITS) + m[at + high]
    if high - low > 1 or not -SHORT <= top < SHORT:
        return 0
    whole = top
    if high > low:
        whole = (top << DIGIT_BITS) + m[at + low]
    exponent = LEAST_EXPONENT + DIGIT_BITS * low
    if not LEAST_SHORT < exponent < MOST_SHORT:
        return 0
    f[REGISTERS] = math.ldexp(np.float64(whole), exponent)
    return 1


@kernel(_int(words, floats, _int, _int), nogil=True)
def float_sum(m: Memory, f: Memory, total: int, divisor: int) -> int:
    """Put a sum of floats, divided, into the first register."""
    settle(m, total)
    low, high = m[total + SUM_LOW], m[total + SUM_HIGH]
    m[REGISTERS] = 0
    m[KNOWN] = 1
    if high == 0:
        return 0
    if short_sum(m, f, total, low, high):
        # It is exact, and no result is so small that it were rounded twice.
        f[REGISTERS] = f[REGISTERS] / np.float64(divisor)
        return 0
    exponent = LEAST_EXPONENT + DIGIT_BITS * low
    return round_sum(m, f, total + SUM_DIGITS + low, high - low, exponent, divisor)
