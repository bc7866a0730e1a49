"""Finds the pairs of a join that a condition may hold for, without comparing all of them.

Conditions of two shapes leave few pairs:

    f(A) = g(B),    abs(f(A) - g(B)) <= c   (or <, and the other way round).

Both say that the key g of a row of B lies in a range around the key f of a row of A. The keys of B
are sorted, so two binary searches give the rows in the range. A range of integers or strings is
exact. A range of floats is somewhat wider than the condition's, so that rounding cannot exclude a
pair.

Strings are looked up by number: equal strings have equal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray, IntArray
from streams.expressions.typed import (
    STRING_COST,
    Apply,
    Constant,
    Evaluator,
    Typed,
    evaluator,
    fields,
)
from streams.vectors.vector import Positions, Rows, Vector

SORTED_FROM_ROWS = 8
SORTED_FROM_PAIRS = 1 << 12
"""With fewer rows on the left, or fewer pairs, comparing all of them takes less time. Measured."""

LARGEST_INTEGER = 1 << 61
"""Differences of integers up to this size do not wrap around."""

LARGEST_BAND = 1 << 52
"""Widths up to this are exact as integers and as floats."""


@dataclass(frozen=True, slots=True)
class Band:
    """A condition by which pairs are found.

    Attributes
    ----------
    left, right
        The keys, over all columns side by side.
    kind
        Type of both: int, float or string.
    width
        The most by which they may differ.
    below
        They must differ by less than that.
    """

    left: Evaluator
    right: Evaluator
    kind: str
    width: float
    below: bool

    @property
    def exact(self) -> bool:
        """Whether the condition holds for all pairs that are found."""
        return self.kind != "float"

    def is_worth_it(self, left: int, right: int) -> bool:
        """Whether sorting the right is cheaper than comparing all pairs."""
        costs = STRING_COST if self.kind == "string" else 1.0
        return left >= SORTED_FROM_ROWS and costs * left * right >= SORTED_FROM_PAIRS

    def candidates(self, left: Rows, right: Rows) -> MatchRanges | None:
        """The pairs of rows to which the condition may apply; None if that cannot be told."""
        one = self.left(left).filled_to(left.length)
        other = self.right(right).filled_to(right.length)
        known = np.arange(right.length) if other.valid is None else np.flatnonzero(other.valid)
        keys = self._keys(one, Vector(other.values[known], None))
        if keys is None:
            return None
        low, high, sought = keys
        order = sought.argsort()
        by_key = sought[order]
        begin = by_key.searchsorted(low)
        count = by_key.searchsorted(high, side="right") - begin
        if one.valid is not None:
            count = np.where(one.valid, count, 0)
        return MatchRanges(begin, np.maximum(count, 0), known[order])

    def _keys(
        self, one: Vector, other: Vector
    ) -> tuple[IntArray | FloatArray, IntArray | FloatArray, IntArray | FloatArray] | None:
        """The least and greatest key to look for, for each row of the left; keys of the right."""
        if self.kind == "string":
            numbers: dict[str, int] = {}
            right = [numbers.setdefault(text, len(numbers)) for text in other.values.tolist()]
            left = np.array([numbers.get(text, -1) for text in one.values.tolist()], dtype=np.int64)
            return left, left, np.array(right, dtype=np.int64)
        if self.kind == "int":
            width = math.ceil(self.width) - 1 if self.below else math.floor(self.width)
            for values in (one.values, other.values) if width else ():
                if len(values) and max(-int(values.min()), int(values.max())) > LARGEST_INTEGER:
                    return None
            return one.values - width, one.values + width, other.values
        middle = one.values.astype(np.float64)
        width = math.nextafter(self.width, math.inf) if self.width else 0.0
        low, high = middle - width, middle + width
        if width:
            low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
        return low, high, other.values.astype(np.float64)


@dataclass(frozen=True, slots=True)
class MatchRanges:
    """For each row of the left, a range of rows of the right in the order of their keys."""

    _begin: Positions
    _count: Positions
    _order: Positions

    def blocks(self, most: int) -> Iterator[tuple[Positions, Positions]]:
        """Pairs of positions, about `most` at a time."""
        ends = self._count.cumsum()
        start = 0
        while start < len(ends):
            done = int(ends[start - 1]) if start else 0
            stop = max(int(ends.searchsorted(done + most, side="right")), start + 1)
            yield self._between(start, stop, ends)
            start = stop

    def _between(self, start: int, stop: int, ends: Positions) -> tuple[Positions, Positions]:
        count = self._count[start:stop]
        left = np.arange(start, stop).repeat(count)
        # The n-th pair of all reads the order at n, moved to where its row's range begins.
        moved = self._begin[start:stop] - ends[start:stop] + count
        last = int(ends[stop - 1])
        return left, self._order[np.arange(last - len(left), last) + moved.repeat(count)]


def band(
    condition: Typed, bound: Callable[[Typed], bool], new: Callable[[Typed], bool]
) -> Band | None:
    """The condition as a band between the sources that are bound and a new one.

    Parameters
    ----------
    condition
        A conjunct of the join.
    bound, new
        Whether an expression names columns of the bound sources, or of the new one, only.
    """
    found = _difference(condition)
    if found is None:
        return None
    one, other, width, below = found
    kinds = {one.kind, other.kind}
    kind = "float" if kinds == {"int", "float"} else one.kind
    if kind == "bool" or not 0 <= width < LARGEST_BAND or not all(map(_names, (one, other))):
        return None
    if not (bound(one) and new(other)):
        one, other = other, one
    if not (bound(one) and new(other)):
        return None
    return Band(evaluator(one), evaluator(other), kind, width, below)


def _names(expression: Typed) -> bool:
    return next(fields(expression), None) is not None


def _difference(condition: Typed) -> tuple[Typed, Typed, float, bool] | None:
    """Two expressions, the most by which they differ, and whether they must differ by less."""
    match condition:
        case Apply("equal", (one, other)):
            return one, other, 0, False
        case Apply(
            "less" | "less_equal" as comparison,
            (Apply("abs", (Apply("subtract", (one, other)),)), Constant(int() | float() as width)),
        ):
            return one, other, width, comparison == "less"
        case Apply(
            "greater" | "greater_equal" as comparison,
            (Constant(int() | float() as width), Apply("abs", (Apply("subtract", (one, other)),))),
        ):
            return one, other, width, comparison == "greater"
        case _:
            return None
