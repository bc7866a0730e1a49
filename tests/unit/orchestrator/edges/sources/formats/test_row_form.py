"""Fields of the input: where columns come from, and what becomes of those that no column has."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from orchestrator.edges.sources.formats.files import read_rows
from orchestrator.edges.sources.formats.formats import parse
from orchestrator.edges.sources.formats.row_form import (
    Format,
    Ignored,
    RowForm,
    Unknown,
    Unreadable,
)

FORM = RowForm(
    columns={"user_id": "int", "region": "string", "group": "string"},
    time_column="@timestamp",
    time_format="ms",
    fields={"user_id": ("user", "id"), "region": ("geo.region",)},
)
ROWS = [
    {"_ts": 5, "user_id": 3, "region": "x", "group": "g"},
    {"_ts": 6, "user_id": None, "region": None, "group": None},
]
JSON = b"""{"@timestamp": 5, "user": {"id": 3}, "geo.region": "x", "group": "g"}
{"@timestamp": 6, "user": null}
"""
CSV = b'group,@timestamp,"user.id",geo.region\ng,5,3,x\n,6,,\n'
TABLE = pa.table(
    {
        "geo.region": ["x", None],
        "user": pa.array([{"id": 3}, None], pa.struct([("id", pa.int32())])),
        "group": ["g", None],
        "@timestamp": [5, 6],
    }
)


def arrow(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    writer = ipc.new_stream(sink, table.schema)
    writer.write_table(table)
    writer.close()
    return sink.getvalue()


def columnar(table: pa.Table, form: RowForm, note: Any = None) -> pa.RecordBatch:
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return read_rows(".parquet", sink, form, *([] if note is None else [note]))


@pytest.mark.parametrize(
    ("written", "body"), [(Format.JSON, JSON), (Format.CSV, CSV), (Format.ARROW, arrow(TABLE))]
)
def test_a_column_comes_from_the_field_that_is_named(written: Format, body: bytes) -> None:
    assert parse(FORM, written, body).to_pylist() == ROWS


@pytest.mark.parametrize("texts", [["north", "south"], ["a" * 1000] * 2])
def test_a_text_within_a_struct_of_parquet_is_read(texts: list[str]) -> None:
    assert columnar(TABLE, FORM).to_pylist() == ROWS
    form = RowForm(columns={"name": "string"}, fields={"name": ("user", "name")})
    table = pa.table({"user": [{"name": text, "other": 1} for text in texts]})
    assert columnar(table, form).column(1).to_pylist() == texts


@pytest.mark.parametrize(
    ("written", "body", "reason"),
    [
        (Format.JSON, b'{"@timestamp": 5, "user": 3}', "^line 1: column user: number instead"),
        (Format.JSON, b'{"@timestamp": 5, "user": {"id": "x"}}', "^line 1: column user_id: string"),
        (Format.CSV, b"group,@timestamp,user,geo.region\n", "column user.id is missing"),
        (Format.ARROW, arrow(TABLE.drop_columns("user")), "column user is missing"),
        (
            Format.ARROW,
            arrow(TABLE.set_column(1, "user", [[1, 2]])),
            "column user_id is missing: there is no field user.id",
        ),
    ],
)
def test_a_field_that_is_not_there_is_named(written: Format, body: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        parse(FORM, written, body)


TWO = RowForm(columns={"n": "int", "m": "int"}, fields={"m": ("in", "m")})
MORE = pa.table({"n": [1, 2], "more": [[1], []], "in": [{"m": 1}, {"m": 2}]})
DEEPER = pa.table({"n": [1, 2], "in": [{"m": 1, "more": 1}, {"m": 2, "more": 1}]})
UNKNOWN: list[tuple[Format, bytes, Ignored]] = [
    (Format.JSON, b'{"n": 1}\n{"n": 2, "x": {"n": "a"}, "y": 1}\n{"x": [1]}', Ignored(2, "x")),
    (Format.JSON, b'{"n": 1} {"x": null}\n{"n":\n3}', Ignored(1, "x")),
    (Format.JSON, b'{"in": {"m": 1, "x": 2}}\n{"in": {"m": 1}}', Ignored(1, "in.x")),
    (Format.JSON, b'{"n": 1, "x": 1}\n' * 1000, Ignored(1000, "x")),
    (Format.JSON, b'{"n": 1}\n{"n": 1, "x": 1}\n' * 1000, Ignored(1000, "x")),
    (Format.JSON, b'{"n": 1, "x": 1}\n{"n": 1}\n' * 1000, Ignored(1000, "x")),
    (Format.CSV, b"x,n,in.m\na,1,1\n,2,2\n", Ignored(2, "x")),
    (Format.ARROW, arrow(MORE), Ignored(2, "more")),
    (Format.ARROW, arrow(DEEPER), Ignored(2, "in.more")),
]


@pytest.mark.parametrize(("written", "body", "ignored"), UNKNOWN)
def test_a_field_that_no_column_has_is_left_out_and_counted(
    written: Format, body: bytes, ignored: Ignored
) -> None:
    told: list[Ignored] = []
    rows = parse(TWO, written, body, note=told.append)
    assert rows.num_rows >= 2
    assert rows.schema == TWO.schema
    assert told == [ignored]


@pytest.mark.parametrize(("written", "body", "ignored"), UNKNOWN)
def test_it_is_refused_where_the_manifest_says_so(
    written: Format, body: bytes, ignored: Ignored
) -> None:
    strict = RowForm(columns=TWO.columns, fields=TWO.fields, unknown=Unknown.REJECT)
    with pytest.raises(
        Unreadable, match=f"field {ignored.field} is none of the stream's, .* n, in"
    ):
        parse(strict, written, body)


@pytest.mark.parametrize(("table", "name"), [(MORE, "more"), (DEEPER, "in.more")])
def test_the_same_holds_for_parquet(table: pa.Table, name: str) -> None:
    told: list[Ignored] = []
    assert columnar(table, TWO, told.append).column(2).to_pylist() == [1, 2]
    assert told == [Ignored(2, name)]
    strict = RowForm(columns=TWO.columns, fields=TWO.fields, unknown=Unknown.REJECT)
    with pytest.raises(Unreadable, match=f"field {name} is none"):
        columnar(table, strict)


def test_rows_without_other_fields_tell_nothing() -> None:
    told: list[Ignored] = []
    for written, body in ((Format.JSON, JSON), (Format.CSV, CSV), (Format.ARROW, arrow(TABLE))):
        parse(FORM, written, body, note=told.append)
    assert not told


def test_a_manifest_may_name_other_texts_that_stand_for_null() -> None:
    form = RowForm(columns={"n": "int", "name": "string"}, nulls=("NULL", "NaN"))
    body = b'n,name\nNULL,NULL\nNaN,"NULL"\n1,\n'
    assert parse(form, Format.CSV, body).to_pylist() == [
        {"_ts": 0, "n": None, "name": None},
        {"_ts": 0, "n": None, "name": "NULL"},
        {"_ts": 0, "n": 1, "name": ""},
    ]
    default = RowForm(columns={"n": "int", "name": "string"})
    with pytest.raises(Unreadable, match="'NULL' is no int; if it stands for NULL, add it to"):
        parse(default, Format.CSV, body)


@pytest.mark.parametrize("count", [1, 2, 3, 100])
@pytest.mark.parametrize("bad", [0, 1, 57])
def test_every_format_names_the_place_of_a_value(count: int, bad: int) -> None:
    bad %= count
    form = RowForm(columns={"n": "int", "name": "string"})
    numbers = [1.5 if at == bad else float(at) for at in range(count)]
    csv = "\n\nn,name\n" + "\n\n".join(f"{n},a" for n in numbers)
    json = "\n".join(f'\n{{"n": {n}}}' for n in numbers)
    table = pa.table({"n": numbers, "name": ["a"] * count})
    places = {
        Format.CSV: (csv.encode(), f"line {4 + 2 * bad}: column n: '1.5' is no int"),
        Format.JSON: (json.encode(), f"line {2 + 2 * bad}: column n: 1.5 is no int"),
        Format.ARROW: (arrow(table), f"row {1 + bad}: column n: 1.5 is no int"),
    }
    for written, (body, message) in places.items():
        with pytest.raises(Unreadable) as found:
            parse(form, written, body)
        assert str(found.value) == message
    with pytest.raises(Unreadable, match=f"^row {1 + bad}: column n: 1.5 is no int$"):
        columnar(table, form)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"a,b\n1,2\n\n1,2,3\n4,5\n", "line 4: Expected 2 columns, got 3: 1,2,3"),
        (
            b'a,b\n1,2\n1,"2\n4",5\n',
            "line 3: a quote does not end in its line; each row is one line",
        ),
        (
            b"a,b\n1,2\n3,\xff\n",
            "line 3: column b: CSV conversion error to string: invalid UTF8 data",
        ),
    ],
)
def test_what_is_no_line_of_csv_is_named_by_its_line(body: bytes, message: str) -> None:
    with pytest.raises(Unreadable) as found:
        parse(RowForm(columns={"a": "int", "b": "string"}), Format.CSV, body)
    assert str(found.value) == message


@pytest.mark.parametrize(
    "body", [b'a,b\n1,2\n3,"4\n', b'a,b\n1,2\n3,"4', b'a,b\n1,2\n3,"4\r\n\r\n']
)
def test_a_last_line_of_csv_whose_quote_does_not_end_is_refused(body: bytes) -> None:
    with pytest.raises(Unreadable) as found:
        parse(RowForm(columns={"a": "int", "b": "string"}), Format.CSV, body)
    assert str(found.value) == "line 3: a quote does not end in its line; each row is one line"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("%F %T", "2023-02-30 00:00:00"), ("%D", "02/30/23"), ("%e.%m.%Y", "31.4.2023")],
)
def test_a_day_that_its_month_does_not_have_is_refused_in_any_pattern_that_reads_days(
    pattern: str, text: str
) -> None:
    form = RowForm(columns={"k": "int"}, time_column="at", time_format=pattern)
    with pytest.raises(Unreadable, match="at, the timestamp"):
        parse(form, Format.CSV, f"at,k\n{text},1\n".encode())


def test_a_week_is_not_taken_for_the_first_day_of_1900() -> None:
    form = RowForm(columns={"k": "int"}, time_column="at", time_format="%G-W%V-%u")
    try:
        found = parse(form, Format.CSV, b"at,k\n2026-W27-4,1\n").column(0).to_pylist()
    except Unreadable:
        return
    assert found == [1_782_950_400_000]


@pytest.mark.parametrize("body", [b'{"a": 1},\n{"a": 2}\n', b'{"a": 1}}\n'])
def test_signs_after_an_object_of_json_are_not_blamed_on_a_column(body: bytes) -> None:
    with pytest.raises(Unreadable, match="line 1: no JSON"):
        parse(RowForm(columns={"a": "int"}), Format.JSON, body)
