"""The sink driver `archive`: files of every tuple and every completed timestamp, at the site.

A stream has two series of Arrow IPC stream files: `<stream>.rows.<n>.arrows` (the tuples with their
sequence numbers) and `<stream>.completed.<n>.arrows` (the completed timestamps; see
`orchestrator.edges.sinks.delivered`). Files can be read while they grow. A site that starts again
begins the next file of each series.

A flush writes the tuples first and their completed timestamps last. The latter commit it: tuples
after the last completed timestamp of a file were written by a site that was killed in between, and
are no part of the output. The next file has them again. So the archive continues after its last
completed timestamp. The disk has both (fsync) before the archive calls them durable, so the loss of
the machine loses nothing that was acknowledged.

A site that was stopped, and replaced meanwhile, may go on for a moment and still write to its own
files. The output is what each file has up to where the next one begins. Nothing else makes a file
begin before the last completed timestamp of the one before it. So `read_back` tells which tuples it
has left out because a later file has their timestamps again, and measurements count them as
repeated.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from foundation.arrays import IntArray
from orchestrator.edges.events import Deliver, Durable
from orchestrator.edges.open_folders import check_open
from orchestrator.edges.sinks.delivered import (
    GENERATION,
    SEQUENCE,
    Delivered,
    completed_schema,
    completed_timestamps,
    numbered,
)
from orchestrator.edges.sinks.driver import SinkDriver
from orchestrator.folders import path_part, sync
from orchestrator.records import SinkAssignment
from streams.vectors.chunk import NO_WATERMARK, TIMESTAMP, Position

if TYPE_CHECKING:
    from orchestrator.documents.document import Section

MESSAGE_BYTES = 2**18
"""Of tuples in one message of a file, about. Readers read a message at a time."""

ROWS = "rows"
COMPLETED = "completed"

LATE = "late"

LIFE = b"vivace.life"
"""Metadata of the files' schemas: the query that they belong to, among all of its name."""


class Archive(SinkDriver, frozen=True, kw_only=True):
    """Files in the site's folder."""

    @classmethod
    def read(cls, section: Section) -> Self:
        """It has no options."""
        return cls()

    def open(self, assignment: SinkAssignment, folder: Path) -> OpenArchive:
        """Continue the stream in the next files."""
        return OpenArchive(assignment, folder)

    def kept(self, assignment: SinkAssignment, folder: Path) -> Durable | None:
        """The last completed timestamp."""
        found: Durable | None = None
        for part in _committed(folder, assignment.stream):
            found = part.durable if part.life == assignment.life else None
        return found

    def read_back(self, stream: str, folder: Path) -> Delivered:
        """Both series of the newest query of that name, as far as they are committed."""
        parts = list(_committed(folder, stream))
        if not parts:
            raise FileNotFoundError(f"{folder} holds no {stream}.{COMPLETED}")
        whole = [part for part in parts if part.life == parts[-1].life]
        kept = {part.number: part for part in _continued(whole)}
        rows: list[pa.Table] = []
        superseded_ms: list[IntArray] = []
        later_ms: list[IntArray] = []
        for part in reversed(whole):
            table = _read(_file(folder, stream, ROWS, part.number))
            if table is None:
                continue
            until_ms = kept[part.number].last_ms if part.number in kept else NO_WATERMARK
            rows.append(_until(table, until_ms))
            timestamps = np.asarray(_until(table, part.last_ms)[TIMESTAMP], dtype=np.int64)
            if until_ms < part.last_ms and later_ms:
                left_out_ms = timestamps[timestamps > until_ms]
                again = np.isin(left_out_ms, np.concatenate(later_ms))
                superseded_ms.append(left_out_ms[again])
            later_ms.append(timestamps)
        return Delivered(
            pa.concat_tables([part.completed for part in kept.values()]),
            pa.concat_tables(rows[::-1]),
            np.concatenate([np.empty(0, dtype=np.int64), *superseded_ms[::-1]]),
        )


def ends(folder: Path, assignment: SinkAssignment) -> dict[int, int]:
    """Generation → the number after the last committed tuple of it."""
    found: dict[int, int] = {}
    for part in _committed(folder, assignment.stream):
        if part.life == assignment.life:
            generations = part.completed["generation"].to_numpy()
            for generation in np.unique(generations).tolist():
                last = part.completed["next_seq"].to_numpy()[generations == generation].max()
                found[generation] = max(found.get(generation, 0), int(last))
    return found


_read_pool = pa.system_memory_pool()
"""For readers, each of which has a thread: Arrow's own pool keeps megabytes for any thread that has
read something."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file with tuples, and up to where they are committed and no later file has them again."""

    path: Path
    end: tuple[int, int]
    until_ms: int


