"""Batches that come in parts."""

from __future__ import annotations

import pyarrow as pa

from orchestrator.edges.sources.live.batches import digest_of_parts
from streams.vectors.chunk import stream_schema


def test_rows_that_differ_in_the_sign_of_zero_may_come_in_any_order() -> None:
    schema = stream_schema({"x": "float"})
    rows = [{"_ts": 1, "x": 0.0}, {"_ts": 1, "x": -0.0}]
    one, other = (pa.Table.from_pylist(each, schema=schema) for each in (rows, rows[::-1]))
    assert digest_of_parts(one) == digest_of_parts(other)
