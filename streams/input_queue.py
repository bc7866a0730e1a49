"""An input of a fragment: what has been offered and not yet been evaluated."""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from streams.chunk import Chunk, ChunkError, Int64Array, Position


class InputQueue:
    """Chunks of one stream, in order, without gaps."""

    def __init__(self, stream: str, schema: pa.Schema) -> None:
        self._stream = stream
        self._schema = schema
        self._chunks: deque[Chunk] = deque()
        self._end = Position()
        self._marks: Int64Array | None = None
        self._origins: Int64Array | None = None
        self.position = Position()
        """What has been taken."""

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
                f"stream {self._stream}: tuple {chunk.first_seq} came, "
                f"tuple {self._end.next_seq} is next"
            )
        earliest = int(chunk.marks[0])
        if chunk.rows.num_rows:
            earliest = min(earliest, int(chunk.timestamps[0]))
        if earliest <= self._end.progress_ms:
            raise ChunkError(
                f"stream {self._stream}: a chunk brings {earliest} ms, "
                f"but {self._end.progress_ms} ms is closed"
            )
        self._chunks.append(chunk)
        self._end = chunk.end
        self._marks = self._origins = None

    def skip_to(self, next_seq: int) -> None:
        """Expect this tuple next: what lies between does not come, or numbering starts over."""
        self._end = Position(next_seq=next_seq, progress_ms=self._end.progress_ms)
        if not self._chunks:
            self.position = self._end

    def restore(self, position: Position) -> None:
        """Forget what was offered; go on after a cut."""
        self._chunks.clear()
        self._end = self.position = position
        self._marks = self._origins = None

    @property
    def progress_ms(self) -> int:
        """The last closed instant."""
        return self._end.progress_ms

    def rows_until(self, until_ms: int) -> int:
        """Tuples up to an instant, offered and not taken."""
        count = 0
        for chunk in self._chunks:
            if chunk.progress_ms > until_ms:
                return count + int(np.searchsorted(chunk.timestamps, until_ms, side="right"))
            count += chunk.rows.num_rows
        return count

    @property
    def marks(self) -> Int64Array:
        """Marks offered and not taken."""
        if self._marks is None:
            parts = [chunk.marks for chunk in self._chunks]
            self._marks = _concatenated(parts)
        return self._marks

    @property
    def origins_us(self) -> Int64Array:
        """Origins of the marks."""
        if self._origins is None:
            parts = [chunk.origins_us for chunk in self._chunks]
            self._origins = _concatenated(parts)
        return self._origins

    def take(self, until_ms: int) -> pa.RecordBatch | None:
        """Remove everything up to a closed instant; its rows, None if there are none."""
        parts: list[pa.RecordBatch] = []
        next_seq = self.position.next_seq
        while self._chunks:
            chunk = self._chunks[0]
            whole = chunk.progress_ms <= until_ms
            rows = chunk.rows
            if not whole:
                count = int(np.searchsorted(chunk.timestamps, until_ms, side="right"))
                rows = rows.slice(0, count)
            if rows.num_rows:
                parts.append(rows)
            next_seq = chunk.first_seq + rows.num_rows
            if not whole:
                cut = Position(next_seq=next_seq, progress_ms=until_ms)
                rest = chunk.after(cut)
                assert rest is not None
                self._chunks[0] = rest
                break
            self._chunks.popleft()
        self.position = Position(next_seq=next_seq, progress_ms=until_ms)
        self._marks = self._origins = None
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def _concatenated(parts: list[Int64Array]) -> Int64Array:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
