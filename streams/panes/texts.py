"""Exact sums as texts (`streams.exact_texts`): what panes make of them, and make from them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streams.exact_texts import LEAST_SQUARE_EXPONENT, exact_number, exact_text
from streams.panes.arrays import Codes
from streams.panes.exact_sums import DIGIT_BITS, DIGIT_MASK, UNSPANNED, total_of
from streams.panes.parts import Digits, FloatSum
from streams.vector import Array, Vector
from topology.arrays import BoolArray


class TextSum(FloatSum):
    """The sum of exact sums, which are given as texts, in units of 2⁻²¹⁴⁸."""

    least_exponent = LEAST_SQUARE_EXPONENT
    reads_texts = True

    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Add, as far as the digits reach."""
        lowest, width = self.span[0], self.width
        counted = slots[begin:end] >= 0
        if column.valid is not None:
            counted &= column.valid[begin:end]
        for place in (np.flatnonzero(counted) + begin).tolist():
            first, digits = _digits(column.values[place])
            first -= lowest
            # The digit above takes the carries.
            if digits and (first < 0 or first + len(digits) >= width):
                return place
            row = state[slots[place]]
            for offset, digit in enumerate(digits, start=first):
                row[offset] += digit
        return end

    def wider(self, column: Vector, place: int) -> tuple[int, int]:
        """The span that the text at a place needs too."""
        first, digits = _digits(column.values[place])
        begin, end = (first, first) if self.span == UNSPANNED else self.span
        return min(begin, first), max(end, first + len(digits) + 1)


def _digits(text: str) -> tuple[int, list[int]]:
    """The lowest digit of an exact sum, and the digits from there, all of its sign."""
    total, exponent = exact_number(text)
    position = exponent - LEAST_SQUARE_EXPONENT
    sign, rest = (-1 if total < 0 else 1), abs(total) << position % DIGIT_BITS
    return position // DIGIT_BITS, list(_cut(sign, rest))


def _cut(sign: int, rest: int) -> Iterator[int]:
    while rest:
        yield sign * (rest & DIGIT_MASK)
        rest >>= DIGIT_BITS


def texts(total: Digits, codes: Codes, some: BoolArray) -> Vector:
    """The sums of groups that have some values."""
    values: Array = np.full(len(codes), "", dtype=np.object_)
    for place in np.flatnonzero(some).tolist():
        values[place] = exact_text(total_of(total.totals[codes[place]]), total.exponent)
    return Vector(values, None if some.all() else some)
