"""RSTREAM: the whole relation, at every timestamp at which one of its windows changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from foundation.arrays import IntArray
from streams.operators.relation import Relation
from streams.vectors.state import Pieces, State
from streams.vectors.vector import Delta, Emitted, Frame, timestamp_groups


class RelationToStream:
    """Keeps the relation, its rows in order of insertion."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._relation = Relation(kinds)
        self._next_id = 0
        self._ids_by_row: dict[tuple[Any, ...], deque[int]] = {}
        """Identities of equal rows, oldest first."""

    def step(self, change: Delta | None, steps_ms: IntArray) -> Emitted | None:
        """Rows to emit; None for none.

        Parameters
        ----------
        change
            The change of the relation.
        steps_ms
            The timestamps at which a window changed or tuples arrived, rising. No change is at
            another timestamp.
        """
        relation = self._relation
        identified = None if change is None else self._identified(change)
        if identified is not None:
            relation.step(identified)
        entered_ms, left_ms = relation.entered_ms, relation.left_ms
        steps: list[int] = steps_ms.tolist()
        places = [np.flatnonzero((entered_ms <= at_ms) & (at_ms < left_ms)) for at_ms in steps]
        held = np.concatenate(places)
        if not len(held):
            return None
        times_ms = steps_ms.repeat([len(of_step) for of_step in places])
        return Emitted(relation.rows.take(held), times_ms)

    def _identified(self, change: Delta) -> Delta | None:
        """Identify the rows: inserted rows get new identities, removed rows are looked up.

        A row that is inserted and removed at the same timestamp is left out.
        """
        rows = change.rows
        assert isinstance(rows, Frame)
        inserted: list[bool] = change.inserted.tolist()
        values = rows.tuples()
        positions: list[int] = []
        identities: list[int] = []
        entering: list[bool] = []
        for start, stop in timestamp_groups(change.times_ms):
            added: dict[int, int] = {}
            removed: dict[int, int] = {}
            for position in range(start, stop):
                if inserted[position]:
                    identity = self._next_id
                    self._next_id += 1
                    added[identity] = position
                    self._ids_by_row.setdefault(values[position], deque()).append(identity)
            for position in range(start, stop):
                if not inserted[position]:
                    ids = self._ids_by_row[values[position]]
                    identity = ids.popleft()
                    if not ids:
                        del self._ids_by_row[values[position]]
                    if added.pop(identity, None) is None:
                        removed[identity] = position
            positions += [*removed.values(), *added.values()]
            identities += [*removed, *added]
            entering += [False] * len(removed) + [True] * len(added)
        if not positions:
            return None
        where = np.array(positions, dtype=np.intp)
        return Delta(
            rows.take(where),
            np.array(entering),
            change.times_ms[where],
            np.array(identities, dtype=np.int64),
        )

    def held(self) -> int:
        """Number of rows in the relation."""
        return self._relation.held()

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
