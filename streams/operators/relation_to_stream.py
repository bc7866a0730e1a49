"""RSTREAM: the whole relation, at every timestamp at which one of its windows changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from streams.operators.relation import Relation
from streams.state import Pieces, State
from streams.vector import Delta, Frame


class RelationToStream:
    """Keeps the relation, its rows in order of insertion."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._relation = Relation(kinds)
        self._next_id = 0
        self._ids_by_row: dict[tuple[Any, ...], deque[int]] = {}
        """Identities of equal rows, oldest first."""

    def step(self, change: Delta | None) -> Frame | None:
        """Rows to emit; None for none."""
        if change is not None:
            self._relation.step(self._identified(change))
        rows = self._relation.new
        return rows if rows.length else None

    def _identified(self, change: Delta) -> Delta:
        """Identify the rows: inserted rows get new identities, removed rows are looked up.

        A row that is inserted and removed in the same change is left out.
        """
        rows = change.rows
        assert isinstance(rows, Frame)
        inserted: list[bool] = change.inserted.tolist()
        values = rows.tuples()
        added: dict[int, int] = {}
        removed: dict[int, int] = {}
        for position, row in enumerate(values):
            if inserted[position]:
                identity = self._next_id
                self._next_id += 1
                added[identity] = position
                self._ids_by_row.setdefault(row, deque()).append(identity)
        for position, row in enumerate(values):
            if not inserted[position]:
                ids = self._ids_by_row[row]
                identity = ids.popleft()
                if not ids:
                    del self._ids_by_row[row]
                if added.pop(identity, None) is None:
                    removed[identity] = position
        positions = [*removed.values(), *added.values()]
        return Delta(
            rows.take(np.array(positions, dtype=np.intp)),
            np.arange(len(positions)) >= len(removed),
            np.array([*removed, *added], dtype=np.int64),
        )

    def save(self) -> Pieces:
        """The next identity, then the relation."""
        next_id, relation = self._next_id, self._relation.save()

        def pieces() -> Iterator[State]:
            yield State(values={"next_id": next_id})
            yield from relation()

        return pieces

    def load(self, state: State) -> None:
        """Take the next identity, or append rows of the relation."""
        if "next_id" in state.values:
            self._next_id = int(state.values["next_id"])
            return
        rows, ids = self._relation.load(state)
        for row, identity in zip(rows.tuples(), ids.tolist(), strict=True):
            self._ids_by_row.setdefault(row, deque()).append(identity)

    def loaded(self) -> None:
        """Note that the whole relation has been taken."""
        self._relation.loaded()
