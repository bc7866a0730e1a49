"""The digest of a batch in parts depends on its rows, not on their order nor on the parts."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.edges.sources.live.batches import digest_of_parts
from streams.vectors.chunk import stream_schema

schema = stream_schema({"k": "string", "i": "int", "x": "float", "b": "bool"})
rows = st.tuples(
    st.integers(0, 2),
    st.sampled_from([None, "", "a"]),
    st.sampled_from([None, 0, -1]),
    st.sampled_from([None, 0.0, -0.0, 1.5, -1.5, math.nan, -math.nan, math.inf]),
    st.sampled_from([None, True, False]),
)


def table(parts: list[list[tuple[Any, ...]]]) -> pa.Table:
    named = [[dict(zip(schema.names, row, strict=True)) for row in part] for part in parts]
    made = [pa.Table.from_pylist(part, schema=schema) for part in named]
    return pa.concat_tables([schema.empty_table(), *made])


@given(st.lists(rows, max_size=12), st.data())
def test_order_and_parts_do_not_matter(
    given_rows: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    again = data.draw(st.permutations(given_rows))
    cut = data.draw(st.integers(0, len(again)))
    assert digest_of_parts(table([given_rows])) == digest_of_parts(
        table([again[:cut], again[cut:]])
    )
