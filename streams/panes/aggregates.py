"""What a pane knows of each group, and what follows from it for a window of panes.

A *part* is a partial aggregate: the number of NULLs of an argument, its exact sum, its greatest or
least value. Aggregates of a statement share the parts that they have in common. Parts of sums and
counts are added when a pane enters the window and subtracted when it leaves. The greatest value of
a window cannot be corrected like that. It follows from two stacks: panes that entered since the
last flip are folded into one value for each group; those before are folded from the newest to the
oldest when the last of the former flip has left, and each remembers what remains without it. So
every pane is folded twice, however many the window has.

References
----------
Tangwongsan, Hirzel, Schneider, Wu, *General incremental sliding-window aggregation*, PVLDB 8, 2015
(*two stacks*).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from streams.expressions import Typed
from streams.panes import kernels
from streams.panes.arrays import Codes
from streams.panes.exact_sums import (
    DIGIT_BITS,
    LARGEST_DIVISOR,
    LEAST_EXPONENT,
    UNSPANNED,
    fit_int,
    pass_carries_on,
    rounded,
    spanned,
    total_of,
    widened,
)
from streams.panes.keys import every
from streams.program import AggregatePlan
from streams.vector import Array, Vector
from topology.arrays import BoolArray, IntArray

INTEGERS = np.iinfo(np.int64)


class Part(ABC):
    """A partial aggregate of an argument.

    Parameters
    ----------
    argument
        The aggregated expression.

    """

    def __init__(self, argument: Typed) -> None:
        self.argument = argument

    @property
    @abstractmethod
    def kinds(self) -> tuple[str, ...]:
        """Types of the columns in which a snapshot holds it."""

    @abstractmethod
    def empty(self, groups: int) -> Array:
        """The state of groups without tuples."""

    @abstractmethod
    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Add the tuples [begin, end) to the open pane.

        Returns the place of the first tuple for which `state` is too narrow (`widen` it then), or
        the end.
        """

    def settled(self, state: Array) -> Array:
        """The state of a pane that is complete, in its only form."""
        return state

    @abstractmethod
    def allocate(self, groups: int) -> None:
        """Make room for so many groups in the window."""

    @abstractmethod
    def enter(self, codes: Codes, state: Array) -> None:
        """Add a pane to the window."""

    @abstractmethod
    def leave(self, codes: Codes, state: Array) -> None:
        """Take the oldest pane out of the window."""

    def clear(self) -> None:
        """Forget the window."""
        self.allocate(0)

    @abstractmethod
    def columns(self, state: Array) -> list[Vector]:
        """The state as columns of a snapshot."""

    @abstractmethod
    def read(self, columns: Sequence[Vector], groups: int) -> Array:
        """The state that was saved in some columns."""


class _Summed(Part):
    """A part of which a window's is the sum."""

    def __init__(self, argument: Typed) -> None:
        super().__init__(argument)
        self.totals = self.empty(0)

    def allocate(self, groups: int) -> None:
        """Keep the totals."""
        totals = self.empty(groups)
        if groups:
            totals[: len(self.totals)] = self.totals
        self.totals = totals

    def enter(self, codes: Codes, state: Array) -> None:
        """Add."""
        self.totals[codes] += state

    def leave(self, codes: Codes, state: Array) -> None:
        """Subtract."""
        self.totals[codes] -= state


class Nulls(_Summed):
    """How often the argument is NULL."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """A number."""
        return ("int",)

    def empty(self, groups: int) -> Array:
        """Zeros."""
        return np.zeros(groups, dtype=np.int64)

    def columns(self, state: Array) -> list[Vector]:
        """The numbers."""
        return [Vector(state, None)]

    def read(self, columns: Sequence[Vector], groups: int) -> Array:
        """The numbers."""
        return columns[0].values.copy()

    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Count."""
        if column.valid is not None:
            kernels.current().count_nulls(slots, column.valid, state, begin, end)
        return end


class _Digits(_Summed):
    """A sum in digits."""

    def settled(self, state: Array) -> Array:
        """Carries passed on."""
        pass_carries_on(state)
        return state

    def columns(self, state: Array) -> list[Vector]:
        """The digits."""
        return [Vector(np.ascontiguousarray(digits), None) for digits in state.T]

    def read(self, columns: Sequence[Vector], groups: int) -> Array:
        """The digits."""
        if not columns:
            return self.empty(groups)
        return np.stack([column.values for column in columns], axis=1)


