"""The sink driver `archive`: files of every tuple and every completed timestamp, at the site.

A stream has two series of Arrow IPC stream files: `<stream>.rows.<n>.arrows` (the tuples with
their sequence numbers) and `<stream>.completed.<n>.arrows` (the completed timestamps; see
`orchestrator.sinks.delivered`). Files can be read while they grow. A site that starts again begins
the next file of each series.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

import pyarrow as pa
from pyarrow import ipc

from orchestrator.host.events import Deliver
from orchestrator.sinks.delivered import Delivered, completed_timestamps, numbered
from orchestrator.sinks.driver import SinkDriver

if TYPE_CHECKING:
    from orchestrator.manifest.document import Section

ROWS = "rows"
COMPLETED = "completed"


class Archive(SinkDriver, frozen=True, kw_only=True):
    """Files in the site's folder."""

    @classmethod
    def read(cls, section: Section) -> Self:
        """It has no options."""
        return cls()

    def open(self, stream: str, folder: Path) -> OpenArchive:
        """Begin the next files of the stream."""
        return OpenArchive(stream, folder)

    def read_back(self, stream: str, folder: Path) -> Delivered:
        """Both series, up to the last batch that is complete."""
        return Delivered(_read(folder, f"{stream}.{COMPLETED}"), _read(folder, f"{stream}.{ROWS}"))


@dataclass(slots=True)
class _File:
    raw: BinaryIO
    writer: ipc.RecordBatchStreamWriter


class OpenArchive:
    """The growing files of one stream."""

    def __init__(self, stream: str, folder: Path) -> None:
        self._stream = stream
        self._folder = folder
        self._files: dict[str, _File] = {}
        self._kept: list[Deliver] = []

    def keep(self, delivery: Deliver) -> None:
        """Take a delivery in."""
        self._kept.append(delivery)

    def flush(self) -> None:
        """Write all deliveries."""
        if not self._kept:
            return
        self._write(COMPLETED, completed_timestamps(self._kept))
        rows = numbered(self._kept)
        if rows.num_rows or ROWS not in self._files:
            self._write(ROWS, rows)
        self._kept.clear()

    def close(self) -> None:
        """Write all deliveries, and finish the files."""
        self.flush()
        for file in self._files.values():
            file.writer.close()
            file.raw.close()
        self._files.clear()

    def _write(self, series: str, batch: pa.RecordBatch) -> None:
        file = self._files.get(series)
        if file is None:
            name = f"{self._stream}.{series}"
            part = len(_parts(self._folder, name))
            raw = (self._folder / f"{name}.{part}.arrows").open("xb")
            file = self._files[series] = _File(raw, ipc.new_stream(raw, batch.schema))
        file.writer.write_batch(batch)
        file.raw.flush()


def _read(folder: Path, name: str) -> pa.Table:
    tables: list[pa.Table] = []
    for part in _parts(folder, name):
        with part.open("rb") as raw:
            try:
                reader = ipc.open_stream(raw)
            except pa.ArrowInvalid:
                # The schema has not been flushed yet; if the site was killed, it never will be.
                continue
            tables.append(pa.Table.from_batches(list(_complete(reader)), schema=reader.schema))
    if not tables:
        raise FileNotFoundError(f"{folder} holds no {name}")
    return pa.concat_tables(tables)


def _parts(folder: Path, name: str) -> list[Path]:
    """Files of a series in the order they were begun."""
    return sorted(folder.glob(f"{name}.*.arrows"), key=lambda p: int(p.name.split(".")[-2]))


def _complete(reader: ipc.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            yield reader.read_next_batch()
        except (StopIteration, pa.ArrowInvalid, OSError):
            return
