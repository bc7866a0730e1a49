"""GROUP BY: groups are kept row by row, or in arrays, whichever takes less time.

`Aggregate` has next to no cost for a pass and some Python for each row. `FoldedGroups` has a cost
for a pass that some hundred rows make up for. Groups move from one to the other when as much has
been lost by waiting as moving them costs, by the estimates below. Output and snapshots do not tell
which is in use.
"""

from __future__ import annotations

from streams.aggregates.aggregate import Aggregate, saved_pieces
from streams.aggregates.folded_groups import FoldedGroups, folds
from streams.plan.program import GroupPlan
from streams.vectors.state import Pieces, State
from streams.vectors.vector import Delta

MANY_CHANGES = 256
"""Arrays take less time for a pass with so many changes."""

GROUPS_A_PASS = 32
"""As many groups move in the time that a smaller pass loses over arrays."""

LOST_BEFORE_MOVING = 1024
"""Groups do not move back before that much has been lost, however few there are."""

MOST_MOVED = 4096
"""Moving more groups would take too long a turn: from then on they are in arrays."""


class Groups:
    """Maintains a relation with one row for each group: its key, then its aggregates.

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

    def __init__(
        self, plan: GroupPlan, *, stays: bool, in_order: bool = False, naive: bool = False
    ) -> None:
        self._plan, self._stays, self._in_order, self._naive = plan, stays, in_order, naive
        self._folds = not naive and folds(plan, in_order=in_order)
        self._rows: Aggregate | None = self._row_by_row()
        self._folded: FoldedGroups | None = None
        self._lost = 0
        """What the present way has cost too much, in groups that might have moved."""

    def _row_by_row(self) -> Aggregate:
        return Aggregate(self._plan, stays=self._stays, in_order=self._in_order, naive=self._naive)

    def step(self, change: Delta | None, first_ms: int) -> Delta | None:
        """Apply a change of the rows; return the change of the groups' rows.

        Parameters
        ----------
        change
            The change of the aggregated relation.
        first_ms
            The first timestamp of this pass: from then on, the group without GROUP BY exists.
        """
        if self._folds:
            self._choose(0 if change is None else len(change.inserted))
        if self._rows is not None:
            return self._rows.step(change, first_ms)
        assert self._folded is not None
        return self._folded.step(change, first_ms)

    def _choose(self, changes: int) -> None:
        many = changes >= MANY_CHANGES
        if self._rows is not None:
            self._lost += changes if many else 0
            if self._rows.count > MOST_MOVED or (many and self._lost >= self._rows.count):
                self._fold(self._rows)
        elif self._folded is not None:
            self._lost = 0 if many else self._lost + GROUPS_A_PASS
            enough = max(self._folded.count, LOST_BEFORE_MOVING)
            if self._folded.count <= MOST_MOVED and self._lost > enough:
                self._rows, self._lost = self._row_by_row(), 0
                self._rows.load(list(self._folded.saved()()))
                self._folded = None

    def _fold(self, rows: Aggregate) -> None:
        self._folded = FoldedGroups(self._plan, stays=self._stays)
        self._lost, self._rows = 0, None
        self._folded.take(rows.saved())

    def now(self, at_ms: int) -> Delta | None:
        """The rows of all groups, as if they entered at a timestamp; None if there is none."""
        if self._rows is not None:
            return self._rows.now(at_ms)
        assert self._folded is not None
        rows = self._row_by_row()
        rows.load(list(self._folded.saved()()))
        return rows.now(at_ms)

    def held(self) -> int:
        """Number of groups."""
        groups = self._folded if self._rows is None else self._rows
        assert groups is not None
        return groups.count

    def save(self) -> Pieces:
        """Every group with a row in the relation."""
        if self._rows is not None:
            return self._rows.save()
        assert self._folded is not None
        saved = self._folded.saved()
        return lambda: saved_pieces(saved())

    def load(self, state: State) -> None:
        """Add saved groups.

        Raises
        ------
        SnapshotError
            The saved values are not groups of these aggregates.
        """
        if self._rows is not None:
            self._rows.load(state.values["groups"])
            if self._folds and self._rows.count > MOST_MOVED:
                self._fold(self._rows)
        elif self._folded is not None:
            self._folded.take(state.values["groups"])

    def loaded(self) -> None:
        """Note that all groups have been added: nothing is left to do."""
