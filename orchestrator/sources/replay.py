"""The source driver `replay`: a recording, played at a multiple of the speed it was made at.

The recording is cut into intervals. At the end of each interval its tuples enter together, with
one watermark at each of their timestamps and one at the end of the interval. The latter comes
whether or not the interval has tuples, so that a quiet site does not hold up a busy one. The
ingestion time of a tuple is when it was due, not when a busy machine emitted it: latencies include
the delay of a late replay.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from orchestrator.drivers import DriverError
from orchestrator.host.events import SourceEmitted
from orchestrator.manifest.document import Field, Options, Section
from orchestrator.manifest.units import duration_ms, timestamp_ms
from orchestrator.records import SourceAssignment
from orchestrator.sources.driver import RecordedSource
from streams.chunk import stream_schema
from topology.arrays import IntArray

RECORDED_TIMESTAMP = "timestamp"
"""Column of the recording that holds the tuples' timestamps, ms, never falling."""


def _speed(field: Field) -> float:
    if not (speed := field.number()):
        field.refuse("is not above 0", "Write 1 for the speed it was recorded at.")
    return speed


_options: Options = {
    "speed": ("speed", _speed),
    "repeat": ("repeat", Field.boolean),
    "interval_ms": ("interval", lambda field: int(field.quantity(duration_ms, positive=True))),
    "delay_ms": ("delay", lambda field: field.quantity(duration_ms)),
}


class Replay(RecordedSource, frozen=True, kw_only=True):
    """Tuples come from a Parquet file.

    Attributes
    ----------
    path
        Absolute path of a file with the stream's columns and `timestamp`, in its order.
    interval_ms
        Length of recording that enters at once.
    delay_ms
        How much later than the end of its interval a tuple enters: what a sensor takes.
    """

    path: str
    interval_ms: int = 1000
    delay_ms: float = 0.0

    @classmethod
    def read(cls, section: Section) -> Self:
        """The manifest's `from: {replay: …}`."""
        begin, end = section.need("begin"), section.need("end")
        begin_ms, end_ms = begin.quantity(timestamp_ms), end.quantity(timestamp_ms)
        if end_ms <= begin_ms:
            end.refuse("is not after the begin", "Write timestamps of the recording, in order.")
        return cls(
            path=str(section.need("path").path()),
            begin_ms=begin_ms,
            end_ms=end_ms,
            **section.given(_options),
        )

    @property
    def together_ms(self) -> float:
        """An interval, as fast as it is replayed."""
        return self.interval_ms / self.speed

    @property
    def recording(self) -> Path:
        """The file."""
        return Path(self.path)

    def open(self, assignment: SourceAssignment) -> OpenReplay:
        """Read the file."""
        return OpenReplay(assignment.stream, self, Recording.load(self, assignment.columns))


@dataclass(slots=True)
class Recording:
    """A recording in memory.

    Attributes
    ----------
    rows
        In the order and with the schema in which they are sent.
    watermarks_ms
        Timestamps of the rows and ends of the intervals, rising, shape (m,).
    intervals
        The interval that each watermark belongs to, counted from 0, shape (m,).
    row_ends
        Watermark i completes the rows from `row_ends[i]` to `row_ends[i + 1]`, shape (m + 1,).
    """

    rows: pa.RecordBatch
    watermarks_ms: IntArray
    intervals: IntArray
    row_ends: IntArray

    @staticmethod
    def load(source: Replay, columns: dict[str, str]) -> Recording:
        """Read a Parquet file.

        Raises
        ------
        DriverError
            If it cannot be read, or its columns are not the stream's.
        """
        schema = stream_schema(columns)
        rows = _rows(source.path, [RECORDED_TIMESTAMP, *columns], schema)
        interval_ends_ms = np.arange(
            source.begin_ms, source.end_ms + 1, source.interval_ms, dtype=np.int64
        )
        timestamps: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        begin = int(np.searchsorted(timestamps, source.begin_ms, side="left"))
        end = int(np.searchsorted(timestamps, int(interval_ends_ms[-1]), side="right"))
        watermarks_ms = np.union1d(interval_ends_ms, timestamps[begin:end])
        ends = np.searchsorted(timestamps, watermarks_ms, side="right")
        row_ends = np.concatenate([[begin], ends]).astype(np.int64)
        intervals = np.searchsorted(interval_ends_ms, watermarks_ms).astype(np.int64)
        return Recording(
            rows=rows, watermarks_ms=watermarks_ms, intervals=intervals, row_ends=row_ends
        )

    @property
    def count(self) -> int:
        """Intervals of a round."""
        return int(self.intervals[-1]) + 1


def _rows(path: str, columns: list[str], schema: pa.Schema) -> pa.RecordBatch:
    """Some columns of a Parquet file under a stream's names and types."""
    try:
        found = parquet.ParquetFile(path).schema_arrow
        if missing := [name for name in columns if name not in found.names]:
            raise DriverError(
                f"recording {path} has no column {', '.join(missing)}; "
                f"it has {', '.join(found.names)}"
            )
        table = parquet.read_table(path, columns=columns).rename_columns(schema.names)
        batches = table.cast(schema).combine_chunks().to_batches()
    except (OSError, pa.ArrowException) as error:
        raise DriverError(f"recording {path} cannot be read: {error}") from None
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)


class OpenReplay:
    """Emits one stream's recording when its tuples are due."""

    def __init__(self, stream: str, source: Replay, recording: Recording) -> None:
        self.stream = stream
        self._source = source
        self._recording = recording
        interval_us = source.interval_ms * 1000 / source.speed
        # When each watermark of a round is due, and, last, when the next round begins.
        intervals = np.append(self._recording.intervals, self._recording.count)
        self._due_us = np.ceil(intervals * interval_us).astype(np.int64)
        self._delay_us = round(source.delay_ms * 1000)
        self._round = 0
        self._next = 0

    def next_due_us(self, start_at_us: int) -> int | None:
        """When the next watermark is due; None when the recording is over."""
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
            rows=_shifted(rows, shift_ms),
            watermarks_ms=watermarks_ms[first:last] + shift_ms,
            ingestion_times_us=round_start_us + self._due_us[first:last],
        )

    @property
    def _round_began_us(self) -> int:
        return self._round * int(self._due_us[-1])


def _shifted(rows: pa.RecordBatch, shift_ms: int) -> pa.RecordBatch:
    if not shift_ms:
        return rows
    timestamps = pa.array(rows.column(0).to_numpy() + shift_ms)
    return pa.RecordBatch.from_arrays([timestamps, *rows.columns[1:]], schema=rows.schema)
