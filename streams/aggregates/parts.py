"""Partial aggregates that a pane has of each group, and windows' of which are sums of panes'.

They are added when a pane enters the window and subtracted when it leaves. Floats are summed
exactly (`streams.arithmetic.exact_sums`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from foundation.arrays import BoolArray, IntArray
from streams.arithmetic.exact_sums import (
    DIGIT_BITS,
    LARGEST_DIVISOR,
    LEAST_EXPONENT,
    MOST_DIGITS,
    UNSPANNED,
    fit_int,
    rounded,
    spanned,
    total_of,
    widened,
)
from streams.expressions.typed import Typed
from streams.kernels import kernels
from streams.kernels.keys import every
from streams.vectors.arrays import Codes
from streams.vectors.state import SnapshotError
from streams.vectors.vector import Array, Vector


class Part(ABC):
    """A partial aggregate of an argument.

    Parameters
    ----------
    argument
        The aggregated expression.

    Attributes
    ----------
    reads_texts
        Whether it needs an argument that is a text, and not only where that is NULL.
    """

    reads_texts = False

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


class Summed(Part):
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


class Nulls(Summed):
    """How often the argument is NULL.

    Attributes
    ----------
    some
        Whether it ever was: else all states are zeros.
    """

    def __init__(self, argument: Typed) -> None:
        self.some = False
        super().__init__(argument)

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
        self.some = self.some or bool(columns[0].values.any())
        return columns[0].values.copy()

    def enter(self, codes: Codes, state: Array) -> None:
        """Add."""
        if self.some:
            super().enter(codes, state)

    def leave(self, codes: Codes, state: Array) -> None:
        """Subtract."""
        if self.some:
            super().leave(codes, state)

    def hold(self, codes: Codes, numbers: IntArray) -> None:
        """Have the totals of groups be these."""
        self.some = self.some or bool(numbers.any())
        self.totals[codes] = numbers

    def counted(self, codes: Codes, rows: IntArray) -> IntArray:
        """How many rows of groups have an argument, of so many."""
        return rows - self.totals[codes] if self.some else rows

    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Count."""
        if column.valid is not None:
            self.some = True
            kernels.current().count_nulls(slots, column.valid, state, begin, end)
        return end


class Digits(Summed):
    """A sum in digits."""

    @property
    def exponent(self) -> int:
        """The unit of the lowest digit, as a power of two."""
        return 0

    def settled(self, state: Array) -> Array:
        """Carries passed on."""
        kernels.current().pass_carries_on(state)
        return state

    def enter(self, codes: Codes, state: Array) -> None:
        """Add."""
        kernels.current().add_digits(self.totals, codes, state, 1)

    def leave(self, codes: Codes, state: Array) -> None:
        """Subtract."""
        kernels.current().add_digits(self.totals, codes, state, -1)

    def columns(self, state: Array) -> list[Vector]:
        """The digits."""
        return [Vector(np.ascontiguousarray(digits), None) for digits in state.T]

    def read(self, columns: Sequence[Vector], groups: int) -> Array:
        """The digits."""
        if not columns:
            return self.empty(groups)
        return np.stack([column.values for column in columns], axis=1)


class IntSum(Digits):
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

    def rounded(self, codes: Codes, divisors: IntArray | None) -> tuple[Array, BoolArray]:
        """The sums, divided if there are divisors."""
        return _rounded(self.totals[codes], 0, divisors)


class FloatSum(Digits):
    """The exact sum of floats (`streams.arithmetic.exact_sums`).

    Attributes
    ----------
    span
        The digits in use: the lowest one, and the end. All states have the same.
    least_exponent
        The unit of the lowest digit that there may be, as a power of two.
    """

    least_exponent = LEAST_EXPONENT

    def __init__(self, argument: Typed) -> None:
        self.span: tuple[int, int] = UNSPANNED
        super().__init__(argument)

    @property
    def width(self) -> int:
        """Number of digits."""
        return max(self.span[1] - self.span[0], 0)

    @property
    def exponent(self) -> int:
        """The unit of the lowest digit, as a power of two."""
        return self.least_exponent + (DIGIT_BITS * self.span[0] if self.width else 0)

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

    def rounded(self, codes: Codes, divisors: IntArray | None) -> tuple[Array, BoolArray]:
        """The sums, divided if there are divisors."""
        if not self.width:
            return np.zeros(len(codes)), np.ones(len(codes), dtype=np.bool_)
        return _rounded(self.totals[codes], self.exponent, divisors)


def _rounded(digits: IntArray, exponent: int, divisors: IntArray | None) -> tuple[Array, BoolArray]:
    out = np.empty(len(digits), dtype=np.float64)
    fits = np.empty(len(digits), dtype=np.bool_)
    if divisors is None:
        ones = np.ones(len(digits), dtype=np.int64)
        kernels.current().round_sums(digits, exponent, ones, out, fits)
        return out, fits
    smaller = np.minimum(np.maximum(divisors, 1), LARGEST_DIVISOR - 1)
    kernels.current().round_sums(digits, exponent, smaller, out, fits)
    for place in (divisors >= LARGEST_DIVISOR).nonzero()[0].tolist():
        found = rounded(total_of(digits[place]), exponent, int(divisors[place]))
        fits[place], out[place] = found is not None, 0.0 if found is None else found
    return out, fits


def widen(part: FloatSum, span: tuple[int, int], states: list[Array]) -> list[Array]:
    """Give a part a wider span; the states are given anew."""
    lowest = part.span[0] if part.width else span[0]
    part.span = span
    part.totals = widened(part.totals, lowest, span)
    return [widened(state, lowest, span) for state in states]


def saved_spans(parts: Sequence[Part]) -> list[list[int]]:
    """The spans of the sums of floats among parts, as a snapshot holds them."""
    return [list(part.span) for part in parts if isinstance(part, FloatSum)]


def read_spans(parts: Sequence[Part], spans: Sequence[Sequence[int]]) -> None:
    """Take the spans of the sums of floats among parts."""
    sums = [part for part in parts if isinstance(part, FloatSum)]
    for part, (begin, end) in zip(sums, spans, strict=True):
        if end > begin and not 0 <= begin < end <= MOST_DIGITS:
            raise SnapshotError(f"not the digits of a sum: {begin} to {end}")
        part.span = (int(begin), int(end))
