"""Evaluation of many timestamps in one pass, by the changes of relations.

A relation changes only at timestamps with input tuples and at *firing points*: the timestamps at
which a row leaves a window because of its age. Evaluating only these is exact. All other timestamps
are skipped, however many watermarks lie between.

A pass takes all tuples up to a watermark. Every operator consumes and produces changes that carry
their timestamps, in the order of the timestamps, so a pass over many of them gives the same rows as
a pass for each. Its cost is per call and per row, not per timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray, rising
from streams.evaluate.protocol import Evaluation, Pass
from streams.evaluate.stepwise.relation_pipelines import UnionPipeline, relation_pipeline
from streams.language.ast import ToStream
from streams.operators.changes_to_stream import ChangesToStream
from streams.operators.hop_window import HopWindow
from streams.operators.partition_window import PartitionWindow
from streams.operators.ranked_window import RankedWindow
from streams.operators.relation_to_stream import RelationToStream
from streams.operators.releases import SILENT_PERIODS, Releases
from streams.operators.session_window import SessionWindow
from streams.operators.slide_window import SlideWindow
from streams.operators.window import (
    Arrived,
    RangeWindow,
    RowsWindow,
    UnboundedWindow,
    WindowOperator,
)
from streams.plan.choice import ranks_panes
from streams.plan.program import Program, WindowPlan
from streams.vectors.chunk import NO_WATERMARK
from streams.vectors.state import Stateful
from streams.vectors.vector import Delta, Emitted, Frame, emitted_batch, empty_frame, from_arrow

PASS_ROWS = 4096
"""Most tuples of a pass, unless a timestamp has more: what a pass reads stays in the cache."""

JOIN_PASS_ROWS = 128
"""Least tuples of a pass through a join."""

PASS_BOUNDARIES = 1 << 14
"""Most boundaries of a pass, beside those that its first and last tuple alone have."""

_no_timestamps: IntArray = np.empty(0, dtype=np.int64)


class Incremental(Evaluation):
    """Runs a program of any shape."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        self._program = program
        self._schema = schema
        self._kinds = tuple(program.columns.values())
        self._no_rows = pa.RecordBatch.from_pylist([], schema=schema)
        self._inputs = {stream: _Input(program, stream) for stream in program.inputs}
        self._windows = [_window(program, plan) for plan in program.windows]
        sliding = [
            (plan.range_ms, plan.slide_ms)
            for plan in program.windows
            if program.to_stream is ToStream.RSTREAM and plan.range_ms and plan.slide_ms
        ]
        self._releases: Releases | None = None
        if program.releases is not None:
            self._releases = Releases(program.releases)
            period_ms = program.releases.period_ms
            sliding.append((SILENT_PERIODS * period_ms, period_ms))
        self._reach_ms = max((range_ms for range_ms, _ in sliding), default=0)
        """How long a tuple has RSTREAM evaluated at each boundary; 0 without boundaries."""
        self._least_slide_ms = min((slide_ms for _, slide_ms in sliding), default=1)
        self._relations = [relation_pipeline(program, plan) for plan in program.relations]
        self._selects = UnionPipeline(program, program.selects)
        self._to_stream = self._new_to_stream()

    def _new_to_stream(self) -> ChangesToStream | RelationToStream:
        if self._program.to_stream is ToStream.RSTREAM:
            return RelationToStream(self._kinds)
        return ChangesToStream(inserted=self._program.to_stream is ToStream.ISTREAM)

    def show(self, program: Program, schema: pa.Schema) -> None:
        """See `Showing`."""
        self._program, self._schema = program, schema
        self._kinds = tuple(program.columns.values())
        self._no_rows = pa.RecordBatch.from_pylist([], schema=schema)
        # They are there at all timestamps that follow.
        shown = self._selects.show(program, program.selects, NO_WATERMARK)
        self._to_stream = self._new_to_stream()
        if shown is not None and isinstance(self._to_stream, RelationToStream):
            self._to_stream.step(shown)

    def run(self, given: Pass) -> pa.RecordBatch:
        """See `Evaluation`."""
        until_ms = given.until_ms
        if all(rows is None for rows in given.taken.values()) and until_ms < self.next_expiry_ms():
            return self._no_rows
        arrived = {
            stream: self._inputs[stream].arrived(rows, given.first_ids[stream])
            for stream, rows in given.taken.items()
        }
        passes = self._passes(arrived, until_ms)
        emitted = [rows for one in passes if (rows := self.step(*one)) is not None]
        if not emitted:
            return self._no_rows
        return emitted_batch(emitted, self._kinds, self._schema)

    def next_expiry_ms(self) -> int:
        """The next firing point, if no tuple arrives before it."""
        next_ms = min(window.next_expiry_ms() for window in self._windows)
        return next_ms if self._releases is None else min(next_ms, self._releases.next_ms())

    def _passes(
        self, arrived: Mapping[str, Arrived], until_ms: int
    ) -> Iterator[tuple[Mapping[str, Arrived], int]]:
        """The tuples of each pass, complete timestamp groups, and its watermark."""
        if sum(one.rows.length for one in arrived.values()) > (
            1 if self._reach_ms else JOIN_PASS_ROWS
        ):
            times_ms = np.concatenate([one.timestamps for one in arrived.values()])
            times_ms.sort()
            while len(times_ms) > (most := self._fitting(times_ms)):
                next_ms = int(times_ms[most])
                # A timestamp group that is larger than a pass is a pass of its own.
                end_ms = next_ms if times_ms[0] == next_ms else next_ms - 1
                yield {stream: one.until(end_ms) for stream, one in arrived.items()}, end_ms
                arrived = {stream: one.after(end_ms) for stream, one in arrived.items()}
                times_ms = times_ms[times_ms.searchsorted(end_ms, side="right") :]
        yield arrived, until_ms

    def _fitting(self, times_ms: IntArray) -> int:
        """How many of the next tuples, which have these timestamps, a pass takes at most."""
        most = self._most_rows()
        if self._reach_ms:
            passed_ms = np.minimum(np.diff(times_ms[: most + 1]), self._reach_ms).cumsum()
            most_ms = PASS_BOUNDARIES * self._least_slide_ms
            most = min(most, 1 + int(passed_ms.searchsorted(most_ms, side="right")))
        return most

    def _most_rows(self) -> int:
        """Most tuples of a pass.

        A join compares changes with all rows that are in its relations at some time of the pass,
        so few more should enter than there are.
        """
        if not self._program.joins:
            return PASS_ROWS
        joined = sum(one.joined_rows for one in (*self._relations, self._selects))
        return min(max(joined, JOIN_PASS_ROWS), PASS_ROWS)

    def step(self, arrived: Mapping[str, Arrived], until_ms: int) -> Emitted | None:
        """Evaluate the tuples of all inputs up to a watermark."""
        deltas: list[Delta | None] = []
        times_ms: list[IntArray] = []
        for plan, window in zip(self._program.windows, self._windows, strict=True):
            rows = arrived[plan.stream]
            delta = None
            if rows.rows.length or window.next_expiry_ms() <= until_ms:
                delta = window.step(rows, until_ms)
                evaluated_ms = window.evaluated_ms(rows, delta)
                if len(evaluated_ms):
                    times_ms.append(evaluated_ms)
            deltas.append(delta)
        shown_ms: IntArray | None = None
        if self._releases is not None:
            came_ms = rising(np.concatenate([one.timestamps for one in arrived.values()]))
            shown_ms = self._releases.due(came_ms, until_ms)
            if len(shown_ms):
                times_ms.append(shown_ms)
        if not times_ms:
            return None
        first_ms = min(int(times.min()) for times in times_ms)
        for relation in self._relations:
            deltas.append(relation.step(deltas, first_ms))
        change = self._selects.step(deltas, first_ms)
        if isinstance(self._to_stream, RelationToStream):
            if shown_ms is None:
                shown_ms = rising(np.concatenate(times_ms))
            return self._to_stream.emitted(change, shown_ms)
        return self._to_stream.step(change)

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        for index, window in enumerate(self._windows):
            yield f"window-{index}", window
        for index, relation in enumerate(self._relations):
            for name, operator in relation.stateful():
                yield f"relation-{index}-{name}", operator
        yield from self._selects.stateful()
        if isinstance(self._to_stream, RelationToStream):
            yield "to-stream", self._to_stream
        if self._releases is not None:
            yield "releases", self._releases


