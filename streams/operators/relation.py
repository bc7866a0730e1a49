"""The rows of a relation, as they were and as they are at an instant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streams.state import SnapshotError, State, read_frame, write_frame
from streams.vector import Delta, Frame, Vector, concat_frames, empty_frame
from topology.arrays import IntArray


class Relation:
    """Rows in the order of their identities, kept side by side for a join to scan.

    An instant costs a copy of the relation, which a theta join reads in whole anyway.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = tuple(kinds)
        self._ids: IntArray = np.empty(0, dtype=np.int64)
        self.old = empty_frame(kinds)
        """Before the last change."""
        self.new = self.old
        """After it."""

    def step(self, delta: Delta) -> None:
        """Apply a change; the identities that come are greater than all before."""
        self.old = self.new
        rows, inserted, ids = delta
        if not rows.length:
            return
        assert isinstance(rows, Frame)
        assert ids is not None
        came = np.flatnonzero(inserted)
        parts: list[Frame] = [self.new]
        kept_ids = self._ids
        if len(came) < rows.length:
            keep = np.ones(self.new.length, dtype=np.bool_)
            keep[np.searchsorted(self._ids, ids[~inserted])] = False
            kept = np.flatnonzero(keep)
            parts = [self.new.take(kept)]
            kept_ids = self._ids[kept]
        if len(came):
            parts.append(rows.take(came))
            kept_ids = np.concatenate([kept_ids, ids[came]])
        self._ids = kept_ids
        self.new = concat_frames(parts)

    @property
    def ids(self) -> IntArray:
        """Identities of the rows in `new`."""
        return self._ids

    def save(self) -> State:
        """The rows as they are; how they were does not matter once the instant is over."""
        ids = Frame((Vector(self._ids, None),), len(self._ids))
        return State(
            frames={"ids": write_frame(ids, ("int",)), "rows": write_frame(self.new, self._kinds)}
        )

    def load(self, state: State) -> None:
        """Go on from saved rows.

        Raises
        ------
        SnapshotError
            They are not a relation's.
        """
        ids = read_frame(state.frames["ids"], ("int",))
        rows = read_frame(state.frames["rows"], self._kinds)
        if ids.length != rows.length or np.any(np.diff(ids[0].values) <= 0):
            raise SnapshotError("rows of a relation are not in order")
        self._ids = ids[0].values
        self.old = self.new = rows
