"""The files and pipes that `vivace try` reads and writes, and the rows in those that it reads.

Rows come a few at a time, each with its place for messages. Their form is what a manifest says, or
what the first of them show.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pyarrow import parquet

from orchestrator.api.lines import Body, bodies, file_of, opened
from orchestrator.edges.sources.formats.csv_rows import header_of
from orchestrator.edges.sources.formats.files import parquet_rows, read_file, reading
from orchestrator.edges.sources.formats.formats import salvage
from orchestrator.edges.sources.formats.inference import (
    InferredForm,
    TimeColumn,
    infer_lines,
    infer_table,
)
from orchestrator.edges.sources.formats.row_form import Format, RowForm, Unreadable
from orchestrator.errors import InvalidInput
from orchestrator.records import StreamRecord

PIPE, CSV, PARQUET = "-", ".csv", ".parquet"

SAMPLE_ROWS = 4096
"""Rows of a table by which the unit of its timestamps is guessed."""

LINES = {CSV: Format.CSV, ".jsonl": Format.JSON, ".ndjson": Format.JSON, ".json": Format.JSON}
"""Suffix → how lines are written."""

Rows = Iterator[tuple[pa.RecordBatch, Callable[[int], str]]]
"""Tuples, and what says where one of them stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFile:
    """A file or a pipe that somebody has named.

    Attributes
    ----------
    suffix
        How it is written, as a suffix such as `.csv`; None: as its first line looks.
    """

    path: str
    suffix: str | None

    @staticmethod
    def of(option: str, path: str, written: str | None) -> AskedFile:
        """A file, which is written as its name or somebody says.

        Raises
        ------
        InvalidInput
            Neither does.
        """
        suffix = f".{written}" if written is not None else Path(path).suffix.lower()
        if path == PIPE and written is None:
            return AskedFile(path=path, suffix=None)
        if suffix not in (*LINES, PARQUET):
            raise InvalidInput(
                "command line", option, path, f"ends with none of {', '.join((*LINES, PARQUET))}",
                f"Say how it is written with {option}-format.",
            )  # fmt: skip
        return AskedFile(path=path, suffix=suffix)


@dataclass(slots=True)
class ReadSoFar:
    """How much of an input has been read: bytes, or rows; of how many, if that is known."""

    done: int = 0
    whole: int | None = None

    def __str__(self) -> str:
        return f" ({self.done / self.whole:.0%})" if self.whole else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRows:
    """The rows of an input, and their form, as a manifest or they themselves show it."""

    shown: InferredForm
    rows: Rows
    so_far: ReadSoFar

    @property
    def form(self) -> RowForm:
        """What each of them has."""
        return self.shown.form


def found_rows(
    asked: AskedFile,
    form: RowForm | None,
    record: StreamRecord | None,
    time: TimeColumn,
    files: ExitStack,
    stdin: BinaryIO,
) -> FoundRows:
    """The rows of a file.

    Parameters
    ----------
    form
        Their form; None: it is what a manifest says, and what they show.
    record, time
        What a manifest says of the stream, and somebody of its timestamp.
    files
        Closes what is opened.

    Raises
    ------
    InvalidInput
        It cannot be opened; while rows are read: one cannot be.
    Unclear, Unreadable
        Nobody can tell what it holds.
    """

    def described(shown: InferredForm) -> InferredForm:
        if record is None:
            return shown
        found = replace(shown.form, columns=record.columns, fields=record.fields)
        known = {path[0] for path in found.paths.values()}
        more = dict.fromkeys(shown.form.columns.keys() - known, "nothing describes it")
        return InferredForm(form=found, left_out={**shown.left_out, **more})

    file = stdin if asked.path == PIPE else files.enter_context(opened(Path(asked.path)))
    if asked.suffix is None or asked.suffix in LINES:
        written = None if asked.suffix is None else LINES[asked.suffix]
        return _lines(
            asked, file, written, form, lambda of, text: described(infer_lines(of, text, time))
        )
    if asked.suffix == PARQUET:
        file = files.enter_context(file_of(file))
        with reading():
            whole, sample = _sample(file)
        shown = described(infer_table(sample, time)) if form is None else InferredForm(form=form)
        batches, so_far = parquet_rows(file, shown.form), ReadSoFar(whole=whole)
        rows = _table_rows(asked.path, batches, so_far)
        return FoundRows(shown=shown, rows=rows, so_far=so_far)
    if form is None:
        raise Unreadable("only recordings of manifests may be of that kind")
    batch = read_file(Path(asked.path), form)
    so_far = ReadSoFar(whole=batch.num_rows)
    rows = _table_rows(asked.path, iter([batch]), so_far)
    return FoundRows(shown=InferredForm(form=form), rows=rows, so_far=so_far)


