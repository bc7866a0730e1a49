"""Everything that one sink was delivered of one stream, as tables.

There are two tables: the tuples with their sequence numbers, and the completed timestamps. A
timestamp is completed when all results up to it have been delivered, even if there are none ("no
alert as of now"). Each one is kept with the time it entered the system, the time it arrived, the
epoch that sent it, the number of tuples lost just before it, and the number of its tuples that were
dropped because they were late, if the output asks for that.

Sequence numbers begin anew if the state behind a stream was lost. Both tables therefore name the
generation that a number belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from foundation.arrays import FloatArray, IntArray
from orchestrator.edges.events import Deliver
from streams.vectors.chunk import NO_WATERMARK, TIMESTAMP, Chunk
from streams.vectors.reserved import GENERATION, SEQUENCE

completed_schema = pa.schema(
    [
        pa.field("watermark_ms", pa.int64(), nullable=False),
        pa.field("ingestion_time_us", pa.int64(), nullable=False),
        pa.field("arrived_us", pa.int64(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("lost", pa.int64(), nullable=False),
        pa.field("generation", pa.int64(), nullable=False),
        pa.field("next_seq", pa.int64(), nullable=False),
        pa.field("late", pa.int64(), nullable=False),
    ]
)


def completed_timestamps(deliveries: Sequence[Deliver]) -> pa.RecordBatch:
    """The timestamps that deliveries of one stream complete."""
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
        np.repeat([delivery.generation for delivery in deliveries], counts),
        np.concatenate([_next_seqs(delivery.chunk) for delivery in deliveries]),
        np.concatenate([_late(delivery) for delivery in deliveries]),
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column) for column in columns], schema=completed_schema
    )


def _next_seqs(chunk: Chunk) -> IntArray:
    """For each watermark of a chunk, the number of the first tuple after it."""
    return chunk.first_seq + np.searchsorted(chunk.timestamps, chunk.watermarks_ms, side="right")


def _late(delivery: Deliver) -> IntArray:
    """For each watermark, how many tuples up to there were dropped because they were late."""
    count = len(delivery.chunk.watermarks_ms)
    return np.asarray(delivery.late or [0] * count, dtype=np.int64)


def numbered_schema(rows: pa.Schema) -> pa.Schema:
    """A stream's schema with generation and sequence number in front."""
    names = (GENERATION, SEQUENCE)
    return pa.schema([*(pa.field(name, pa.int64(), nullable=False) for name in names), *rows])


def numbered(deliveries: Sequence[Deliver]) -> pa.RecordBatch:
    """The tuples of deliveries of one stream with their generations and sequence numbers."""
    chunks = [delivery.chunk for delivery in deliveries]
    rows = pa.concat_batches([chunk.rows for chunk in chunks])
    numbers = np.concatenate([np.arange(chunk.first_seq, chunk.next_seq) for chunk in chunks])
    counts = [chunk.rows.num_rows for chunk in chunks]
    generations = np.repeat([delivery.generation for delivery in deliveries], counts)
    return pa.RecordBatch.from_arrays(
        [pa.array(generations), pa.array(numbers), *rows.columns],
        schema=numbered_schema(rows.schema),
    )


def _no_timestamps() -> IntArray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Delivered:
    """All that one sink was delivered of one stream.

    Attributes
    ----------
    completed_timestamps
        One row each, with the columns of `completed_schema`.
    rows
        Tuples with their generations and sequence numbers.
    superseded_ms
        Timestamps of tuples that are kept a second time: they were complete, and the sink has
        written their timestamps again. `rows` has the second ones only, shape (k,).
    """

    completed_timestamps: pa.Table
    rows: pa.Table
    superseded_ms: IntArray = field(default_factory=_no_timestamps, compare=False)

    @staticmethod
    def from_deliveries(deliveries: Sequence[Deliver], rows_schema: pa.Schema) -> Delivered:
        """The output that was delivered to an observer."""
        schema = numbered_schema(rows_schema)
        if not deliveries:
            return Delivered(completed_schema.empty_table(), schema.empty_table())
        return Delivered(
            pa.Table.from_batches([completed_timestamps(deliveries)], schema=completed_schema),
            pa.Table.from_batches([numbered(deliveries)], schema=schema),
        )

    def completed_column(self, name: str) -> IntArray:
        """One column of the completed timestamps, shape (n,)."""
        return np.asarray(self.completed_timestamps[name].to_numpy(), dtype=np.int64)

    @property
    def late(self) -> int:
        """Tuples that were dropped because they were late."""
        return int(self.completed_column("late").sum())

    @property
    def late_spans_ms(self) -> IntArray:
        """Of each completed timestamp whose tuples were dropped because they were late: the one
        before, itself, and how many tuples those were, shape (k, 3)."""
        watermarks_ms, late = self.completed_column("watermark_ms"), self.completed_column("late")
        before_ms = np.concatenate([[NO_WATERMARK], watermarks_ms[:-1]])
        return np.stack([before_ms, watermarks_ms, late], axis=1)[late > 0]

    @property
    def latencies_ms(self) -> FloatArray:
        """From ingestion to arrival, of every completed timestamp, shape (n,)."""
        return (
            self.completed_column("arrived_us") - self.completed_column("ingestion_time_us")
        ) / 1000.0

    @property
    def row_latencies_ms(self) -> FloatArray:
        """Of every tuple, that of the completed timestamp that it came with, shape (rows,)."""
        timestamps = np.asarray(self.rows[TIMESTAMP].to_numpy(), dtype=np.int64)
        return self.latencies_ms[np.searchsorted(self.completed_column("watermark_ms"), timestamps)]
