"""What `vivace try` reads: files and pipes as streams, few tuples of which are held at once.

Rows are read as a site reads them (`orchestrator.edges.sources.formats`), and wait for their turn
as at a live source (`orchestrator.edges.sources.live.waiting_tuples`): as long as a manifest allows
for disorder, or until all have come, to be sorted. An input that no manifest describes is described
by its first rows.

After its last tuple an input is complete: event time goes on with the others, and then so that all
windows end. A recording ends where its manifest says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from orchestrator.api.tried_files import AskedFile, FoundRows, found_rows
from orchestrator.edges.sources import restore
from orchestrator.edges.sources.formats.form_options import WithForm, row_form
from orchestrator.edges.sources.formats.inference import TimeColumn, Unclear
from orchestrator.edges.sources.formats.row_form import Unreadable
from orchestrator.edges.sources.live.live_source import LiveSource
from orchestrator.edges.sources.live.orderer import ANY_BYTES, EARLIEST_MS, LATEST_MS
from orchestrator.edges.sources.live.waiting_tuples import WaitingTuples
from orchestrator.edges.sources.replay import Replay
from orchestrator.errors import InvalidInput
from orchestrator.records import StreamRecord
from orchestrator.results.trying import TriedInput
from streams.vectors.chunk import NO_WATERMARK, Chunk

PIECE_BYTES = 8 * 2**20
"""Tuples that are evaluated at once, unless one timestamp has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """What becomes of tuples that are out of order, and where the stream begins and ends.

    Attributes
    ----------
    slack_ms
        By how much tuples may be out of order; None: as they like, all are sorted.
    begin_ms, end_ms
        Tuples before and after are left out.
    """

    slack_ms: int | None = 0
    begin_ms: int = EARLIEST_MS
    end_ms: int = LATEST_MS


