"""Exact sums of numbers as texts, which one statement passes on to another.

A sum of floats is a whole number of units of some power of two (`streams.arithmetic.exact_sums`).
If it were rounded to a float before it is added up further, the result would depend on how values
were grouped. So a statement that sums up a part of its tuples emits

    "<significand>p<exponent>", for one -1a3fp-52 = -(0x1a3f) · 2⁻⁵².

The significand is odd and in hexadecimal digits, so equal sums are equal texts; a sum of zero is
"0p0". A sum of floats between 1 and 1,000 takes some twenty characters.
"""

from __future__ import annotations

import re

from streams.arithmetic.exact_sums import LEAST_EXPONENT, correct_root, rounded

LEAST_SQUARE_EXPONENT = 2 * LEAST_EXPONENT
"""The square of the least positive float is 2⁻²¹⁴⁸."""

HIGHEST_BIT = 2112
"""2⁶⁴ squares of the greatest float are less than 2²¹¹²."""

MOST_HEXADECIMALS = (HIGHEST_BIT - LEAST_SQUARE_EXPONENT) // 4
"""No significand has more digits."""

_form = re.compile(rf"(-?[0-9a-f]{{1,{MOST_HEXADECIMALS}}})p(-?[0-9]{{1,4}})", re.ASCII)


def exact_text(total: int, exponent: int) -> str:
    """The text of total · 2^exponent."""
    if not total:
        return "0p0"
    zeros = (total & -total).bit_length() - 1
    return f"{total >> zeros:x}p{exponent + zeros}"


def exact_number(text: str) -> tuple[int, int]:
    """Total and exponent of a text; 0 if it is no exact sum."""
    found = _form.fullmatch(text)
    if found is None:
        return 0, 0
    total, exponent = int(found[1], 16), int(found[2])
    if exponent < LEAST_SQUARE_EXPONENT or exponent + total.bit_length() > HIGHEST_BIT:
        return 0, 0
    return total, exponent


def exact_value(text: str) -> float | None:
    """The sum as a float, rounded once; None if out of range."""
    return rounded(*exact_number(text), 1)


def exact_mean(text: str, count: int) -> float | None:
    """The sum of so many values divided by their number, rounded once; None if out of range."""
    return rounded(*exact_number(text), count) if count > 0 else None


def exact_deviation(text: str, squares: str, count: int) -> float | None:
    """The standard deviation of a sample, from the sums of its values and of their squares.

    None for fewer than two values, or if it is out of range.
    """
    if count < 2:
        return None
    total, exponent = exact_number(text)
    square, square_exponent = exact_number(squares)
    # In units of both, and of their squares.
    bits = max(-exponent, -(square_exponent // 2), 0)
    total <<= exponent + bits
    square <<= square_exponent + 2 * bits
    dividend = count * square - total * total
    # Less than nothing only if the texts are not those of the same values.
    return correct_root(dividend, count * (count - 1), bits) if dividend >= 0 else None
