"""Evaluation timestamp by timestamp, by the changes of relations.

A relation changes only at timestamps with input tuples and at *firing points*: the timestamps at
which a row leaves a window because of its age. Evaluating only these is exact. All other timestamps
are skipped, however many watermarks lie between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from streams.chunk import FOREVER_MS
from streams.language.ast import ToStream
from streams.operators.changes_to_stream import ChangesToStream
from streams.operators.partition_window import PartitionWindow
from streams.operators.relation_to_stream import RelationToStream
from streams.operators.union import union
from streams.operators.window import RangeWindow, RowsWindow, UnboundedWindow, Window
from streams.program import Program, WindowPlan
from streams.select_pipeline import SelectPipeline
from streams.state import Stateful
from streams.vector import Delta, Frame, concat_frames, empty_frame, from_arrow, to_arrow
from topology.arrays import IntArray


class _Arrivals:
    """The tuples of one input that are evaluated in one pass, cut into timestamp groups."""

    def __init__(
        self, program: Program, stream: str, rows: pa.RecordBatch | None, first_id: int
    ) -> None:
        kinds = program.read_kinds(stream)
        self._no_rows = empty_frame(kinds)
        self._first_id = first_id
        self.timestamps: IntArray = np.empty(0, dtype=np.int64)
        self._rows = self._no_rows
        if rows is not None:
            self.timestamps = rows.column(0).to_numpy(zero_copy_only=False)
            columns = tuple(
                from_arrow(rows.column(name), kind)
                for name, kind in zip(program.reads[stream], kinds, strict=True)
            )
            self._rows = Frame(columns, rows.num_rows)
        self._start = 0

    def at(self, timestamp_ms: int) -> tuple[Frame, int]:
        """The tuples of a timestamp, and the identity of the first of them.

        Timestamps must be asked for in order.
        """
        start = self._start
        timestamps = self.timestamps
        if start == len(timestamps) or timestamps[start] != timestamp_ms:
            return self._no_rows, self._first_id + start
        self._start = int(np.searchsorted(timestamps, timestamp_ms, side="right"))
        return self._rows.slice(start, self._start), self._first_id + start


class Stepwise:
    """Runs a program of any shape."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        self._program = program
        self._schema = schema
        self._kinds = tuple(program.columns.values())
        self._no_rows = pa.RecordBatch.from_pylist([], schema=schema)
        self._windows = [_window(plan, program.read_kinds(plan.stream)) for plan in program.windows]
        self._selects = [SelectPipeline(program, plan) for plan in program.selects]
        self._to_stream: ChangesToStream | RelationToStream
        if program.to_stream is ToStream.RSTREAM:
            self._to_stream = RelationToStream(self._kinds)
        else:
            inserted = program.to_stream is ToStream.ISTREAM
            self._to_stream = ChangesToStream(inserted=inserted)

    def run(
        self,
        taken: Mapping[str, pa.RecordBatch | None],
        first_ids: Mapping[str, int],
        until_ms: int,
    ) -> pa.RecordBatch:
        """Evaluate all tuples up to a watermark.

        Parameters
        ----------
        taken
            Input → the tuples since the last pass; None for none.
        first_ids
            Input → the identity of the first of them.
        until_ms
            The watermark: all inputs are complete up to it.
        """
        if until_ms < self._next_expiry_ms() and all(rows is None for rows in taken.values()):
            return self._no_rows
        arrivals = {
            stream: _Arrivals(self._program, stream, rows, first_ids[stream])
            for stream, rows in taken.items()
        }
        emitted: list[Frame] = []
        emitted_at_ms: list[int] = []
        for timestamp_ms in self._timestamps_to_evaluate(arrivals, until_ms):
            rows = self._step(timestamp_ms, arrivals)
            if rows is not None:
                emitted.append(rows)
                emitted_at_ms.append(timestamp_ms)
        if not emitted:
            return self._no_rows
        lengths = [rows.length for rows in emitted]
        timestamps = pa.array(np.repeat(emitted_at_ms, lengths), pa.int64())
        outputs = zip(concat_frames(emitted).columns, self._kinds, strict=True)
        columns = [to_arrow(column, kind) for column, kind in outputs]
        return pa.RecordBatch.from_arrays([timestamps, *columns], schema=self._schema)

    def _timestamps_to_evaluate(
        self, arrivals: Mapping[str, _Arrivals], until_ms: int
    ) -> Iterator[int]:
        """Timestamps with tuples and firing points, in order.

        A firing point depends on earlier evaluations, so each is computed when its turn comes.
        """
        timestamps = np.concatenate([one.timestamps for one in arrivals.values()])
        with_tuples: list[int] = [*np.unique(timestamps).tolist(), FOREVER_MS]
        following = 0
        while True:
            timestamp_ms = min(with_tuples[following], self._next_expiry_ms())
            if timestamp_ms > until_ms:
                return
            if timestamp_ms == with_tuples[following]:
                following += 1
            yield timestamp_ms

    def _next_expiry_ms(self) -> int:
        """The next firing point, if no tuple arrives before it."""
        return min(window.next_expiry_ms() for window in self._windows)

    def _step(self, timestamp_ms: int, arrivals: Mapping[str, _Arrivals]) -> Frame | None:
        arrived = {stream: one.at(timestamp_ms) for stream, one in arrivals.items()}
        deltas: list[Delta] = []
        for plan, window in zip(self._program.windows, self._windows, strict=True):
            rows, first_id = arrived[plan.stream]
            deltas.append(window.step(timestamp_ms, rows, first_id))
        changes = [change for select in self._selects for change in select.step(deltas)]
        return self._to_stream.step(union(changes))

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        for index, window in enumerate(self._windows):
            yield f"window-{index}", window
        for index, select in enumerate(self._selects):
            for name, operator in select.stateful():
                yield f"select-{index}-{name}", operator
        if isinstance(self._to_stream, RelationToStream):
            yield "to-stream", self._to_stream


def _window(plan: WindowPlan, kinds: tuple[str, ...]) -> Window:
    if plan.rows is not None and plan.partition_by:
        return PartitionWindow(plan.rows, plan.range_ms, plan.partition_by, kinds)
    if plan.rows is not None:
        return RowsWindow(plan.rows, kinds)
    if plan.range_ms is not None:
        return RangeWindow(plan.range_ms, kinds)
    return UnboundedWindow()
