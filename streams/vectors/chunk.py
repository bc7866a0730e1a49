"""The unit in which a stream travels: consecutive tuples, with watermarks.

A stream is a sequence of tuples, numbered from 0 and ordered by event timestamp. It travels in
chunks. A *watermark* promises that no tuple with that timestamp or an earlier one follows, and a
chunk ends with one: it holds complete timestamp groups only. A consumer may therefore evaluate a
timestamp group as soon as every input has a watermark at or past it, and no tuple is ever late.

Chunk boundaries carry no meaning. A primary and its secondary cut their output differently, so all
code that reads chunks (deduplication, trimming, evaluation) works on sequence numbers and
watermarks, never on chunk boundaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import msgspec
import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from foundation.bounds import EventTime, Number
from streams.vectors.arrow_buffers import offsets
from streams.vectors.reserved import TIMESTAMP

type_names = {
    "int": pa.int64(),
    "float": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
}
"""Column types of the query language, with the Arrow types that carry them."""

NO_WATERMARK = -(2**62)
"""The watermark, ms, of a stream that has none yet: before every event timestamp."""


FOREVER_MS = 2**62
"""Later than every event timestamp and every watermark, ms."""


CHUNK_BYTES = 1024
"""Memory of a chunk besides its rows and watermarks: a chunk that only says that time has passed
takes room too."""


LEAST_NULL_BITS = 10
"""NULLs of columns that do not come lie in zeros that all share. These are made for 2¹⁰ rows at
least, then for each power of two: making some takes longer than receiving most chunks."""

MOST_NULL_BITS = 20
"""The zeros are kept for ever: 8 MiB for so many rows, and as much again for all smaller powers."""


class Position(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A cut through a stream, between two tuples.

    Attributes
    ----------
    next_seq
        Sequence number of the first tuple after the cut.
    watermark_ms
        The last watermark before the cut.
    """

    next_seq: Number = 0
    watermark_ms: EventTime = NO_WATERMARK

    def is_before(self, other: Position) -> bool:
        """Whether this cut lies before another one of the same stream.

        Chunks contain whole timestamp groups: cuts with equal watermarks have equal numbers.
        """
        return self.watermark_ms < other.watermark_ms

    def contradicts(self, other: Position) -> bool:
        """Whether the two cannot be cuts through one stream.

        Cuts with equal watermarks have equal numbers, and numbers never fall.
        """
        if self.is_before(other):
            return self.next_seq > other.next_seq
        if other.is_before(self):
            return self.next_seq < other.next_seq
        return self.next_seq != other.next_seq


class ChunkError(ValueError):
    """Rows or watermarks that break the promises of `Chunk`."""


