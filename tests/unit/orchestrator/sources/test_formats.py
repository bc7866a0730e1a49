"""Rows that others write: what enters, and with which reason the rest is refused."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from pyarrow import ipc

from orchestrator.sources.formats import Format, RowForm, Unreadable, parse, salvage

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
        (Format.CSV, b"number\n1\nx\n", "invalid value 'x'"),
        (Format.CSV, b"count\n1\n", "column number is missing; there are count"),
        (Format.CSV, b"number,number\n1,2\n", "twice"),
        (Format.CSV, b"number\n1,2\n", "Expected 1 columns, got 2"),
        (Format.CSV, b"number\n99999999999999999999\n", "invalid value"),
        (Format.JSON, b'{"number": "x"}', "number"),
        (Format.JSON, b'{"count": 1}', "column count is not one of the stream's, which are number"),
        (Format.JSON, b'{"number": 1}\n{"number": 2, "n": {"number": 1}}', "column n is not"),
        (Format.JSON, b'{"number": 1}\n\n{"n": 2}\n{"number"', "column n is not"),
        (Format.JSON, b'{"n": 2, "n": 3} {}', "unexpected field"),
        (Format.JSON, b"[1]", "parse error"),
        (Format.JSON, b'{"number": ' + b"[" * 100_000, "parse error"),
        (Format.ARROW, b"", "empty"),
        (Format.ARROW, b"number\n1\n", "."),
        (Format.ARROW, arrow(TABLE)[:-100], "."),
        (Format.ARROW, arrow(TABLE.select(["number"]), "zstd"), "compressed"),
        (Format.ARROW, arrow(pa.Table.from_pydict({"number": [[1]]})), "which no stream has"),
        (Format.ARROW, arrow(pa.Table.from_pydict({"number": ["x"]})), "column number"),
        (Format.ARROW, arrow(pa.Table.from_pydict({"number": [1.5]})), "column number"),
    ],
)
def test_what_is_no_row_is_refused_with_the_reason(
    written: Format, body: bytes, reason: str
) -> None:
    with pytest.raises(Unreadable, match=reason):
        parse(NUMBERS, written, body)


def test_an_empty_timestamp_is_refused() -> None:
    with pytest.raises(Unreadable, match="column at, the timestamp, is empty"):
        parse(FORM, Format.JSON, b'{"number": 1}')
    with pytest.raises(Unreadable, match="column at, the timestamp, is not of format iso"):
        parse(FORM, Format.CSV, b"yesterday,1,2,a,true", header=False)


def test_lines_that_cannot_be_read_spare_the_others() -> None:
    lines = [b'{"number": %d}' % n for n in range(100)]
    lines[3], lines[50], lines[99] = b"nonsense", b'{"number": "x"}', b'{"number": 1}{"number": 2}'
    refused: list[bytes] = []
    batches = salvage(NUMBERS, Format.JSON, lines, lambda line, _: refused.append(line))
    assert refused == [lines[3], lines[50], lines[99]]
    numbers = [n for batch in batches for n in batch.column(1).to_pylist()]
    assert numbers == [n for n in range(100) if n not in (3, 50, 99)]
