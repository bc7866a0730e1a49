"""A window made of panes: partial aggregates of groups in the panes, and of the window of now.

The pane that still takes tuples is *open*. When event time has passed its end, it is *pending*
until a boundary lets it enter, and *held* until a boundary lets it leave.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from streams.panes import kernels
from streams.panes.aggregates import Parts
from streams.panes.arrays import Codes
from streams.panes.keys import Keys
from streams.panes.parts import FloatSum, widen
from streams.vector import Array, Vector, to_arrow
from topology.arrays import BoolArray, IntArray

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
    """

    end_ms: int
    codes: Codes
    rows: IntArray
    states: tuple[Array, ...]


class PaneWindow:
    """The panes of a window, and its groups."""

    def __init__(self, keys: Keys, parts: Parts) -> None:
        self.keys = keys
        self.parts = parts
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

        def grown(old: Array, filler: int) -> Array:
            made = np.full(room, filler, dtype=old.dtype)
            made[: len(old)] = old
            return made

        self._room = room
        self._rows, self._first = grown(self._rows, 0), grown(self._first, 0)
        self._slot_of = grown(self._slot_of, -1)
        self._open_codes, self._open_rows = grown(self._open_codes, 0), grown(self._open_rows, 0)
        states: list[Array] = []
        for index, part in enumerate(self.parts.parts):
            state = part.empty(room)
            if self._open_count:
                state[: self._open_count] = self._open_states[index][: self._open_count]
            states.append(state)
            part.allocate(room)
        self._open_states = states

    @property
    def room(self) -> int:
        """Number of groups for which there is room."""
        return self._room

    def make_room(self) -> None:
        """Have room for all groups that have a code."""
        if self.keys.count > self._room:
            self._allocate(max(2 * self._room, self.keys.count))

    def add(
        self,
        codes: Codes,
        columns: Sequence[Vector],
        slots: Codes,
        begin: int,
        end: int,
        end_ms: int,
    ) -> None:
        """Add the tuples [begin, end) of a batch to the pane that ends at `end_ms`.

        Parameters
        ----------
        codes
            The groups of all tuples; -1 for those that do not count.
        columns
            The argument of each part.
        slots
            As long as `codes`; its content is lost.
        """
        if self.open_ms is not None and self.open_ms != end_ms:
            self.close()
        self.open_ms = end_ms
        self._unsettled += end - begin
        self._open_count = kernels.current().assign_slots(
            codes,
            self._slot_of,
            self._open_codes,
            self._open_rows,
            slots,
            begin,
            end,
            self._open_count,
        )
        for index, (part, column) in enumerate(zip(self.parts.parts, columns, strict=True)):
            place = part.add(self._open_states[index], slots, column, begin, end)
            while place < end:
                assert isinstance(part, FloatSum)
                self._widen(index, part.wider(column, place))
                place = part.add(self._open_states[index], slots, column, place, end)
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
        return Pane(
            self.open_ms, self._open_codes[some].copy(), self._open_rows[some].copy(), states
        )

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
        self.open_ms, self._open_count, self._unsettled = None, 0, 0

    def reopen(self, pane: Pane) -> None:
        """Continue a pane that was open."""
        count = len(pane.codes)
        self.open_ms, self._open_count = pane.end_ms, count
        self._open_codes[:count], self._open_rows[:count] = pane.codes, pane.rows
        self._slot_of[pane.codes] = np.arange(count, dtype=np.int32)
        for state, saved in zip(self._open_states, pane.states, strict=True):
            state[:count] = saved

    def enter(self, pane: Pane) -> None:
        """Add a pane to the window."""
        self.held.append(pane)
        self._rows[pane.codes] += pane.rows
        for part, state in zip(self.parts.parts, pane.states, strict=True):
            part.enter(pane.codes, state)

    def leave(self) -> Pane:
        """Take the oldest pane out of the window."""
        pane = self.held.popleft()
        self._rows[pane.codes] -= pane.rows
        for part, state in zip(self.parts.parts, pane.states, strict=True):
            part.leave(pane.codes, state)
        return pane

    def rows(self, codes: Codes) -> IntArray:
        """The number of tuples of groups in the window."""
        return self._rows[codes]

    def results(self, codes: Codes) -> list[Vector]:
        """The aggregates of groups in the window."""
        return self.parts.results(codes, self._rows[codes])

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
        """Give up the codes of groups that no pane has, if there are many.

        Returns the new code of each former one, -1 for those given up; None if nothing changed.
        """
        count = self.keys.count
        if count < self._compact_at:
            return None
        used = np.zeros(count, dtype=np.bool_)
        for pane in self._panes():
            used[pane.codes] = True
        used[self._open_codes[: self._open_count]] = True
        (live,) = used.nonzero()
        if 2 * len(live) > count:
            self._compact_at = 2 * count
            return None
        keys, live = Keys(self.keys.kinds), live.astype(np.int32)
        made: Codes = np.full(count, -1, dtype=np.int32)
        made[live] = encode(keys, self.keys.columns(live), len(live))
        held = [pane._replace(codes=made[pane.codes]) for pane in self.held]
        self.pending = deque(pane._replace(codes=made[pane.codes]) for pane in self.pending)
        opened = self.open_pane()
        if opened is not None:
            self._empty_open(opened)
        self.keys, self._compact_at = keys, max(COMPACT_FROM, 4 * len(live))
        self.renew()
        self.make_room()
        for pane in held:
            self.enter(pane)
        if opened is not None:
            self.reopen(opened._replace(codes=made[opened.codes]))
        return made

    def renew(self) -> None:
        """Start anew without groups."""
        self.held.clear()
        self._rows, self._first = self._rows[:0], self._first[:0]
        self._slot_of, self._open_codes = self._slot_of[:0], self._open_codes[:0]
        self._open_rows = self._open_rows[:0]
        for part in self.parts.parts:
            part.clear()
        self._allocate(FIRST_GROUPS)

    def _panes(self) -> Iterator[Pane]:
        yield from self.held
        yield from self.pending


def encode(keys: Keys, columns: Sequence[Vector], length: int) -> Codes:
    """Codes of keys that are given as vectors."""
    given = [
        to_arrow(column, kind) if kind == "string" else column
        for column, kind in zip(columns, keys.kinds, strict=True)
    ]
    wanted: BoolArray = np.empty(0, dtype=np.bool_)
    return keys.encode(given, length, wanted)