class OpenInput:
    """A stream that is read from a file or a pipe.

    Attributes
    ----------
    told
        What it is, for people.
    schema
        Of its tuples.
    tuples
        How many have been read.
    watermark_ms, last_ms
        Up to where it has been handed out, and the newest timestamp that has been read.
    end_ms
        Where it ends.
    """

    def __init__(self, told: TriedInput, found: FoundRows, order: Ordering) -> None:
        self.told, self.schema, self.so_far = told, found.form.schema, found.so_far
        self.tuples = 0
        self.watermark_ms = self.last_ms = NO_WATERMARK
        self.end_ms = order.end_ms
        self._rows, self._order = found.rows, order
        self._sent = 0
        self._waiting = WaitingTuples(self.schema, most_bytes=ANY_BYTES)

    def chunks(self) -> Iterator[Chunk]:
        """The stream from its beginning to its last tuple.

        Raises
        ------
        InvalidInput
            Rows cannot be read, or are out of order.
        """
        waiting, order = self._waiting, self._order
        for rows, place in self._rows:
            self._check(rows, place)
            self.tuples += rows.num_rows
            waiting.add(self._within(rows))
            target_ms = self.last_ms - (order.slack_ms or 0) - 1
            if order.slack_ms is not None:
                yield from self.until(target_ms)
            waiting.settle()
        yield from self.until(self.last_ms)

    def until(self, target_ms: int) -> Iterator[Chunk]:
        """The stream up to a watermark, but not beyond its end."""
        while self.watermark_ms < min(target_ms, self.end_ms):
            rows, self.watermark_ms = self._waiting.take(min(target_ms, self.end_ms), PIECE_BYTES)
            chunk = Chunk(
                first_seq=self._sent,
                rows=rows,
                watermarks_ms=np.array([self.watermark_ms]),
                ingestion_times_us=np.zeros(1, dtype=np.int64),
            )
            self._sent = chunk.next_seq
            yield chunk

    def _check(self, rows: pa.RecordBatch, place: Callable[[int], str]) -> None:
        """Refuse tuples that are out of order, or of no year."""
        times_ms: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        if not len(times_ms):
            return
        beyond = (times_ms < EARLIEST_MS) | (times_ms >= LATEST_MS)
        if beyond.any():
            raise self._refused(
                place(int(beyond.argmax())),
                "has a timestamp that lies before the year 1 or after 9999",
                "Say in which unit or format timestamps are written: --time-format.",
            )
        newest_ms = np.maximum.accumulate(np.append(self.last_ms, times_ms))
        slack_ms = self._order.slack_ms
        late = None if slack_ms is None else times_ms < newest_ms[:-1] - slack_ms
        if late is not None and late.any():
            allowed = f" by more than {slack_ms} ms" if slack_ms else ""
            raise self._refused(
                place(int(late.argmax())),
                f"has an earlier timestamp than a row before it{allowed}",
                "Have the rows sorted: --sort.",
            )
        self.last_ms = int(newest_ms[-1])

    def _within(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The tuples that belong to the stream."""
        order = self._order
        if order.begin_ms == EARLIEST_MS and order.end_ms == LATEST_MS:
            return rows
        times_ms: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        return rows.filter(pa.array((times_ms >= order.begin_ms) & (times_ms <= order.end_ms)))

    def _refused(self, place: str, problem: str, remedy: str) -> InvalidInput:
        return InvalidInput(f"{self.told.source}:{place}", self.told.stream, None, problem, remedy)


def open_input(
    stream: str,
    asked: AskedFile | None,
    record: StreamRecord | None,
    time: TimeColumn,
    files: ExitStack,
    stdin: BinaryIO,
    *,
    is_sorted: bool,
) -> OpenInput:
    """Open a stream's file or pipe.

    Parameters
    ----------
    asked
        None: the recording that its manifest names.
    record
        What a manifest says of the stream; None: nothing.
    time
        What somebody says of its timestamp.
    files
        Closes what is opened.
    is_sorted
        Whether its rows are to be sorted.

    Raises
    ------
    InvalidInput
        There is no such file, or nobody can tell what it holds.
    """
    driver = None if record is None or record.source is None else restore(record.source)
    order = Ordering(slack_ms=driver.slack_ms if isinstance(driver, LiveSource) else 0)
    if asked is None:
        if not isinstance(driver, Replay):
            raise InvalidInput(
                "command line", "--input", None, f"{stream} is read, and no input is named for it",
                f"Add --input {stream}=FILE, or -f with a manifest that replays it.",
            )  # fmt: skip
        asked = AskedFile(path=driver.path, suffix=driver.recording.suffix.lower())
        order = Ordering(begin_ms=driver.begin_ms, end_ms=driver.end_ms)
    form = None
    if record is not None and time.name is None and isinstance(driver, WithForm):
        described = row_form(driver, record.columns, record.fields)
        # Without a column for it, the timestamp is the arrival: a file has none.
        form = None if described.time_column is None else described
    try:
        found = found_rows(asked, form, record, time, files, stdin)
    except Unclear as error:
        raise InvalidInput(asked.path, stream, None, error.problem, error.remedy) from None
    except Unreadable as error:
        remedy = "Correct the file, or say how it is written: --input-format."
        raise InvalidInput(asked.path, stream, None, str(error).rstrip("."), remedy) from None
    except InvalidInput as error:
        raise replace(error, file=error.file or asked.path) from None
    assert found.form.time_column is not None
    told = TriedInput(
        stream=stream,
        source=asked.path,
        columns=dict(found.form.columns),
        timestamp=found.form.time_column,
        timestamp_format=found.form.time_format,
        inferred=record is None,
        left_out=dict(found.shown.left_out),
        doubtful=dict(found.shown.doubtful),
    )
    return OpenInput(told, found, replace(order, slack_ms=None) if is_sorted else order)


def stream_record(name: str, columns: Mapping[str, str]) -> StreamRecord:
    """A stream that no manifest describes."""
    return StreamRecord(name=name, site="", columns=dict(columns), rate_bytes_s=0.0)
