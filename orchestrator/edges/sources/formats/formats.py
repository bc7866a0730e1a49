"""Rows that others write (CSV, JSON lines, Arrow) as tuples of a stream.

pyarrow parses, column by column, on the thread that calls; each form has a reader of its own beside
this file. The types are the stream's, never guessed. A row that cannot be read refuses its whole
batch, with the reason; whoever has single lines (`salvage`) reads the others without it.

Bounds: a body is bounded by whoever receives it. Compressed Arrow bodies are refused, because their
size says nothing about the memory that they take.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from orchestrator.edges.sources.formats import arrow_rows, csv_rows, json_rows
from orchestrator.edges.sources.formats.column_values import Unfit, as_type, one_piece
from orchestrator.edges.sources.formats.event_times import timestamps_ms
from orchestrator.edges.sources.formats.row_form import (
    BOM,
    MOST_ROWS,
    Format,
    Ignored,
    ReadRows,
    RowForm,
    Unreadable,
    short,
)
from streams.vectors.arrow_frame import FrameRefused

_readers: dict[Format, Callable[[RowForm, bytes, bool], ReadRows]] = {
    Format.CSV: csv_rows.read,
    Format.JSON: json_rows.read,
    Format.ARROW: arrow_rows.read,
}

Note = Callable[[Ignored], None]
"""Told what was left out of rows that are taken."""

Reject = Callable[[int, bytes, str], None]
"""Told the number of a line, the line, and why it cannot be read."""


def nobody_told(_: Ignored) -> None:
    """Tell nobody."""


def parse(
    form: RowForm,
    written: Format,
    body: bytes,
    *,
    header: bool = True,
    lines: int | None = None,
    note: Note = nobody_told,
) -> pa.RecordBatch:
    """Tuples in a body, with the stream's schema.

    Parameters
    ----------
    header
        Whether the first line of CSV names the columns. Otherwise they are `RowForm.names`.
    lines
        How many rows there must be; None: any number.

    Raises
    ------
    Unreadable
        The body does not hold such rows.
    """

    def read() -> ReadRows:
        rows = _readers[written](form, body, header)
        if lines is not None and rows.count != lines:
            raise Unreadable("a line is one row")
        return rows

    return _told(form, read, note)


def salvage(
    form: RowForm,
    written: Format,
    body: bytes,
    reject: Reject,
    *,
    header: bytes | None = None,
    first: int = 1,
    note: Note = nobody_told,
) -> Iterator[pa.RecordBatch]:
    """Tuples in lines; lines that cannot be read are handed to `reject` with number and reason.

    One after the other, in their order: what lies before a line has come when it is handed over.

    Parameters
    ----------
    body
        Lines of CSV or JSON, without the end of the last one. Empty ones are left out.
    header
        The line that names the columns of CSV; None: they are `RowForm.names`.
    first
        Number of the first line.
    """

    def together(lines: bytes, count: int) -> pa.RecordBatch:
        if header is not None:
            lines = header + b"\n" + lines
        named = header is not None
        return parse(form, written, lines, header=named, lines=count, note=note)

    if _are_closed(body, written) and len(form.names) > 1:
        # As they came; looking at each would take as long as reading them.
        found = None
        with contextlib.suppress(Unreadable):
            found = together(body, newlines(body) + 1)
        if found is not None:
            yield found
            return
    numbered = [(n, line) for n, line in enumerate(body.split(b"\n"), first) if line.strip()]
    yield from _salvage(written, numbered, reject, together)


def _salvage(
    written: Format,
    lines: list[tuple[int, bytes]],
    reject: Reject,
    together: Callable[[bytes, int], pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    if not lines:
        return
    try:
        if len(lines) > 1 and not all(is_closed(line, written) for _, line in lines):
            raise Unreadable("a line is read alone that could change what its neighbours are")
        found = together(b"\n".join(line for _, line in lines), len(lines))
    except Unreadable as error:
        if len(lines) == 1:
            number, line = lines[0]
            reject(number, line, error.problem)
            return
        middle = len(lines) // 2
        for half in (lines[:middle], lines[middle:]):
            yield from _salvage(written, half, reject, together)
    else:
        yield found


def newlines(body: bytes) -> int:
    """How many lines end in a body; `bytes.count` takes several times as long."""
    return int(np.count_nonzero(np.frombuffer(body, dtype=np.uint8) == ord("\n")))


def _are_closed(body: bytes, written: Format) -> bool:
    """Whether no line is empty and each surely one row, as far as can be told at a glance."""
    if written is Format.CSV:
        # A single byte is found at the speed of memory.
        return b"\r" not in body and (BOM[:1] not in body or BOM not in body)
    joints = body.count(b"}\n{")
    return body.startswith(b"{") and body.endswith(b"}") and joints == newlines(body)


def is_closed(line: bytes, written: Format) -> bool:
    """Whether a line is surely one row if many, read together, give as many rows as they are.

    Of JSON, it is then at least one object; of CSV, at most one line. Otherwise what a line is
    would depend on what comes with it: two sites get messages in different portions.
    """
    if written is Format.CSV:
        return b"\r" not in line[:-1] and BOM not in line
    stripped = line.strip()
    return stripped.startswith(b"{") and stripped.endswith(b"}")


def tuples_of(form: RowForm, rows: ReadRows, note: Note = nobody_told) -> pa.RecordBatch:
    """Tuples of rows with the columns of a form.

    Raises
    ------
    Unreadable
        Values do not fit.
    """
    return _told(form, lambda: rows, note)


def _told(form: RowForm, read: Callable[[], ReadRows], note: Note) -> pa.RecordBatch:
    try:
        rows = read()
        found = _tuples(form, rows)
    except Unreadable:
        raise
    except (pa.ArrowException, FrameRefused, OSError, ValueError, OverflowError) as error:
        raise Unreadable(short(error)) from None
    if rows.ignored is not None:
        note(rows.ignored)
    return found


def _tuples(form: RowForm, rows: ReadRows) -> pa.RecordBatch:
    if rows.count > MOST_ROWS:
        raise Unreadable(f"more than {MOST_ROWS} rows")
    called = f"column {form.time_column}, the timestamp"
    try:
        arrays = [_timestamps(form, rows)]
        for name, kind in form.columns.items():
            called = f"column {name}"
            arrays.append(as_type(one_piece(rows.columns[name]), kind, texts=rows.are_texts))
    except Unfit as error:
        place = None if error.index is None else rows.place(error.index)
        of = ":" if place else ""
        raise Unreadable(f"{called}{of} {error}", place) from None
    return pa.RecordBatch.from_arrays(arrays, schema=form.schema)


def _timestamps(form: RowForm, rows: ReadRows) -> pa.Array:
    """The timestamps in ms; 0 where tuples have none, and get their arrival's."""
    if form.time_column is None:
        return pa.array(np.zeros(rows.count, dtype=np.int64))
    return timestamps_ms(one_piece(rows.columns[form.time_column]), form.time_format)
