"""What a site keeps of the streams it was delivered: every tuple and every answer.

Two series of Arrow IPC stream files a stream: `<stream>.rows.<n>.arrows` (the tuples with their
sequence numbers) and `<stream>.completed.<n>.arrows` (each closed instant: when it was due, when it
came, from which epoch, how many tuples were lost before it). What has come is written at each
`flush`, and files can be read while they grow. A site that starts again begins the next file of
each series.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from orchestrator.host.events import Deliver

SEQUENCE = "_seq"

completed_schema = pa.schema(
    [
        pa.field("watermark_ms", pa.int64(), nullable=False),
        pa.field("ingestion_time_us", pa.int64(), nullable=False),
        pa.field("arrived_us", pa.int64(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("lost", pa.int64(), nullable=False),
    ]
)


def completed_timestamps(deliveries: Sequence[Deliver]) -> pa.RecordBatch:
    """The closed instants of deliveries of one stream."""
    lost: list[int] = []
    for delivery in deliveries:
        lost += [delivery.lost, *[0] * (len(delivery.chunk.watermarks_ms) - 1)]
    counts = [len(delivery.chunk.watermarks_ms) for delivery in deliveries]
    columns = [
        np.concatenate([delivery.chunk.watermarks_ms for delivery in deliveries]),
        np.concatenate([delivery.chunk.ingestion_times_us for delivery in deliveries]),
        np.repeat([delivery.arrived_us for delivery in deliveries], counts),
        np.repeat([delivery.epoch for delivery in deliveries], counts),
        np.asarray(lost, dtype=np.int64),
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column) for column in columns], schema=completed_schema
    )


def numbered(deliveries: Sequence[Deliver]) -> pa.RecordBatch:
    """The tuples of deliveries of one stream with their sequence numbers."""
    chunks = [delivery.chunk for delivery in deliveries]
    rows = pa.concat_batches([chunk.rows for chunk in chunks])
    numbers = np.concatenate([np.arange(chunk.first_seq, chunk.next_seq) for chunk in chunks])
    schema = pa.schema([pa.field(SEQUENCE, pa.int64(), nullable=False), *rows.schema])
    return pa.RecordBatch.from_arrays([pa.array(numbers), *rows.columns], schema=schema)


@dataclass(slots=True)
class _File:
    raw: BinaryIO
    writer: ipc.RecordBatchStreamWriter


class Archive:
    """Files of the streams delivered at one site."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, _File] = {}
        self._kept: dict[str, list[Deliver]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, delivery: Deliver) -> None:
        """Take a delivery in; the next `flush` writes it."""
        self._kept.setdefault(delivery.stream, []).append(delivery)

    def flush(self) -> None:
        """Let readers see all of it."""
        for stream, deliveries in self._kept.items():
            self._write(f"{stream}.completed", completed_timestamps(deliveries))
            rows = numbered(deliveries)
            if rows.num_rows or f"{stream}.rows" not in self._files:
                self._write(f"{stream}.rows", rows)
        self._kept.clear()

    def close(self) -> None:
        """Finish the files."""
        self.flush()
        for file in self._files.values():
            file.writer.close()
            file.raw.close()
        self._files.clear()

    def _write(self, name: str, batch: pa.RecordBatch) -> None:
        file = self._files.get(name)
        if file is None:
            part = len(_parts(self._folder, name))
            raw = (self._folder / f"{name}.{part}.arrows").open("xb")
            file = self._files[name] = _File(raw, ipc.new_stream(raw, batch.schema))
        file.writer.write_batch(batch)
        file.raw.flush()


def read(folder: Path, name: str) -> pa.Table:
    """A series of an archive, such as `alerts.rows`, up to the last batch that is complete.

    Raises
    ------
    FileNotFoundError
        If nothing of it has been written.
    """
    tables: list[pa.Table] = []
    for part in _parts(folder, name):
        with part.open("rb") as raw:
            try:
                reader = ipc.open_stream(raw)
            except pa.ArrowInvalid:
                # Not even the schema has been flushed, or ever will be if its site was killed.
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
