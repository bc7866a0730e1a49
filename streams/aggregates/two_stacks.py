"""Partial aggregates that cannot be taken back: the greatest, least, first and last values.

A window's follow from two stacks: panes that entered since the last flip are folded into one value
for each group; those before are folded from the newest to the oldest when the last of the former
flip has left, and each remembers what remains without it. So every pane is folded twice, however
many the window has.

References
----------
Tangwongsan, Hirzel, Schneider, Wu, *General incremental sliding-window aggregation*, PVLDB 8, 2015
(*two stacks*).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from foundation.arrays import BoolArray, IntArray
from streams.aggregates.parts import Part
from streams.expressions.typed import Typed
from streams.kernels import kernels
from streams.kernels.keys import every
from streams.vectors.arrays import Codes
from streams.vectors.vector import Array, Vector

INTEGERS = np.iinfo(np.int64)


class TwoStacks(Part):
    """A part of which a window's is folded from those of its panes, in their order."""

    @abstractmethod
    def folded(self, older: Array, newer: Array) -> Array:
        """The state of stretches that follow each other."""

    def result(self, codes: Codes) -> Array:
        """The values of groups that have some."""
        return self.window(codes)

    def clear(self) -> None:
        """Forget the window."""
        self._entered: deque[tuple[Codes, Array]] = deque()
        """The panes that entered since the flip."""
        self._remaining: list[Array] = []
        """Of the panes before, the newest first: the values of the window without it and those
        that are older, for its groups."""
        self._new = self._old = self.empty(0)

    def allocate(self, groups: int) -> None:
        """Keep the values."""
        new, old = self.empty(groups), self.empty(groups)
        new[: len(self._new)], old[: len(self._old)] = self._new, self._old
        self._new, self._old = new, old

    def enter(self, codes: Codes, state: Array) -> None:
        """Fold the pane into those that entered since the flip."""
        self._entered.append((codes, state))
        self._new[codes] = self.folded(self._new[codes], state)

    def leave(self, codes: Codes, state: Array) -> None:
        """Go back to what remains without the pane."""
        if not self._remaining:
            if len(self._entered) == 1:
                # Nothing remains.
                self._entered.clear()
                self._new[codes] = self.empty(len(codes))
                return
            self._flip()
        self._old[codes] = self._remaining.pop()

    def _flip(self) -> None:
        for codes, state in reversed(self._entered):
            self._remaining.append(self._old[codes])
            self._old[codes] = self.folded(state, self._old[codes])
            self._new[codes] = self.empty(len(codes))
        self._entered.clear()

    def window(self, codes: Codes) -> Array:
        """The state of groups in the window."""
        return self.folded(self._old[codes], self._new[codes])


class Extreme(TwoStacks):
    """The greatest or least number."""

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

    def folded(self, older: Array, newer: Array) -> Array:
        """The better values."""
        return self._better(older, newer)


class End(TwoStacks):
    """The first or the last value that is not NULL, of numbers and bools.

    A state has two columns: the value in 64 bits, and whether there is one. NumPy's assignments
    take the last one of several values for a place, so there is no kernel to compile.
    """

    def __init__(self, argument: Typed, *, last: bool) -> None:
        super().__init__(argument)
        self._last = last
        self.clear()

    @property
    def kinds(self) -> tuple[str, ...]:
        """That of the argument."""
        return (self.argument.kind,)

    def columns(self, state: Array) -> list[Vector]:
        """The values; NULL for none."""
        return [Vector(self._values(state), state[:, 1] != 0)]

    def read(self, columns: Sequence[Vector], groups: int) -> Array:
        """The values."""
        values, valid = columns[0]
        state = self.empty(groups)
        state[:, 0], state[:, 1] = _in_64_bits(values), 1
        if valid is not None:
            state[~valid] = 0
        return state

    def empty(self, groups: int) -> Array:
        """No values."""
        return np.zeros((groups, 2), dtype=np.int64)

    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Keep the last values, or the first where there is none yet."""
        counted: BoolArray = slots[begin:end] >= 0
        if column.valid is not None:
            counted &= column.valid[begin:end]
        slot, values = slots[begin:end][counted], _in_64_bits(column.values[begin:end][counted])
        if not self._last:
            fresh = state[slot, 1] == 0
            slot, values = slot[fresh][::-1], values[fresh][::-1]
        state[slot, 0], state[slot, 1] = values, 1
        return end

    def folded(self, older: Array, newer: Array) -> Array:
        """The newer values, or the older ones."""
        one, other = (newer, older) if self._last else (older, newer)
        return np.where(one[:, 1:] != 0, one, other)

    def result(self, codes: Codes) -> Array:
        """The values of groups that have some."""
        return self._values(self.window(codes))

    def _values(self, state: Array) -> Array:
        bits: IntArray = np.ascontiguousarray(state[:, 0])
        if self.argument.kind == "float":
            return bits.view(np.float64)
        return bits != 0 if self.argument.kind == "bool" else bits


def _in_64_bits(values: Array) -> IntArray:
    if values.dtype == np.float64:
        return np.ascontiguousarray(values).view(np.int64)
    return values.astype(np.int64)
