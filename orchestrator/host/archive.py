"""What a site keeps of the streams it was delivered: every tuple and every answer.

Two series of Arrow IPC stream files a stream: `<stream>.rows.<n>.arrows` (the tuples with their
sequence numbers) and `<stream>.answers.<n>.arrows` (each closed instant: when it was due, when it
came, from which epoch, how many tuples were lost before it). They are written as they come and can
be read while they grow. A site that starts again begins the next file of each series.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from orchestrator.host.events import Deliver

SEQUENCE = "_seq"

answers_schema = pa.schema(
    [
        pa.field("mark_ms", pa.int64(), nullable=False),
        pa.field("origin_us", pa.int64(), nullable=False),
        pa.field("arrived_us", pa.int64(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("lost", pa.int64(), nullable=False),
    ]
)


def answers(delivery: Deliver) -> pa.RecordBatch:
    """The closed instants of a delivery."""
    chunk, count = delivery.chunk, len(delivery.chunk.marks)
    lost = np.zeros(count, dtype=np.int64)
    lost[0] = delivery.lost
    columns = [
        chunk.marks,
        chunk.origins_us,
        np.full(count, delivery.arrived_us, dtype=np.int64),
        np.full(count, delivery.epoch, dtype=np.int64),
        lost,
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column) for column in columns], schema=answers_schema
    )


def numbered(delivery: Deliver) -> pa.RecordBatch:
    """The tuples of a delivery with their sequence numbers."""
    rows = delivery.chunk.rows
    numbers = np.arange(delivery.chunk.first_seq, delivery.chunk.next_seq, dtype=np.int64)
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
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, delivery: Deliver) -> None:
        """Append a delivery."""
        self._write(f"{delivery.stream}.answers", answers(delivery))
        if delivery.chunk.rows.num_rows or f"{delivery.stream}.rows" not in self._files:
            self._write(f"{delivery.stream}.rows", numbered(delivery))

    def flush(self) -> None:
        """Let readers see all of it."""
        for file in self._files.values():
            file.raw.flush()

    def close(self) -> None:
        """Finish the files."""
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
