"""A window that slides, below TOP: it gives up the rows that can never be among the first ones.

The tuples that enter a window at one boundary and leave it at another are a pane. If n tuples of
its partition and its pane come before a tuple, they do so for as long as it is in the window, and
it never shows. So a pane passes on the first n tuples of each partition, which are found in arrays,
and TOP compares those of all panes row by row.

A pane also passes on the first tuple of each partition, because TOP takes partitions in the order
in which they appear, and its newest tuple, which tells when the window is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foundation.arrays import BoolArray, IntArray
from streams.expressions.typed import Evaluator, Typed, evaluator, holds, project
from streams.operators.slide_window import SlideWindow
from streams.plan.program import TopPlan, WindowPlan
from streams.vectors.order import float_order, text_order
from streams.vectors.vector import Frame, Positions, Vector, known_of


class RankedWindow(SlideWindow):
    """A window that slides, of which TOP shows some rows.

    Parameters
    ----------
    plan, kinds
        The window, and the types of the columns that the program reads.
    condition
        Of the rows that TOP ranks; None: all.
    top, outputs
        What ranks them, and the SELECT list.
    each_boundary
        As of `SlideWindow`.
    """

    def __init__(
        self,
        plan: WindowPlan,
        kinds: Sequence[str],
        condition: Typed | None,
        top: TopPlan,
        outputs: Sequence[Typed],
        *,
        each_boundary: bool,
    ) -> None:
        assert plan.range_ms is not None
        super().__init__(
            plan.range_ms, plan.slide_ms or 1, plan.offset_ms, kinds, each_boundary=each_boundary
        )
        self._condition = None if condition is None else evaluator(condition)
        self._most = top.rows
        self._partition_by = _evaluators(top.partition_by)
        self._by = _evaluators([one.expression for one in top.by])
        self._ascending = [one.ascending for one in top.by]
        self._outputs = _evaluators(outputs)

    def rows_to_keep(
        self, positions: Positions, entered_ms: IntArray, left_ms: IntArray
    ) -> BoolArray | None:
        """Which of the rows that enter may ever show."""
        if not len(positions):
            return None
        rows = self._log.take(positions)
        other = np.ones(rows.length, dtype=np.bool_)
        other[:-1] = (entered_ms[1:] != entered_ms[:-1]) | (left_ms[1:] != left_ms[:-1])
        # The newest row of each pane.
        kept = other.copy()
        panes = np.cumsum(other) - other
        chosen = np.arange(rows.length)
        if self._condition is not None:
            (chosen,) = holds(self._condition, rows, (rows.length,)).nonzero()
        if len(chosen):
            kept[chosen[self._first_ones(rows.take(chosen), panes[chosen])]] = True
        return kept

    def _first_ones(self, rows: Frame, panes: IntArray) -> Positions:
        """The first rows of each pane and partition, and the oldest row of each."""
        groups = [panes, *_keys(rows, self._partition_by, [True] * len(self._partition_by))]
        ranked = _keys(rows, self._by[:1], self._ascending[:1])
        order, starts = _sorted(groups, ranked)
        oldest = np.minimum.reduceat(order, starts)
        # Rows that are equal in what ranks them first are told apart next.
        runs = _changes([key[order] for key in (*groups, *ranked)])
        first_of_run = np.maximum.accumulate(np.where(runs, np.arange(len(order)), 0))
        some = np.sort(order[first_of_run - _start_of(starts, len(order)) < self._most])
        rest = rows.take(some)
        shown = _keys(rest, self._outputs, [True] * len(self._outputs))
        ranked = [*_keys(rest, self._by, self._ascending), *shown]
        order, starts = _sorted([key[some] for key in groups], ranked)
        places = np.arange(len(order)) - _start_of(starts, len(order))
        return np.concatenate([oldest, some[order[places < self._most]]])


def _evaluators(expressions: Sequence[Typed]) -> list[tuple[Evaluator, str]]:
    return [(evaluator(one), one.kind) for one in expressions]


def _keys(
    rows: Frame, expressions: Sequence[tuple[Evaluator, str]], ascending: Sequence[bool]
) -> list[IntArray]:
    """Whole numbers that are less where a row comes first; NULL comes last."""
    found: list[IntArray] = []
    columns = project(tuple(evaluate for evaluate, _ in expressions), rows).columns
    for column, (_, kind), rises in zip(columns, expressions, ascending, strict=True):
        numbers = _numbers(column, kind)
        if column.valid is not None:
            found.append((~column.valid).astype(np.int64))
            numbers = np.where(column.valid, numbers, 0)
        found.append(numbers if rises else ~numbers)
    return found


def _numbers(column: Vector, kind: str) -> IntArray:
    if kind == "string":
        return text_order(np.where(known_of(column), column.values, ""))
    if kind == "float":
        return float_order(np.ascontiguousarray(column.values).view(np.int64))
    return column.values.astype(np.int64)


def _sorted(groups: Sequence[IntArray], ranked: Sequence[IntArray]) -> tuple[Positions, Positions]:
    """The order of rows by their groups, then by what ranks them, and where groups begin in it."""
    order = np.lexsort([*ranked[::-1], *groups[::-1]])
    return order, np.flatnonzero(_changes([key[order] for key in groups]))


def _changes(keys: Sequence[IntArray]) -> BoolArray:
    """Where keys differ from those of the row before."""
    other = np.zeros(len(keys[0]), dtype=np.bool_)
    for key in keys:
        other[1:] |= key[1:] != key[:-1]
    other[:1] = True
    return other


def _start_of(starts: Positions, length: int) -> IntArray:
    """Where the group of each row begins."""
    return np.repeat(starts, np.diff(starts, append=length))
