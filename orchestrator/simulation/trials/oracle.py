"""What a fault-free cluster delivers: each program run once, on the whole of its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from orchestrator.simulation.trials.setting import Setting
from streams.evaluate.chain import FragmentChain
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position

Row = tuple[int, ...]
"""Timestamp, then the columns."""

WHOLE = 10**9
"""More watermarks than any recording has."""


@dataclass(frozen=True, slots=True)
class ExpectedStream:
    """All tuples of one stream in order, and its last watermark."""

    rows: list[Row]
    end_ms: int


def expected(
    setting: Setting, entered: Mapping[str, Sequence[Chunk]] | None = None
) -> dict[str, ExpectedStream]:
    """Every stream of a setting, as a fault-free evaluation makes it.

    Parameters
    ----------
    entered
        Stream → what its site has numbered, if that is not the whole recording.
    """
    whole = {
        name: Chunk(
            first_seq=0,
            rows=recording.rows,
            watermarks_ms=recording.watermarks_ms,
            ingestion_times_us=np.zeros(len(recording.watermarks_ms), dtype=np.int64),
        )
        for name, recording in setting.recordings.items()
    }
    for name, chunks in (entered or {}).items():
        if chunks:
            whole[name] = _joined(chunks)
    chain = FragmentChain(setting.every_program)
    for name, chunk in whole.items():
        chain.offer(name, chunk)
    found = {
        name: ExpectedStream(rows_of(chunk.rows), chunk.watermark_ms)
        for name, chunk in whole.items()
    }
    for name, made in chain.advance(WHOLE):
        found[name] = ExpectedStream(rows_of(made.rows), int(made.watermarks_ms[-1]))
    return found


def _joined(chunks: Sequence[Chunk]) -> Chunk:
    """A stream in one chunk, without timestamps that were complete before."""
    parts: list[Chunk] = []
    reached_ms = NO_WATERMARK
    for chunk in chunks:
        known = int(np.searchsorted(chunk.timestamps, reached_ms, side="right"))
        cut = Position(next_seq=chunk.first_seq + known, watermark_ms=reached_ms)
        if (rest := chunk.after(cut)) is not None:
            parts.append(rest)
            reached_ms = rest.watermark_ms
    table = pa.Table.from_batches([part.rows for part in parts]).combine_chunks()
    (rows,) = table.to_batches() or [parts[0].rows]
    return Chunk(
        first_seq=0,
        rows=rows,
        watermarks_ms=np.concatenate([part.watermarks_ms for part in parts]),
        ingestion_times_us=np.concatenate([part.ingestion_times_us for part in parts]),
    )


def rows_of(rows: pa.RecordBatch) -> list[Row]:
    """Rows as tuples."""
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
