"""The sink driver `archive`: files of every tuple and every completed timestamp, at the site.

A stream has two series of Arrow IPC stream files: `<stream>.rows.<n>.arrows` (the tuples with
their sequence numbers) and `<stream>.completed.<n>.arrows` (the completed timestamps; see
`orchestrator.sinks.delivered`). Files can be read while they grow. A site that starts again begins
the next file of each series.

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
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from orchestrator.folders import check_open, path_part, sync
from orchestrator.host.events import Deliver, Durable
from orchestrator.records import SinkAssignment
from orchestrator.sinks.delivered import (
    GENERATION,
    SEQUENCE,
    Delivered,
    completed_timestamps,
    numbered,
)
from orchestrator.sinks.driver import SinkDriver
from streams.chunk import NO_WATERMARK, TIMESTAMP, Position
from topology.arrays import IntArray

if TYPE_CHECKING:
    from orchestrator.manifest.document import Section

ROWS = "rows"
COMPLETED = "completed"

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


def archived(
    folder: Path,
    assignment: SinkAssignment,
    begin: tuple[int, int],
    first_ms: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Committed tuples from a generation and sequence number on, piece by piece.

    The columns are those of `numbered_schema`. The archive may grow meanwhile.

    Parameters
    ----------
    first_ms
        Files that end before this timestamp are left out.
    """
    stream, generation, seq = assignment.stream, *begin
    parts = [part for part in _committed(folder, stream) if part.life == assignment.life]
    for part in _continued(parts):
        end = part.durable
        if (end.generation, end.position.next_seq) <= begin:
            continue
        if first_ms is not None and part.watermark_ms < first_ms:
            continue
        try:
            raw = _file(folder, stream, ROWS, part.number).open("rb")
        except FileNotFoundError:
            continue
        with raw:
            for batch in _whole(ipc.open_stream(raw)):
                timestamps = batch.column(TIMESTAMP).to_numpy()
                count = int(np.searchsorted(timestamps, part.watermark_ms, side="right"))
                generations = batch.column(GENERATION).to_numpy()[:count]
                numbers = batch.column(SEQUENCE).to_numpy()[:count]
                wanted = (generations > generation) | (
                    (generations == generation) & (numbers >= seq)
                )
                if wanted.any():
                    rows = batch.slice(0, count).filter(pa.array(wanted))
                    schema = pa.schema(list(rows.schema))
                    yield pa.RecordBatch.from_arrays(rows.columns, schema=schema)


class OpenArchive:
    """The growing files of one stream.

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
        for part in _committed(folder, self._stream):
            number = part.number + 1
            self.durable = part.durable if part.life == assignment.life else None
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
        self._writers[series].write_batch(batch)
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
            yield _Part(number, life, table.replace_schema_metadata())


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
