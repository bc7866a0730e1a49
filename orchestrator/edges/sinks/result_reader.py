"""One reader of results: a place, and the form in which results come.

A reader may be slow, or never read, and there may be many. So a reader holds nothing of the results
while a part of its response is being sent but that part, which is of bounded size. What it needs
next it looks up where all readers do: among the latest results, in memory, or in the archive.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import ipc

from orchestrator.edges.sinks.archive import ArchiveReader
from orchestrator.edges.sinks.delivered import GENERATION, SEQUENCE
from orchestrator.edges.sinks.selection import Place, ResultSelection

EVENT_BYTES, ARROW_BYTES = 2**15, 2**17
"""Results of one part of a response, of events and of Arrow, as they lie in memory. As events they
take several times as much."""


class SharedResults(Protocol):
    """The results of a stream, which all readers share."""

    closed: bool

    @property
    def completed_ms(self) -> int:
        """Up to where they are complete and archived."""
        ...

    def latest(self, at: Place, most_bytes: int) -> tuple[list[pa.RecordBatch], Place | None]:
        """Those in memory from a place on; or up to where they must be read from the archive."""
        ...

    def archive_from(self, at: Place, first_ms: int | None) -> ArchiveReader:
        """What reads the archive from a place on."""
        ...

    def wait_past(self, at: Place) -> bool:
        """Wait for results past a place, or the end; False if none came for a while."""
        ...


class Form(Protocol):
    """How results are written."""

    most_bytes: int
    begin: bytes

    def written(self, batches: Sequence[pa.RecordBatch]) -> bytes:
        """Results; none of them: a sign of life."""
        ...

    def end(self) -> bytes:
        """What follows the last ones."""
        ...


class EventForm:
    """Server-sent events."""

    most_bytes = EVENT_BYTES

    def __init__(self, stream: str, selection: ResultSelection, schema: pa.Schema) -> None:
        self.begin = b": results of " + stream.encode() + b"\n\n"
        self._shown = [name for name in selection.schema.names if name != GENERATION]
        self._whole = dataclasses.replace(selection, schema=schema)

    def written(self, batches: Sequence[pa.RecordBatch]) -> bytes:
        """An event a tuple; a comment, if the reader wants none."""
        events: list[bytes] = []
        for batch in batches:
            for row in self._whole.of(batch).to_pylist():
                identity = f"id: {row[GENERATION]}-{row[SEQUENCE]}\n".encode()
                data = msgspec.json.encode({name: row[name] for name in self._shown})
                events.append(identity + b"data: " + data + b"\n\n")
        return b"".join(events) or b": still here\n\n"

    def end(self) -> bytes:
        """Nothing says that there are no more."""
        return b""


class ArrowForm:
    """Arrow's IPC stream."""

    most_bytes = ARROW_BYTES
    begin = b""

    def __init__(self, selection: ResultSelection) -> None:
        self._selection = selection
        self._sink = io.BytesIO()
        self._writer = ipc.new_stream(self._sink, selection.schema)

    def written(self, batches: Sequence[pa.RecordBatch]) -> bytes:
        """A batch each; one without rows as the sign of life."""
        nothing = pa.RecordBatch.from_pylist([], schema=self._selection.schema)
        for batch in [self._selection.of(each) for each in batches] or [nothing]:
            self._writer.write_batch(batch)
        return self._taken()

    def end(self) -> bytes:
        """What tells the end."""
        self._writer.close()
        return self._taken()

    def _taken(self) -> bytes:
        taken = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPosition:
    """Where a client begins.

    Attributes
    ----------
    at
        What lies before is not sent.
    least_seq
        In the first generation that there is, tuples with lesser numbers are not sent.
    is_now
        Whether the client asked for what comes from now on.
    """

    at: Place = (0, 0)
    least_seq: int = 0
    is_now: bool = False


class ResultReader:
    """A reader of the results of a stream."""

    def __init__(
        self, results: SharedResults, begin: StartPosition, selection: ResultSelection, form: Form
    ) -> None:
        self._results = results
        self._selection = selection
        self._form = form
        self._at, self._least_seq = begin.at, begin.least_seq
        self._meant: int | None = None
        """The generation in whose numbers `least_seq` is meant: the first that there is."""
        self._archive: ArchiveReader | None = None
        self._archived_until: Place = (0, 0)
        self._ended = False

    def parts(self) -> Iterator[bytes]:
        """The response, up to the selection's end; a sign of life after a while without results.

        Raises
        ------
        ConnectionAbortedError
            The sink ends before; an end would tell the client that it has all.
        """
        yield self._form.begin
        while not self._results.closed and not self._is_at_end:
            # No name keeps it: the server alone holds it while it is being sent.
            yield self._next()
        if self._results.closed and self._selection.is_bounded and not self._is_at_end:
            raise ConnectionAbortedError("the sink ends")
        yield self._form.end()

    @property
    def _is_at_end(self) -> bool:
        until = self._selection.until
        return self._ended or (until is not None and self._at >= until)

    def _next(self) -> bytes:
        """The next part; nothing, if there is a reason to look again."""
        last_ms = self._selection.last_ms
        # What completes an end arrives before it, and may do so after a look.
        completed_ms = self._results.completed_ms
        found = self._found()
        if found:
            wanted = [piece for each in found if (piece := self._wanted(each)).num_rows]
            return self._form.written(wanted) if wanted else b""
        if last_ms is not None and completed_ms >= last_ms:
            self._ended = True
        elif not self._results.wait_past(self._at):
            return self._form.written(())
        return b""

    def _found(self) -> list[pa.RecordBatch]:
        """The results at the place, of bounded size; none if there are none yet."""
        while True:
            if self._archive is not None:
                if (batch := self._archive.read(self._form.most_bytes)) is not None:
                    return [batch]
                self._archive = None
                self._at = max(self._at, self._archived_until)
            found, archived_until = self._results.latest(self._at, self._form.most_bytes)
            if archived_until is None:
                return found
            self._archived_until = archived_until
            self._archive = self._results.archive_from(self._at, self._selection.first_ms)

    def _wanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The part of a batch that the reader wants by place; goes on behind it."""
        if self._is_at_end:
            return batch.slice(0, 0)
        self._at = end_of(batch)
        self._ended = self._selection.is_past(batch)
        if self._least_seq:
            self._meant = number(batch, 0) if self._meant is None else self._meant
            batch = from_place(batch, (self._meant, self._least_seq))
            if batch.num_rows:
                self._least_seq = 0
        until = self._selection.until
        return batch if until is None or self._at <= until else _split(batch, until)[0]


def begin_of(batch: pa.RecordBatch) -> Place:
    """The place just before a batch's first tuple."""
    return number(batch, 0), number(batch, 1)


def end_of(batch: pa.RecordBatch) -> Place:
    """The place just after a batch's last tuple."""
    last = batch.slice(batch.num_rows - 1)
    return number(last, 0), number(last, 1) + 1


def number(batch: pa.RecordBatch, column: int) -> int:
    """A whole number of the first row."""
    return int(batch.column(column)[0].as_py())


def from_place(batch: pa.RecordBatch, at: Place) -> pa.RecordBatch:
    """The rows of a batch from a place on."""
    return _split(batch, at)[1]


def _split(batch: pa.RecordBatch, at: Place) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows of a batch before a place, and the others; it may be of several generations."""
    generations, numbers = batch.column(0).to_numpy(), batch.column(1).to_numpy()
    begin, end = (np.searchsorted(generations, at[0], side) for side in ("left", "right"))
    count = int(begin + np.searchsorted(numbers[begin:end], at[1]))
    return batch.slice(0, count), batch.slice(count)
