"""Aggregates of the different values of an argument: `count(DISTINCT x)`, `sum(DISTINCT x)`.

A *pair* is a group and a value that occurs in it. Pairs have codes, as keys have
(`streams.kernels.keys`). A pane lists its pairs, each once. The window counts how many of its panes
have each pair: a pair that enters with a first pane is added to the parts (`parts.py`) of the
aggregates, and one that leaves with its last pane is subtracted. So a tuple costs two look-ups, and
a pair some work whenever a pane that has it enters or leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from foundation.arrays import BoolArray, IntArray
from streams.aggregates.pane_parts import Parts
from streams.aggregates.parts import FloatSum, Summed, widen
from streams.expressions.typed import Typed
from streams.kernels import kernels
from streams.kernels.keys import WORD_BITS, WORD_MASK, Column, Ints, Keys, key_column
from streams.plan.program import AggregatePlan
from streams.vectors.arrays import Codes, resized
from streams.vectors.batch_columns import BatchColumns
from streams.vectors.vector import Vector, to_arrow

FIRST_PAIRS = 64

COMPACT_FROM = 4096
"""Codes of pairs from which those that no pane has any more are given up."""


class Pairs:
    """Codes of pairs.

    Parameters
    ----------
    kind
        Type of the values.
    grouped
        There are groups: else a value is a pair.
    """

    def __init__(self, kind: str, *, grouped: bool) -> None:
        self.kind = kind
        self._values = Keys(("int" if kind == "float" else kind,))
        self._pairs = Ints() if grouped else None

    @property
    def count(self) -> int:
        """Every code is below."""
        return self._values.count if self._pairs is None else self._pairs.count

    def encode(self, groups: Codes, column: Column, wanted: BoolArray) -> Codes:
        """The pairs of tuples; -1 for those that do not count or whose value is NULL."""
        if self.kind == "float":
            assert not isinstance(column, pa.Array)
            values, valid = column.filled_to(len(groups))
            column = Vector(np.ascontiguousarray(values).view(np.int64), valid)
        codes = self._values.encode([column], len(groups), wanted)
        if self._pairs is None:
            return np.where(codes > 0, codes, np.int32(-1))
        both = groups.astype(np.int64) << WORD_BITS | codes
        return self._pairs.encode(both, None, codes > 0)

    def split(self, pairs: Codes) -> tuple[Codes, Vector]:
        """The groups and the values of pairs."""
        codes, groups = pairs, np.zeros_like(pairs)
        if self._pairs is not None:
            both = self._pairs.values(pairs)
            groups = (both >> WORD_BITS).astype(np.int32)
            codes = (both & WORD_MASK).astype(np.int32)
        (column,) = self._values.columns(codes)
        if self.kind == "float":
            return groups, Vector(column.values.view(np.float64), None)
        return groups, column


class Distinct:
    """The different values of an argument in the groups of a window, and their aggregates."""

    def __init__(
        self, argument: Typed, aggregates: Sequence[AggregatePlan], *, grouped: bool
    ) -> None:
        self.argument = argument
        self.pairs = Pairs(argument.kind, grouped=grouped)
        self._grouped = grouped
        self._aggregates = tuple(one for one in aggregates if one.argument == argument)
        self._parts = Parts(tuple(replace(one, distinct=False) for one in self._aggregates))
        # There are no pairs of NULL, which need not be counted.
        self._sums = [part for need, part in self._parts.by_need.items() if need[0] != "nulls"]
        self._counts: IntArray = np.zeros(0, dtype=np.int64)
        """Group → number of its different values in the window."""
        self._panes: IntArray = np.zeros(FIRST_PAIRS, dtype=np.int64)
        """Pair → number of panes in the window that have it."""
        self._noted: BoolArray = np.zeros(FIRST_PAIRS, dtype=np.bool_)
        """Pair → whether the open pane has it."""
        self._open: Codes = np.zeros(FIRST_PAIRS, dtype=np.int32)
        """The pairs of the open pane, in the order of their first tuples."""
        self._open_count = 0
        self._compact_at = COMPACT_FROM

    def allocate(self, groups: int) -> None:
        """Make room for so many groups."""
        self._counts = resized(self._counts, groups)
        for part in self._parts.parts:
            part.allocate(groups)

    def _allocate_pairs(self, room: int) -> None:
        self._panes, self._noted = resized(self._panes, room), resized(self._noted, room)
        self._open = resized(self._open, room)

    def _make_room(self) -> None:
        if self.pairs.count > len(self._panes):
            self._allocate_pairs(max(2 * len(self._panes), self.pairs.count))

    # Panes

    def encode(self, columns: BatchColumns, groups: Codes) -> Codes:
        """The pairs of a batch's tuples, whose groups are given."""
        column = key_column(self.argument, columns, len(groups))
        made = self.pairs.encode(groups, column, groups >= 0)
        self._make_room()
        return made

    def recode(self, groups: Codes, values: Vector) -> Codes:
        """The pairs of groups and values, none of them NULL."""
        column = to_arrow(values, "string") if self.argument.kind == "string" else values
        made = self.pairs.encode(groups, column, groups >= 0)
        self._make_room()
        return made

    def add(self, pairs: Codes, begin: int, end: int) -> None:
        """Note the pairs of the tuples [begin, end) in the open pane."""
        self._open_count = kernels.current().note_pairs(
            pairs, self._noted, self._open, begin, end, self._open_count
        )

    def open_pairs(self) -> Codes:
        """The pairs of the open pane, in the order of their first tuples."""
        return self._open[: self._open_count].copy()

    def empty_open(self) -> None:
        """Begin a new pane."""
        self._noted[self._open[: self._open_count]] = False
        self._open_count = 0

    def reopen(self, pairs: Codes) -> None:
        """Continue a pane that was open."""
        self._open_count = len(pairs)
        self._open[: len(pairs)] = pairs
        self._noted[pairs] = True

    # The window

    def enter(self, pairs: Codes) -> None:
        """Add a pane."""
        others = self._panes[pairs]
        self._panes[pairs] = others + 1
        self._change(pairs[others == 0], 1)

    def leave(self, pairs: Codes) -> None:
        """Take a pane out."""
        others = self._panes[pairs] - 1
        self._panes[pairs] = others
        self._change(pairs[others == 0], -1)

    def _change(self, pairs: Codes, sign: int) -> None:
        """Add pairs to the aggregates, or subtract them."""
        groups, column = self.pairs.split(pairs)
        np.add.at(self._counts, groups, sign)
        if not self._sums or not len(pairs):
            return
        codes, slots = np.unique(groups, return_inverse=True)
        slots = slots.astype(np.int32)
        for part in self._sums:
            assert isinstance(part, Summed)
            state, place = part.empty(len(codes)), 0
            while (place := part.add(state, slots, column, place, len(pairs))) < len(pairs):
                assert isinstance(part, FloatSum)
                (state,) = widen(part, part.wider(column, place), [state])
            # Other pairs may leave together than have entered: carries would add up.
            part.totals[codes] = part.settled(part.totals[codes] + sign * state)

    def results(self, codes: Codes) -> dict[AggregatePlan, Vector]:
        """The aggregates of groups."""
        found = self._parts.results(codes, self._counts[codes])
        return dict(zip(self._aggregates, found, strict=True))

    # Compaction

    def crowded(self, panes: Iterable[Codes]) -> bool:
        """Whether there are many pairs, of which these panes and the open one have few."""
        if self.pairs.count < self._compact_at:
            return False
        if 2 * len(self._live(panes)) <= self.pairs.count:
            return True
        self._compact_at = 2 * self.pairs.count
        return False

    def _live(self, panes: Iterable[Codes]) -> Codes:
        used = np.zeros(self.pairs.count, dtype=np.bool_)
        used[self._open[: self._open_count]] = True
        for pairs in panes:
            used[pairs] = True
        return np.flatnonzero(used).astype(np.int32)

    def compact(self, panes: Sequence[Codes], made: Codes) -> Codes:
        """Number the pairs of all panes anew, and forget the panes.

        Parameters
        ----------
        made
            The new code of each group.

        Returns
        -------
        array
            The new code of each former pair, -1 for those given up.
        """
        live = self._live(panes)
        found: Codes = np.full(self.pairs.count, -1, dtype=np.int32)
        groups, values = self.pairs.split(live)
        self.clear()
        self.pairs = Pairs(self.argument.kind, grouped=self._grouped)
        self._allocate_pairs(FIRST_PAIRS)
        found[live] = self.recode(made[groups], values)
        self._compact_at = max(COMPACT_FROM, 4 * len(live))
        return found

    def clear(self) -> None:
        """Forget all panes."""
        self._counts = self._counts[:0]
        for part in self._parts.parts:
            part.clear()
        self._panes[:], self._noted[:], self._open_count = 0, False, 0
