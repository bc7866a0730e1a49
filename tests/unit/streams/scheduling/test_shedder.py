"""What a load shedder lets in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streams.language import QueryError
from streams.scheduling.shedder import Shedder, value_of
from streams.vectors.chunk import stream_schema

schema = stream_schema({"number": "int", "speed": "float", "name": "string", "near": "bool"})


def rows_of(*speeds: float | None, near: bool | None = True) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {"_ts": 10, "number": number, "speed": speed, "name": "x", "near": near}
            for number, speed in enumerate(speeds)
        ],
        schema=schema,
    )


def numbers(rows: pa.RecordBatch | pa.Table) -> list[int]:
    return rows.column("number").to_pylist()


def test_lets_everything_in_up_to_the_limit() -> None:
    rows = rows_of(1, 2, 3)
    shed = Shedder(3, 1000).admit(rows, 0)
    assert shed.kept is rows
    assert shed.dropped == 0


def test_without_a_value_the_latest_are_dropped() -> None:
    shed = Shedder(2, 1000).admit(rows_of(1, 2, 3), 0)
    assert numbers(shed.kept) == [0, 1]
    assert shed.dropped == 1


def test_least_valuable_are_dropped_and_the_others_stay_in_order() -> None:
    shed = Shedder(3, 1000, value_of("speed", schema)).admit(rows_of(4, 1, 3, 2, 5), 0)
    assert numbers(shed.kept) == [0, 2, 4]
    assert shed.dropped == 2
    assert shed.kept.schema.equals(schema)


def test_of_equally_valuable_tuples_the_later_are_dropped() -> None:
    shed = Shedder(2, 1000, value_of("speed", schema)).admit(rows_of(1, 2, 1, 1), 0)
    assert numbers(shed.kept) == [0, 1]


def test_tuples_without_a_value_are_dropped_first() -> None:
    shedder = Shedder(2, 1000, value_of("-speed", schema))
    assert numbers(shedder.admit(rows_of(None, 1e300, float("nan"), 5), 0).kept) == [1, 3]
    endless = Shedder(1, 1000, lambda rows: np.array([np.nan, -np.inf]))
    assert numbers(endless.admit(rows_of(1, 2), 0).kept) == [1]


def test_batches_of_an_interval_share_its_room_and_the_next_has_its_own() -> None:
    shedder = Shedder(3, 1000)
    assert shedder.admit(rows_of(1, 2), 1999).dropped == 0
    assert shedder.admit(rows_of(1, 2), 2000).dropped == 0
    assert shedder.admit(rows_of(1, 2), 2999).dropped == 1
    assert shedder.admit(rows_of(1, 2), 2999).dropped == 2
    assert shedder.admit(rows_of(1, 2), 3000).dropped == 0


def test_room_that_was_not_used_is_not_saved() -> None:
    shedder = Shedder(2, 1000)
    shedder.admit(rows_of(), 0)
    assert shedder.admit(rows_of(1, 2, 3), 1000).dropped == 1


def test_time_that_falls_opens_no_interval_again() -> None:
    shedder = Shedder(2, 1000)
    shedder.admit(rows_of(1, 2), 0)
    shedder.admit(rows_of(1), 1000)
    assert shedder.admit(rows_of(1, 2), 999).dropped == 1


def test_limit_of_nothing_drops_everything() -> None:
    shed = Shedder(0, 1000, value_of("speed", schema)).admit(rows_of(1, 2), 0)
    assert (shed.kept.num_rows, shed.dropped) == (0, 2)
    assert shed.kept.schema.equals(schema)


def test_sheds_tables_of_several_chunks() -> None:
    table = pa.Table.from_batches([rows_of(1, 9), rows_of(5, 7)])
    shed = Shedder(2, 1000, value_of("speed", schema)).admit(table, 0)
    assert shed.kept.column("speed").to_pylist() == [9, 7]
    assert isinstance(shed.kept, pa.Table)


def test_value_is_an_expression_of_the_query_language() -> None:
    value = value_of("abs(speed - 3) * 2 + number -- how odd it is", schema)
    assert value(rows_of(1, 3, 7)).tolist() == [4, 1, 10]
    assert value_of("stream.number", schema)(rows_of(1, 1)).tolist() == [0, 1]


def test_constant_values_every_tuple_alike() -> None:
    assert value_of("2", schema)(rows_of(1, 2, 3)).tolist() == [2, 2, 2]


def test_condition_is_worth_one_where_it_holds() -> None:
    values = value_of("speed > 2", schema)(rows_of(1, 3, None))
    assert values.tolist()[:2] == [0, 1]
    assert np.isnan(values[2])


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("sped * 2", 1, "stream has no column sped; did you mean speed?"),
        ("2 * sped", 5, "did you mean speed?"),
        ("name", 1, "a value is a number or a condition, this is of type string"),
        ("speed + name", 1, "+ takes numbers, not float and string"),
        ("sqr(speed)", 1, "there is no function sqr"),
        ("count(*)", 1, "an aggregate has no value for a single tuple"),
        ("speed)", 6, "')' is not expected here"),
        ("speed +", 8, "this is not one whole expression"),
        ("(speed", 7, "this is not one whole expression"),
        ("", 1, "this is not one whole expression"),
        ("*", 2, "this is not one whole expression"),
        ("speed AS v", 11, "this is not one whole expression"),
        ("speed ? 2", 7, "'?' is not expected here"),
        ("speed, number", 1, "this is more than one expression"),
        (
            "speed AS v FROM stream [NOW] UNION ALL SELECT number",
            1,
            "this is more than one expression",
        ),
    ],
)
def test_says_what_is_wrong_with_an_expression_and_where(text: str, column: int, said: str) -> None:
    with pytest.raises(QueryError) as error:
        value_of(text, schema)
    assert said in error.value.message
    assert "; expected" not in error.value.message
    assert (error.value.line, error.value.column) == (1, column)


def test_place_of_an_error_counts_lines() -> None:
    with pytest.raises(QueryError) as error:
        value_of("speed +\n  sped", schema)
    assert (error.value.line, error.value.column) == (2, 3)


def test_expression_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(QueryError, match="nested too deeply"):
        value_of("- " * 2000 + "speed", schema)


@pytest.mark.parametrize(("limit", "per_us"), [(-1, 1000), (5, 0)])
def test_refuses_a_limit_that_is_none(limit: int, per_us: int) -> None:
    with pytest.raises(ValueError, match="give"):
        Shedder(limit, per_us)
