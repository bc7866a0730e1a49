"""The kernel that adds up exact sums from texts, compiled by numba.

`streams.kernels.reference_texts` has the same function in Python and says what it does.
`streams.kernels.compiled` says how kernels are compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from foundation.arrays import IntArray
from streams.arithmetic.exact_sums import DIGIT_BITS, DIGIT_MASK
from streams.arithmetic.exact_texts import HIGHEST_BIT, LEAST_SQUARE_EXPONENT, MOST_HEXADECIMALS
from streams.kernels.machine_code import kernel
from streams.vectors.arrays import Bytes, Codes

_read_codes = types.Array(types.int32, 1, "C", readonly=True)
_read_bytes = types.Array(types.uint8, 1, "C", readonly=True)
_digits = types.Array(types.int64, 2, "C")
_int = types.int64
_two = types.Tuple((types.int64, types.int64))

_MINUS, _ZERO, _NINE, _A, _F, _P = (ord(one) for one in "-09afp")

_NO_NUMBER = 9999
"""In the place of an exponent: no text has one so large, because the sum would be out of range."""


@kernel(_int(_int), inline="always")
def _hexadecimal(byte: Any) -> Any:
    """The value of a hexadecimal digit; -1 for another character."""
    if _ZERO <= byte <= _NINE:
        return byte - _ZERO
    if _A <= byte <= _F:
        return byte - _A + 10
    return -1


@kernel(_int(_read_bytes, _int, _int))
def _exponent(data: Bytes, begin: Any, end: Any) -> Any:
    """The whole number in some characters."""
    negative = begin < end and data[begin] == _MINUS
    if negative:
        begin += 1
    if end - begin < 1 or end - begin > 4:
        return _NO_NUMBER
    number = 0
    for place in range(begin, end):
        digit = np.int64(data[place]) - _ZERO
        if digit < 0 or digit > 9:
            return _NO_NUMBER
        number = 10 * number + digit
    return -number if negative else number


@kernel(_two(_read_bytes, _int, _int))
def _significand(data: Bytes, begin: Any, end: Any) -> tuple[Any, Any]:
    """Where the digits of a significand end that begins here, and how many bits it has.

    No bits: it is zero, or no significand.
    """
    stop = begin
    while stop < end and _hexadecimal(np.int64(data[stop])) >= 0:
        stop += 1
    if stop == end or data[stop] != _P or stop - begin > MOST_HEXADECIMALS:
        return stop, 0
    while begin < stop and data[begin] == _ZERO:
        begin += 1
    if begin == stop:
        return stop, 0
    bits, leading = 4 * (stop - begin - 1), _hexadecimal(np.int64(data[begin]))
    while leading:
        leading >>= 1
        bits += 1
    return stop, bits


@kernel(_int(_read_codes, _read_bytes, _read_codes, _digits, _int), nogil=True)
def sum_texts(offsets: Codes, data: Bytes, slots: Codes, digits: IntArray, lowest: int) -> int:
    """Add exact sums to exact sums."""
    width = digits.shape[1]
    for text in range(len(slots)):
        begin, end = np.int64(offsets[text]), np.int64(offsets[text + 1])
        negative = begin < end and data[begin] == _MINUS
        if negative:
            begin += 1
        stop, bits = _significand(data, begin, end)
        if not bits:
            continue
        exponent = _exponent(data, stop + 1, end)
        if exponent < LEAST_SQUARE_EXPONENT or exponent + bits > HIGHEST_BIT:
            continue
        position = exponent - LEAST_SQUARE_EXPONENT
        shift = position & (DIGIT_BITS - 1)
        first = (position >> 5) - lowest
        after = first + ((bits + shift + DIGIT_BITS - 1) >> 5)
        if first < 0 or after >= width:
            return text
        slot, carry = slots[text], np.int64(0)
        for digit in range(first, after):
            word = np.int64(0)
            start = max(stop - 8, begin)
            for place in range(start, stop):
                word = word << 4 | _hexadecimal(np.int64(data[place]))
            stop = start
            word <<= shift
            added = (word & DIGIT_MASK) | carry
            carry = word >> DIGIT_BITS
            digits[slot, digit] += -added if negative else added
    return len(slots)
