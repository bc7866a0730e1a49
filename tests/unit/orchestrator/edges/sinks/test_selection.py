"""A client gets the results that it asks for, and a wrong wish is refused before the response."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest

from orchestrator.edges.sinks.delivered import numbered_schema
from orchestrator.edges.sinks.selection import ResultSelection
from streams.vectors.chunk import stream_schema

SCHEMA = numbered_schema(stream_schema({"celsius": "float", "sensor": "string"}))
ROWS = [
    (1, 0, 10, 1.0, "a"),
    (1, 1, 11, None, "b"),
    (1, 2, 12, math.nan, None),
    (3, 0, 13, 4.0, "c"),
]
BATCH = pa.RecordBatch.from_pylist(
    [dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS], schema=SCHEMA
)


def stamps(**query: str) -> list[int]:
    found = ResultSelection.read(query, SCHEMA).of(BATCH)
    return [int(stamp) for stamp in found.column("_ts").to_pylist()]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (("celsius", "=", 1.0), [10]),
        (("celsius", "<", 4), [10]),
        (("celsius", ">", 1), [12, 13]),
        (("celsius", ">=", 1.0), [10, 12, 13]),
        (("celsius", "null", None), [11]),
        (("sensor", "notnull", None), [10, 11, 13]),
        (("sensor", "in", ["a", "c", None]), [10, 13]),
        (("_generation", "=", 3), [13]),
    ],
)
def test_conditions_hold_as_in_spark(condition: tuple[str, str, object], kept: list[int]) -> None:
    assert stamps(where=json.dumps([condition])) == kept


def test_conditions_hold_together_within_a_range_of_time() -> None:
    where = json.dumps([("_seq", "<=", 1), ("celsius", "notnull", None)])
    assert stamps(where=where) == [10, 13]
    assert stamps(where=where, first="11", last="13") == [13]
    assert ResultSelection.read({"last": "12"}, SCHEMA).is_past(BATCH)
    assert not ResultSelection.read({"last": "13"}, SCHEMA).is_past(BATCH)


def test_columns_come_in_the_order_that_is_asked_for() -> None:
    chosen = ResultSelection.read({"columns": "sensor,_seq"}, SCHEMA).of(BATCH)
    assert chosen.schema.names == ["sensor", "_seq"]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"columns": "_seq,x"}, "no column 'x'"),
        ({"where": '[["x","=",1]]'}, "no column 'x'"),
        ({"where": '[["celsius","~",1]]'}, "Invalid enum value"),
        ({"where": '[["celsius","=","hot"]]'}, "condition on celsius"),
        ({"where": '[["celsius","in",3]]'}, "condition on celsius"),
        ({"where": "["}, "truncated"),
        ({"until": "7"}, "GENERATION-SEQUENCE"),
        ({"first": "1.5"}, "timestamp in ms"),
    ],
)
def test_wrong_wishes_are_refused(query: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ResultSelection.read(query, SCHEMA)


@pytest.mark.parametrize(
    "condition", ['["name","in","abc"]', '["name","null",["a"]]', '["name","=",["a"]]']
)
def test_a_condition_takes_a_list_or_one_value(condition: str) -> None:
    """A text would be its letters, and nothing would come."""
    schema = stream_schema({"name": "string"})
    with pytest.raises(ValueError, match=r"condition on name: .* takes"):
        ResultSelection.read({"where": f"[{condition}]"}, schema)