def _sample(file: BinaryIO) -> tuple[int, pa.Table]:
    """How many rows a file of Parquet has, and the first ones."""
    opened_file = parquet.ParquetFile(file)
    first = next(opened_file.iter_batches(batch_size=SAMPLE_ROWS), None)
    batches = [] if first is None else [first]
    schema = opened_file.schema_arrow if first is None else first.schema
    return opened_file.metadata.num_rows, pa.Table.from_batches(batches, schema=schema)


def _table_rows(path: str, batches: Iterator[pa.RecordBatch], so_far: ReadSoFar) -> Rows:
    try:
        for batch in batches:
            yield batch, partial(_row, so_far.done)
            so_far.done += batch.num_rows
    except Unreadable as error:
        raise InvalidInput(path, "", None, str(error), "Correct the file.") from None


def _row(begin: int, index: int) -> str:
    return f"row {begin + index + 1}"


def _lines(
    asked: AskedFile,
    file: BinaryIO,
    written: Format | None,
    form: RowForm | None,
    infer: Callable[[Format, bytes], InferredForm],
) -> FoundRows:
    parts = bodies(file, written)
    first = next(parts, None)
    if first is None:
        shown = infer(Format.JSON, b"") if form is None else InferredForm(form=form)
        return FoundRows(shown=shown, rows=iter(()), so_far=ReadSoFar())
    is_inferred = form is None
    shown = infer(first.written, first.content) if form is None else InferredForm(form=form)
    status = os.fstat(file.fileno())
    so_far = ReadSoFar(whole=status.st_size if stat.S_ISREG(status.st_mode) else None)
    parts = chain([first], parts)
    if not is_inferred and first.written is Format.CSV and _lacks_header(shown.form, first):
        parts = _as_lines(parts)
    rows = _line_rows(asked.path, shown.form, parts, so_far, is_inferred=is_inferred)
    return FoundRows(shown=shown, rows=rows, so_far=so_far)


def _lacks_header(form: RowForm, first: Body) -> bool:
    """Whether the first line of CSV is a row, as where a stream's source is `tcp`."""
    names, _ = header_of(first.header)
    return not set(names) & {".".join(path) for path in form.paths.values()}


def _as_lines(parts: Iterator[Body]) -> Iterator[Body]:
    """Bodies of which the first line of the first one is a row."""
    first = next(parts)
    number = max(first.first - 1, 1)
    yield Body(written=first.written, header=b"", lines=first.content, first=number)
    yield from (replace(body, header=b"") for body in parts)


def _line_rows(
    path: str, form: RowForm, parts: Iterator[Body], so_far: ReadSoFar, *, is_inferred: bool
) -> Rows:
    remedy = "Correct the line."
    if is_inferred:
        remedy += (
            " Types and the format of timestamps follow from the first rows: --time-format or a "
            "manifest of the stream (-f) says others."
        )

    def reject(number: int, _line: bytes, reason: str) -> None:
        raise InvalidInput(f"{path}:{number}", "", None, reason, remedy)

    for body in parts:
        header = body.header.rstrip(b"\r\n") or None
        lines, begin = body.lines.removesuffix(b"\n"), 0
        for rows in salvage(form, body.written, lines, reject, header=header, first=body.first):
            yield rows, partial(_line, body, begin)
            begin += rows.num_rows
        so_far.done = body.begin + len(body.lines)


def _line(body: Body, begin: int, index: int) -> str:
    lines = enumerate(body.lines.split(b"\n"), body.first)
    numbers = [number for number, line in lines if line.strip()]
    return str(numbers[begin + index])
