"""The digest of rows depends on the rows alone: not on cuts, slices or values under NULLs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from streams.vectors.chunk import stream_schema
from streams.vectors.row_digest import RowDigest

columns = {"k": "string", "i": "int", "x": "float", "b": "bool"}
schema = stream_schema(columns)
rows = st.tuples(
    st.integers(0, 5),
    st.sampled_from([None, "", "a", "ab", "ç"]),
    st.sampled_from([None, 0, 1, -1, 2**63 - 1]),
    st.sampled_from([None, 0.0, -0.0, 1.5, 1e300]),
    st.sampled_from([None, True, False]),
)


def batch(given_rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    named = [dict(zip(schema.names, row, strict=True)) for row in given_rows]
    return pa.RecordBatch.from_pylist(named, schema=schema)


def digest(*batches: pa.RecordBatch) -> int:
    made = RowDigest()
    for one in batches:
        made.update(one)
    return made.value


@given(st.lists(rows, max_size=30), st.lists(st.integers(0, 30), max_size=6))
def test_cuts_do_not_matter(given_rows: list[tuple[Any, ...]], cuts: list[int]) -> None:
    whole = batch(given_rows)
    places = sorted({0, len(given_rows), *(cut for cut in cuts if cut <= len(given_rows))})
    pairs = list(pairwise(places))
    slices = [whole.slice(start, stop - start) for start, stop in pairs]
    rebuilt = [batch(given_rows[start:stop]) for start, stop in pairs]
    empty = whole.slice(0, 0)
    assert digest(whole) == digest(*slices, empty) == digest(empty, *rebuilt)


@given(st.lists(rows, max_size=8), st.lists(rows, max_size=8))
def test_other_rows_have_another_digest(
    one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]
) -> None:
    # Compared as text: 0.0 and -0.0 are different bits.
    assert (digest(batch(one)) == digest(batch(other))) == (repr(one) == repr(other))


@given(st.lists(rows, min_size=1, max_size=8))
def test_values_under_nulls_do_not_matter(given_rows: list[tuple[Any, ...]]) -> None:
    visible = batch(given_rows)
    rubbish = (0, "rubbish", 7, 7.5, True)
    filled = batch(
        [
            tuple(
                hidden if value is None else value
                for value, hidden in zip(row, rubbish, strict=True)
            )
            for row in given_rows
        ]
    )
    columns_with_rubbish = [
        pa.Array.from_buffers(shown.type, len(shown), [shown.buffers()[0], *under.buffers()[1:]])
        for shown, under in zip(visible.columns, filled.columns, strict=True)
    ]
    masked = pa.RecordBatch.from_arrays(columns_with_rubbish, schema=schema)
    assert masked.equals(visible)
    assert digest(masked) == digest(visible)
