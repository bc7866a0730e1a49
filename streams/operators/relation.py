"""The rows of a relation before and after the change of an event timestamp."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streams.state import SnapshotError, State, read_frame, write_frame
from streams.vector import Delta, Frame, Vector, concat_frames, empty_frame
from topology.arrays import IntArray


class Relation:
    """Rows in the order of their identities, stored contiguously for a join to scan.

    Each change builds the relation anew. A theta join reads all of it anyway.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = tuple(kinds)
        self._ids: IntArray = np.empty(0, dtype=np.int64)
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

    @property
    def ids(self) -> IntArray:
        """Identities of the rows in `new`."""
        return self._ids

    def save(self) -> State:
        """The rows after the last change; those before it are no longer needed."""
        ids = Frame((Vector(self._ids, None),), len(self._ids))
        return State(
            frames={"ids": write_frame(ids, ("int",)), "rows": write_frame(self.new, self._kinds)}
        )

    def load(self, state: State) -> None:
        """Continue from saved rows.

        Raises
        ------
        SnapshotError
            The rows are not those of a relation.
        """
        ids = read_frame(state.frames["ids"], ("int",))
        rows = read_frame(state.frames["rows"], self._kinds)
        if ids.length != rows.length or np.any(np.diff(ids[0].values) <= 0):
            raise SnapshotError("rows of a relation are not in order")
        self._ids = ids[0].values
        self.old = self.new = rows