class _Input:
    """Reads the tuples of one input."""

    def __init__(self, program: Program, stream: str) -> None:
        kinds = program.read_kinds(stream)
        self._columns = list(zip(program.read_places(stream), kinds, strict=True))
        self._no_rows = empty_frame(kinds)

    def arrived(self, rows: pa.RecordBatch | None, first_id: int) -> Arrived:
        """The tuples of a record batch."""
        if rows is None:
            return Arrived(self._no_rows, _no_timestamps, first_id)
        columns = tuple(from_arrow(rows.column(place), kind) for place, kind in self._columns)
        timestamps = rows.column(0).to_numpy(zero_copy_only=False)
        return Arrived(Frame(columns, rows.num_rows), timestamps, first_id)


def _window(program: Program, plan: WindowPlan) -> WindowOperator:
    kinds = program.read_kinds(plan.stream)
    each_boundary = program.to_stream is ToStream.RSTREAM
    if ranks_panes(program):
        (select,) = program.selects
        assert select.top is not None
        condition = select.sources[0].condition
        return RankedWindow(
            plan, kinds, condition, select.top, select.outputs, each_boundary=each_boundary
        )
    if plan.session_ms is not None:
        return SessionWindow(plan.session_ms, plan.partition_by, kinds)
    if plan.rows is not None and plan.partition_by:
        return PartitionWindow(plan.rows, plan.range_ms, plan.partition_by, kinds)
    if plan.rows is not None and plan.slide_rows is not None:
        return HopWindow(plan.rows, plan.slide_rows, kinds)
    if plan.rows is not None:
        return RowsWindow(plan.rows, kinds)
    if plan.range_ms is not None and plan.slide_ms is not None:
        return SlideWindow(
            plan.range_ms, plan.slide_ms, plan.offset_ms, kinds, each_boundary=each_boundary
        )
    if plan.range_ms is not None:
        return RangeWindow(plan.range_ms, kinds)
    return UnboundedWindow()
