"""What rows that nobody has described are taken for."""

from __future__ import annotations

import pyarrow as pa
import pytest

from orchestrator.edges.sources.formats.inference import (
    TimeColumn,
    Unclear,
    infer_lines,
    infer_table,
)
from orchestrator.edges.sources.formats.row_form import Format, Unreadable

NOTHING = TimeColumn()


def csv(*lines: str, time: TimeColumn = NOTHING) -> tuple[dict[str, str], str | None, str]:
    form = infer_lines(Format.CSV, "\n".join(lines).encode(), time).form
    return dict(form.columns), form.time_column, form.time_format


def test_types_are_those_of_the_values() -> None:
    columns, *_ = csv(
        "at,whole,part,flag,text,day,empty", "1,7,1.5,true,a,2026-07-01,", "2,,2,false,,,"
    )
    assert columns == {
        "whole": "int", "part": "float", "flag": "bool", "text": "string", "day": "string",
        "empty": "string",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("0", "ms"),
        ("1700000000", "s"),
        ("1700000000.25", "s"),
        ("1700000000000", "ms"),
        ("1700000000000000", "us"),
        ("1700000000000000000", "ns"),
        ("2026-07-01T12:00:00Z", "iso"),
    ],
)
def test_a_timestamp_shows_how_it_is_written(value: str, written: str) -> None:
    assert csv("x,time", f"1,{value}")[1:] == ("time", written)


def test_ours_is_in_milliseconds_however_small_or_large() -> None:
    assert csv("_ts,time", "1700000000,2026-07-01")[1:] == ("_ts", "ms")


def test_the_only_column_with_dates_is_the_timestamp() -> None:
    assert csv("when,x", "2026-07-01 12:00:00,1")[1:] == ("when", "iso")
    with pytest.raises(Unclear, match="begin, end could all be the timestamp"):
        csv("begin,end", "2026-07-01,2026-07-02")
    with pytest.raises(Unclear, match="has no timestamp; its columns are x, y"):
        csv("x,y", "1,2")


def test_a_named_column_is_the_timestamp() -> None:
    time = TimeColumn(name="when", written="%d.%m.%Y")
    assert csv("at,when", "1,01.07.2026", time=time)[1:] == ("when", "%d.%m.%Y")
    with pytest.raises(Unclear, match="Did you mean when"):
        csv("at,when", "1,2", time=TimeColumn(name="wen"))


def test_a_line_that_is_wrong_leaves_the_types_of_the_first_ones() -> None:
    assert csv("at,x", "1,7", "2,8,9")[0] == {"x": "int"}
    body = b'{"at": 1, "x": 1.5}\n{"at": 2, "x": '
    assert dict(infer_lines(Format.JSON, body, NOTHING).form.columns) == {"x": "float"}


def test_a_few_values_that_make_a_column_text_are_told() -> None:
    body = b"at,x,y,z\n1,7,a,1\n\n2,?,1,2\n3,8.5,b,3\n4,,c,4\n"
    found = infer_lines(Format.CSV, body, NOTHING)
    assert dict(found.form.columns) == {"x": "string", "y": "string", "z": "int"}
    assert found.doubtful == {"x": "'?' in line 4"}


@pytest.mark.parametrize(
    ("separator", "told"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")]
)
def test_columns_that_no_comma_separates_are_told_so(separator: str, told: str) -> None:
    with pytest.raises(Unclear, match=f"has {told} between its columns") as raised:
        csv(f"at{separator}x", f"1{separator}2")
    assert "separated by commas" in raised.value.remedy


def test_what_no_type_or_name_holds_is_left_out() -> None:
    body = b'{"at": 1, "x": 1, "tags": ["a"], "a.b": 2, "_seq": 3}\n'
    found = infer_lines(Format.JSON, body, NOTHING)
    assert dict(found.form.columns) == {"x": "int"}
    assert found.left_out == {
        "tags": "it is of type list<item: string>",
        "a.b": "its name cannot be that of a column",
        "_seq": "its name is reserved: _seq is the number of a tuple",
    }


def test_a_table_shows_its_types() -> None:
    table = pa.table(
        {
            "at": pa.array([0], pa.timestamp("us")),
            "code": pa.array(["a"]).dictionary_encode(),
            "small": pa.array([1], pa.int8()),
            "day": pa.array([0], pa.date32()),
        }
    )
    found = infer_table(table, NOTHING)
    assert dict(found.form.columns) == {"code": "string", "small": "int"}
    assert list(found.left_out) == ["day"]


def test_nothing_shows_nothing() -> None:
    with pytest.raises(Unreadable, match="it is empty"):
        csv("")
    assert csv("", time=TimeColumn(name="at")) == ({}, "at", "ms")
