"""Rows that others write: what enters, and with which reason the rest is refused."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import ipc

from orchestrator.edges.sources.formats.formats import parse, salvage
from orchestrator.edges.sources.formats.json_rows import MOST_VALUES
from orchestrator.edges.sources.formats.row_form import BOM, Format, RowForm, Unreadable

FORM = RowForm(
    columns={"number": "int", "weight": "float", "name": "string", "good": "bool"},
    time_column="at",
)
SECOND_MS = 1633608001000
ROWS = [
    {"_ts": SECOND_MS, "number": 1, "weight": 2.5, "name": "a", "good": True},
    {"_ts": SECOND_MS + 123, "number": None, "weight": 3.0, "name": "", "good": False},
]
CSV = b"""at,number,weight,name,good,more
2021-10-07T12:00:01Z,1,2.5,a,true,x
2021-10-07T12:00:01.1234567Z,,3,"",false,x
"""
JSON = b"""{"at": "2021-10-07T12:00:01", "number": 1, "weight": 2.5, "name": "a", "good": true}

{"at": "2021-10-07T12:00:01.123", "weight": 3, "name": "", "good": false}
"""


def arrow(table: pa.Table, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    options = ipc.IpcWriteOptions(compression=compression)
    writer = ipc.new_stream(sink, table.schema, options=options)
    writer.write_table(table)
    writer.close()
    return sink.getvalue()


TABLE = pa.Table.from_pydict(
    {
        "more": ["x", "x"],
        "at": pa.array([SECOND_MS, SECOND_MS + 123]).cast(pa.timestamp("ms", "UTC")),
        "name": ["a", ""],
        "good": [True, False],
        "number": pa.array([1, None], pa.int32()),
        "weight": [2.5, 3.0],
    }
)
NUMBERS = RowForm(columns={"number": "int"})


@pytest.mark.parametrize(
    ("written", "body"), [(Format.CSV, CSV), (Format.JSON, JSON), (Format.ARROW, arrow(TABLE))]
)
def test_rows_are_read_by_their_names_and_types(written: Format, body: bytes) -> None:
    assert parse(FORM, written, body).to_pylist() == ROWS


@pytest.mark.parametrize(
    ("written", "stamp"),
    [("s", "1633608001.123"), ("ms", "1633608001123"), ("us", "1633608001123999"),
     ("ns", "1633608001123999999"), ("iso", "2021-10-07 12:00:01.123")],
)  # fmt: skip
def test_formats_of_timestamps(written: str, stamp: str) -> None:
    form = RowForm(columns={"number": "int"}, time_column="at", time_format=written)
    read = parse(form, Format.CSV, f"{stamp},7".encode(), header=False)
    assert read.to_pylist() == [{"_ts": SECOND_MS + 123, "number": 7}]


def test_fine_timestamps_of_any_year_are_read_alike_alone_and_together() -> None:
    form = RowForm(columns={"a": "int"}, time_column="t", time_format="iso")
    lines = [
        b"2300-01-01T00:00:00Z,1",
        b"2021-01-01T00:00:00.123456789Z,2",
        b"1500-01-01T00:00:00.123999999,3",
        b"1969-12-31T23:59:59.9999+00:00,4",
    ]
    alone = [parse(form, Format.CSV, b"t,a\n" + line).to_pylist()[0] for line in lines]
    assert parse(form, Format.CSV, b"t,a\n" + b"\n".join(lines)).to_pylist() == alone
    assert [row["_ts"] % 1000 for row in alone] == [0, 123, 123, 999]


def test_a_pattern_and_a_timestamp_that_is_a_column_of_the_stream() -> None:
    form = RowForm(columns={"at": "string"}, time_column="at", time_format="%d.%m.%Y %H:%M:%S")
    read = parse(form, Format.CSV, b"at\n07.10.2021 12:00:01\n")
    assert read.to_pylist() == [{"_ts": SECOND_MS, "at": "07.10.2021 12:00:01"}]


def test_without_timestamp_the_columns_are_those_of_the_stream() -> None:
    read = parse(NUMBERS, Format.CSV, b"1\n2\n", header=False)
    assert read.to_pylist() == [{"_ts": 0, "number": 1}, {"_ts": 0, "number": 2}]
    assert parse(NUMBERS, Format.JSON, b"\n").num_rows == 0


@pytest.mark.parametrize(
    ("written", "body", "reason"),
    [
        (Format.CSV, b"number\n1\nx\n", "^line 3: column number: 'x' is no int$"),
        (Format.CSV, b"at,number\n1,x\n", "^line 2: column number: 'x' is no int$"),
        (Format.CSV, b"count\n1\n", "column number is missing; there are count"),
        (Format.CSV, b"number,number\n1,2\n", "twice"),
        (Format.CSV, b"number\n1,2\n", "Expected 1 columns, got 2"),
        (Format.CSV, b"number\n99999999999999999999\n", "'99999999999999999999' is no int"),
        (Format.JSON, b'{"number": "x"}', "^line 1: column number: string instead of number$"),
        (Format.JSON, b' [{"number": 1}]', "each row is an object on a line of its own"),
        (Format.JSON, b"1", "^line 1: a number; each row is an object"),
        (Format.JSON, b'{"number": ' + b"[" * 100_000, "array instead of number"),
        (Format.JSON, b'{"number": 9223372036854775808}', "9223372036854775808 is no int"),
        (Format.JSON, b'{"number": 1}\n\n{"number": 1.5}', "^line 3: column number: 1.5 is no int"),
        (Format.JSON, b'{"number": 1}\n{"number": 1e400}', "^line 2: column number: .* 64 bits"),
        (Format.JSON, b'{"number": 1}\n{"number"', "^line 2: no JSON: Missing a colon"),
        (Format.JSON, b'{"number": 1, "number": 1}', "^line 1: column number stands there twice"),
        (Format.JSON, b'{"number": 1.%b1}' % (b"0" * 60), "^line 1: column number: 1.000.* no int"),
        (Format.JSON, b'{"number": 1, "x\xff": 1}', "can't decode byte 0xff"),
        (Format.JSON, '{"number": 1}'.encode("utf-16"), "can't decode"),
        (Format.JSON, b"{}" * (MOST_VALUES + 1), "send fewer rows at once"),
        (Format.CSV, b"number\n1\0\n", "is no int"),
        (Format.CSV, b"\0" * 1000, "column number is missing"),
        (Format.ARROW, b"", "empty"),
        (Format.ARROW, b"\xff\xff\xff\xff\xff\xff\xff\x7f" + arrow(TABLE)[8:], "2147483647"),
        (Format.ARROW, b"number\n1\n", "."),
        (Format.ARROW, arrow(TABLE)[:-100], "."),
        (Format.ARROW, arrow(TABLE.select(["number"]), "zstd"), "compressed"),
        (
            Format.ARROW,
            arrow(pa.Table.from_pydict({"number": [[1]]})),
            "type list.*; cast it to int64",
        ),
        (Format.ARROW, arrow(pa.Table.from_pydict({"number": ["x"]})), "column number is of type"),
        (
            Format.ARROW,
            arrow(pa.Table.from_pydict({"number": [1, 1.5]})),
            "^row 2: .* 1.5 is no int",
        ),
    ],
)
def test_what_is_no_row_is_refused_with_the_reason(
    written: Format, body: bytes, reason: str
) -> None:
    with pytest.raises(Unreadable, match=reason):
        parse(NUMBERS, written, body)


def test_an_empty_timestamp_is_refused() -> None:
    with pytest.raises(Unreadable, match="line 1: column at, the timestamp: it is empty"):
        parse(FORM, Format.JSON, b'{"number": 1}')
    with pytest.raises(
        Unreadable, match="column at, the timestamp: 'yesterday' is not of format iso"
    ):
        parse(FORM, Format.CSV, b"yesterday,1,2,a,true", header=False)


@pytest.mark.parametrize("written", [Format.JSON, Format.CSV])
def test_a_text_that_is_no_utf_8_does_not_enter(written: Format) -> None:
    """Whoever reads the stream later could not read it."""
    form = RowForm(columns={"name": "string"})
    body = {Format.JSON: b'{"name": "\xff\xfe"}', Format.CSV: b"\xff\xfe\n"}[written]
    with pytest.raises(Unreadable, match=r"can't decode|invalid UTF8"):
        parse(form, written, body, header=False)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_a_timestamp_that_is_no_time_is_refused(seconds: float) -> None:
    form = RowForm(columns={"number": "int"}, time_column="at", time_format="s")
    table = pa.Table.from_pydict({"at": [seconds], "number": [1]})
    with pytest.raises(Unreadable, match=r"column at, the timestamp: .* is not of format s"):
        parse(form, Format.ARROW, arrow(table))
    with pytest.raises(Unreadable, match=r"column at, the timestamp: .* is not of format s"):
        parse(form, Format.CSV, f"{seconds},1".encode(), header=False)


def test_seconds_that_are_too_many_for_milliseconds_are_refused() -> None:
    """As milliseconds they would wrap around to 0."""
    form = RowForm(columns={"number": "int"}, time_column="at")
    table = pa.Table.from_pydict({"at": pa.array([2**62], pa.timestamp("s")), "number": [1]})
    with pytest.raises(Unreadable, match="column at, the timestamp"):
        parse(form, Format.ARROW, arrow(table))


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize(
    ("written", "lines", "read"),
    [
        (Format.CSV, [b'1,"a', b"2,b", b'3,"c"', b'4,d"', b"5,e\r", b"6,f\r7,g"], [2, 3, 4, 5]),
        (
            Format.JSON,
            [b'{"number":', b'1, "name": "a"}', b'{"number": 2}{"number": 3}', b'{"number": 4}'],
            [4],
        ),
    ],
)
def test_what_a_line_is_does_not_depend_on_what_comes_with_it(
    written: Format, lines: list[bytes], read: list[int], size: int
) -> None:
    form = RowForm(columns={"number": "int", "name": "string"})
    refused: list[bytes] = []
    found: list[object] = []
    for begin in range(0, len(lines), size):
        together = b"\n".join(lines[begin : begin + size])
        for batch in salvage(form, written, together, lambda _n, line, _: refused.append(line)):
            found += batch.column(1).to_pylist()
    assert found == read
    assert len(refused) == len(lines) - len(read)


_pieces = {
    Format.CSV: [b"1", b",", b"a", b'"', b" ", b"\r", b"\n", b"2,b\n", b"3,c", BOM],
    Format.JSON: [b"{", b"}", b"1", b'{"number": 2, "name": "b"}', b"\n", b" ", b"{}"],
}


@pytest.mark.parametrize("written", [Format.CSV, Format.JSON])
@given(data=st.data())
def test_lines_that_come_together_are_read_as_each_alone(
    written: Format, data: st.DataObject
) -> None:
    form = RowForm(columns={"number": "int", "name": "string"})
    body = b"".join(data.draw(st.lists(st.sampled_from(_pieces[written]), max_size=20)))

    def read(bodies: list[bytes]) -> tuple[list[dict[str, Any]], list[bytes]]:
        refused: list[bytes] = []
        found = [
            row
            for each in bodies
            for batch in salvage(form, written, each, lambda _n, line, _: refused.append(line))
            for row in batch.to_pylist()
        ]
        return found, refused

    assert read([body]) == read(body.split(b"\n"))


def test_a_line_that_begins_with_a_bom_is_the_same_in_whatever_portion_it_comes() -> None:
    """Two files, one after the other."""
    form = RowForm(columns={"name": "string", "number": "int"})
    first, second = b"a,1", BOM + b"b,2"

    def refuse(_: int, line: bytes, reason: str) -> None:
        raise AssertionError(f"{line!r}: {reason}")

    def read(*bodies: bytes) -> list[Any]:
        found = [b for each in bodies for b in salvage(form, Format.CSV, each, refuse)]
        return [row for batch in found for row in batch.to_pylist()]

    assert read(first + b"\n" + second) == read(first, second)


def test_lines_that_cannot_be_read_spare_the_others() -> None:
    lines = [b'{"number": %d}' % n for n in range(100)]
    lines[3], lines[50], lines[99] = b"nonsense", b'{"number": "x"}', b'{"number": 1}{"number": 2}'
    refused: list[bytes] = []
    batches = salvage(
        NUMBERS, Format.JSON, b"\n".join(lines), lambda _n, line, _: refused.append(line)
    )
    numbers = [n for batch in batches for n in batch.column(1).to_pylist()]
    assert refused == [lines[3], lines[50], lines[99]]
    assert numbers == [n for n in range(100) if n not in (3, 50, 99)]


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        ("%Y-%m-%d", ["2020-02-29", "2021-2-1", "2021-12-31"], ["2021-02-29", "2021-02-30"]),
        ("%d.%m.%y %H:%M:%S", ["29.02.20 00:00:00", "31.12.21 23:59:60"], ["31.04.21 01:00:00"]),
        ("%Y-%m-%d %z", ["2021-03-01 +0500", "2021-02-28 -0500"], ["2021-02-29 +0500"]),
    ],
)
def test_a_day_that_no_month_has_is_refused(
    pattern: str, right: list[str], wrong: list[str]
) -> None:
    form = RowForm(columns={"number": "int"}, time_column="at", time_format=pattern)

    def read(days: list[str]) -> int:
        body = "".join(f"{day},1\n" for day in days).encode()
        return parse(form, Format.CSV, body, header=False).num_rows

    assert read(right) == len(right)
    for day in wrong:
        with pytest.raises(Unreadable, match=r"not of format .*day is out of range"):
            read([*right, day])
