"""A stream whose every tuple says which it is, cut however a test likes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streams.vectors.chunk import Chunk, stream_schema

schema = stream_schema({"number": "int"})


def chunk(first_seq: int, timestamp_groups: Sequence[tuple[int, int]]) -> Chunk:
    """A chunk of (timestamp ms, how many tuples) pairs; tuples hold their sequence number."""
    timestamps = [ts for ts, count in timestamp_groups for _ in range(count)]
    numbers = list(range(first_seq, first_seq + len(timestamps)))
    watermarks_ms = np.array([ts for ts, _ in timestamp_groups], dtype=np.int64)
    return Chunk(
        first_seq=first_seq,
        rows=pa.RecordBatch.from_pydict({"_ts": timestamps, "number": numbers}, schema=schema),
        watermarks_ms=watermarks_ms,
        ingestion_times_us=watermarks_ms * 1000,
    )


def numbers(chunks: Sequence[Chunk]) -> list[int]:
    """The tuples of some chunks."""
    return [n for c in chunks for n in c.rows.column("number").to_pylist()]


def watermarks_ms(chunks: Sequence[Chunk]) -> list[int]:
    """The watermarks of some chunks."""
    return [int(watermark_ms) for c in chunks for watermark_ms in c.watermarks_ms]


def cut(timestamp_groups: Sequence[tuple[int, int]], ends: Sequence[int]) -> list[Chunk]:
    """The whole stream, cut after the timestamps with these indices."""
    chunks: list[Chunk] = []
    seq = begin = 0
    for end in sorted(
        {*(end for end in ends if end < len(timestamp_groups)), len(timestamp_groups)}
    ):
        if end > begin:
            part = timestamp_groups[begin:end]
            chunks.append(chunk(seq, part))
            seq += sum(count for _, count in part)
            begin = end
    return chunks