class IntSum(_Digits):
    """The sum of integers, in two digits."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """A column for each digit."""
        return ("int", "int")

    def empty(self, groups: int) -> Array:
        """Zeros."""
        return np.zeros((groups, 2), dtype=np.int64)

    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Add."""
        valid = every if column.valid is None else column.valid
        kernels.current().sum_ints(slots, column.values, valid, state, begin, end)
        return end

    def result(self, codes: Codes) -> tuple[IntArray, BoolArray]:
        """The sums of groups, and whether they fit."""
        return fit_int(self.totals[codes])

    def rounded(self, codes: Codes, divisors: IntArray) -> tuple[Array, BoolArray]:
        """The sums divided."""
        return _rounded(self.totals[codes], 0, divisors)


class FloatSum(_Digits):
    """The exact sum of floats (`streams.panes.exact_sums`).

    Attributes
    ----------
    span
        The digits in use: the lowest one, and the end. All states have the same.
    """

    def __init__(self, argument: Typed) -> None:
        self.span: tuple[int, int] = UNSPANNED
        super().__init__(argument)

    @property
    def width(self) -> int:
        """Number of digits."""
        return max(self.span[1] - self.span[0], 0)

    @property
    def kinds(self) -> tuple[str, ...]:
        """A column for each digit."""
        return ("int",) * self.width

    def empty(self, groups: int) -> Array:
        """Zeros."""
        return np.zeros((groups, self.width), dtype=np.int64)

    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Add, as far as the digits reach."""
        valid = every if column.valid is None else column.valid
        values = column.values.view(np.uint64)
        return kernels.current().sum_floats(
            slots, values, valid, state, min(self.span[0], 0xFFFF), begin, end
        )

    def wider(self, column: Vector, place: int) -> tuple[int, int]:
        """The span that the tuple at a place needs too."""
        begin, end = spanned(column.values[place : place + 1].view(np.uint64))
        return min(begin, self.span[0]), max(end, self.span[1])

    def rounded(self, codes: Codes, divisors: IntArray) -> tuple[Array, BoolArray]:
        """The sums divided."""
        if not self.width:
            return np.zeros(len(codes)), np.ones(len(codes), dtype=np.bool_)
        exponent = LEAST_EXPONENT + DIGIT_BITS * self.span[0]
        return _rounded(self.totals[codes], exponent, divisors)


def _rounded(digits: IntArray, exponent: int, divisors: IntArray) -> tuple[Array, BoolArray]:
    out = np.empty(len(digits), dtype=np.float64)
    fits = np.empty(len(digits), dtype=np.bool_)
    kernels.current().round_sums(
        digits, exponent, np.clip(divisors, 1, LARGEST_DIVISOR - 1), out, fits
    )
    for place in np.flatnonzero(divisors >= LARGEST_DIVISOR).tolist():
        found = rounded(total_of(digits[place]), exponent, int(divisors[place]))
        fits[place], out[place] = found is not None, 0.0 if found is None else found
    return out, fits


class Extreme(Part):
    """The greatest or least value."""

    def __init__(self, argument: Typed, *, greatest: bool) -> None:
        super().__init__(argument)
        self._greatest = greatest
        self._better: Callable[..., Any] = np.maximum if greatest else np.minimum
        if argument.kind == "int":
            self._none: Any = np.int64(INTEGERS.min if greatest else INTEGERS.max)
        else:
            self._none = np.float64(-np.inf if greatest else np.inf)
        self.clear()

    @property
    def kinds(self) -> tuple[str, ...]:
        """That of the argument."""
        return (self.argument.kind,)

    def columns(self, state: Array) -> list[Vector]:
        """The values; NULL for none."""
        return [Vector(state, state != self._none)]

    def read(self, columns: Sequence[Vector], groups: int) -> Array:
        """The values."""
        values, valid = columns[0]
        return values.copy() if valid is None else np.where(valid, values, self._none)

    def clear(self) -> None:
        """Forget the window."""
        self._entered: deque[tuple[Codes, Array]] = deque()
        """The panes that entered since the flip."""
        self._remaining: list[Array] = []
        """Of the panes before, the newest first: the values of the window without it and those
        that are older, for its groups."""
        self._new = self._old = self.empty(0)

    def empty(self, groups: int) -> Array:
        """The worst values."""
        return np.full(groups, self._none)

    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Keep the better values."""
        valid = every if column.valid is None else column.valid
        these = kernels.current()
        keep = these.extreme_ints if self.kinds == ("int",) else these.extreme_floats
        keep(slots, column.values, valid, state, self._greatest, begin, end)
        return end

    def settled(self, state: Array) -> Array:
        """A zero without a sign."""
        return state + state.dtype.type(0)

    def allocate(self, groups: int) -> None:
        """Keep the values."""
        new, old = self.empty(groups), self.empty(groups)
        new[: len(self._new)], old[: len(self._old)] = self._new, self._old
        self._new, self._old = new, old

    def enter(self, codes: Codes, state: Array) -> None:
        """Fold the pane into those that entered since the flip."""
        self._entered.append((codes, state))
        self._new[codes] = self._better(self._new[codes], state)

    def leave(self, codes: Codes, state: Array) -> None:
        """Go back to what remains without the pane."""
        if not self._remaining:
            self._flip()
        self._old[codes] = self._remaining.pop()

    def _flip(self) -> None:
        for codes, state in reversed(self._entered):
            self._remaining.append(self._old[codes])
            self._old[codes] = self._better(self._old[codes], state)
            self._new[codes] = self._none
        self._entered.clear()

    def result(self, codes: Codes) -> Array:
        """The values of groups."""
        return self._better(self._new[codes], self._old[codes])


