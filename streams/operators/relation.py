"""The rows of a relation before and after the change of an event timestamp."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from streams.state import (
    Pieces,
    SnapshotError,
    State,
    piece_rows,
    read_frame,
    row_slices,
    write_frame,
)
from streams.vector import Delta, Frame, Vector, concat_frames, empty_frame
from topology.arrays import IntArray


class Relation:
    """Rows in the order of their identities, stored contiguously for a join to scan.

    Each change builds the relation anew. A theta join reads all of it anyway.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = tuple(kinds)
        self._ids: IntArray = np.empty(0, dtype=np.int64)
        self._loaded: list[Frame] = []
        self._loaded_ids: list[IntArray] = []
        self.old = empty_frame(kinds)
        """The rows before the last change."""
        self.new = self.old
        """The rows after the last change."""

    def step(self, delta: Delta) -> None:
        """Apply a change; inserted identities are greater than all earlier ones."""
        self.old = self.new
        rows, inserted, ids = delta
        if not rows.length:
            return
        assert isinstance(rows, Frame)
        assert ids is not None
        added = np.flatnonzero(inserted)
        if len(added) < rows.length:
            keep = np.ones(self.new.length, dtype=np.bool_)
            keep[np.searchsorted(self._ids, ids[~inserted])] = False
            kept = np.flatnonzero(keep)
            self.new, self._ids = self.new.take(kept), self._ids[kept]
        if len(added):
            self.new = concat_frames([self.new, rows.take(added)])
            self._ids = np.concatenate([self._ids, ids[added]])

    def save(self) -> Pieces:
        """The rows after the last change; those before it are no longer needed."""
        ids, rows = Frame((Vector(self._ids, None),), len(self._ids)), self.new

        def pieces() -> Iterator[State]:
            for piece in row_slices(rows.length, piece_rows(rows)):
                saved = rows.slice(piece.start, piece.stop)
                saved_ids = ids.slice(piece.start, piece.stop)
                yield State(
                    frames={
                        "ids": write_frame(saved_ids, ("int",)),
                        "rows": write_frame(saved, self._kinds),
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
        newest = self._loaded_ids[-1][-1:] if self._loaded_ids else self._ids[-1:]
        rising = np.concatenate([newest, ids[0].values])
        if ids.length != rows.length or np.any(np.diff(rising) <= 0):
            raise SnapshotError("rows of a relation are not in order")
        self._loaded.append(rows)
        self._loaded_ids.append(ids[0].values)
        return rows, ids[0].values

    def loaded(self) -> None:
        """Note that all rows have been appended: make them one."""
        if self._loaded:
            self._ids = np.concatenate(self._loaded_ids)
            self.old = self.new = concat_frames(self._loaded)
            self._loaded, self._loaded_ids = [], []
