"""The queue of one input of a fragment: chunks that were offered and not yet evaluated.

The queue counts the rows that it hands out. This count gives each row its *identity* in windows,
relations and joins. A row's sequence number is not its identity: the numbers of a stream fall or
jump when its producer starts over or tuples are lost, and identities must rise.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from streams.vectors.chunk import Chunk, ChunkError, Position


class InputQueue:
    """Chunks of one stream, in order. Numbers have no gaps except where `skip_to` was called."""

    def __init__(self, stream: str, schema: pa.Schema) -> None:
        self._stream = stream
        self._schema = schema
        self._chunks: deque[Chunk] = deque()
        self._end = Position()
        self.position = Position()
        """The cut up to which tuples have been taken, in the numbering of the tuple after it."""
        self.taken = 0
        """Number of rows taken since the engine was new: the identity of the next one."""
        self._waiting = 0
        self._waiting_bytes = 0

    def offer(self, chunk: Chunk) -> None:
        """Add the next chunk.

        Raises
        ------
        ChunkError
            It does not continue the stream.
        """
        chunk.check(self._schema)
        if chunk.first_seq != self._end.next_seq:
            raise ChunkError(
                f"stream {self._stream}: tuple {chunk.first_seq} arrived, "
                f"tuple {self._end.next_seq} is next"
            )
        if chunk.earliest_ms <= self._end.watermark_ms:
            raise ChunkError(
                f"stream {self._stream}: a chunk brings {chunk.earliest_ms} ms, "
                f"after the watermark {self._end.watermark_ms} ms"
            )
        self._chunks.append(chunk)
        self._end = chunk.end
        self._waiting += chunk.rows.num_rows
        self._waiting_bytes += chunk.size_bytes

    def skip_to(self, position: Position) -> None:
        """Continue after this cut: what lies before it will not arrive, or is numbered anew."""
        watermark_ms = max(position.watermark_ms, self._end.watermark_ms)
        self._end = Position(next_seq=position.next_seq, watermark_ms=watermark_ms)
        if not self._chunks:
            self.position = self._end

    def restore(self, position: Position, taken: int) -> None:
        """Discard all chunks; continue after a cut, with this number of rows taken."""
        self._chunks.clear()
        self._waiting = self._waiting_bytes = 0
        self._end = self.position = position
        self.taken = taken

    @property
    def watermark_ms(self) -> int:
        """The last watermark that was offered or skipped to."""
        return self._end.watermark_ms

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """What was offered and not taken."""
        return tuple(self._chunks)

    @property
    def waiting(self) -> int:
        """Number of tuples offered and not taken."""
        return self._waiting

    @property
    def waiting_bytes(self) -> int:
        """Memory of what was offered and not taken."""
        return self._waiting_bytes

    @property
    def first_watermark_ms(self) -> int | None:
        """The earliest watermark offered and not taken."""
        return int(self._chunks[0].watermarks_ms[0]) if self._chunks else None

    @property
    def first_ingestion_time_us(self) -> int | None:
        """The ingestion time of the earliest watermark offered and not taken."""
        return int(self._chunks[0].ingestion_times_us[0]) if self._chunks else None

    def head(self, limit: int) -> tuple[IntArray, IntArray]:
        """The first watermarks offered and not taken, with their ingestion times.

        Gives at least `limit` of them, if there are that many. Reads only as many chunks as that
        takes: a long queue must not cost more than a short one.
        """
        if len(self._chunks) == 1:
            (only,) = self._chunks
            return only.watermarks_ms, only.ingestion_times_us
        chunks: list[Chunk] = []
        count = 0
        for chunk in self._chunks:
            if count >= limit:
                break
            chunks.append(chunk)
            count += len(chunk.watermarks_ms)
        return (
            _concatenated([chunk.watermarks_ms for chunk in chunks]),
            _concatenated([chunk.ingestion_times_us for chunk in chunks]),
        )

    def count_until(self, watermarks_ms: IntArray) -> IntArray:
        """Number of tuples up to each of some rising watermarks, shape (m,)."""
        count = np.zeros(len(watermarks_ms), dtype=np.int64)
        for chunk in self._chunks:
            if chunk.rows.num_rows:
                timestamps = chunk.timestamps
                if timestamps[0] > watermarks_ms[-1]:
                    break
                count += np.searchsorted(timestamps, watermarks_ms, side="right")
        return count

    def take(self, until_ms: int) -> pa.RecordBatch | None:
        """Remove everything up to a watermark; return the rows, None if there are none."""
        parts: list[pa.RecordBatch] = []
        chunks = self._chunks
        while chunks and chunks[0].watermark_ms <= until_ms:
            chunk = chunks.popleft()
            self._waiting_bytes -= chunk.size_bytes
            if chunk.rows.num_rows:
                parts.append(chunk.rows)
        if not chunks:
            self.position = self._end
        else:
            if chunks[0].earliest_ms <= until_ms:
                parts += self._take_part(until_ms)
            self.position = Position(
                next_seq=chunks[0].first_seq,
                watermark_ms=max(until_ms, self.position.watermark_ms),
            )
        if not parts:
            return None
        rows = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        self._waiting -= rows.num_rows
        self.taken += rows.num_rows
        return rows

    def _take_part(self, until_ms: int) -> list[pa.RecordBatch]:
        """Remove a part of the first chunk; return its rows, if it has some."""
        chunk = self._chunks[0]
        count = int(chunk.timestamps.searchsorted(until_ms, side="right"))
        cut = Position(next_seq=chunk.first_seq + count, watermark_ms=until_ms)
        rest = chunk.after(cut)
        assert rest is not None, "the chunk's last watermark lies past the cut"
        self._chunks[0] = rest
        self._waiting_bytes += rest.size_bytes - chunk.size_bytes
        return [chunk.rows.slice(0, count)] if count else []


def _concatenated(parts: list[IntArray]) -> IntArray:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
