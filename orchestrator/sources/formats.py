"""Rows that others write (CSV, JSON lines, Arrow) as tuples of a stream.

pyarrow parses, column by column, on the thread that calls. The types are the stream's, never
guessed. A row that cannot be read refuses its whole batch, with the reason; whoever has single
lines (`salvage`) reads the others without it.

Bounds: a body is bounded by whoever receives it. Compressed Arrow bodies are refused, because their
size says nothing about the memory that they take.
"""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from json import JSONDecoder

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, ipc, json

from streams.arrow_frame import FrameRefused, read_batch
from streams.chunk import stream_schema, type_names

MOST_ROWS = 2**24
"""Rows of one body: a body of empty lines or of columns without width could hold very many."""

MOST_VALUES = 2**25
"""Of one body of JSON, whose rows may leave columns out: `{}` is a row of any number of columns."""

BOM = b"\xef\xbb\xbf"
"""Left out at the beginning of what is read together, so that a line with one is read alone."""

ARRIVAL = "arrival"
"""The timestamp of a tuple is when it arrived."""

UNITS_MS = {"s": 1000.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
"""Formats of timestamps that are numbers since 1970."""

ISO = "iso"
"""Format of timestamps such as `2021-10-07T12:00:01.5Z`; without a zone, UTC."""


_line = re.compile(rb"[^\r\n]+")
"""A line that is not empty."""

_null_row = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|\})\s*null")
"""Perhaps a row of JSON that is null; it may also stand in a text."""

_other_kind = re.compile(
    r"JSON parse error: Column\(/(.*)\) changed from (\w+) to (\w+) in row (\d+)"
)
_csv_column = re.compile(r"In CSV column #(\d+): ")
_row = re.compile(r"\S")

_too_fine = r"(\.\d{3})\d+"
"""A fraction of a second with more digits than milliseconds have."""

_zoned = r"[T ].*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
"""ISO timestamps with a zone."""


class Format(Enum):
    """How rows are written."""

    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


class Unreadable(ValueError):
    """Rows that are not of the stream's form; says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowForm:
    """The rows that a stream takes.

    Attributes
    ----------
    columns
        Column → type, as the stream has them.
    time_column
        The column with the timestamp; it may be one of `columns`. None: tuples have none.
    time_format
        `s`, `ms`, `us`, `ns`, `iso`, or a pattern of strptime.
    """

    columns: Mapping[str, str]
    time_column: str | None = None
    time_format: str = ISO

    @property
    def names(self) -> list[str]:
        """The columns of a row in order: the timestamp first, if it is no column of the stream."""
        extra = self.time_column is not None and self.time_column not in self.columns
        return [*([self.time_column] if extra and self.time_column else []), *self.columns]

    @property
    def schema(self) -> pa.Schema:
        """The stream's: tuples as they are returned."""
        return stream_schema(self.columns)

    def written_type(self, name: str) -> pa.DataType:
        """The type in which a column is read."""
        if name in self.columns:
            return type_names[self.columns[name]]
        return pa.float64() if self.time_format == "s" else self._time_type

    @property
    def _time_type(self) -> pa.DataType:
        return pa.int64() if self.time_format in UNITS_MS else pa.string()


def parse(form: RowForm, written: Format, body: bytes, *, header: bool = True) -> pa.RecordBatch:
    """Tuples in a body, with the stream's schema.

    Parameters
    ----------
    header
        Whether the first line of CSV names the columns. Otherwise they are `RowForm.names`.

    Raises
    ------
    Unreadable
        The body does not hold such rows.
    """
    try:
        return _tuples(form, _readers[written](form, body, header))
    except Unreadable:
        raise
    except (pa.ArrowException, FrameRefused, OSError, ValueError, OverflowError) as error:
        raise Unreadable(_short(error)) from None


