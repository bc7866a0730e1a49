"""Rows of a stream in order of arrival; any of them may be discarded.

The rows are stored in arrays with spare room at the end. A discarded row is flagged dead, and its
place is reclaimed when the room is used up. Appending and discarding therefore cost O(1) per row
on average, however many rows are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from streams.state import (
    Pieces,
    SnapshotError,
    State,
    read_frame,
    row_slices,
    write_frame,
)
from streams.vector import Array, Frame, Positions, Vector, storage
from topology.arrays import BoolArray, IntArray

FIRST_CAPACITY = 64


class RowLog:
    """Rows with an identity that rises and a timestamp that never falls."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = tuple(kinds)
        self._head = 0
        """Every row before this place is dead."""
        self._tail = 0
        """The spare room begins here."""
        self._kept = 0
        self._allocate(FIRST_CAPACITY)

    def _allocate(self, capacity: int) -> None:
        self._ids: IntArray = np.empty(capacity, dtype=np.int64)
        self._timestamps: IntArray = np.empty(capacity, dtype=np.int64)
        self._alive: BoolArray = np.zeros(capacity, dtype=np.bool_)
        self._values: list[Array] = [np.empty(capacity, storage[kind]) for kind in self._kinds]
        self._valid: list[BoolArray | None] = [None for _ in self._kinds]

    def __len__(self) -> int:
        return self._kept

    def append(self, ids: IntArray, timestamps: IntArray | int, rows: Frame) -> None:
        """Append rows; `timestamps` is one for all of them, or one for each."""
        added = rows.length
        if self._tail + added > len(self._ids):
            self._make_room(added)
        start, stop = self._tail, self._tail + added
        self._ids[start:stop] = ids
        self._timestamps[start:stop] = timestamps
        self._alive[start:stop] = True
        for index, (values, valid) in enumerate(rows.columns):
            self._values[index][start:stop] = values
            kept = self._valid[index]
            if valid is not None and kept is None:
                kept = self._valid[index] = np.ones(len(self._ids), dtype=np.bool_)
            if kept is not None:
                kept[start:stop] = True if valid is None else valid
        self._tail = stop
        self._kept += added

    def _make_room(self, added: int) -> None:
        """Move the living rows to the front, into larger arrays if they fill half of these."""
        where: slice | Positions = slice(self._head, self._tail)
        if self._kept < self._tail - self._head:
            where = self.oldest(self._kept)
        columns = zip(self._values, self._valid, strict=True)
        rows = Frame(
            tuple(Vector(values, valid).take(where) for values, valid in columns), self._kept
        )
        ids, timestamps = self._ids[where], self._timestamps[where]
        self._allocate(max(len(self._ids), _capacity(rows.length + added)))
        self._head = self._tail = self._kept = 0
        self.append(ids, timestamps, rows)

    def positions(self, ids: IntArray) -> Positions:
        """Places of the living rows with these identities; valid until rows are added."""
        return self._head + np.searchsorted(self._ids[self._head : self._tail], ids)

    def until(self, timestamp_ms: int) -> Positions:
        """Places of the rows with that timestamp or an earlier one."""
        timestamps = self._timestamps[self._head : self._tail]
        count = int(np.searchsorted(timestamps, timestamp_ms, side="right"))
        return self._head + np.flatnonzero(self._alive[self._head : self._head + count])

    def oldest(self, count: int) -> Positions:
        """Places of the `count` oldest rows."""
        first = np.flatnonzero(self._alive[self._head : self._head + count])
        if len(first) == count:
            # Always true of a log that loses only its oldest rows: no need to look further.
            return self._head + first
        return self._head + np.flatnonzero(self._alive[self._head : self._tail])[:count]

    def newest(self, count: int) -> Positions:
        """Places of the `count` rows appended last, of which none has been discarded."""
        return np.arange(self._tail - count, self._tail)

    def take(self, positions: Positions) -> Frame:
        """Rows at some positions."""
        columns = zip(self._values, self._valid, strict=True)
        taken = tuple(Vector(values, valid).take(positions) for values, valid in columns)
        return Frame(taken, len(positions))

    def ids(self, positions: Positions) -> IntArray:
        """Identities of the rows at some positions."""
        return self._ids[positions]

    def discard(self, positions: Positions) -> None:
        """Remove rows."""
        self._alive[positions] = False
        self._kept -= len(positions)
        if not self._kept:
            self._head = self._tail
        while self._head < self._tail and not self._alive[self._head]:
            self._head += 1

    def oldest_ms(self) -> int | None:
        """Timestamp of the oldest row; None if there is none."""
        return int(self._timestamps[self._head]) if self._kept else None

    def save(self) -> Pieces:
        """The living rows.

        Rows are never overwritten where they lie, only flagged dead: a copy of the flags suffices.
        """
        part = slice(self._head, self._tail)
        alive = self._alive[part].copy()
        keys = Frame((Vector(self._ids[part], None), Vector(self._timestamps[part], None)), 0)
        columns = zip(self._values, self._valid, strict=True)
        rows = Frame(tuple(Vector(values, valid).take(part) for values, valid in columns), 0)

        def pieces() -> Iterator[State]:
            living = np.flatnonzero(alive)
            for piece in row_slices(len(living)):
                positions = living[piece]
                # The first piece says for how many rows to make room, which is slow to enlarge.
                yield State(
                    values={} if piece.start else {"rows": len(living)},
                    frames={
                        "keys": write_frame(keys.take(positions), ("int", "int")),
                        "rows": write_frame(rows.take(positions), self._kinds),
                    },
                )

        return pieces

    def load(self, state: State) -> None:
        """Append saved rows.

        Raises
        ------
        SnapshotError
            The rows are not those of a log.
        """
        keys = read_frame(state.frames["keys"], ("int", "int"))
        rows = read_frame(state.frames["rows"], self._kinds)
        if not self._tail and 2 * state.values["rows"] > len(self._ids):
            self._allocate(_capacity(state.values["rows"]))
        ids, timestamps = keys[0].values, keys[1].values
        if (
            rows.length != keys.length
            or not rows.length
            or (self._tail and ids[0] <= self._ids[self._tail - 1])
            or (self._tail and timestamps[0] < self._timestamps[self._tail - 1])
            or np.any(np.diff(ids) <= 0)
            or np.any(np.diff(timestamps) < 0)
        ):
            raise SnapshotError("rows of a window are not in order")
        self.append(ids, timestamps, rows)


def _capacity(rows: int) -> int:
    """Room for as many rows again, rounded up to a power of two."""
    return max(FIRST_CAPACITY, 1 << (2 * rows - 1).bit_length())