class ArchiveReader:
    """Reads committed tuples from a place on, piece by piece, up to what was committed by now.

    Between two pieces it holds a place in a file, and nothing of the file's content: there may be
    many readers, and some of them slow.

    Parameters
    ----------
    files
        Those with the tuples, in their order.
    begin
        Generation and sequence number.
    """

    def __init__(self, files: Iterable[ArchivedFile], begin: tuple[int, int]) -> None:
        self._at = begin
        self._files = deque(files)
        self._schema: pa.Schema | None = None
        self._offset = 0

    def read(self, most_bytes: int) -> pa.RecordBatch | None:
        """The next tuples, at least one, with the columns of `numbered_schema`; None at the end."""
        while self._files:
            file = self._files[0]
            try:
                with pa.OSFile(str(file.path), memory_pool=_read_pool) as raw:
                    if (found := self._read(raw, file.until_ms, most_bytes)) is not None:
                        return found
            except FileNotFoundError:
                pass
            self._files.popleft()
            self._schema, self._offset = None, 0
        return None

    def _read(self, raw: pa.OSFile, until_ms: int, most_bytes: int) -> pa.RecordBatch | None:
        """The next tuples of a file; None if it has no more."""
        raw.seek(self._offset)
        while True:
            try:
                message = ipc.read_message(raw)
                if self._schema is None:
                    self._schema = ipc.read_schema(message)
                    self._offset = raw.tell()
                    continue
                batch = ipc.read_record_batch(message, self._schema)
            except (EOFError, pa.ArrowInvalid, OSError):
                # What follows has not been written whole.
                return None
            wanted = self._wanted(batch, until_ms)
            piece = head(wanted, most_bytes)
            if piece.num_rows == wanted.num_rows:
                self._offset = raw.tell()
            if piece.num_rows:
                last = piece.slice(piece.num_rows - 1)
                generation, seq = (int(last.column(c)[0].as_py()) for c in (GENERATION, SEQUENCE))
                self._at = generation, seq + 1
                schema = pa.schema(list(piece.schema))
                return pa.RecordBatch.from_arrays(piece.columns, schema=schema)

    def _wanted(self, batch: pa.RecordBatch, until_ms: int) -> pa.RecordBatch:
        """The rows of a batch that are committed, from the place on."""
        generation, seq = self._at
        generations = batch.column(GENERATION).to_numpy()
        numbers = batch.column(SEQUENCE).to_numpy()
        wanted = (generations > generation) | ((generations == generation) & (numbers >= seq))
        wanted &= batch.column(TIMESTAMP).to_numpy() <= until_ms
        places = np.flatnonzero(wanted)
        if not len(places):
            return batch.slice(0, 0)
        # Numbers and timestamps rise. If they ever should not, what lies between is not wanted.
        between = batch.slice(places[0], places[-1] + 1 - places[0])
        if between.num_rows == len(places):
            return between
        return batch.filter(pa.array(wanted))


