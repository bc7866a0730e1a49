"""The rows of a relation, each with the time for which the relation holds it.

A relation holds a row from the timestamp at which it was inserted until the one at which it was
removed. The rows of one timestamp are hence those with

    entered_ms ≤ τ < left_ms,

and an operator can read the relation of every timestamp of a pass from the same arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from foundation.arrays import BoolArray, IntArray
from streams.vectors.chunk import FOREVER_MS, NO_WATERMARK
from streams.vectors.state import (
    SAMPLED_ROWS,
    Pieces,
    SnapshotError,
    State,
    piece_rows,
    read_frame,
    row_slices,
    write_frame,
)
from streams.vectors.vector import Array, Delta, Frame, Positions, Rows, Vector, storage

FIRST_CAPACITY = 64

_no_places: Positions = np.empty(0, dtype=np.intp)


class Relation:
    """Rows in the order of their identities, stored contiguously for a join to scan.

    A row that was removed keeps its place until the rows outgrow their room. Then all rows move,
    without those, to room for twice as many. A change therefore costs O(1) per row on average.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = tuple(kinds)
        self._count = 0
        self._allocate(FIRST_CAPACITY)
        self.changed: Positions = _no_places
        """Places of the rows of the last change, in its order."""

    def _allocate(self, capacity: int) -> None:
        self._capacity = capacity
        self._removed = 0
        """Places of rows that were removed."""
        self._ids: IntArray = np.empty(capacity, dtype=np.int64)
        self._entered_ms: IntArray = np.empty(capacity, dtype=np.int64)
        self._left_ms: IntArray = np.empty(capacity, dtype=np.int64)
        self._values: list[Array] = [np.empty(capacity, storage[kind]) for kind in self._kinds]
        self._valid: list[BoolArray | None] = [None for _ in self._kinds]

    @property
    def count(self) -> int:
        """Number of places, those of removed rows included."""
        return self._count

    @property
    def rows(self) -> Frame:
        """All rows that have a place."""
        columns = zip(self._values, self._valid, strict=True)
        used = slice(self._count)
        return Frame(tuple(Vector(*column).take(used) for column in columns), self._count)

    @property
    def ids(self) -> IntArray:
        """The identity of each row."""
        return self._ids[: self._count]

    @property
    def entered_ms(self) -> IntArray:
        """When each row was inserted."""
        return self._entered_ms[: self._count]

    @property
    def left_ms(self) -> IntArray:
        """When each row was removed; `FOREVER_MS` if it has not been."""
        return self._left_ms[: self._count]

    def held_since(self, first_ms: int) -> Positions:
        """Places of the rows that the relation holds at some time from just before `first_ms`."""
        return (self.left_ms >= first_ms).nonzero()[0]

    def step(self, delta: Delta) -> None:
        """Apply a change; inserted identities rise and are greater than all earlier ones."""
        rows, inserted, times_ms, ids = delta
        assert ids is not None
        added = inserted.nonzero()[0]
        if len(added):
            self._append(rows.take(added), ids[added], times_ms[added])
        self.changed = self._ids[: self._count].searchsorted(ids)
        if len(added) < rows.length:
            removed = ~inserted
            self._left_ms[self.changed[removed]] = times_ms[removed]
            self._removed += rows.length - len(added)

    def _append(self, rows: Rows, ids: IntArray, entered_ms: IntArray) -> None:
        if self._count + rows.length > self._capacity:
            self._make_room(rows.length)
        start, stop = self._count, self._count + rows.length
        self._ids[start:stop] = ids
        self._entered_ms[start:stop] = entered_ms
        self._left_ms[start:stop] = FOREVER_MS
        for index, column in enumerate(self._values):
            values, valid = rows[index]
            column[start:stop] = values
            kept = self._valid[index]
            if valid is not None and kept is None:
                kept = self._valid[index] = np.ones(self._capacity, dtype=np.bool_)
            if kept is not None:
                kept[start:stop] = True if valid is None else valid
        self._count = stop

    def _make_room(self, added: int) -> None:
        """Drop the rows that were removed before; make room for as many rows again."""
        kept = self._held()
        rows, ids, entered_ms = self.rows.take(kept), self._ids[kept], self._entered_ms[kept]
        needed = len(kept) + added
        self._allocate(max(FIRST_CAPACITY, 1 << (2 * needed - 1).bit_length()))
        self._count = 0
        self._append(rows, ids, entered_ms)

    def _held(self) -> Positions:
        """Places of the rows that have not been removed."""
        return np.flatnonzero(self.left_ms == FOREVER_MS)

    def held(self) -> int:
        """Number of the rows that have not been removed."""
        return self._count - self._removed

    def save(self) -> Pieces:
        """The rows that have not been removed."""
        # Rows stay where they lie and are only added to: the places suffice.
        held, rows = self._held(), self.rows
        ids = Frame((Vector(self._ids[: self._count], None),), self._count)

        def pieces() -> Iterator[State]:
            if not len(held):
                return
            most = piece_rows(rows.take(held[:SAMPLED_ROWS]))
            for piece in row_slices(len(held), most):
                yield State(
                    frames={
                        "ids": write_frame(ids.take(held[piece]), ("int",)),
                        "rows": write_frame(rows.take(held[piece]), self._kinds),
                    }
                )

        return pieces

    def load(self, state: State) -> tuple[Frame, IntArray]:
        """Append saved rows; returns them with their identities.

        Raises
        ------
        SnapshotError
            The rows are not those of a relation.
        """
        ids = read_frame(state.frames["ids"], ("int",))
        rows = read_frame(state.frames["rows"], self._kinds)
        rising = np.concatenate([self._ids[: self._count][-1:], ids[0].values])
        if ids.length != rows.length or np.any(np.diff(rising) <= 0):
            raise SnapshotError("rows of a relation are not in order")
        # Whenever they were inserted: before every timestamp to come.
        entered_ms = np.full(ids.length, NO_WATERMARK, dtype=np.int64)
        self._append(rows, ids[0].values, entered_ms)
        return rows, ids[0].values

    def loaded(self) -> None:
        """Note that all rows have been appended: nothing is left to do."""
