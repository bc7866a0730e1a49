"""What a load shedder keeps of any batches, against sorting by hand."""

from __future__ import annotations

import math
from collections import Counter

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.scheduling.shedder import Shedder, value_of
from streams.vectors.chunk import stream_schema

schema = stream_schema({"number": "int", "worth": "float"})
by_worth = value_of("worth", schema)

worths = st.none() | st.sampled_from([-1.0, 0.0, 2.0, math.nan]) | st.floats(-10, 10)
batches = st.lists(st.tuples(st.integers(0, 40), st.lists(worths, max_size=8)), max_size=12).map(
    lambda drawn: sorted(drawn, key=lambda batch: batch[0])
)


def rows_of(first: int, worth: list[float | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "_ts": [0] * len(worth),
            "number": list(range(first, first + len(worth))),
            "worth": worth,
        },
        schema=schema,
    )


def rank(worth: float | None) -> float:
    return -math.inf if worth is None or math.isnan(worth) else worth


@settings(max_examples=200, deadline=None)
@given(batches, st.integers(0, 10), st.integers(1, 15), st.booleans())
def test_keeps_the_most_valuable_that_there_is_room_for(
    batches: list[tuple[int, list[float | None]]], limit: int, per_us: int, valued: bool
) -> None:
    shedder = Shedder(limit, per_us, by_worth if valued else None)
    let_in: Counter[int] = Counter()
    for at_us, worth in batches:
        shed = shedder.admit(rows_of(100, worth), at_us)
        room = limit - let_in[at_us // per_us]
        wanted = list(range(len(worth)))
        if valued:
            wanted.sort(key=lambda at: (-rank(worth[at]), at))
        kept = [number - 100 for number in shed.kept.column("number").to_pylist()]
        assert kept == sorted(wanted[:room])
        assert shed.kept.num_rows + shed.dropped == len(worth)
        let_in[at_us // per_us] += len(kept)
        assert let_in[at_us // per_us] <= limit


@settings(max_examples=100, deadline=None)
@given(st.lists(worths, max_size=10), st.integers(0, 10), st.integers(0, 10))
def test_a_table_is_shed_as_the_batch_it_is_made_of(
    worth: list[float | None], limit: int, cut: int
) -> None:
    rows = rows_of(0, worth)
    table = pa.Table.from_batches([rows.slice(0, cut), rows.slice(min(cut, len(worth)))])
    of_rows = Shedder(limit, 1, by_worth).admit(rows, 0)
    of_table = Shedder(limit, 1, by_worth).admit(table, 0)
    numbers = of_table.kept.column("number").to_pylist()
    assert numbers == of_rows.kept.column("number").to_pylist()
    assert of_table.dropped == of_rows.dropped
