"""Bad input is one clear error, and never the end of a site; what is promised to enter does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from orchestrator.edges.sources.formats.formats import parse
from orchestrator.edges.sources.formats.row_form import Format, RowForm, Unreadable

FORM = RowForm(columns={"number": "int", "name": "string"})

PARSE = """
import sys
from orchestrator.edges.sources.formats.formats import parse, salvage
from orchestrator.edges.sources.formats.row_form import Format, RowForm, Unreadable
form = RowForm(columns={"number": "int", "name": "string"})
body = sys.stdin.buffer.read()
refused = []
try:
    if sys.argv[1] == "batch":
        parse(form, Format.JSON, body)
    else:
        list(salvage(form, Format.JSON, body, lambda _, line, reason: refused.append(line)))
except Unreadable:
    refused.append(body)
print(len(refused))
"""


@pytest.mark.parametrize("how", ["batch", "lines"])
@pytest.mark.parametrize("body", [b"null", b'null\n{"number": 1}'])
def test_a_json_null_is_refused_and_does_not_end_the_process(how: str, body: bytes) -> None:
    # In a process of its own: this one would end with it.
    done = subprocess.run([sys.executable, "-c", PARSE, how], input=body, capture_output=True)
    assert done.returncode == 0, f"the process ended by signal {-done.returncode}"
    assert done.stdout.strip() == b"1"


def test_a_json_null_among_rows_is_no_row() -> None:
    with pytest.raises(Unreadable):
        parse(FORM, Format.JSON, b'{"number": 1, "name": "a"}\nnull\n')


@pytest.mark.parametrize("stamp", ["2021-10-07T12:00:01.123456", "2021-10-07 12:00:01.123456789"])
def test_an_iso_timestamp_without_a_zone_may_be_finer_than_milliseconds(stamp: str) -> None:
    # As Python's `datetime.isoformat()` writes it. "ISO 8601, UTC if no zone is written".
    form = RowForm(columns={"number": "int"}, time_column="at", time_format="iso")
    read = parse(form, Format.CSV, f"at,number\n{stamp},7\n".encode())
    assert read.to_pylist() == [{"_ts": 1633608001123, "number": 7}]


def test_iso_timestamps_with_and_without_a_zone_may_stand_in_one_batch() -> None:
    form = RowForm(columns={"number": "int"}, time_column="at", time_format="iso")
    body = b"at,number\n2021-10-07T12:00:01Z,1\n2021-10-07T12:00:02,2\n"
    read = parse(form, Format.CSV, body)
    assert read.column(0).to_pylist() == [1633608001000, 1633608002000]


QUOTED = RowForm(columns={"a": "string", "b": "string", "c": "string"})


def test_a_quote_that_does_not_end_takes_no_rows_along() -> None:
    with pytest.raises(Unreadable, match="each row is one line"):
        parse(QUOTED, Format.CSV, b'a,b,c\n1,2,"oops\n3,4,5\n6,7,8\n')


@pytest.mark.parametrize("header", [True, False])
def test_quotes_and_empty_lines_are_no_line_ends(header: bool) -> None:
    body = b'1,"2, ""3""",4\r\n\r\n5,6" pipe,7\n\n' + b'8,9,"0"'
    read = parse(QUOTED, Format.CSV, (b'"a",b,c\n' if header else b"") + body, header=header)
    assert read.column(2).to_pylist() == ['2, "3"', '6" pipe', "9"]


def test_a_line_end_in_quotes_is_refused_wherever_in_a_body_it_stands() -> None:
    row = b'x,y,"p\nq,r,s"\n'
    begin = b"a,b,c\n"
    with pytest.raises(Unreadable, match="each row is one line"):
        parse(QUOTED, Format.CSV, begin + row)
    line = b"1,2," + b"3" * 1000 + b"\n"
    # The quoted line end is the last one within the first 4 MiB.
    count, left = divmod(2**22 - 3 - len(begin), len(line))
    last = b"1,2," + b"3" * (left + len(line) - 5) + b"\n"
    with pytest.raises(Unreadable, match="each row is one line"):
        parse(QUOTED, Format.CSV, begin + line * (count - 1) + last + row)


def test_null_in_a_text_is_no_row() -> None:
    body = b'{"number": 1, "name": "} null"}\n{"number": 2}\n'
    assert parse(FORM, Format.JSON, body).column(2).to_pylist() == ["} null", None]