def salvage(
    form: RowForm,
    written: Format,
    body: bytes,
    reject: Callable[[bytes, str], None],
    *,
    header: bytes | None = None,
) -> Iterator[pa.RecordBatch]:
    """Tuples in lines; lines that cannot be read are handed to `reject` with the reason.

    One after the other, in their order: what lies before a line has come when it is handed over.

    Parameters
    ----------
    body
        Lines of CSV or JSON, without the end of the last one. Empty ones are left out.
    header
        The line that names the columns of CSV; None: they are `RowForm.names`.
    """
    if _are_closed(body, written) and len(form.names) > 1:
        # As they came; looking at each would take as long as reading them.
        together = None
        with contextlib.suppress(Unreadable):
            together = _read_together(form, written, body, body.count(b"\n") + 1, header)
        if together is not None:
            yield together
            return
    lines = [line for line in body.split(b"\n") if line.strip()]
    yield from _salvage(form, written, lines, reject, header)


def _salvage(
    form: RowForm,
    written: Format,
    lines: list[bytes],
    reject: Callable[[bytes, str], None],
    header: bytes | None,
) -> Iterator[pa.RecordBatch]:
    if not lines:
        return
    try:
        if len(lines) > 1 and not all(is_closed(line, written) for line in lines):
            raise Unreadable("a line is read alone that could change what its neighbours are")
        together = _read_together(form, written, b"\n".join(lines), len(lines), header)
    except Unreadable as error:
        if len(lines) == 1:
            reject(lines[0], str(error))
            return
        middle = len(lines) // 2
        for half in (lines[:middle], lines[middle:]):
            yield from _salvage(form, written, half, reject, header)
    else:
        yield together


def _read_together(
    form: RowForm, written: Format, body: bytes, count: int, header: bytes | None
) -> pa.RecordBatch:
    """Tuples of as many lines."""
    if header is not None:
        body = header + b"\n" + body
    found = parse(form, written, body, header=header is not None)
    if found.num_rows != count:
        raise Unreadable("a line is one row")
    return found


def _are_closed(body: bytes, written: Format) -> bool:
    """Whether no line is empty and each surely one row, as far as can be told at a glance."""
    if written is Format.CSV:
        return b"\r" not in body and BOM not in body
    joints = body.count(b"}\n{")
    return body.startswith(b"{") and body.endswith(b"}") and joints == body.count(b"\n")


def is_closed(line: bytes, written: Format) -> bool:
    """Whether a line is surely one row if many, read together, give as many rows as they are.

    Of JSON, it is then at least one object; of CSV, at most one line. Otherwise what a line is
    would depend on what comes with it: two sites get messages in different portions.
    """
    if written is Format.CSV:
        return b"\r" not in line[:-1] and BOM not in line
    stripped = line.strip()
    return stripped.startswith(b"{") and stripped.endswith(b"}")


def tuples_of(form: RowForm, table: pa.Table) -> pa.RecordBatch:
    """Tuples of a table with the columns of a form, whatever its integer and float types.

    Raises
    ------
    Unreadable
        A column is missing, or its values do not fit.
    """
    try:
        return _tuples(form, table)
    except Unreadable:
        raise
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise Unreadable(_short(error)) from None


