"""The memory of a chunk is that of its own rows, whatever larger buffers they are slices of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.vectors.chunk import CHUNK_BYTES, Chunk, stream_schema

SCHEMA = stream_schema({"n": "int", "x": "float", "s": "string", "b": "bool"})


def chunk(rows: pa.RecordBatch) -> Chunk:
    ends_ms = np.array([10**6], dtype=np.int64)
    return Chunk(first_seq=0, rows=rows, watermarks_ms=ends_ms, ingestion_times_us=ends_ms)


def table(texts: list[str | None]) -> pa.RecordBatch:
    count = len(texts)
    columns = [
        pa.array(np.arange(count)),
        pa.array(np.arange(count)),
        pa.array(np.arange(count) / 7),
        pa.array(texts, pa.string()),
        pa.array(np.arange(count) % 2 == 0),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@given(texts=st.lists(st.none() | st.text(max_size=20), min_size=1, max_size=80), data=st.data())
def test_a_slice_takes_its_own_part(texts: list[str | None], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(texts) - 1))
    rows = table(texts).slice(start, data.draw(st.integers(1, len(texts) - start)))
    # Bitmaps of NULLs are not counted.
    known = rows.nbytes + CHUNK_BYTES + 16
    assert chunk(rows).size_bytes == pytest.approx(known, abs=8 * rows.num_columns)


def test_rows_with_timestamps_of_their_own_and_other_columns_of_a_long_recording() -> None:
    """So a repeated recording enters, from its second round on."""
    recording = table(["abc"] * 100_000)
    rows = recording.slice(500, 50)
    own = pa.array(np.arange(50))
    shifted = pa.RecordBatch.from_arrays([own, *rows.columns[1:]], schema=SCHEMA)
    assert chunk(shifted).size_bytes == pytest.approx(CHUNK_BYTES + 16 + 50 * 31, abs=40)
