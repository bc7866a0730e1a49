"""The aggregates of a statement from what a pane knows of each group.

A *part* is a partial aggregate: the number of NULLs of an argument, its exact sum, its greatest or
least value. Aggregates of a statement share the parts that they have in common. Parts of sums and
counts are added when a pane enters the window and subtracted when it leaves (`parts.py`,
`squares.py`, `texts.py`). The greatest or the last value of a window cannot be corrected like that;
it follows from two stacks (`two_stacks.py`, `text_stacks.py`).
"""

from __future__ import annotations

import numpy as np

from foundation.arrays import BoolArray, IntArray
from streams.aggregates.parts import Digits, FloatSum, IntSum, Nulls, Part
from streams.aggregates.squares import FloatSquares, IntSquares, deviations
from streams.aggregates.text_stacks import TextEnd, TextExtreme
from streams.aggregates.text_sums import TextSum, texts
from streams.aggregates.two_stacks import End, Extreme, TwoStacks
from streams.expressions.typed import Typed
from streams.plan.program import EXACT_SUMS, AggregatePlan
from streams.vectors.arrays import Codes
from streams.vectors.vector import Array, Vector, filler_of, holds_everywhere


class Parts:
    """The parts that the aggregates of a statement need, and their results."""

    def __init__(self, aggregates: tuple[AggregatePlan, ...]) -> None:
        self._aggregates = aggregates
        self.by_need: dict[tuple[str, Typed], Part] = {}
        """What is needed of an argument → the part that is it."""
        for plan in aggregates:
            for need in needs(plan):
                if need not in self.by_need:
                    self.by_need[need] = _part(*need)
        self.parts = tuple(self.by_need.values())

    def results(self, codes: Codes, rows: IntArray) -> list[Vector]:
        """The aggregates of groups with so many rows each."""
        return [self._result(plan, codes, rows) for plan in self._aggregates]

    def _result(self, plan: AggregatePlan, codes: Codes, rows: IntArray) -> Vector:
        if plan.argument is None:
            return Vector(rows, None)
        nulls = self.by_need["nulls", plan.argument]
        assert isinstance(nulls, Nulls)
        count = nulls.counted(codes, rows)
        if plan.function == "count":
            return Vector(count, None)
        some: BoolArray = count > 0
        if plan.function in ("min", "max", "first", "last"):
            one = self.by_need[plan.function, plan.argument]
            assert isinstance(one, TwoStacks)
            return _where(one.result(codes), some)
        if plan.function in EXACT_SUMS:
            kept = self.by_need[_exact(plan.function, plan.argument)]
            assert isinstance(kept, Digits)
            return texts(kept, codes, some)
        total = self.by_need["sum", plan.argument]
        assert isinstance(total, IntSum | FloatSum)
        if plan.function == "stddev":
            squares = self.by_need["squares", plan.argument]
            assert isinstance(squares, IntSquares | FloatSquares)
            return _where(*deviations(total, squares, codes, count))
        if isinstance(total, IntSum) and plan.function == "sum":
            values, fits = total.result(codes)
            return _where(values, fits & some)
        divisors = np.maximum(count, 1) if plan.function == "avg" else None
        values, fits = total.rounded(codes, divisors)
        return _where(values, fits & some)


def _where(values: Array, valid: BoolArray) -> Vector:
    if holds_everywhere(valid):
        return Vector(values, None)
    return Vector(np.where(valid, values, filler_of(values)), valid)


def needs(plan: AggregatePlan) -> list[tuple[str, Typed]]:
    """The parts of an aggregate: what, and of which argument."""
    if plan.argument is None:
        return []
    if plan.function == "count":
        return [("nulls", plan.argument)]
    nulls = ("nulls", plan.argument)
    if plan.function == "stddev":
        return [nulls, ("sum", plan.argument), ("squares", plan.argument)]
    if plan.function in ("sum", "avg"):
        return [nulls, ("sum", plan.argument)]
    if plan.function in EXACT_SUMS:
        return [nulls, _exact(plan.function, plan.argument)]
    return [nulls, (plan.function, plan.argument)]


def _exact(function: str, argument: Typed) -> tuple[str, Typed]:
    """The sum that is passed on as a text."""
    if argument.kind == "string":
        return "texts", argument
    return "squares" if function == "exact_squares" else "sum", argument


def _part(need: str, argument: Typed) -> Part:
    floats, is_text = argument.kind == "float", argument.kind == "string"
    match need:
        case "nulls":
            return Nulls(argument)
        case "sum":
            return FloatSum(argument) if floats else IntSum(argument)
        case "squares":
            return FloatSquares(argument) if floats else IntSquares(argument)
        case "texts":
            return TextSum(argument)
        case "first" | "last":
            return (TextEnd if is_text else End)(argument, last=need == "last")
        case _:
            return (TextExtreme if is_text else Extreme)(argument, greatest=need == "max")
