"""GROUP BY and aggregate functions, kept up to date row by row.

Without GROUP BY there is one group. It exists from the first timestamp on, even if it is empty; the
count of an empty group is 0, and its other aggregates are NULL. With GROUP BY a group exists while
it has rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from streams.expressions import evaluator, project
from streams.operators.accumulators import Accumulator, accumulator
from streams.program import GroupPlan
from streams.state import Pieces, SnapshotError, State, row_slices
from streams.vector import Delta, from_tuples

Key = tuple[Any, ...]
Row = tuple[Any, ...]

PIECE_GROUPS = 256
"""Most groups in a piece: a group takes as long to write as tens of rows."""


class _Group:
    """The rows with one key. Copied before it changes if it has been saved since `version`."""

    __slots__ = ("accumulators", "key", "row", "rows", "version")

    def __init__(self, key: Key, accumulators: list[Accumulator], version: int) -> None:
        self.key = key
        self.rows = 0
        self.row: Row | None = None
        """Its row in the relation, as of the last timestamp."""
        self.accumulators = accumulators
        self.version = version

    def copy(self, version: int) -> _Group:
        """A group that goes its own way from here."""
        made = _Group(self.key, [one.copy() for one in self.accumulators], version)
        made.rows, made.row = self.rows, self.row
        return made


class Aggregate:
    """Maintains a relation with one row for each group: its key, then its aggregates."""

    def __init__(self, plan: GroupPlan) -> None:
        self._plan = plan
        self._keys = tuple(evaluator(key) for key in plan.keys)
        self._arguments = tuple(
            evaluator(one.argument) for one in plan.aggregates if one.argument is not None
        )
        self._kinds = [one.kind for one in (*plan.keys, *plan.aggregates)]
        self._groups: dict[Key, _Group] = {}
        self._version = 0
        """How often the groups have been saved."""

    def step(self, changes: Sequence[Delta]) -> Delta:
        """Apply the changes of one timestamp; return the change of the groups' rows."""
        touched: dict[Key, None] = {}
        if not self._keys and not self._groups:
            self._groups[()] = self._new_group(())
            touched[()] = None
        for change in changes:
            self._apply(change, touched)
        removed: list[Row] = []
        inserted: list[Row] = []
        for key in touched:
            group = self._groups[key]
            before, after = group.row, self._row(group)
            if before == after:
                continue
            if before is not None:
                removed.append(before)
            if after is not None:
                inserted.append(after)
                group.row = after
        rows = removed + inserted
        return Delta(from_tuples(rows, self._kinds), np.arange(len(rows)) >= len(removed))

    def _apply(self, change: Delta, touched: dict[Key, None]) -> None:
        if not change.rows.length:
            return
        keys = project(self._keys, change.rows).tuples()
        columns = iter(project(self._arguments, change.rows).columns)
        every_row = [True] * change.rows.length
        values = [
            every_row if one.argument is None else next(columns).to_list()
            for one in self._plan.aggregates
        ]
        inserted: list[bool] = change.inserted.tolist()
        for row, (key, entering) in enumerate(zip(keys, inserted, strict=True)):
            touched[key] = None
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = self._new_group(key)
            elif group.version != self._version:
                group = self._groups[key] = group.copy(self._version)
            group.rows += 1 if entering else -1
            for one, column in zip(group.accumulators, values, strict=True):
                value = column[row]
                if value is None:
                    continue
                if entering:
                    one.enter(value)
                else:
                    one.leave(value)

    def _new_group(self, key: Key) -> _Group:
        return _Group(key, [accumulator(one) for one in self._plan.aggregates], self._version)

    def _row(self, group: _Group) -> Row | None:
        """The group's row; removes the group if GROUP BY has emptied it."""
        if self._keys and not group.rows:
            del self._groups[group.key]
            return None
        return (*group.key, *(one.result() for one in group.accumulators))

    def save(self) -> Pieces:
        """Every group with a row in the relation."""
        self._version += 1
        # The garbage collector would visit all of a new list, but no array.
        groups = np.fromiter(self._groups.values(), dtype=np.object_, count=len(self._groups))

        def pieces() -> Iterator[State]:
            for piece in row_slices(len(groups), PIECE_GROUPS):
                saved = [
                    [list(group.key), group.rows, [one.save() for one in group.accumulators]]
                    for group in groups[piece].tolist()
                ]
                yield State(values={"groups": saved})

        return pieces

    def load(self, state: State) -> None:
        """Add saved groups.

        Raises
        ------
        SnapshotError
            The saved values are not groups of this aggregate.
        """
        for saved in state.values["groups"]:
            match saved:
                case [[*key], int(rows), [*accumulators]]:
                    group = self._new_group(tuple(key))
                    group.rows = rows
                    for one, value in zip(group.accumulators, accumulators, strict=True):
                        one.load(value)
                    self._groups[group.key] = group
                    group.row = self._row(group)
                case _:
                    raise SnapshotError(f"not a group: {saved!r}")

    def loaded(self) -> None:
        """Note that all groups have been added."""
