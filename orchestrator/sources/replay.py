"""A source that replays a recording at a multiple of the speed it was made at.

Time is cut into intervals of the recording; at the end of each, its tuples enter together with
marks that close it: one at each of their timestamps, and one at the end of the interval, whether
or not there are tuples, so that a quiet site does not hold up a busy one. A tuple's *origin* is
when it was due, not when a busy machine got round to it: latencies include the delay of a late
replay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from orchestrator.host.events import SourceEmitted
from orchestrator.records import ReplaySource, SourceAssignment
from streams.chunk import stream_schema
from topology.arrays import IntArray

RECORDED_TIMESTAMP = "timestamp"
"""Column of the recording that holds the tuples' timestamps, ms, never falling."""


@dataclass(slots=True)
class Recording:
    """A recording in memory.

    Attributes
    ----------
    rows
        As they will be sent.
    marks
        Timestamps of the rows and ends of the intervals, ms, rising, shape (m,).
    intervals
        By mark: which interval it belongs to, from 0, shape (m,).
    row_ends
        Rows of mark i are those from `row_ends[i]` to `row_ends[i + 1]`, shape (m + 1,).
    """

    rows: pa.RecordBatch
    watermarks_ms: IntArray
    intervals: IntArray
    row_ends: IntArray

    @staticmethod
    def load(source: ReplaySource, columns: dict[str, str]) -> Recording:
        """Read a Parquet file.

        Raises
        ------
        OSError, pyarrow.ArrowInvalid
            If it cannot be read, or its columns are not the stream's.
        """
        table = parquet.read_table(source.path, columns=[RECORDED_TIMESTAMP, *columns])
        schema = stream_schema(columns)
        named = table.rename_columns(schema.names).cast(schema).combine_chunks()
        batches = named.to_batches()
        rows = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)
        closed = np.arange(source.begin_ms, source.end_ms + 1, source.interval_ms, dtype=np.int64)
        timestamps: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        begin = int(np.searchsorted(timestamps, source.begin_ms, side="left"))
        end = int(np.searchsorted(timestamps, int(closed[-1]), side="right"))
        watermarks_ms = np.union1d(closed, timestamps[begin:end])
        ends = np.searchsorted(timestamps, watermarks_ms, side="right")
        row_ends = np.concatenate([[begin], ends]).astype(np.int64)
        intervals = np.searchsorted(closed, watermarks_ms).astype(np.int64)
        return Recording(
            rows=rows, watermarks_ms=watermarks_ms, intervals=intervals, row_ends=row_ends
        )

    @property
    def count(self) -> int:
        """Intervals of a round."""
        return int(self.intervals[-1]) + 1


class Replay:
    """Emits one stream's recording when its tuples are due."""

    def __init__(self, assignment: SourceAssignment, source: ReplaySource) -> None:
        self.stream = assignment.stream
        self._source = source
        self._recording = Recording.load(source, assignment.columns)
        self._schema = stream_schema(assignment.columns)
        interval_us = source.interval_ms * 1000 / source.speed
        # When each mark of a round is due, and, last, when the next round begins.
        intervals = np.append(self._recording.intervals, self._recording.count)
        self._due_us = np.ceil(intervals * interval_us).astype(np.int64)
        self._delay_us = round(source.delay_ms * 1000)
        self._round = 0
        self._next = 0

    def next_due_us(self, start_at_us: int) -> int | None:
        """When the next mark is due; None when the recording is over."""
        if self._next == len(self._recording.watermarks_ms):
            return None
        return start_at_us + self._delay_us + self._round_began_us + int(self._due_us[self._next])

    def emit(self, start_at_us: int, now_us: int) -> SourceEmitted | None:
        """All that is due by now and belongs to one round, or None."""
        round_start_us = start_at_us + self._delay_us + self._round_began_us
        watermarks_ms, row_ends = self._recording.watermarks_ms, self._recording.row_ends
        due = int(np.searchsorted(self._due_us[:-1], now_us - round_start_us, side="right"))
        first, last = self._next, due
        if last <= first:
            return None
        rows = self._recording.rows.slice(
            int(row_ends[first]), int(row_ends[last] - row_ends[first])
        )
        shift_ms = self._round * self._recording.count * self._source.interval_ms
        self._next = last
        if last == len(watermarks_ms) and self._source.repeat:
            self._round, self._next = self._round + 1, 0
        return SourceEmitted(
            stream=self.stream,
            rows=self._shifted(rows, shift_ms),
            watermarks_ms=watermarks_ms[first:last] + shift_ms,
            ingestion_times_us=round_start_us + self._due_us[first:last],
        )

    @property
    def _round_began_us(self) -> int:
        return self._round * int(self._due_us[-1])

    def _shifted(self, rows: pa.RecordBatch, shift_ms: int) -> pa.RecordBatch:
        if not shift_ms:
            return rows
        timestamps = pa.array(rows.column(0).to_numpy() + shift_ms)
        return pa.RecordBatch.from_arrays([timestamps, *rows.columns[1:]], schema=self._schema)


class SourceDrivers:
    """All recordings that enter at one host.

    Parameters
    ----------
    batch_us
        Least time between two emissions of a stream; what comes due in between goes together.
    """

    def __init__(self, batch_us: int = 0) -> None:
        self._batch_us = batch_us
        self._replays: dict[str, Replay] = {}
        self._emitted_us: dict[str, int] = {}

    def feed(self, sources: Iterable[SourceAssignment], now_us: int) -> list[SourceEmitted]:
        """What has come due. A recording is read when its stream is first assigned."""
        assigned = {a.stream: a for a in sources}
        for stream in self._replays.keys() - assigned.keys():
            del self._replays[stream]
            self._emitted_us.pop(stream, None)
        emitted: list[SourceEmitted] = []
        for stream, a in assigned.items():
            if a.replay is not None and stream not in self._replays:
                self._replays[stream] = Replay(a, a.replay)
            if a.start_at_us is None or stream not in self._replays or self._rests(stream, now_us):
                continue
            due = self._replays[stream].emit(a.start_at_us, now_us)
            if due is not None:
                self._emitted_us[stream] = now_us
                emitted.append(due)
        return emitted

    def _rests(self, stream: str, now_us: int) -> bool:
        last_us = self._emitted_us.get(stream)
        return last_us is not None and now_us < last_us + self._batch_us

    def next_due_us(self, sources: Iterable[SourceAssignment]) -> int | None:
        """When `feed` will have something; None if nothing is in sight."""
        soonest: list[int] = []
        for a in sources:
            if a.start_at_us is not None and a.stream in self._replays:
                due_us = self._replays[a.stream].next_due_us(a.start_at_us)
                if due_us is not None:
                    last_us = self._emitted_us.get(a.stream, due_us - self._batch_us)
                    soonest.append(max(due_us, last_us + self._batch_us))
        return min(soonest, default=None)
