"""First, last, least and greatest texts: parts as in `streams.aggregates.two_stacks`.

A state is an array of texts, with None where a group has none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foundation.arrays import BoolArray
from streams.aggregates.two_stacks import TwoStacks
from streams.expressions.columnwise import missing
from streams.expressions.typed import Typed
from streams.vectors.arrays import Codes
from streams.vectors.order import text_order
from streams.vectors.vector import Array, Vector, fillers


class TextStacks(TwoStacks):
    """A part whose values are texts."""

    reads_texts = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """A text."""
        return ("string",)

    def columns(self, state: Array) -> list[Vector]:
        """The texts; NULL for none."""
        known = _known(state)
        return [Vector(np.where(known, state, fillers["string"]), known)]

    def read(self, columns: Sequence[Vector], groups: int) -> Array:
        """The texts."""
        values, valid = columns[0]
        return values.copy() if valid is None else np.where(valid, values, missing)

    def empty(self, groups: int) -> Array:
        """No texts."""
        return np.full(groups, None, dtype=np.object_)


class TextEnd(TextStacks):
    """The first or the last text that is not NULL."""

    def __init__(self, argument: Typed, *, last: bool) -> None:
        super().__init__(argument)
        self._last = last
        self.clear()

    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Keep the last texts, or the first where there is none yet."""
        slot, texts = _counted(slots, column, begin, end)
        if not self._last:
            fresh = ~_known(state[slot])
            slot, texts = slot[fresh][::-1], texts[fresh][::-1]
        state[slot] = texts
        return end

    def folded(self, older: Array, newer: Array) -> Array:
        """The newer texts, or the older ones."""
        one, other = (newer, older) if self._last else (older, newer)
        return np.where(_known(one), one, other)


class TextExtreme(TextStacks):
    """The greatest or the least text."""

    def __init__(self, argument: Typed, *, greatest: bool) -> None:
        super().__init__(argument)
        self._greatest = greatest
        self.clear()

    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Keep the better texts."""
        slot, texts = _counted(slots, column, begin, end)
        if not len(slot):
            return end
        order = np.lexsort((text_order(texts), slot))
        by_slot = slot[order]
        # The least text of a slot comes first, the greatest last.
        edge = np.ones(len(order), dtype=np.bool_)
        if self._greatest:
            edge[:-1] = by_slot[1:] != by_slot[:-1]
        else:
            edge[1:] = by_slot[1:] != by_slot[:-1]
        best = order[edge]
        state[slot[best]] = self.folded(state[slot[best]], texts[best])
        return end

    def folded(self, older: Array, newer: Array) -> Array:
        """The better texts."""
        takes = _known(newer)
        (both,) = (_known(older) & takes).nonzero()
        one, other = older[both], newer[both]
        takes[both] = other > one if self._greatest else other < one
        return np.where(takes, newer, older)


def _known(state: Array) -> BoolArray:
    return np.not_equal(state, missing)


def _counted(slots: Codes, column: Vector, begin: int, end: int) -> tuple[Codes, Array]:
    """The slots and texts that count."""
    counted: BoolArray = slots[begin:end] >= 0
    if column.valid is not None:
        counted &= column.valid[begin:end]
    return slots[begin:end][counted], column.values[begin:end][counted]