def _csv(form: RowForm, body: bytes, header: bool) -> pa.Table:
    if not body.strip():
        if header:
            raise Unreadable("the body is empty; CSV begins with the names of the columns")
        return _no_rows(form)
    wanted = given = form.names
    if header:
        first, _, _ = body.partition(b"\n")
        given = [name.strip().strip('"') for name in first.decode("utf-8-sig").split(",")]
        _check_names(form, given)
    quoted = b'"' in body
    try:
        found = csv.read_csv(
            io.BytesIO(body),
            read_options=csv.ReadOptions(
                use_threads=False, column_names=None if header else wanted, block_size=1 << 22
            ),
            parse_options=csv.ParseOptions(newlines_in_values=quoted),
            convert_options=csv.ConvertOptions(
                column_types={name: form.written_type(name) for name in wanted},
                include_columns=wanted,
                null_values=["", "NULL", "null", "NaN", "nan"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        # The reader counts columns, from 0.
        named = dict(enumerate(given))
        said = _csv_column.sub(lambda at: f"Column {named.get(int(at[1]))}: ", _short(error))
        raise Unreadable(said) from None
    # One after the other: a file may have millions.
    if quoted and found.num_rows + header != sum(1 for _ in _line.finditer(body)):
        raise Unreadable("a quote does not end in its line; each row is one line")
    return found


def _json(form: RowForm, body: bytes, _: bool) -> pa.Table:
    # The reader takes a line in which nothing is written for an end.
    if not body.strip():
        return _no_rows(form)
    if body.lstrip().startswith(b"["):
        raise Unreadable("an array; each row is an object on a line of its own")
    # The reader takes any bytes for a text; whoever reads it later would break.
    body.decode()
    if _null_row.search(body) is not None:
        _check_rows(body)
    if body.count(b"}") * len(form.names) > MOST_VALUES:
        raise Unreadable(f"more than {MOST_VALUES} values; send fewer rows at once")
    try:
        return json.read_json(
            io.BytesIO(body),
            read_options=json.ReadOptions(
                use_threads=False, block_size=max(len(body) + 1, 1 << 16)
            ),
            parse_options=json.ParseOptions(
                explicit_schema=pa.schema([(n, form.written_type(n)) for n in form.names]),
                unexpected_field_behavior="error",
                newlines_in_values=False,
            ),
        )
    except pa.ArrowInvalid as error:
        # The reader says neither which field nor where.
        if "unexpected field" in str(error) and (name := _unknown_name(form, body)) is not None:
            raise Unreadable(
                f"column {_short(name)} is not one of the stream's, which are "
                f"{', '.join(form.names[:50])}"
            ) from None
        raise Unreadable(_other_kind.sub(_in_words, _short(error))) from None


def _in_words(other: re.Match[str]) -> str:
    """The reader counts rows from 0, and tells what it expects as what there was before."""
    name, expected, found, row = other.groups()
    return f"Column {name}: {found} instead of {expected} in row {int(row) + 1}"


def _check_rows(body: bytes) -> None:
    """Refuse a body with a row that is null: the reader would end the process."""
    text, at = body.decode("utf-8-sig"), 0
    decoder = JSONDecoder()
    while (row := _row.search(text, at)) is not None:
        try:
            found, at = decoder.raw_decode(text, row.start())
        except (ValueError, RecursionError) as error:
            raise Unreadable(_short(error)) from None
        if not isinstance(found, dict):
            raise Unreadable("a row is no object")


def _unknown_name(form: RowForm, body: bytes) -> str | None:
    """The first name in JSON lines that is no column; None if it is not found."""
    for line in body.splitlines():
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, RecursionError):
            return None
        for name in row:
            if name not in form.names:
                return name
    return None


def _arrow(form: RowForm, body: bytes, _: bool) -> pa.Table:
    """An IPC stream. Messages are looked at before they are read: see `streams.arrow_frame`."""
    reader = ipc.MessageReader.open_stream(pa.py_buffer(body))
    try:
        first = reader.read_next_message()
    except StopIteration:
        raise Unreadable("the body is empty") from None
    if first.type != "schema":
        raise Unreadable("the body does not begin with a schema of Arrow's IPC stream format")
    schema = ipc.read_schema(first)
    _check_names(form, schema.names)
    for field in schema:
        if not _is_plain(field.type):
            raise Unreadable(f"column {field.name} is of type {field.type}, which no stream has")
    batches: list[pa.RecordBatch] = []
    rows = 0
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            break
        if message.type != "record batch":
            raise Unreadable(f"a {message.type} stands among the rows")
        batch = read_batch(memoryview(message.serialize()), schema)
        rows += batch.num_rows
        if rows > MOST_ROWS:
            raise Unreadable(f"more than {MOST_ROWS} rows")
        batches.append(batch)
    return pa.Table.from_batches(batches, schema=schema)


_readers: dict[Format, Callable[[RowForm, bytes, bool], pa.Table]] = {
    Format.CSV: _csv,
    Format.JSON: _json,
    Format.ARROW: _arrow,
}


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_timestamp(kind)
        or types.is_null(kind)
    )


def _check_names(form: RowForm, given: list[str]) -> None:
    wanted = form.names
    if missing := [name for name in wanted if name not in given]:
        raise Unreadable(f"column {missing[0]} is missing; there are {', '.join(given[:50])}")
    if twice := [name for name in wanted if given.count(name) > 1]:
        raise Unreadable(f"column {twice[0]} stands there twice")


def _tuples(form: RowForm, table: pa.Table) -> pa.RecordBatch:
    if table.num_rows > MOST_ROWS:
        raise Unreadable(f"more than {MOST_ROWS} rows")
    _check_names(form, table.column_names)
    schema = form.schema
    arrays: list[pa.Array] = [_timestamps(form, table)]
    for field in list(schema)[1:]:
        column = _whole(table.column(field.name))
        try:
            arrays.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            raise Unreadable(f"column {field.name}: {_short(error)}") from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece; copied only if it is in several."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _timestamps(form: RowForm, table: pa.Table) -> pa.Array:
    """The timestamps in ms; 0 where tuples have none, and get their arrival's."""
    if form.time_column is None:
        return pa.array(np.zeros(table.num_rows, dtype=np.int64))
    column = _whole(table.column(form.time_column))
    if column.null_count:
        raise Unreadable(f"column {form.time_column}, the timestamp, is empty in a row")
    kind = column.type
    try:
        if isinstance(kind, pa.TimestampType):
            # Finer units lose digits; a second may have too many for milliseconds.
            finer = kind.unit != "s"
            return column.cast(pa.timestamp("ms", kind.tz), safe=not finer).cast(pa.int64())
        if form.time_format in UNITS_MS:
            return _from_number(column, form.time_format)
        return _from_text(column.cast(pa.string()), form.time_format)
    except (pa.ArrowException, OverflowError) as error:
        problem = _short(error).split(" as a scalar")[0]
        raise Unreadable(
            f"column {form.time_column}, the timestamp, is not of format {form.time_format}: "
            f"{problem}"
        ) from None


def _from_number(column: pa.Array, unit: str) -> pa.Array:
    if pa.types.is_integer(column.type):
        whole = column.cast(pa.int64())
        if unit == "ms":
            return whole
        if unit == "s":
            return pc.multiply_checked(whole, pa.scalar(1000, pa.int64()))
        return pc.divide(whole, pa.scalar(round(1 / UNITS_MS[unit]), pa.int64()))
    scaled = pc.multiply(column.cast(pa.float64()), UNITS_MS[unit])
    return pc.floor(scaled).cast(pa.int64())


def _from_text(column: pa.Array, pattern: str) -> pa.Array:
    if pattern != ISO:
        found = pc.strptime(column, format=pattern, unit="s")
        _check_days(column, found, pattern)
        return found.cast(pa.timestamp("ms")).cast(pa.int64())
    for zone in ("UTC", None):
        with contextlib.suppress(pa.ArrowInvalid):
            return _at_ms(column, zone)
    # Some have a zone and some have not, or they are finer than milliseconds.
    coarse = pc.replace_substring_regex(column, _too_fine, r"\1")
    zoned = pc.match_substring_regex(coarse, _zoned)
    nothing = pa.scalar(None, pa.string())
    return pc.coalesce(
        _at_ms(pc.if_else(zoned, coarse, nothing), "UTC"),
        _at_ms(pc.if_else(zoned, nothing, coarse), None),
    )


def _at_ms(texts: pa.Array, zone: str | None) -> pa.Array:
    return texts.cast(pa.timestamp("ms", zone)).cast(pa.int64())


def _check_days(texts: pa.Array, found: pa.Array, pattern: str) -> None:
    """Refuse days that no month has: strptime takes the 30 February for a day of March."""
    # One that rolled over is among the first days of a month, or a zone away from them.
    day = pc.day(found)
    doubtful = pc.or_(pc.less_equal(day, 4), pc.greater_equal(day, 28))
    # Written anew, it differs if it has rolled over, or leaves zeros out. Not all can be written.
    with contextlib.suppress(pa.ArrowException, RuntimeError):
        doubtful = pc.and_(doubtful, pc.not_equal(pc.strftime(found, format=pattern), texts))
    for text in pc.unique(texts.filter(doubtful)).to_pylist():
        try:
            time.strptime(text, pattern)
        except ValueError as error:
            # Python knows fewer patterns: other complaints than this one are its own.
            if "day is out of range" in str(error):
                raise pa.ArrowInvalid(f"{text!r}: {error}") from None


def _no_rows(form: RowForm) -> pa.Table:
    return pa.schema([(n, form.written_type(n)) for n in form.names]).empty_table()


def _short(error: BaseException | str) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else f"{text[:300]} …"
