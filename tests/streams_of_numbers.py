"""A stream whose every tuple says which it is, cut however a test likes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streams.chunk import Chunk, stream_schema

schema = stream_schema({"number": "int"})


def chunk(first_seq: int, instants: Sequence[tuple[int, int]]) -> Chunk:
    """A chunk of (timestamp ms, how many tuples) pairs; tuples hold their sequence number."""
    timestamps = [ts for ts, count in instants for _ in range(count)]
    numbers = list(range(first_seq, first_seq + len(timestamps)))
    marks = np.array([ts for ts, _ in instants], dtype=np.int64)
    return Chunk(
        first_seq=first_seq,
        rows=pa.RecordBatch.from_pydict({"_ts": timestamps, "number": numbers}, schema=schema),
        marks=marks,
        origins_us=marks * 1000,
    )


def numbers(chunks: Sequence[Chunk]) -> list[int]:
    """The tuples of some chunks."""
    return [n for c in chunks for n in c.rows.column("number").to_pylist()]


def marks(chunks: Sequence[Chunk]) -> list[int]:
    """The marks of some chunks."""
    return [int(mark) for c in chunks for mark in c.marks]


def cut(instants: Sequence[tuple[int, int]], ends: Sequence[int]) -> list[Chunk]:
    """The whole stream, cut after the instants with these indices."""
    chunks: list[Chunk] = []
    seq = begin = 0
    for end in sorted({*(end for end in ends if end < len(instants)), len(instants)}):
        if end > begin:
            part = instants[begin:end]
            chunks.append(chunk(seq, part))
            seq += sum(count for _, count in part)
            begin = end
    return chunks
