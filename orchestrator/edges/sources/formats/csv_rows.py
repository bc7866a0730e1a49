"""Rows of CSV.

pyarrow reads them as the stream's types. If it cannot, or takes what is no such value, they are
read as texts, which `orchestrator.edges.sources.formats.column_values` converts; it names the one
that does not fit.
"""

from __future__ import annotations

import contextlib
import csv as lines_of_csv
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from orchestrator.edges.sources.formats.column_values import first_failing, reader_type
from orchestrator.edges.sources.formats.row_form import (
    BOM,
    Ignored,
    ReadRows,
    RowForm,
    Unreadable,
    first_seen,
    no_rows,
    short,
)

_line = re.compile(rb"[^\r\n]+")
"""A line that is not empty."""

_said = re.compile(r"^(CSV parse error: )?(Row #\d+: )?")
"""What pyarrow says before the problem; it counts rows of one sort of many."""

_in_column = re.compile(r"^In CSV column #(\d+): (Row #\d+: )?")


def read(form: RowForm, body: bytes, header: bool) -> ReadRows:
    """The rows of a body, whose first line names the columns if there is a header.

    Raises
    ------
    Unreadable
        The body does not hold rows of such columns.
    """
    wanted = given = list(map(".".join, form.paths.values()))
    begin, unknown = 0, None
    if header:
        given, begin = header_of(body)
        unknown = form.check_names(wanted, given)
    data, quoted = pa.py_buffer(body).slice(begin), b'"' in body
    if not first_seen(body, begin):
        return no_rows(form)
    types = {field: reader_type(form, name) for field, name in zip(wanted, form.names, strict=True)}
    table = None
    with contextlib.suppress(pa.ArrowException, OSError):
        table = _table(form, data, given, types, quoted)
    if table is None or _is_doubtful(body, table, types):
        texts = dict.fromkeys(wanted, pa.string())
        try:
            table = _table(form, data, given, texts, quoted)
        except (pa.ArrowException, OSError):
            raise _explained(form, body, given, header) from None
    if quoted and not _are_lines(form, body, given, table.num_rows + header):
        raise _explained(form, body, given, header)
    return ReadRows(
        columns=dict(zip(form.names, table.columns, strict=True)),
        count=table.num_rows,
        are_texts=True,
        ignored=Ignored.in_all(table.num_rows, unknown),
        place=lambda index: f"line {line_number(body, index + header)}",
    )


def header_of(body: bytes) -> tuple[list[str], int]:
    """The names in the first line, and where it ends."""
    first = _line.search(body)
    if first is None or not first_seen(body):
        raise Unreadable("the body is empty; CSV begins with the names of the columns")
    try:
        (names,) = lines_of_csv.reader([first[0].decode("utf-8-sig")], strict=True)
    except (ValueError, lines_of_csv.Error) as error:
        raise Unreadable(f"the names of the columns cannot be read: {error}", "line 1") from None
    return [name.strip() for name in names], first.end()


def _table(
    form: RowForm,
    data: pa.Buffer,
    given: Sequence[str],
    types: Mapping[str, pa.DataType],
    quoted: bool,
) -> pa.Table:
    return csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(
            use_threads=False, column_names=list(given), block_size=1 << 22
        ),
        parse_options=csv.ParseOptions(newlines_in_values=quoted),
        convert_options=csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=list(form.nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _are_lines(form: RowForm, body: bytes, given: Sequence[str], count: int) -> bool:
    """Whether a body that was read as so many rows, with the header, has each on a line."""
    lines, last = 0, b""
    # One after the other: a file may have millions.
    for line in _line.finditer(body):
        lines, last = lines + 1, line[0]
    return lines == count and _ends_its_row(form, last, given)


def _ends_its_row(form: RowForm, line: bytes, given: Sequence[str]) -> bool:
    """Whether a line is a row whatever comes after it: no quote is left open."""
    if b'"' not in line:
        return True
    line = line.removeprefix(BOM)
    texts = dict.fromkeys(map(".".join, form.paths.values()), pa.string())
    # The reader lets the end of its input close a quote. After an open one, a second line is
    # part of the first.
    try:
        return _table(form, pa.py_buffer(line + b"\n" + line), given, texts, True).num_rows == 2
    except (pa.ArrowException, OSError):
        return False


def _is_doubtful(body: bytes, table: pa.Table, types: Mapping[str, pa.DataType]) -> bool:
    """Whether pyarrow may have taken what is no number: it reads 0x10 as 16, 1e400 as infinite."""
    kinds = set(types.values())
    # A letter alone is found at the speed of memory, zeros are everywhere.
    if pa.int64() in kinds and any(x in body and b"0" + x in body for x in (b"x", b"X")):
        return True
    floats = [column for column in table.columns if column.type == pa.float64()]
    return any(pc.any(pc.is_inf(column)).as_py() for column in floats)


def _explained(form: RowForm, body: bytes, given: Sequence[str], header: bool) -> Unreadable:
    """What is wrong with a body that is no table of texts, and in which line."""
    lines: list[bytes] = _line.findall(body)[int(header) :]
    texts = dict.fromkeys(map(".".join, form.paths.values()), pa.string())

    def attempt(begin: int, end: int) -> None:
        part = b"\n".join(lines[begin:end])
        table = _table(form, pa.py_buffer(part), given, texts, b'"' in part)
        if not _are_lines(form, part, given, table.num_rows):
            raise ValueError("a quote does not end in its line; each row is one line")

    index, said = first_failing(len(lines), attempt), "no row of CSV"
    try:
        # With the one before it: only the first may begin with a BOM.
        attempt(max(index - 1, 0), index + 1)
    except (pa.ArrowException, ValueError) as problem:
        # The reader counts columns, from 0.
        said = _said.sub("", short(problem))
        said = _in_column.sub(lambda at: f"column {given[int(at[1])]}: ", said)
    return Unreadable(said, f"line {line_number(body, index + header)}")


def line_number(body: bytes, index: int) -> int:
    """The line, counted from 1, that is the index-th, from 0, of those that are not empty."""
    numbers = (n for n, line in enumerate(body.splitlines(), 1) if line)
    return next(number for at, number in enumerate(numbers) if at == index)
