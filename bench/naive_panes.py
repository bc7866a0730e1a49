"""Naive aggregates over a window that tumbles, in arrays: a method that only `aggregates` uses.

`Panes` folds each tuple as it passes. This keeps the projected tuples of the pane, and at its end
reads all of them once for each aggregate, as Fig. 2 of *pushdown aggregates* does. Everything else
is as in `Panes`: columns are converted once for each batch, and arithmetic is numpy's. So the two
differ in what is pushed down, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from streams.evaluate.protocol import Evaluation, Pass
from streams.expressions.typed import evaluator
from streams.plan.program import AggregatePlan, Program
from streams.vectors.batch_columns import BatchColumns
from streams.vectors.chunk import NO_WATERMARK
from streams.vectors.state import Stateful
from streams.vectors.vector import Frame

FUNCTIONS = ("count", "sum", "max", "avg")


class NaivePanes(Evaluation):
    """Runs one SELECT of `FUNCTIONS` over `[RANGE r SLIDE r]`, without GROUP BY and WHERE."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        (select,), (window,) = program.selects, program.windows
        assert select.group is not None
        assert not select.group.keys
        assert window.slide_ms is not None
        assert window.range_ms == window.slide_ms
        self._schema, self._slide_ms = schema, window.slide_ms
        self._stream = window.stream
        self._places = program.read_places(window.stream)
        self._kinds = program.read_kinds(window.stream)
        self._numbers = range(len(self._kinds))
        self._aggregates = [_Scan(one) for one in select.group.aggregates]
        self._kept: list[Frame] = []
        self._boundary_ms = NO_WATERMARK

    def run(self, given: Pass) -> pa.RecordBatch:
        """See `Evaluation`; a pass may end at a boundary, and not go beyond one."""
        rows = given.taken[self._stream]
        if rows is not None:
            columns = BatchColumns(rows, self._places, self._kinds)
            self._kept.append(Frame(tuple(map(columns.__getitem__, self._numbers)), rows.num_rows))
        if given.until_ms % self._slide_ms or not self._kept:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        found = [one.result(self._kept) for one in self._aggregates]
        self._kept = []
        values = [given.until_ms, *found]
        arrays = [
            pa.array([value], type=each.type)
            for value, each in zip(values, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """None: it is never saved."""
        return iter(())


class _Scan:
    """One aggregate, which reads all kept tuples."""

    def __init__(self, plan: AggregatePlan) -> None:
        assert plan.function in FUNCTIONS
        self._function = plan.function
        assert plan.argument is not None
        self._evaluate = evaluator(plan.argument)

    def result(self, kept: Sequence[Frame]) -> Any:
        """The aggregate of the rows; None if there are none."""
        count, total, most = 0, 0, None
        for rows in kept:
            vector = self._evaluate(rows).filled_to(rows.length)
            values = vector.values if vector.valid is None else vector.values[vector.valid]
            count += len(values)
            if self._function in ("sum", "avg"):
                total += values.sum().item()
            elif self._function == "max" and len(values):
                greatest = values.max().item()
                most = greatest if most is None else max(most, greatest)
        if self._function == "count":
            return count
        if self._function == "max" or not count:
            return most
        return total if self._function == "sum" else total / count
