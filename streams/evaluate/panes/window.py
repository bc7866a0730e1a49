"""A window made of panes: partial aggregates of groups in the panes, and of the window of now.

The pane that still takes tuples is *open*. When event time has passed its end, it is *pending*
until a boundary lets it enter, and *held* until a boundary lets it leave.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from foundation.arrays import IntArray
from streams.aggregates.distinct import Distinct
from streams.aggregates.pane_parts import Parts
from streams.aggregates.parts import FloatSum, widen
from streams.kernels import kernels
from streams.kernels.keys import Keys, encode
from streams.plan.program import AggregatePlan
from streams.vectors.arrays import Codes, resized
from streams.vectors.vector import Array, Vector

FIRST_GROUPS = 64

COMPACT_FROM = 4096
"""Codes of groups from which those that no pane has any more are given up."""

SETTLE_ROWS = 1 << 30
"""Tuples after which an open pane passes its carries on: a digit has room for twice as many."""

no_codes: Codes = np.empty(0, dtype=np.int32)


class Pane(NamedTuple):
    """A pane that takes no more tuples, or takes none for now.

    Attributes
    ----------
    end_ms
        The last timestamp that belongs to it.
    codes, rows
        Its groups in the order of their first tuples; the number of tuples of each.
    states
        The parts of the aggregates, group by group.
    pairs
        Of each argument of aggregates with DISTINCT: the pairs of a group and a value of it.
    """

    end_ms: int
    codes: Codes
    rows: IntArray
    states: tuple[Array, ...]
    pairs: tuple[Codes, ...]


class Tuples(NamedTuple):
    """Tuples of a batch.

    Attributes
    ----------
    codes
        Their groups; -1 for those that do not count.
    columns
        The argument of each part.
    pairs
        Of each argument of aggregates with DISTINCT: their groups with its values.
    slots
        As long as `codes`; its content is lost.
    """

    codes: Codes
    columns: Sequence[Vector]
    pairs: Sequence[Codes]
    slots: Codes


no_tuples = Tuples(no_codes, (), (), no_codes)


class PaneWindow:
    """The panes of a window, and its groups."""

    def __init__(self, keys: Keys, aggregates: Sequence[AggregatePlan]) -> None:
        self.keys = keys
        self.parts = Parts(tuple(one for one in aggregates if not one.distinct))
        repeated = [one for one in aggregates if one.distinct]
        self.distincts = tuple(
            Distinct(argument, repeated, grouped=bool(keys.kinds))
            for argument in dict.fromkeys(one.argument for one in repeated)
            if argument is not None
        )
        self._aggregates = tuple(aggregates)
        self.held: deque[Pane] = deque()
        self.pending: deque[Pane] = deque()
        self.open_ms: int | None = None
        """End of the open pane; None if there is none."""
        self._room = 0
        self._rows: IntArray = np.zeros(0, dtype=np.int64)
        """Code → number of tuples in the window."""
        self._first: IntArray = np.zeros(0, dtype=np.int64)
        """Code → a place; only meaningful within `_in_order`."""
        self._slot_of: Codes = no_codes
        self._open_codes: Codes = no_codes
        self._open_rows: IntArray = np.zeros(0, dtype=np.int64)
        self._open_states: list[Array] = []
        self._open_count = 0
        self._unsettled = 0
        self._compact_at = COMPACT_FROM
        self._allocate(FIRST_GROUPS)

    def _allocate(self, room: int) -> None:
        """Make room for more groups; keep what there is."""
        self._room = room
        self._rows, self._first = resized(self._rows, room), resized(self._first, room)
        self._slot_of = resized(self._slot_of, room, -1)
        self._open_codes = resized(self._open_codes, room)
        self._open_rows = resized(self._open_rows, room)
        states: list[Array] = []
        for index, part in enumerate(self.parts.parts):
            state = part.empty(room)
            if self._open_count:
                state[: self._open_count] = self._open_states[index][: self._open_count]
            states.append(state)
            part.allocate(room)
        for one in self.distincts:
            one.allocate(room)
        self._open_states = states

    @property
    def saved_rows(self) -> int:
        """Number of groups in all panes, and of different values that they have seen."""
        closed = (*self.held, *self.pending)
        rows = sum(len(pane.codes) + sum(map(len, pane.pairs)) for pane in closed)
        return self._open_count + rows

    @property
    def room(self) -> int:
        """Number of groups for which there is room."""
        return self._room

    def make_room(self) -> None:
        """Have room for all groups that have a code."""
        if self.keys.count > self._room:
            self._allocate(max(2 * self._room, self.keys.count))

    def add(self, tuples: Tuples, begin: int, end: int, end_ms: int) -> None:
        """Add the tuples [begin, end) of a batch to the pane that ends at `end_ms`."""
        if self.open_ms is not None and self.open_ms != end_ms:
            self.close()
        self.open_ms = end_ms
        if begin == end:
            return
        self._unsettled += end - begin
        slots = tuples.slots
        self._open_count = kernels.current().assign_slots(
            tuples.codes,
            self._slot_of,
            self._open_codes,
            self._open_rows,
            slots,
            begin,
            end,
            self._open_count,
        )
        for index, (part, column) in enumerate(zip(self.parts.parts, tuples.columns, strict=True)):
            place = part.add(self._open_states[index], slots, column, begin, end)
            while place < end:
                assert isinstance(part, FloatSum)
                self._widen(index, part.wider(column, place))
                place = part.add(self._open_states[index], slots, column, place, end)
        for one, pairs in zip(self.distincts, tuples.pairs, strict=True):
            one.add(pairs, begin, end)
        if self._unsettled > SETTLE_ROWS:
            self._settle()

    def _settle(self) -> None:
        for part, state in zip(self.parts.parts, self._open_states, strict=True):
            state[: self._open_count] = part.settled(state[: self._open_count].copy())
        self._unsettled = 0

    def _widen(self, index: int, span: tuple[int, int]) -> None:
        """Give a sum more digits, in all panes."""
        part = self.parts.parts[index]
        assert isinstance(part, FloatSum)
        panes = [*self.held, *self.pending]
        states = [self._open_states[index], *(pane.states[index] for pane in panes)]
        self._open_states[index], *wider = widen(part, span, states)
        made = [
            pane._replace(states=(*pane.states[:index], state, *pane.states[index + 1 :]))
            for pane, state in zip(panes, wider, strict=True)
        ]
        held = len(self.held)
        self.held, self.pending = deque(made[:held]), deque(made[held:])

    def open_pane(self) -> Pane | None:
        """The open pane as it is now."""
        if self.open_ms is None:
            return None
        some = slice(self._open_count)
        states = tuple(
            part.settled(state[some].copy())
            for part, state in zip(self.parts.parts, self._open_states, strict=True)
        )
        codes, rows = self._open_codes[some].copy(), self._open_rows[some].copy()
        pairs = tuple(one.open_pairs() for one in self.distincts)
        return Pane(self.open_ms, codes, rows, states, pairs)

    def close(self) -> None:
        """Let the open pane wait for its boundary."""
        pane = self.open_pane()
        if pane is not None:
            self._empty_open(pane)
            self.pending.append(pane)

    def _empty_open(self, pane: Pane) -> None:
        self._slot_of[pane.codes] = -1
        for part, state in zip(self.parts.parts, self._open_states, strict=True):
            state[: self._open_count] = part.empty(self._open_count)
        for one in self.distincts:
            one.empty_open()
        self.open_ms, self._open_count, self._unsettled = None, 0, 0

    def reopen(self, pane: Pane) -> None:
        """Continue a pane that was open."""
        count = len(pane.codes)
        self.open_ms, self._open_count = pane.end_ms, count
        self._open_codes[:count], self._open_rows[:count] = pane.codes, pane.rows
        self._slot_of[pane.codes] = np.arange(count, dtype=np.int32)
        for state, saved in zip(self._open_states, pane.states, strict=True):
            state[:count] = saved
        for one, pairs in zip(self.distincts, pane.pairs, strict=True):
            one.reopen(pairs)

    def enter(self, pane: Pane) -> None:
        """Add a pane to the window."""
        self.held.append(pane)
        self._rows[pane.codes] += pane.rows
        for part, state in zip(self.parts.parts, pane.states, strict=True):
            part.enter(pane.codes, state)
        for one, pairs in zip(self.distincts, pane.pairs, strict=True):
            one.enter(pairs)

    def leave(self) -> Pane:
        """Take the oldest pane out of the window."""
        pane = self.held.popleft()
        self._rows[pane.codes] -= pane.rows
        for part, state in zip(self.parts.parts, pane.states, strict=True):
            part.leave(pane.codes, state)
        for one, pairs in zip(self.distincts, pane.pairs, strict=True):
            one.leave(pairs)
        return pane

    def rows(self, codes: Codes) -> IntArray:
        """The number of tuples of groups in the window."""
        return self._rows[codes]

    def results(self, codes: Codes, rows: IntArray) -> list[Vector]:
        """The aggregates of groups in the window, which have so many rows each."""
        if not self.distincts:
            return self.parts.results(codes, rows)
        sums = iter(self.parts.results(codes, rows))
        different = {
            plan: found for one in self.distincts for plan, found in one.results(codes).items()
        }
        return [different[one] if one.distinct else next(sums) for one in self._aggregates]

    def in_order(self, panes: Sequence[Pane]) -> Codes:
        """The groups of panes, each once, in the order of their first appearance."""
        if len(panes) == 1:
            return panes[0].codes
        if not panes:
            return no_codes
        codes = np.concatenate([pane.codes for pane in panes])
        places = np.arange(len(codes))
        self._first[codes[::-1]] = places[::-1]
        return codes[self._first[codes] == places]

    def compact(self) -> Codes | None:
        """Give up the codes of groups and pairs that no pane has, if there are many.

        Returns the new code of each former group, -1 for those given up; None if nothing changed.
        """
        if not self._crowded():
            return None
        opened = self.open_pane()
        panes = [*self.held, *self.pending, *([] if opened is None else [opened])]
        live, keys = self._live(), Keys(self.keys.kinds)
        made: Codes = np.full(self.keys.count, -1, dtype=np.int32)
        made[live] = encode(keys, self.keys.columns(live), len(live))
        if opened is not None:
            self._empty_open(opened)
        paired = [
            one.compact([pane.pairs[place] for pane in panes], made)
            for place, one in enumerate(self.distincts)
        ]

        def renumbered(pane: Pane) -> Pane:
            pairs = tuple(new[old] for new, old in zip(paired, pane.pairs, strict=True))
            return pane._replace(codes=made[pane.codes], pairs=pairs)

        held = [renumbered(pane) for pane in self.held]
        self.pending = deque(renumbered(pane) for pane in self.pending)
        self.keys, self._compact_at = keys, max(COMPACT_FROM, 4 * len(live))
        self.renew()
        self.make_room()
        for pane in held:
            self.enter(pane)
        if opened is not None:
            self.reopen(renumbered(opened))
        return made

    def _crowded(self) -> bool:
        """Whether there are many groups or pairs, of which the panes have few."""
        for place, one in enumerate(self.distincts):
            if one.crowded(pane.pairs[place] for pane in self._panes()):
                return True
        if self.keys.count < self._compact_at:
            return False
        if 2 * len(self._live()) <= self.keys.count:
            return True
        self._compact_at = 2 * self.keys.count
        return False

    def _live(self) -> Codes:
        """The groups that some pane has; without keys, the one that always has a row."""
        used = np.full(self.keys.count, not self.keys.kinds)
        for pane in self._panes():
            used[pane.codes] = True
        used[self._open_codes[: self._open_count]] = True
        return np.flatnonzero(used).astype(np.int32)

    def renew(self) -> None:
        """Start anew without groups."""
        self.held.clear()
        self._rows, self._first = self._rows[:0], self._first[:0]
        self._slot_of, self._open_codes = self._slot_of[:0], self._open_codes[:0]
        self._open_rows = self._open_rows[:0]
        for part in self.parts.parts:
            part.clear()
        for one in self.distincts:
            one.clear()
        self._allocate(FIRST_GROUPS)

    def _panes(self) -> Iterator[Pane]:
        yield from self.held
        yield from self.pending
