"""GROUP BY, many changes in one pass over arrays.

Counts, sums, means and standard deviations follow from sums of what enters less what leaves. The
changes of a pass are put in the order of their groups. Those of one group at one timestamp are a
*step* of that group. Exact sums of each step (`streams.aggregates.parts`), added up along the steps
of a group, give its aggregates at each of these timestamps. First, last, least and greatest values
follow from lists of contenders (`streams.aggregates.contenders`), if rows leave in the order in
which they came. So nothing is done in Python for a single row, but for texts of exact sums.
`Aggregate` does the same row by row, for any aggregates; both give the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat

import numpy as np

from foundation.arrays import BoolArray, IntArray
from streams.aggregates.aggregate import PIECE_GROUPS
from streams.aggregates.contenders import ContenderLists
from streams.aggregates.group_steps import Steps, along, shifted, steps_of
from streams.aggregates.pane_parts import Parts
from streams.aggregates.parts import FloatSum, Summed, widen
from streams.aggregates.saved_groups import SavedGroup, held_parts, read_values, saved_values
from streams.expressions.typed import evaluator, project
from streams.kernels import kernels
from streams.kernels.keys import Keys, encode
from streams.plan.program import CODED_KINDS, ENDS, EXTREMES, AggregatePlan, GroupPlan
from streams.vectors.arrays import Codes, resized
from streams.vectors.state import row_slices
from streams.vectors.vector import (
    Array,
    Delta,
    Frame,
    Positions,
    Vector,
    concat_frames,
    fillers,
    from_tuples,
    known_of,
    storage,
)

FIRST_GROUPS = 64
COMPACT_FROM = 4096
"""Codes of groups that are gone are given up from so many groups on."""


def folds(plan: GroupPlan, *, in_order: bool) -> bool:
    """Whether groups can be kept as arrays.

    Keys have codes then, and aggregates are of sums, or of numbers and bools that leave in order.
    """
    return all(key.kind in CODED_KINDS for key in plan.keys) and all(
        not one.distinct and (not _is_one_value(one) or (in_order and one.kind != "string"))
        for one in plan.aggregates
    )


def _is_one_value(plan: AggregatePlan) -> bool:
    return plan.function in (*ENDS, *EXTREMES)


class FoldedGroups:
    """Maintains a relation with one row for each group, as `Aggregate` does.

    Parameters
    ----------
    plan
        The keys and the aggregates, for which `folds` is true.
    stays
        No row ever leaves the aggregated relation.
    """

    def __init__(self, plan: GroupPlan, *, stays: bool) -> None:
        kernels.want()
        self._plan = plan
        self._key_evaluators = tuple(evaluator(key) for key in plan.keys)
        self._keys = Keys([key.kind for key in plan.keys])
        self._parts = Parts(tuple(one for one in plan.aggregates if not _is_one_value(one)))
        self._sums = [part for part in self._parts.parts if isinstance(part, Summed)]
        self._arguments = [evaluator(part.argument) for part in self._sums]
        self._lists = {
            one: ContenderLists(one, stays=stays) for one in plan.aggregates if _is_one_value(one)
        }
        self._rows: IntArray = np.zeros(0, dtype=np.int64)
        """Code → number of rows."""
        self._born: IntArray = np.zeros(0, dtype=np.int64)
        """Code → the group's place in the order in which those that have a row got it."""
        self._results: list[tuple[Array, BoolArray]] = []
        """Of each aggregate: code → its value as of the last timestamp; whether it is not NULL."""
        self._births = 0
        self._started = bool(plan.keys)
        """Whether the group without GROUP BY exists."""
        self._compact_at = COMPACT_FROM
        self._allocate(FIRST_GROUPS)

    def _allocate(self, room: int) -> None:
        self._rows, self._born = resized(self._rows, room), resized(self._born, room)
        for part in (*self._sums, *self._lists.values()):
            part.allocate(room)
        if not self._results:
            self._results = [
                (np.zeros(0, dtype=storage[one.kind]), np.zeros(0, dtype=np.bool_))
                for one in self._plan.aggregates
            ]
        self._results = [
            (resized(values, room, fillers[one.kind]), resized(valid, room))
            for one, (values, valid) in zip(self._plan.aggregates, self._results, strict=True)
        ]

    def _make_room(self) -> None:
        if self._keys.count > len(self._rows):
            self._allocate(max(2 * len(self._rows), self._keys.count))

    def step(self, change: Delta | None, first_ms: int) -> Delta | None:
        """Apply a change of the rows; parameters as in `Aggregate.step`."""
        begun = None
        if not self._started and (change is None or change.times_ms[0] != first_ms):
            begun = self._begin(first_ms)
        if change is None:
            return begun
        if self._keys.count >= self._compact_at:
            self._compact()
        rows = change.rows
        codes = encode(self._keys, project(self._key_evaluators, rows).columns, rows.length)
        self._make_room()
        made = self._changed(
            steps_of(codes, change.times_ms, grouped=bool(self._plan.keys)), change
        )
        if begun is None or made is None:
            return begun or made
        return _joined(begun, made)

    def _begin(self, at_ms: int) -> Delta:
        """The row of the only group, without any rows to aggregate."""
        code: Codes = np.zeros(1, dtype=np.int32)
        results = self._results_now(code)
        self._store(code, results, np.arange(1))
        self._started = True
        return Delta(Frame(tuple(results), 1), np.ones(1, dtype=np.bool_), np.array([at_ms]))

    # What each step changes

    def _changed(self, steps: Steps, change: Delta) -> Delta | None:
        signs = 2 * change.inserted.astype(np.int64) - 1
        rows = along(steps, np.add.reduceat(signs[steps.order], steps.starts), self._rows)
        grouped = bool(self._plan.keys)
        alive = rows > 0 if grouped else np.ones(len(rows), dtype=np.bool_)
        first = steps.codes[steps.begins]
        started = self._rows[first] > 0 if grouped else np.full(1, self._started)
        before = shifted(steps, alive, started)
        states: list[Array] = []
        for part, argument in zip(self._sums, self._arguments, strict=True):
            added = self._added(part, argument(change.rows), steps, change)
            states.append(along(steps, added, part.totals))
        results = self._results_of(states, rows, self._best(steps, change))
        made = self._delta(steps, results, before, alive)
        self._keep(steps, states, rows, results)
        self._note_births(steps, before, alive)
        return made

    def _added(self, part: Summed, argument: Vector, steps: Steps, change: Delta) -> Array:
        """What each step adds to a part; widens the part's digits if it has to."""
        count = len(change.inserted)
        values, valid = argument.filled_to(count)
        if values.dtype == np.object_ and not part.reads_texts:
            # Of a text only whether it is NULL counts.
            values = np.empty(0, dtype=np.int64)
        values = np.require(values, requirements=["C", "A"])
        if valid is not None:
            valid = np.require(valid, requirements=["C", "A"])
        column = Vector(values, valid)
        sums = [part.empty(len(steps.codes)) for _ in range(2)]
        for which, counted in enumerate((change.inserted, ~change.inserted)):
            slots: Codes = np.where(counted, steps.of, np.int32(-1))
            place = part.add(sums[which], slots, column, 0, count)
            while place < count:
                assert isinstance(part, FloatSum)
                sums = widen(part, part.wider(column, place), sums)
                place = part.add(sums[which], slots, column, place, count)
        came, went = sums
        return came - went

    def _best(self, steps: Steps, change: Delta) -> dict[AggregatePlan, Vector]:
        """The aggregates that are one of the values, after each step."""
        found: dict[AggregatePlan, Vector] = {}
        if not self._lists:
            return found
        assert change.ids is not None
        order = steps.order
        of = steps.of[order].astype(np.int64)
        inserted, ids = change.inserted[order], change.ids[order]
        for plan, lists in self._lists.items():
            assert plan.argument is not None
            argument = evaluator(plan.argument)(change.rows).filled_to(len(order)).take(order)
            found[plan] = lists.step(argument, of, steps.codes, inserted, ids)
        return found

    def _results_now(self, codes: Codes) -> list[Vector]:
        """The aggregates of groups."""
        best = {plan: lists.result(codes) for plan, lists in self._lists.items()}
        return self._in_their_order(self._parts.results(codes, self._rows[codes]), best)

    def _in_their_order(
        self, sums: Sequence[Vector], best: Mapping[AggregatePlan, Vector]
    ) -> list[Vector]:
        """Aggregates of both kinds in the order of the plan."""
        rest = iter(sums)
        return [best[one] if one in best else next(rest) for one in self._plan.aggregates]

    def _results_of(
        self, states: Sequence[Array], rows: IntArray, best: Mapping[AggregatePlan, Vector]
    ) -> list[Vector]:
        """The aggregates after each step."""
        kept = [part.totals for part in self._sums]
        for part, state in zip(self._sums, states, strict=True):
            part.totals = state
        results = self._parts.results(np.arange(len(rows), dtype=np.int32), rows)
        for part, totals in zip(self._sums, kept, strict=True):
            part.totals = totals
        return self._in_their_order(results, best)

    def _delta(
        self, steps: Steps, results: Sequence[Vector], before: BoolArray, alive: BoolArray
    ) -> Delta | None:
        """The change of the groups' rows: at each timestamp removed ones, then inserted ones."""
        first = steps.codes[steps.begins]
        former = [
            Vector(
                shifted(steps, vector.values, values[first]),
                shifted(steps, known_of(vector), valid[first]),
            )
            for vector, (values, valid) in zip(results, self._results, strict=True)
        ]
        differs = before != alive
        for old, new in zip(former, results, strict=True):
            known = known_of(new)
            differs |= (known != known_of(old)) | (known & (new.values != old.values))
        order = np.argsort(steps.first, kind="stable")
        order = order[differs[order]]
        removed, inserted = order[before[order]], order[alive[order]]
        places = np.concatenate([removed, inserted])
        if not len(places):
            return None
        entering = np.arange(len(places)) >= len(removed)
        times_ms = steps.times_ms[places]
        by_time = np.lexsort((entering, times_ms))
        places, entering, times_ms = places[by_time], entering[by_time], times_ms[by_time]
        columns = [*self._keys.columns(steps.codes[places])]
        for old, new in zip(former, results, strict=True):
            values = np.where(entering, new.values[places], old.values[places])
            valid = np.where(entering, known_of(new)[places], known_of(old)[places])
            columns.append(Vector(values, None if valid.all() else valid))
        return Delta(Frame(tuple(columns), len(places)), entering, times_ms)

    def _keep(
        self, steps: Steps, states: Sequence[Array], rows: IntArray, results: Sequence[Vector]
    ) -> None:
        """Keep what each group has after its last step."""
        last = np.append(steps.begins[1:], True).nonzero()[0]
        codes = steps.codes[last]
        self._rows[codes] = rows[last]
        for part, state in zip(self._sums, states, strict=True):
            part.totals[codes] = part.settled(state[last])
        self._store(codes, results, last)

    def _store(self, codes: Codes, results: Sequence[Vector], places: Positions) -> None:
        for vector, (values, valid) in zip(results, self._results, strict=True):
            values[codes], valid[codes] = vector.values[places], known_of(vector)[places]

    def _note_births(self, steps: Steps, before: BoolArray, alive: BoolArray) -> None:
        self._started = True
        (born,) = (alive & ~before).nonzero()
        born = born[np.argsort(steps.first[born], kind="stable")]
        # A group that is born twice in a pass has the place of the second time.
        self._born[steps.codes[born]] = np.arange(self._births, self._births + len(born))
        self._births += len(born)

    def _alive(self) -> Codes:
        """The groups with a row in the relation, in the order in which they got it."""
        if not self._plan.keys:
            return np.zeros(int(self._started), dtype=np.int32)
        codes = np.flatnonzero(self._rows > 0)
        return codes[np.argsort(self._born[codes], kind="stable")].astype(np.int32)

    def _compact(self) -> None:
        """Give up the codes of groups that are gone, if there are many."""
        live = self._alive()
        if 2 * len(live) > self._keys.count:
            self._compact_at = 2 * self._keys.count
            return
        columns, rows = self._keys.columns(live), self._rows[live]
        totals = [part.totals[live] for part in self._sums]
        renumbered = [lists.renumbered(live) for lists in self._lists.values()]
        results = [(values[live], valid[live]) for values, valid in self._results]
        self._keys, self._births, self._results = Keys(self._keys.kinds), len(live), []
        self._rows, self._born = self._rows[:0], self._born[:0]
        for part in self._sums:
            part.clear()
        self._allocate(FIRST_GROUPS)
        codes = encode(self._keys, columns, len(live))
        self._make_room()
        self._rows[codes], self._born[codes] = rows, np.arange(len(live))
        for part, state in zip(self._sums, totals, strict=True):
            part.totals[codes] = state
        for put in renumbered:
            put(codes)
        self._store(codes, [Vector(*one) for one in results], np.arange(len(live)))
        self._compact_at = max(COMPACT_FROM, 4 * len(live))

    # Groups as `Aggregate` saves them

    @property
    def count(self) -> int:
        """At least the number of groups."""
        return self._keys.count

    def saved(self) -> Callable[[], Iterator[SavedGroup]]:
        """Gives the groups as they are now, in the order of their births."""
        keys, codes = self._keys, self._alive()
        rows = self._rows[codes]
        held = held_parts(self._parts, codes)
        best = {plan: lists.saved(codes) for plan, lists in self._lists.items()}

        def groups() -> Iterator[SavedGroup]:
            for some in row_slices(len(codes), PIECE_GROUPS):
                named = Frame(keys.columns(codes[some]), len(rows[some])).tuples()
                values = [
                    best[one](some) if one in best else saved_values(one, held, rows, some)
                    for one in self._plan.aggregates
                ]
                found = zip(*values, strict=True) if values else repeat((), len(rows[some]))
                for key, count, value in zip(named, rows[some].tolist(), found, strict=True):
                    yield [list(key), count, list(value)]

        return groups

    def take(self, groups: Sequence[SavedGroup]) -> None:
        """Add saved groups that no others may have come before."""
        if not groups:
            return
        keys, rows, values = zip(*groups, strict=True)
        columns = from_tuples(keys, self._keys.kinds).columns
        codes = encode(self._keys, columns, len(groups))
        self._make_room()
        self._rows[codes] = rows
        self._born[codes] = np.arange(self._births, self._births + len(codes))
        self._births += len(codes)
        for place, one in enumerate(self._plan.aggregates):
            saved = [value[place] for value in values]
            if one in self._lists:
                self._lists[one].take(codes, saved)
            else:
                read_values(one, self._parts, codes, self._rows[codes], saved)
        self._store(codes, self._results_now(codes), np.arange(len(codes)))
        self._started = True


def _joined(one: Delta, other: Delta) -> Delta:
    """Two changes, the second of which comes later."""
    assert isinstance(one.rows, Frame)
    assert isinstance(other.rows, Frame)
    return Delta(
        concat_frames([one.rows, other.rows]),
        np.concatenate([one.inserted, other.inserted]),
        np.concatenate([one.times_ms, other.times_ms]),
    )
