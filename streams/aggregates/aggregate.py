"""GROUP BY and aggregate functions, kept up to date row by row.

Without GROUP BY there is one group. It exists from the first timestamp on, even if it is empty; the
count of an empty group is 0, and its other aggregates are NULL. With GROUP BY a group exists while
it has rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, repeat
from typing import Any

import numpy as np

from streams.aggregates.accumulators import Accumulator, Kept, accumulator, takes_identities
from streams.aggregates.saved_groups import SavedGroup
from streams.expressions.typed import evaluator, project
from streams.plan.program import AggregatePlan, GroupPlan
from streams.vectors.state import Pieces, SnapshotError, State
from streams.vectors.vector import Delta, from_tuples

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

    def saved(self) -> SavedGroup:
        """As a snapshot has it."""
        return [list(self.key), self.rows, [one.save() for one in self.accumulators]]


class _Rows:
    """Changes of the groups' rows."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._inserted: list[bool] = []
        self._times_ms: list[int] = []

    def add(self, removed: list[Row], inserted: list[Row], at_ms: int) -> None:
        """The change of a timestamp."""
        self._rows += removed
        self._rows += inserted
        self._inserted += [False] * len(removed) + [True] * len(inserted)
        self._times_ms += [at_ms] * (len(removed) + len(inserted))

    def delta(self, kinds: Sequence[str]) -> Delta | None:
        """All changes; None for none."""
        if not self._rows:
            return None
        times_ms = np.array(self._times_ms, dtype=np.int64)
        return Delta(from_tuples(self._rows, kinds), np.array(self._inserted), times_ms)


def _identified(ids: Iterable[int], values: Iterable[Any]) -> Iterator[tuple[int, Any] | None]:
    """Values with their identities; NULL stays NULL."""
    for identity, value in zip(ids, values, strict=True):
        yield None if value is None else (identity, value)


class Aggregate:
    """Maintains a relation with one row for each group: its key, then its aggregates."""

    def __init__(
        self, plan: GroupPlan, *, stays: bool, in_order: bool = False, naive: bool = False
    ) -> None:
        """
        Parameters
        ----------
        plan
            The keys and the aggregates.
        stays
            No row ever leaves the aggregated relation.
        in_order
            The rows of each group leave in the order in which they came.
        naive
            Values are kept, and aggregated when a group's row is made.
        """
        self._plan = plan
        in_order = in_order and not naive
        self._new: Callable[[AggregatePlan], Accumulator] = (
            Kept if naive else partial(accumulator, stays=stays, in_order=in_order)
        )
        self._identified = [takes_identities(one, in_order=in_order) for one in plan.aggregates]
        self._keys = tuple(evaluator(key) for key in plan.keys)
        self._arguments = tuple(
            evaluator(one.argument) for one in plan.aggregates if one.argument is not None
        )
        self._kinds = [one.kind for one in (*plan.keys, *plan.aggregates)]
        self._groups: dict[Key, _Group] = {}
        self._version = 0
        """How often the groups have been saved."""

    def step(self, change: Delta | None, first_ms: int) -> Delta | None:
        """Apply a change of the rows; return the change of the groups' rows.

        Parameters
        ----------
        change
            The change of the aggregated relation.
        first_ms
            The first timestamp of this pass: from then on, the group without GROUP BY exists.
        """
        emitted = _Rows()
        touched: dict[Key, None] = {}
        now_ms = first_ms
        if not self._keys and not self._groups:
            self._groups[()] = self._new_group(())
            touched[()] = None
        for at_ms, key, entering, values in self._changes(change):
            if at_ms != now_ms:
                self._renew(touched, now_ms, emitted)
                touched.clear()
                now_ms = at_ms
            touched[key] = None
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = self._new_group(key)
            elif group.version != self._version:
                group = self._groups[key] = group.copy(self._version)
            group.rows += 1 if entering else -1
            for one, value in zip(group.accumulators, values, strict=True):
                if value is None:
                    continue
                if entering:
                    one.enter(value)
                else:
                    one.leave(value)
        self._renew(touched, now_ms, emitted)
        return emitted.delta(self._kinds)

    def _changes(self, change: Delta | None) -> Iterator[tuple[int, Key, bool, tuple[Any, ...]]]:
        """Timestamp, key, whether the row enters, and arguments of the aggregates, row by row."""
        if change is None:
            return iter(())
        rows = change.rows
        keys = project(self._keys, rows).tuples()
        columns = iter(project(self._arguments, rows).columns)
        arguments: list[Iterable[Any]] = [
            repeat(True, rows.length) if one.argument is None else next(columns).to_list()
            for one in self._plan.aggregates
        ]
        for place, identified in enumerate(self._identified):
            if identified:
                assert change.ids is not None
                arguments[place] = _identified(change.ids.tolist(), arguments[place])
        values = zip(*arguments, strict=True) if arguments else repeat((), rows.length)
        return zip(change.times_ms.tolist(), keys, change.inserted.tolist(), values, strict=True)

    def _renew(self, touched: Iterable[Key], at_ms: int, emitted: _Rows) -> None:
        """Emit the rows of groups that changed at a timestamp: removed ones, then inserted ones."""
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
        emitted.add(removed, inserted, at_ms)

    def _new_group(self, key: Key) -> _Group:
        return _Group(key, [self._new(one) for one in self._plan.aggregates], self._version)

    def _row(self, group: _Group) -> Row | None:
        """The group's row; removes the group if GROUP BY has emptied it."""
        if self._keys and not group.rows:
            del self._groups[group.key]
            return None
        return (*group.key, *(one.result() for one in group.accumulators))

    def now(self, at_ms: int) -> Delta | None:
        """The rows of all groups, as if they entered at a timestamp; None if there is none."""
        emitted = _Rows()
        rows = [group.row for group in self._groups.values()]
        emitted.add([], [row for row in rows if row is not None], at_ms)
        return emitted.delta(self._kinds)

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self._groups)

    def saved(self) -> list[SavedGroup]:
        """Every group with a row in the relation."""
        return [group.saved() for group in self._groups.values()]

    def save(self) -> Pieces:
        """Every group with a row in the relation."""
        self._version += 1
        # The garbage collector would visit all of a new list, but no array.
        groups = np.fromiter(self._groups.values(), dtype=np.object_, count=len(self._groups))
        return lambda: saved_pieces(group.saved() for group in groups)

    def load(self, groups: Sequence[SavedGroup]) -> None:
        """Add saved groups.

        Raises
        ------
        SnapshotError
            The saved values are not groups of this aggregate.
        """
        for saved in groups:
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


def saved_pieces(groups: Iterable[SavedGroup]) -> Iterator[State]:
    """Saved groups as the pieces of a state."""
    rest = iter(groups)
    while some := list(islice(rest, PIECE_GROUPS)):
        yield State(values={"groups": some})
