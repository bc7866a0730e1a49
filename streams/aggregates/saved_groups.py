"""Sums of groups in arrays, as the values that accumulators save and read.

A snapshot does not tell how an engine kept its groups: row by row (`Aggregate`) or in arrays
(`FoldedGroups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from foundation.arrays import IntArray
from streams.aggregates.pane_parts import Parts, needs
from streams.aggregates.parts import Digits, FloatSum, Nulls, Summed, widen
from streams.arithmetic.exact_sums import DIGIT_BITS, DIGIT_MASK, totals_of
from streams.arithmetic.exact_texts import LEAST_SQUARE_EXPONENT
from streams.expressions.typed import Typed
from streams.plan.program import EXACT_SUMS, AggregatePlan
from streams.vectors.arrays import Codes
from streams.vectors.state import SnapshotError, in_bytes
from streams.vectors.vector import Array

SavedGroup = list[Any]
"""Keys, number of rows, and what the accumulator of each aggregate saves."""


class Held(NamedTuple):
    """A part of some groups.

    Attributes
    ----------
    totals
        Of each group.
    exponent
        The unit of its lowest digit, as a power of two.
    least
        The least unit that it may have.
    """

    totals: Array
    exponent: int
    least: int

    def wholes(self, some: slice, unit: int | None = None) -> Iterable[int]:
        """The sums in the least units, or in those of a lower power of two."""
        shift = self.exponent - (self.least if unit is None else unit)
        return [total << shift for total in totals_of(self.totals[some])]


def held_parts(parts: Parts, codes: Codes) -> Mapping[tuple[str, Typed], Held]:
    """What there is of some groups; does not change with the parts."""
    held: dict[tuple[str, Typed], Held] = {}
    for need, part in parts.by_need.items():
        assert isinstance(part, Summed)
        exponent = part.exponent if isinstance(part, Digits) else 0
        held[need] = Held(part.totals[codes], exponent, _least(part))
    return held


def _least(part: Summed) -> int:
    """The least unit of a sum, as a power of two."""
    return part.least_exponent if isinstance(part, FloatSum) else 0


def saved_values(
    plan: AggregatePlan, held: Mapping[tuple[str, Typed], Held], rows: IntArray, some: slice
) -> list[Any]:
    """What the accumulators of an aggregate save, of some groups with so many rows each."""
    if plan.argument is None:
        return rows[some].tolist()
    nulls = held["nulls", plan.argument].totals
    counts: list[int] = (rows[some] - nulls[some]).tolist()
    if plan.function == "count":
        return counts
    need = needs(plan)[1]
    unit = LEAST_SQUARE_EXPONENT if plan.function in EXACT_SUMS else None
    wholes = held[need].wholes(some, unit)
    sums = [[count, in_bytes(whole)] for count, whole in zip(counts, wholes, strict=True)]
    if plan.function != "stddev":
        return sums
    squares = held["squares", plan.argument].wholes(some)
    return [[one, in_bytes(whole)] for one, whole in zip(sums, squares, strict=True)]


def read_values(
    plan: AggregatePlan, parts: Parts, codes: Codes, rows: IntArray, saved: Sequence[Any]
) -> None:
    """Give groups what was saved of them.

    Parameters
    ----------
    plan, parts
        The aggregate; the parts that it needs and others.
    codes, rows
        The groups, and how many rows each has.
    saved
        Of each group, what the accumulator of the aggregate has saved.
    """
    if plan.argument is None:
        return
    counts, *sums = zip(*(_flat(value, plan.function) for value in saved), strict=True)
    nulls, *summed = (parts.by_need[need] for need in needs(plan))
    assert isinstance(nulls, Nulls)
    nulls.hold(codes, rows - np.array(counts, dtype=np.int64))
    for part, of_groups in zip(summed, sums, strict=True):
        assert isinstance(part, Summed)
        finer = _least(part) - LEAST_SQUARE_EXPONENT if plan.function in EXACT_SUMS else 0
        _put(part, codes, [int.from_bytes(one, "big", signed=True) >> finer for one in of_groups])


def _flat(saved: Any, function: str) -> tuple[Any, ...]:
    """The count, then what was summed up."""
    match saved:
        case int(count) if function == "count":
            return (count,)
        case [int(count), bytes(total)] if function in ("sum", "avg", *EXACT_SUMS):
            return count, total
        case [[int(count), bytes(total)], bytes(squares)] if function == "stddev":
            return count, total, squares
        case _:
            raise SnapshotError(f"not a {function}: {saved!r}")


def _put(part: Summed, codes: Codes, wholes: Sequence[int]) -> None:
    """Give groups sums that are whole numbers of the least units."""
    lowest = 0
    if isinstance(part, FloatSum):
        sizes = [whole for whole in wholes if whole]
        if not sizes:
            part.totals[codes] = 0
            return
        begin = min((whole & -whole).bit_length() - 1 for whole in sizes) // DIGIT_BITS
        end = max(whole.bit_length() for whole in sizes) // DIGIT_BITS + 1
        widen(part, (min(begin, part.span[0]), max(end, part.span[1])), [])
        lowest = part.span[0]
    digits = np.empty((len(wholes), part.totals.shape[1]), dtype=np.int64)
    for place, whole in enumerate(wholes):
        rest = whole >> DIGIT_BITS * lowest
        for digit in range(digits.shape[1] - 1):
            digits[place, digit] = rest & DIGIT_MASK
            rest >>= DIGIT_BITS
        digits[place, -1] = rest
    part.totals[codes] = digits
