"""The kernel that adds up exact sums from texts, in Python: what it computes, without numba."""

from __future__ import annotations

from collections.abc import Iterator

from foundation.arrays import IntArray
from streams.arithmetic.exact_sums import DIGIT_BITS, DIGIT_MASK
from streams.arithmetic.exact_texts import LEAST_SQUARE_EXPONENT, exact_number
from streams.vectors.arrays import Bytes, Codes


def sum_texts(offsets: Codes, data: Bytes, slots: Codes, digits: IntArray, lowest: int) -> int:
    """Add exact sums, given as texts, to exact sums whose first digit is the `lowest`-th.

    Parameters
    ----------
    offsets, data
        The texts, as Arrow holds them. One that is no exact sum adds nothing.
    slots
        For each text, the place of its group.
    digits
        Of each group, in units of 2⁻²¹⁴⁸.

    Returns
    -------
    int
        The place of the first text that needs a digit which is not there, or their number.
    """
    width, written = digits.shape[1], data.tobytes()
    ends: list[int] = offsets.tolist()
    for text, slot in enumerate(slots.tolist()):
        first, added = cut(written[ends[text] : ends[text + 1]].decode())
        first -= lowest
        # The digit above takes the carries.
        if added and (first < 0 or first + len(added) >= width):
            return text
        for place, digit in enumerate(added, first):
            digits[slot, place] += digit
    return len(slots)


def cut(text: str) -> tuple[int, list[int]]:
    """The lowest digit of an exact sum, and the digits from there, all of its sign."""
    total, exponent = exact_number(text)
    position = exponent - LEAST_SQUARE_EXPONENT
    sign, rest = (-1 if total < 0 else 1), abs(total) << position % DIGIT_BITS
    return position // DIGIT_BITS, list(_cut(sign, rest))


def _cut(sign: int, rest: int) -> Iterator[int]:
    while rest:
        yield sign * (rest & DIGIT_MASK)
        rest >>= DIGIT_BITS
