"""The computation of functions that put partial aggregates together (`streams.plan.partial`).

Sums of panes may need more than 64 bits, so that ints travel in halves; sums of floats travel as
texts (`streams.arithmetic.exact_texts`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foundation.arrays import BoolArray
from streams.arithmetic import exact_texts
from streams.expressions.columnwise import of_each, valid_in_all
from streams.vectors.vector import Vector

HALF_BITS = 32
"""Ints are high half · 2^32 + low half. Sums of 2^31 halves fit in 64 bits."""

_low_bits = (1 << HALF_BITS) - 1


def high_half(arguments: Sequence[Vector]) -> Vector:
    """The part of ints that counts 2³²."""
    return Vector(arguments[0].values >> HALF_BITS, arguments[0].valid)


def low_half(arguments: Sequence[Vector]) -> Vector:
    """The rest of ints, which is not negative."""
    return Vector(arguments[0].values & _low_bits, arguments[0].valid)


def joined_sum(arguments: Sequence[Vector]) -> Vector:
    """Sums of high and of low halves as one int; NULL if it does not fit in 64 bits."""
    high, low = (argument.values for argument in arguments)
    high = high + (low >> HALF_BITS)
    fits: BoolArray = np.equal(high, (high << HALF_BITS) >> HALF_BITS)
    valid = valid_in_all(arguments)
    values = (high << HALF_BITS) + (low & _low_bits)
    return Vector(values, fits if valid is None else valid & fits)


def _mean_of(high: int, low: int, count: int) -> float | None:
    """Python divides ints of any size, and rounds once."""
    return ((high << HALF_BITS) + low) / count if count else None


joined_mean = of_each(_mean_of, "float", 3)

exact_value = of_each(exact_texts.exact_value, "float", 1)
exact_mean = of_each(exact_texts.exact_mean, "float", 2)
exact_deviation = of_each(exact_texts.exact_deviation, "float", 3)