def stream_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Arrow schema of a stream's rows: the timestamp, then the declared columns.

    Parameters
    ----------
    columns
        Column name to type name, one of `type_names`.
    """
    fields = [pa.field(TIMESTAMP, pa.int64(), nullable=False)]
    fields += [pa.field(name, type_names[kind]) for name, kind in columns.items()]
    return pa.schema(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Consecutive tuples of one stream, complete up to the last watermark.

    Attributes
    ----------
    first_seq
        Sequence number of the first row; without rows, of the next row to come.
    rows
        The tuples in order, with `stream_schema`'s columns; timestamps never fall.
    watermarks_ms
        int64, shape (m,), ms, strictly rising, m ≥ 1. No row's timestamp is past the last one.
    ingestion_times_us
        int64, shape (m,), µs on the cluster's clock, one for each watermark: when the newest
        source tuple that could have caused output up to that watermark entered the system.
        Latency is counted from it.
    """

    first_seq: int
    rows: pa.RecordBatch
    watermarks_ms: IntArray
    ingestion_times_us: IntArray
    _size_bytes: int = field(default=0, init=False, repr=False, compare=False)
    _timestamps: IntArray | None = field(default=None, init=False, repr=False, compare=False)
    _sound: bool = field(default=False, init=False, repr=False, compare=False)
    _bounds: tuple[int, Position] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    """The first timestamp or watermark, and the end: all readers of a host ask for them."""

    @property
    def size_bytes(self) -> int:
        """The memory that it takes, about."""
        if not self._size_bytes:
            watermarks_bytes = self.watermarks_ms.nbytes + self.ingestion_times_us.nbytes
            size_bytes = CHUNK_BYTES + watermarks_bytes + rows_bytes(self.rows)
            object.__setattr__(self, "_size_bytes", size_bytes)
        return self._size_bytes

    @property
    def next_seq(self) -> int:
        """Sequence number of the tuple after this chunk's last."""
        return self.first_seq + self.rows.num_rows

    @property
    def watermark_ms(self) -> int:
        """The last watermark."""
        return self._bounds[1].watermark_ms if self._bounds else int(self.watermarks_ms[-1])

    @property
    def earliest_ms(self) -> int:
        """The first timestamp or watermark."""
        return (self._bounds or self._find_bounds())[0]

    @property
    def timestamps(self) -> IntArray:
        """Timestamps of the rows, ms, shape (n,)."""
        if self._timestamps is None:
            timestamps = self.rows.column(0).to_numpy(zero_copy_only=False)
            object.__setattr__(self, "_timestamps", timestamps)
            return timestamps
        return self._timestamps

    def check(self, schema: pa.Schema) -> None:
        """Check the promises above.

        All readers of a host check the same chunk; only its schema is compared again.

        Raises
        ------
        ChunkError
            The message names the promise that is broken.
        """
        if not self.rows.schema.equals(schema):
            raise ChunkError(f"rows have schema {self.rows.schema}, the stream has {schema}")
        if not self._sound:
            self._check()
            object.__setattr__(self, "_sound", True)

    def _check(self) -> None:
        if self.first_seq < 0:
            raise ChunkError(f"first sequence number {self.first_seq} is negative")
        if len(self.watermarks_ms) == 0 or len(self.watermarks_ms) != len(self.ingestion_times_us):
            raise ChunkError(
                f"{len(self.watermarks_ms)} watermarks with "
                f"{len(self.ingestion_times_us)} ingestion times"
            )
        if not _rise(self.watermarks_ms, np.less):
            raise ChunkError("watermarks do not rise")
        if self.watermarks_ms[-1] >= FOREVER_MS:
            raise ChunkError(f"the watermark {self.watermark_ms} ms lies beyond all timestamps")
        if self.rows.num_rows == 0:
            return
        if self.rows.column(0).null_count:
            raise ChunkError("a row has no timestamp")
        timestamps = self.timestamps
        if not _rise(timestamps, np.less_equal):
            raise ChunkError("timestamps fall")
        if timestamps[-1] > self.watermarks_ms[-1]:
            raise ChunkError(
                f"a row of {timestamps[-1]} ms lies past the last watermark, "
                f"{self.watermarks_ms[-1]} ms"
            )

    @property
    def end(self) -> Position:
        """The cut just after this chunk."""
        return (self._bounds or self._find_bounds())[1]

    def _find_bounds(self) -> tuple[int, Position]:
        earliest_ms = int(self.watermarks_ms[0])
        if self.rows.num_rows:
            earliest_ms = min(earliest_ms, int(self.timestamps[0]))
        end = Position(next_seq=self.next_seq, watermark_ms=int(self.watermarks_ms[-1]))
        object.__setattr__(self, "_bounds", (earliest_ms, end))
        return earliest_ms, end

    def after(self, cut: Position) -> Chunk | None:
        """The part of the chunk that lies after a cut; None if there is none."""
        watermarks = 0
        if cut.watermark_ms < self.earliest_ms and cut.next_seq <= self.first_seq:
            return self
        if self.watermarks_ms[0] <= cut.watermark_ms:
            watermarks = int(self.watermarks_ms.searchsorted(cut.watermark_ms, side="right"))
            if watermarks == len(self.watermarks_ms):
                return None
        rows = min(max(cut.next_seq - self.first_seq, 0), self.rows.num_rows)
        if not rows and not watermarks:
            return self
        return Chunk(
            first_seq=self.first_seq + rows,
            rows=self.rows.slice(rows),
            watermarks_ms=self.watermarks_ms[watermarks:],
            ingestion_times_us=self.ingestion_times_us[watermarks:],
        )

    def contradicts(self, cut: Position) -> bool:
        """Whether the chunk shows that a cut is none of its stream.

        It does if it reaches the cut's watermark, and another number of tuples comes up to there.
        """
        if cut.next_seq < self.first_seq or self.watermark_ms < cut.watermark_ms:
            return False
        before = int(self.timestamps.searchsorted(cut.watermark_ms, side="right"))
        return self.first_seq + before != cut.next_seq

    def beginning(self, most_bytes: int) -> Chunk:
        """The first timestamp groups of the chunk that take at most so much memory; at least one.

        Sizes are taken to be spread evenly over the rows.
        """
        if self.size_bytes <= most_bytes:
            return self
        row_ends = self.timestamps.searchsorted(self.watermarks_ms, side="right")
        row_bytes = rows_bytes(self.rows) / max(self.rows.num_rows, 1)
        each_bytes = self.watermarks_ms.itemsize + self.ingestion_times_us.itemsize
        sizes = CHUNK_BYTES + row_ends * row_bytes
        sizes = sizes + each_bytes * np.arange(1, len(self.watermarks_ms) + 1)
        count = max(int(sizes.searchsorted(most_bytes, side="right")), 1)
        return Chunk(
            first_seq=self.first_seq,
            rows=self.rows.slice(0, int(row_ends[count - 1])),
            watermarks_ms=self.watermarks_ms[:count],
            ingestion_times_us=self.ingestion_times_us[:count],
        )


