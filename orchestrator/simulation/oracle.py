"""What a fault-free cluster delivers: each program run once, on the whole of its input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from orchestrator.simulation.setting import Setting
from streams.chunk import Chunk
from streams.engine import FragmentEngine

Row = tuple[int, ...]
"""Timestamp, then the columns."""

WHOLE = 10**9
"""More watermarks than any recording has."""


@dataclass(frozen=True, slots=True)
class Expected:
    """All tuples of one stream in order, and its last watermark."""

    rows: list[Row]
    end_ms: int


def expected(setting: Setting) -> dict[str, Expected]:
    """Every stream of a setting, as a fault-free evaluation makes it."""
    whole = {
        name: Chunk(
            first_seq=0,
            rows=recording.rows,
            watermarks_ms=recording.watermarks_ms,
            ingestion_times_us=np.zeros(len(recording.watermarks_ms), dtype=np.int64),
        )
        for name, recording in setting.recordings.items()
    }
    for name, program in setting.programs.items():
        engine = FragmentEngine(program)
        for stream in program.inputs:
            engine.offer(stream, whole[stream])
        evaluated = engine.advance(WHOLE)
        assert evaluated is not None, "every stream has watermarks"
        whole[name] = Chunk(
            first_seq=0,
            rows=evaluated.rows,
            watermarks_ms=evaluated.watermarks_ms,
            ingestion_times_us=evaluated.ingestion_times_us,
        )
    return {
        name: Expected(rows_of(chunk.rows), chunk.watermark_ms) for name, chunk in whole.items()
    }


def rows_of(rows: pa.RecordBatch) -> list[Row]:
    """Rows as tuples."""
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