def head(batch: pa.RecordBatch, most_bytes: int) -> pa.RecordBatch:
    """The first rows of a batch that take so much about, at least one if there is one."""
    if batch.nbytes <= most_bytes or batch.num_rows <= 1:
        return batch
    return batch.slice(0, max(most_bytes * batch.num_rows // batch.nbytes, 1))


class OpenArchive:
    """The growing files of one stream, and those of former processes.

    Attributes
    ----------
    durable
        The last completed timestamp that was written.
    """

    def __init__(self, assignment: SinkAssignment, folder: Path) -> None:
        self._stream, self._folder = assignment.stream, folder
        self._raw: dict[str, BinaryIO] = {}
        self._writers: dict[str, ipc.RecordBatchStreamWriter] = {}
        self._kept: list[Deliver] = []
        self._metadata = {LIFE: str(assignment.life).encode()}
        self.durable: Durable | None = None
        number = 0
        parts: list[_Part] = []
        for part in _committed(folder, self._stream):
            number = part.number + 1
            self.durable = part.durable if part.life == assignment.life else None
            if part.life == assignment.life:
                parts.append(part)
        self._former = [self._archived(part.number, part.durable) for part in _continued(parts)]
        if number:
            # The process that wrote it may have ended before the disk had it.
            for series in (ROWS, COMPLETED):
                sync(_file(folder, self._stream, series, number - 1))
        for series in (ROWS, COMPLETED):
            file = _file(folder, self._stream, series, number)
            # Nothing was committed to it. A process that still has it open keeps it to itself.
            file.unlink(missing_ok=True)
            self._raw[series] = file.open("xb")
        self._number = number
        sync(folder)

    def reader(self, begin: tuple[int, int], first_ms: int | None = None) -> ArchiveReader:
        """What reads the tuples from a place on; for any thread.

        Parameters
        ----------
        begin
            Generation and sequence number.
        first_ms
            Files that end before this timestamp are left out.
        """
        files = list(self._former)
        if (durable := self.durable) is not None:
            files.append(self._archived(self._number, durable))
        wanted = (f for f in files if first_ms is None or f.until_ms >= first_ms)
        return ArchiveReader((file for file in wanted if file.end > begin), begin)

    def _archived(self, number: int, durable: Durable) -> ArchivedFile:
        position = durable.position
        end = durable.generation, position.next_seq
        path = _file(self._folder, self._stream, ROWS, number)
        return ArchivedFile(path, end, position.watermark_ms)

    def keep(self, delivery: Deliver) -> None:
        """Take a delivery in."""
        self._kept.append(delivery)

    def flush(self) -> None:
        """Write all deliveries: the tuples, then the completed timestamps, which commit them.

        Raises
        ------
        FilesGone
            They were written to files that nobody can find any more.
        """
        if not self._kept:
            return
        self._check()
        rows = numbered(self._kept)
        if rows.num_rows or ROWS not in self._writers:
            self._write(ROWS, rows)
        self._write(COMPLETED, completed_timestamps(self._kept))
        self._check()
        self.durable = self._kept[-1].end
        self._kept.clear()

    def close(self) -> None:
        """Finish the files."""
        self._kept.clear()
        writers, self._writers = self._writers, {}
        with ExitStack() as files:
            for raw in self._raw.values():
                files.callback(raw.close)
            for writer in writers.values():
                writer.close()

    def _check(self) -> None:
        for series, raw in self._raw.items():
            file = _file(self._folder, self._stream, series, self._number)
            check_open(file, raw.fileno(), raw.tell())

    def _write(self, series: str, batch: pa.RecordBatch) -> None:
        raw = self._raw[series]
        if series not in self._writers:
            schema = batch.schema.with_metadata(self._metadata)
            self._writers[series] = ipc.new_stream(raw, schema)
        most_rows = max(MESSAGE_BYTES * batch.num_rows // max(batch.nbytes, 1), 1)
        for first in range(0, max(batch.num_rows, 1), most_rows):
            self._writers[series].write_batch(batch.slice(first, most_rows))
        raw.flush()
        os.fsync(raw.fileno())


@dataclass(frozen=True, slots=True)
class _Part:
    """The completed timestamps of one file; there is at least one."""

    number: int
    life: int
    completed: pa.Table

    @property
    def watermark_ms(self) -> int:
        """The last one."""
        return self._last("watermark_ms")

    @property
    def last_ms(self) -> int:
        """The greatest one: the same, unless one of them came again."""
        return int(self.completed["watermark_ms"].to_numpy().max())

    @property
    def durable(self) -> Durable:
        """What is kept up to and including this part."""
        position = Position(next_seq=self._last("next_seq"), watermark_ms=self.watermark_ms)
        return Durable(generation=self._last("generation"), position=position)

    def _last(self, column: str) -> int:
        return int(self.completed[column][-1].as_py())


def _continued(parts: list[_Part]) -> list[_Part]:
    """The parts, each up to where the next one begins; none if it begins there too."""
    kept: list[_Part] = []
    begins_ms: int | None = None
    for part in reversed(parts):
        watermarks_ms = part.completed["watermark_ms"].to_numpy()
        end = len(watermarks_ms)
        if begins_ms is not None:
            end = int(np.searchsorted(watermarks_ms, begins_ms))
        if end:
            kept.append(replace(part, completed=part.completed.slice(0, end)))
            begins_ms = int(watermarks_ms[0])
    return kept[::-1]


def _committed(folder: Path, stream: str) -> Iterator[_Part]:
    """Files with completed timestamps, in the order in which they were begun."""
    name = f"{path_part(stream)}.{COMPLETED}"
    for number in sorted(int(p.name.split(".")[-2]) for p in folder.glob(f"{name}.*.arrows")):
        table = _read(_file(folder, stream, COMPLETED, number))
        if table is not None and table.num_rows:
            life = int((table.schema.metadata or {}).get(LIFE, b"0"))
            yield _Part(number, life, _whole_rows(table.replace_schema_metadata()))


def _whole_rows(completed: pa.Table) -> pa.Table:
    """Completed timestamps with all columns: files of the first versions have no late tuples."""
    if LATE in completed.column_names:
        return completed
    none = pa.array(np.zeros(completed.num_rows, dtype=np.int64))
    return completed.append_column(completed_schema.field(LATE), none)


def _file(folder: Path, stream: str, series: str, number: int) -> Path:
    return folder / f"{path_part(stream)}.{series}.{number}.arrows"


def _read(file: Path) -> pa.Table | None:
    """All whole batches of a file; None if there is not even a schema.

    A file of hours has tens of thousands of them. Read at once, and not through a file object of
    Python's, they leave the interpreter to the host's loop.
    """
    try:
        with pa.OSFile(str(file)) as raw:
            reader = ipc.open_stream(raw)
            try:
                return reader.read_all()
            except (pa.ArrowInvalid, OSError):
                # The last one is being written, or its writer was killed.
                raw.seek(0)
                reader = ipc.open_stream(raw)
                return pa.Table.from_batches(list(_whole(reader)), schema=reader.schema)
    except (FileNotFoundError, pa.ArrowInvalid):
        # The schema has not been flushed yet; if the site was killed, it never will be.
        return None


def _until(rows: pa.Table, watermark_ms: int) -> pa.Table:
    """The rows up to a completed timestamp, whatever their order: some may have come again."""
    timestamps = rows[TIMESTAMP].to_numpy()
    return rows.filter(pa.array(timestamps <= watermark_ms)).replace_schema_metadata()


def _whole(reader: ipc.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            yield reader.read_next_batch()
        except (StopIteration, pa.ArrowInvalid, OSError):
            return
