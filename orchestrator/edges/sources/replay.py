"""The source driver `replay`: a recording, played at a multiple of the speed it was made at.

The recording is cut into intervals. At the end of each interval its tuples enter together, with
one watermark at each of their timestamps and one at the end of the interval. The latter comes
whether or not the interval has tuples, so that a quiet site does not hold up a busy one. The
ingestion time of a tuple is when it was due, not when a busy machine emitted it: latencies include
the delay of a late replay.

Tuples are numbered by their place in the recording, and from round to round if it is repeated. So
any process can tell the number of a tuple, and read the recording again from any position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from orchestrator.documents.document import Field, Options, Section
from orchestrator.documents.units import timestamp_ms
from orchestrator.edges.drivers import DriverError, Unusable
from orchestrator.edges.events import SourceEmitted
from orchestrator.edges.sources.driver import OpenSource, RecordedSource, SourceContext
from orchestrator.edges.sources.formats.files import read_file
from orchestrator.edges.sources.formats.form_options import form_options, read_timestamp, row_form
from orchestrator.edges.sources.formats.row_form import (
    NULLS,
    FieldPath,
    RowForm,
    Unknown,
    Unreadable,
)
from orchestrator.records import Guarantee, SourceAssignment
from streams.vectors.chunk import Position

if TYPE_CHECKING:
    from orchestrator.edges.site_check import SiteCheck

RECORDED_TIMESTAMP = "timestamp"
"""Column of the recording that holds the tuples' timestamps, unless a manifest names another."""


MOST_INTERVALS = 1_000_000
"""Of a round: eleven days of seconds. A site makes a list of them when it opens the recording."""

SPEEDS = 1e-6, 1e9
"""Least and greatest speed."""

PIECE_BYTES = 4 * 1024 * 1024
"""Greatest size of the rows that are emitted or read at once, unless one timestamp has more."""

PIECE_WATERMARKS = 4096
"""Greatest number of watermarks that are emitted or read at once."""


def _speed(field: Field) -> float:
    least, most = SPEEDS
    if not least <= (speed := field.number()) <= most:
        remedy = "Write 1 for the speed it was recorded at."
        field.refuse(f"is not from {least:g} to {most:g}", remedy)
    return speed


def _interval_ms(field: Field) -> int:
    interval_ms = field.interval_ms()
    if interval_ms != int(interval_ms):
        field.refuse("is no whole number of milliseconds", "Write 1 ms or more.")
    return int(interval_ms)


def _timestamp(field: Field) -> dict[str, str]:
    if not (given := read_timestamp(field)):
        field.refuse("is when tuples arrive", "Name the recording's column: {column: …}.")
    return given


_options: Options = {
    "speed": ("speed", _speed),
    "repeat": ("repeat", Field.boolean),
    "interval_ms": ("interval", _interval_ms),
    "delay_ms": ("delay", Field.duration_ms),
    "timestamp": ("timestamp", _timestamp),
    **form_options,
}