class Parts:
    """The parts that the aggregates of a statement need, and their results."""

    def __init__(self, aggregates: tuple[AggregatePlan, ...]) -> None:
        self._aggregates = aggregates
        self._by_need: dict[tuple[str, Typed], Part] = {}
        for plan in aggregates:
            for need in _needs(plan):
                if need not in self._by_need:
                    self._by_need[need] = _part(*need)
        self.parts = tuple(self._by_need.values())

    def results(self, codes: Codes, rows: IntArray) -> list[Vector]:
        """The aggregates of groups with so many rows each."""
        return [self._result(plan, codes, rows) for plan in self._aggregates]

    def _result(self, plan: AggregatePlan, codes: Codes, rows: IntArray) -> Vector:
        if plan.argument is None:
            return Vector(rows, None)
        nulls = self._by_need["nulls", plan.argument]
        assert isinstance(nulls, Nulls)
        count = rows - nulls.totals[codes]
        if plan.function == "count":
            return Vector(count, None)
        some: BoolArray = count > 0
        if plan.function in ("min", "max"):
            extreme = self._by_need[plan.function, plan.argument]
            assert isinstance(extreme, Extreme)
            return _where(extreme.result(codes), some)
        total = self._by_need["sum", plan.argument]
        assert isinstance(total, IntSum | FloatSum)
        if isinstance(total, IntSum) and plan.function == "sum":
            values, fits = total.result(codes)
            return _where(values, fits & some)
        divisors = np.maximum(count, 1) if plan.function == "avg" else np.ones_like(count)
        values, fits = total.rounded(codes, divisors)
        return _where(values, fits & some)


def _where(values: Array, valid: BoolArray) -> Vector:
    if valid.all():
        return Vector(values, None)
    return Vector(np.where(valid, values, values.dtype.type(0)), valid)


def _needs(plan: AggregatePlan) -> list[tuple[str, Typed]]:
    if plan.argument is None:
        return []
    if plan.function == "count":
        return [("nulls", plan.argument)]
    part = plan.function if plan.function in ("min", "max") else "sum"
    return [("nulls", plan.argument), (part, plan.argument)]


def _part(need: str, argument: Typed) -> Part:
    if need == "nulls":
        return Nulls(argument)
    if need == "sum":
        return FloatSum(argument) if argument.kind == "float" else IntSum(argument)
    return Extreme(argument, greatest=need == "max")


def widen(part: FloatSum, span: tuple[int, int], states: list[Array]) -> list[Array]:
    """Give a part a wider span; the states are given anew."""
    lowest = part.span[0] if part.width else span[0]
    part.span = span
    part.totals = widened(part.totals, lowest, span)
    return [widened(state, lowest, span) for state in states]
