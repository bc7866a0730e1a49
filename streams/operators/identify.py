"""Identities for the rows of derived relations.

Rows of windows have identities: the numbers of their tuples. Those of a select, an aggregate or a
join have none, but operators that hold rows need them. Equal rows look alike, so any of them may be
taken for the one that is removed: here, the oldest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from streams.operators.relation import Relation
from streams.vectors.state import Pieces, State
from streams.vectors.vector import Delta, Frame, timestamp_groups


class IdentifiedRows:
    """Keeps a relation whose rows come without identities, in the order of their insertion.

    Attributes
    ----------
    relation
        The rows.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self.relation = Relation(kinds)
        self._next_id = 0
        self._ids_by_row: dict[tuple[Any, ...], deque[int]] = {}
        """Identities of equal rows, oldest first."""

    def step(self, change: Delta) -> Delta | None:
        """Apply a change; return it with identities, None if nothing is left of it.

        Inserted rows get new identities, removed rows are looked up. A row that is inserted and
        removed at the same timestamp is left out.
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
        identified = Delta(
            rows.take(where),
            np.array(entering),
            change.times_ms[where],
            np.array(identities, dtype=np.int64),
        )
        self.relation.step(identified)
        return identified

    def held(self) -> int:
        """Number of rows in the relation."""
        return self.relation.held()

    def save(self) -> Pieces:
        """The next identity, then the relation."""
        next_id, relation = self._next_id, self.relation.save()

        def pieces() -> Iterator[State]:
            yield State(values={"next_id": next_id})
            yield from relation()

        return pieces

    def load(self, state: State) -> None:
        """Take the next identity, or append rows of the relation."""
        if "next_id" in state.values:
            self._next_id = int(state.values["next_id"])
            return
        rows, ids = self.relation.load(state)
        for row, identity in zip(rows.tuples(), ids.tolist(), strict=True):
            self._ids_by_row.setdefault(row, deque()).append(identity)

    def loaded(self) -> None:
        """Note that the whole relation has been taken."""
        self.relation.loaded()