def _rise(times_ms: IntArray, in_order: np.ufunc) -> bool:
    """Whether neighbours are in order. Most chunks are short, so a call of numpy counts."""
    if len(times_ms) < 2:
        return True
    return np.count_nonzero(in_order(times_ms[:-1], times_ms[1:])) == len(times_ms) - 1


def rows_bytes(rows: pa.RecordBatch) -> int:
    """The memory that rows take, about: of larger buffers that they are slices of, their part.

    `rows.nbytes` knows better, but takes longer than most chunks take to be evaluated.
    """
    return sum(map(_column_bytes, rows.columns)) if rows.num_rows else 0


def _column_bytes(column: pa.Array) -> int:
    if column.type == type_names["string"]:
        ends = offsets(column)
        return ends.itemsize * len(column) + int(ends[-1]) - int(ends[0])
    return len(column) // 8 if column.type == type_names["bool"] else len(column) * 8


def nothing_until(cut: Position, schema: pa.Schema, ingestion_time_us: int) -> Chunk:
    """A chunk without tuples that says up to where a stream is complete."""
    return Chunk(
        first_seq=cut.next_seq,
        rows=pa.RecordBatch.from_pylist([], schema=schema),
        watermarks_ms=np.array([cut.watermark_ms]),
        ingestion_times_us=np.array([ingestion_time_us]),
    )


def widened(rows: pa.RecordBatch, schema: pa.Schema, places: Sequence[int]) -> pa.RecordBatch:
    """Rows of which only the timestamp and the columns at these places came; the others are NULL.

    Parameters
    ----------
    schema
        Of the whole rows.
    """
    came = dict(zip((0, *places), rows.columns, strict=True))
    columns = [
        came[place] if place in came else _nulls(field.type, rows.num_rows)
        for place, field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    """NULLs that take no memory of their own, unless there are very many."""
    bits = max(count.bit_length(), LEAST_NULL_BITS)
    if bits > MOST_NULL_BITS:
        return pa.nulls(count, kind)
    return _many_nulls(kind, bits).slice(0, count)


@cache
def _many_nulls(kind: pa.DataType, bits: int) -> pa.Array:
    zeros, nothing = _zeros(bits), pa.py_buffer(b"")
    buffers = [zeros, zeros, nothing] if kind == type_names["string"] else [zeros, zeros]
    return pa.Array.from_buffers(kind, 1 << bits, buffers, 1 << bits)


@cache
def _zeros(bits: int) -> pa.Buffer:
    """Room for so many numbers, and for the ends of as many texts."""
    return pa.py_buffer(bytes(8 * (1 << bits) + 8))


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Consecutive chunks of a stream as one; at least one."""
    if len(chunks) == 1:
        return chunks[0]
    rows = [chunk.rows for chunk in chunks if chunk.rows.num_rows] or [chunks[0].rows]
    return Chunk(
        first_seq=chunks[0].first_seq,
        rows=rows[0] if len(rows) == 1 else pa.concat_batches(rows),
        watermarks_ms=np.concatenate([chunk.watermarks_ms for chunk in chunks]),
        ingestion_times_us=np.concatenate([chunk.ingestion_times_us for chunk in chunks]),
    )