class Replay(RecordedSource, frozen=True, kw_only=True):
    """Tuples come from a file.

    Attributes
    ----------
    path
        Absolute path of a file with the stream's columns and the timestamp's, in its order; see
        `orchestrator.edges.sources.formats.files`.
    time_column, time_format
        Column with the timestamp, and how it is written.
    time_path, nulls, unknown
        As `orchestrator.edges.sources.formats.form_options` has them.
    interval_ms
        Length of recording that enters at once.
    delay_ms
        How much later than the end of its interval a tuple enters: what a sensor takes.
    """

    path: str
    interval_ms: int = 1000
    delay_ms: float = 0.0
    time_column: str = RECORDED_TIMESTAMP
    time_format: str = "ms"
    time_path: tuple[str, ...] = ()
    nulls: tuple[str, ...] = NULLS
    unknown: Unknown = Unknown.IGNORE

    @classmethod
    def read(cls, section: Section) -> Self:
        """The manifest's `from: {replay: …}`."""
        begin, end = section.need("begin"), section.need("end")
        begin_ms, end_ms = begin.quantity(timestamp_ms), end.quantity(timestamp_ms)
        if end_ms <= begin_ms:
            end.refuse("is not after the begin", "Write timestamps of the recording, in order.")
        given = section.given(_options)
        timestamp = given.pop("timestamp", {})
        made = cls(
            path=str(section.need("path").path()),
            begin_ms=begin_ms,
            end_ms=end_ms,
            **timestamp,
            **given,
        )
        if (intervals := (end_ms - begin_ms) / made.interval_ms) > MOST_INTERVALS:
            end.refuse(
                f"is {intervals:,.0f} intervals of {made.interval_ms} ms after the begin",
                f"Write the range of the recording, or a longer `interval`: there may be "
                f"{MOST_INTERVALS:,}.",
            )
        return made

    @property
    def guarantee(self) -> Guarantee:
        """Tuples are numbered by their place in the recording."""
        return Guarantee.REPLAYABLE

    @property
    def together_ms(self) -> float:
        """An interval, as fast as it is replayed."""
        return self.interval_ms / self.speed

    @property
    def recording(self) -> Path:
        """The file."""
        return Path(self.path)

    def _load(self, assignment: SourceAssignment) -> Recording:
        return Recording.load(self, assignment.columns, assignment.fields)

    def check(self, assignment: SourceAssignment, site: SiteCheck) -> None:
        """Read the file, of which something is to be played."""
        recording = self._load(assignment)
        if recording.rows.num_rows and not recording.tuples:
            raise _outside(self, recording.rows.column(0).to_numpy())

    def kept(
        self, assignment: SourceAssignment, folder: Path, site: str
    ) -> tuple[Position | None, Position | None, Path] | None:
        """The file is read, and has all of it."""
        self._load(assignment)
        return None

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenReplay:
        """Read the file."""
        return OpenReplay(assignment.stream, self, self._load(assignment))


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
    def load(
        source: Replay, columns: Mapping[str, str], fields: Mapping[str, FieldPath] | None = None
    ) -> Recording:
        """Read a file.

        Raises
        ------
        DriverError
            If it cannot be read, its columns are not the stream's, its timestamps fall, or all lie
            outside of what is to be played.
        """
        rows = _rows(source, row_form(source, columns, fields))
        interval_ends_ms = np.arange(
            source.begin_ms, source.end_ms, source.interval_ms, dtype=np.int64
        )
        # The last interval may be shorter.
        interval_ends_ms = np.append(interval_ends_ms, source.end_ms)
        timestamps: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        _check_times(source, timestamps)
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

    @property
    def tuples(self) -> int:
        """Tuples of a round."""
        return int(self.row_ends[-1] - self.row_ends[0])


def _rows(source: Replay, form: RowForm) -> pa.RecordBatch:
    try:
        return read_file(source.recording, form)
    except Unreadable as error:
        raise Unusable(
            "path", source.path, f"cannot be read: {error}", "Correct the path, or the file."
        ) from None


def _check_times(source: Replay, timestamps: IntArray) -> None:
    if not len(timestamps):
        return
    falls = np.flatnonzero(timestamps[1:] < timestamps[:-1])
    if len(falls):
        raise Unusable(
            "path",
            source.path,
            f"has timestamps that fall after row {int(falls[0]) + 1}",
            f"Sort the file by {source.time_column}.",
        )
    if timestamps[-1] < source.begin_ms or timestamps[0] > source.end_ms:
        raise _outside(source, timestamps)


def _outside(source: Replay, timestamps: IntArray) -> Unusable:
    begin, end = _time(source.begin_ms), _time(source.end_ms)
    first, last = _time(int(timestamps[0])), _time(int(timestamps[-1]))
    return Unusable(
        "path",
        source.path,
        f"has no tuple from {begin} to {end}: it goes from {first} to {last}",
        "Correct `begin` and `end`, or the path.",
    )


