"""Tuples that wait where their stream enters, unnumbered, until consumers take them.

What has waited for too long is dropped. Its watermarks are not: they say that nothing comes any
more up to there.
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from foundation.arrays import IntArray
from streams.vectors.chunk import Chunk


class EntryQueue:
    """The tuples of one stream that wait.

    Attributes
    ----------
    tuples, size_bytes
        How many wait, and the memory that they take.
    """

    def __init__(self) -> None:
        self.tuples = self.size_bytes = 0
        self._chunks: deque[Chunk] = deque()

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def put(self, rows: pa.RecordBatch, watermarks_ms: IntArray, entered_us: IntArray) -> None:
        """Add tuples with their watermarks, and when the tuples up to each had entered, µs."""
        self._add(
            Chunk(
                first_seq=0, rows=rows, watermarks_ms=watermarks_ms, ingestion_times_us=entered_us
            )
        )

    def drop_before(self, entered_us: float) -> int:
        """Drop the tuples that had entered before a time; returns how many those were."""
        dropped = 0
        emptied: Chunk | None = None
        while self._chunks and self._chunks[0].ingestion_times_us[0] < entered_us:
            chunk = self._pop()
            overdue = int(chunk.ingestion_times_us.searchsorted(entered_us, side="left"))
            until_ms = int(chunk.watermarks_ms[overdue - 1])
            rows = int(chunk.timestamps.searchsorted(until_ms, side="right"))
            dropped += rows
            # The last of their watermarks stands for all of them.
            kept = Chunk(
                first_seq=0,
                rows=chunk.rows.slice(rows),
                watermarks_ms=chunk.watermarks_ms[overdue - 1 :],
                ingestion_times_us=chunk.ingestion_times_us[overdue - 1 :],
            )
            if overdue < len(chunk.watermarks_ms):
                self._add(kept, first=True)
                return dropped
            emptied = kept
        if emptied is not None:
            self._add(emptied, first=True)
        return dropped

    def drop_beyond(self, most_bytes: int) -> int:
        """Drop the oldest tuples, as far as all take more memory; returns how many those were."""
        dropped = 0
        while self.size_bytes > most_bytes and self.tuples:
            # A clock that is corrected may have brought them in at earlier times than the others.
            entered_us = 0
            for chunk in self._chunks:
                entered_us = max(entered_us, int(chunk.ingestion_times_us.max()))
                if chunk.rows.num_rows:
                    break
            dropped += self.drop_before(entered_us + 1)
        return dropped

    def take(self, most_bytes: int | None = None) -> Chunk:
        """Remove the oldest timestamp groups that take so much memory, at least one; of all that
        came together, if that is not said."""
        chunk = self._pop()
        if most_bytes is None:
            return chunk
        taken = chunk.beginning(most_bytes)
        if (rest := chunk.after(taken.end)) is not None:
            self._add(rest, first=True)
        return taken

    def _pop(self) -> Chunk:
        chunk = self._chunks.popleft()
        self.tuples -= chunk.rows.num_rows
        self.size_bytes -= chunk.size_bytes
        return chunk

    def _add(self, chunk: Chunk, *, first: bool = False) -> None:
        self.tuples += chunk.rows.num_rows
        self.size_bytes += chunk.size_bytes
        if first:
            self._chunks.appendleft(chunk)
        else:
            self._chunks.append(chunk)
