"""Exact sums of squares, and standard deviations that are rounded once.

A square has twice the bits of its number. It falls into neighbouring digits of 32 bits, as the
numbers themselves do (`streams.arithmetic.exact_sums`): those of an int into four, those of a
float, whose unit is 2⁻²¹⁴⁸, into five, and one more takes their carries. NumPy adds them, so there
is no kernel to compile.
"""

from __future__ import annotations

import numpy as np

from foundation.arrays import BoolArray, FloatArray, IntArray
from streams.aggregates.parts import Digits, FloatSum, IntSum
from streams.arithmetic.exact_sums import (
    DIGIT_BITS,
    DIGIT_MASK,
    LEAST_EXPONENT,
    UNSPANNED,
    correct_root,
    split,
    total_of,
)
from streams.vectors.arrays import Bits, Codes
from streams.vectors.vector import Array, Vector

SPAN = 6
"""Digits from the lowest one of a float's square to the one that takes the carry of its highest."""

_mask, _bits = np.uint64(DIGIT_MASK), np.uint64(DIGIT_BITS)


def squared(magnitudes: Bits) -> list[Bits]:
    """The squares of whole numbers up to 2⁶³, in four digits, the lowest first."""
    high, low = magnitudes >> _bits, magnitudes & _mask
    lowest, middle, highest = low * low, high * low << np.uint64(1), high * high
    second = (lowest >> _bits) + (middle & _mask)
    third = (second >> _bits) + (middle >> _bits) + (highest & _mask)
    fourth = (third >> _bits) + (highest >> _bits)
    return [lowest & _mask, second & _mask, third & _mask, fourth]


def _counted(slots: Codes, column: Vector, begin: int, end: int) -> BoolArray:
    counted: BoolArray = slots[begin:end] >= 0
    return counted if column.valid is None else counted & column.valid[begin:end]


class IntSquares(Digits):
    """The sum of the squares of integers, in four digits."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """A column for each digit."""
        return ("int",) * 4

    def empty(self, groups: int) -> Array:
        """Zeros."""
        return np.zeros((groups, 4), dtype=np.int64)

    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Add."""
        counted = _counted(slots, column, begin, end)
        slot = slots[begin:end][counted]
        # The magnitude of the least integer is right as an unsigned one.
        magnitudes: Bits = np.abs(column.values[begin:end][counted]).view(np.uint64)
        for place, digit in enumerate(squared(magnitudes)):
            np.add.at(state[:, place], slot, digit.astype(np.int64))
        return end


class FloatSquares(FloatSum):
    """The exact sum of the squares of floats, in units of 2⁻²¹⁴⁸."""

    least_exponent = 2 * LEAST_EXPONENT

    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Add, as far as the digits reach."""
        counted = _counted(slots, column, begin, end)
        positions, fraction, _ = split(column.values[begin:end].view(np.uint64))
        counted &= fraction != 0
        digit = (positions >> 4) - min(self.span[0], 0xFFFF)
        outside = counted & ((digit < 0) | (digit + SPAN > self.width))
        stop = int(outside.argmax()) if outside.any() else end - begin
        counted[stop:] = False
        slot, digit = slots[begin:end][counted], digit[counted]
        shift = (2 * positions[counted] & 31).astype(np.uint64)
        for place, part in enumerate(squared(fraction[counted].view(np.uint64))):
            moved = part << shift
            np.add.at(state, (slot, digit + place), (moved & _mask).astype(np.int64))
            np.add.at(state, (slot, digit + place + 1), (moved >> _bits).astype(np.int64))
        return begin + stop

    def wider(self, column: Vector, place: int) -> tuple[int, int]:
        """The span that the tuple at a place needs too."""
        positions, fraction, _ = split(column.values[place : place + 1].view(np.uint64))
        if not fraction[0]:
            return self.span
        lowest = int(positions[0]) >> 4
        begin, end = (lowest, lowest + SPAN) if self.span == UNSPANNED else self.span
        return min(begin, lowest), max(end, lowest + SPAN)


def deviations(
    total: IntSum | FloatSum, squares: IntSquares | FloatSquares, codes: Codes, counts: IntArray
) -> tuple[FloatArray, BoolArray]:
    """The standard deviations of the samples of groups, and whether there are any in range."""
    out = np.zeros(len(codes))
    some = np.zeros(len(codes), dtype=np.bool_)
    lowest = twice = low = 0
    if isinstance(total, FloatSum) and isinstance(squares, FloatSquares):
        # Units of both, as powers of two over 2⁻¹⁰⁷⁴ and 2⁻²¹⁴⁸; then of the least common one.
        lowest = DIGIT_BITS * total.span[0] if total.width else 0
        twice = DIGIT_BITS * squares.span[0] if squares.width else 0
        low = min(lowest, twice // 2, -LEAST_EXPONENT)
        bits = -LEAST_EXPONENT - low
    else:
        bits = 0
    for place in np.flatnonzero(counts > 1).tolist():
        code, count = codes[place], int(counts[place])
        added = total_of(total.totals[code]) << lowest - low
        square = total_of(squares.totals[code]) << twice - 2 * low
        found = correct_root(count * square - added * added, count * (count - 1), bits)
        if found is not None:
            out[place], some[place] = found, True
    return out, some