def _time(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


class OpenReplay(OpenSource):
    """Emits one stream's recording when its tuples are due, and reads it again on request."""

    resumes = True

    def __init__(self, stream: str, source: Replay, recording: Recording) -> None:
        self.stream = stream
        self._source = source
        self._recording = recording
        interval_us = source.interval_ms * 1000 / source.speed
        # When each watermark of a round is due, and, last, when the next round begins.
        intervals = np.append(self._recording.intervals, self._recording.count)
        self._due_us = np.ceil(intervals * interval_us).astype(np.int64)
        self._round_us = int(self._due_us[-1])
        self._round_ms = recording.count * source.interval_ms
        self._delay_us = round(source.delay_ms * 1000)
        row_bytes = recording.rows.nbytes / max(recording.rows.num_rows, 1)
        self._piece_tuples = max(int(PIECE_BYTES / max(row_bytes, 1)), 1)
        self._round = 0
        self._next = 0

    def next_due_us(self, start_at_us: int) -> int | None:
        """When the next watermark is due; None when the recording is over."""
        if self._next == len(self._recording.watermarks_ms):
            return None
        return self._round_start_us(start_at_us, self._round) + int(self._due_us[self._next])

    def emit(self, start_at_us: int, now_us: int) -> SourceEmitted | None:
        """A piece of what is due by now, or None."""
        due = self._due(now_us - self._round_start_us(start_at_us, self._round))
        if due <= self._next:
            return None
        emitted, self._next = self._piece(start_at_us, self._round, self._next, due)
        self._round, self._next = self._continued(self._round, self._next)
        return emitted

    def due_position(self, start_at_us: int, now_us: int) -> Position:
        """The cut after the last watermark that is due by now."""
        elapsed_us = now_us - self._round_start_us(start_at_us, 0)
        if elapsed_us < 0:
            return Position()
        number = elapsed_us // self._round_us if self._source.repeat else 0
        return self._position(number, self._due(elapsed_us - number * self._round_us))

    def position_at(self, watermark_ms: int) -> Position:
        """The cut after the last watermark up to this one."""
        return self._position(*self._place(watermark_ms))

    def seek(self, watermark_ms: int) -> None:
        """Have `emit` continue after this watermark."""
        self._round, self._next = self._place(watermark_ms)

    def read(self, start_at_us: int, after: Position, until: Position) -> SourceEmitted | None:
        """A piece of one round that follows `after` and ends at `until` or before."""
        number, first = self._place(after.watermark_ms)
        known = self._position(number, first)
        if known.next_seq != after.next_seq:
            raise DriverError(
                f"recording {self._source.path} has changed: it has {known.next_seq} tuples up to "
                f"the timestamp {after.watermark_ms}, and a reader has had {after.next_seq}"
            )
        last = self._index(number, until.watermark_ms)
        return self._piece(start_at_us, number, first, last)[0] if first < last else None

    def tuples_between(self, after_ms: int, until_ms: int) -> int:
        """Number of tuples with timestamps after `after_ms` up to `until_ms`."""
        ends = [self._position(*self._place(at_ms)).next_seq for at_ms in (after_ms, until_ms)]
        return ends[1] - ends[0]

    def _piece(
        self, start_at_us: int, number: int, first: int, last: int
    ) -> tuple[SourceEmitted, int]:
        """Watermarks of a round from `first` to `last`, or fewer, and where the piece ends."""
        row_ends = self._recording.row_ends
        most = int(row_ends[first]) + self._piece_tuples
        fitting = int(np.searchsorted(row_ends, most, side="right")) - 1
        last = min(last, max(fitting, first + 1), first + PIECE_WATERMARKS)
        begin, end = int(row_ends[first]), int(row_ends[last])
        shift_ms = number * self._round_ms
        emitted = SourceEmitted(
            stream=self.stream,
            rows=_shifted(self._recording.rows.slice(begin, end - begin), shift_ms),
            watermarks_ms=self._recording.watermarks_ms[first:last] + shift_ms,
            ingestion_times_us=self._round_start_us(start_at_us, number) + self._due_us[first:last],
        )
        return emitted, last

    def _place(self, watermark_ms: int) -> tuple[int, int]:
        """Round and index of the first watermark after this one."""
        begin_ms = int(self._recording.watermarks_ms[0])
        number = (watermark_ms - begin_ms) // self._round_ms if self._source.repeat else 0
        number = max(number, 0)
        return self._continued(number, self._index(number, watermark_ms))

    def _index(self, number: int, watermark_ms: int) -> int:
        """Number of watermarks of a round up to this one."""
        within_ms = watermark_ms - number * self._round_ms
        return int(np.searchsorted(self._recording.watermarks_ms, within_ms, side="right"))

    def _continued(self, number: int, index: int) -> tuple[int, int]:
        """The same place; the end of a round is the beginning of the next."""
        if index == len(self._recording.watermarks_ms) and self._source.repeat:
            return number + 1, 0
        return number, index

    def _position(self, number: int, index: int) -> Position:
        """The cut before a watermark of a round."""
        if not index:
            if not number:
                return Position()
            number, index = number - 1, len(self._recording.watermarks_ms)
        row_ends = self._recording.row_ends
        return Position(
            next_seq=number * self._recording.tuples + int(row_ends[index] - row_ends[0]),
            watermark_ms=int(self._recording.watermarks_ms[index - 1]) + number * self._round_ms,
        )

    def _due(self, elapsed_us: int) -> int:
        """Number of watermarks that are due so long after their round began."""
        return int(np.searchsorted(self._due_us[:-1], elapsed_us, side="right"))

    def _round_start_us(self, start_at_us: int, number: int) -> int:
        return start_at_us + self._delay_us + number * self._round_us


def _shifted(rows: pa.RecordBatch, shift_ms: int) -> pa.RecordBatch:
    if not shift_ms:
        return rows
    timestamps = pa.array(rows.column(0).to_numpy() + shift_ms)
    return pa.RecordBatch.from_arrays([timestamps, *rows.columns[1:]], schema=rows.schema)
