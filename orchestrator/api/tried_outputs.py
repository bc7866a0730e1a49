"""What `vivace try` writes: rows as CSV, JSON lines or Parquet, as they come.

What is written can be read again, and is the same: NULL is nothing in CSV and the empty text is
`""`, a `float` has a point or an exponent.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from orchestrator.api.tried_files import CSV, LINES, PIPE, AskedFile
from orchestrator.edges.sources.formats.row_form import Format
from orchestrator.errors import InvalidInput

FIRST_ROWS = 100
"""Rows that are kept of an output that is written nowhere."""

STREAM = "_stream"
"""Field of rows of several outputs on one pipe."""

_quoted = r"""[",\r\n]|^\s|\s$|^$"""
"""Texts that stand in quotes in CSV."""

_as_they_are = csv.WriteOptions(include_header=False, quoting_style="none", batch_size=1 << 16)


class RowWriter(Protocol):
    """Writes the rows of an output."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Write some; whoever reads a pipe gets them at once."""
        ...

    def close(self) -> None:
        """Write what belongs to the end."""
        ...


class CsvRows:
    """Lines of CSV, the first of which names the columns."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file = file
        names = pa.array(schema.names, pa.string())
        file.write(",".join(_quote(names).to_pylist()).encode() + b"\n")

    def write(self, rows: pa.RecordBatch) -> None:
        """A line each."""
        columns = [_exact(column) for column in rows.columns]
        lines = io.BytesIO()
        try:
            batch = pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
            csv.write_csv(batch, lines, _as_they_are)
            self._file.write(lines.getbuffer())
        except pa.ArrowInvalid:
            # It writes no quotes that it has not made.
            self._file.write(_joined(columns))
        self._file.flush()

    def close(self) -> None:
        """Nothing follows the last line."""


class JsonRows:
    """Objects of JSON, one a line.

    Parameters
    ----------
    stream
        What is written first in each, if rows of several streams share the file.
    """

    def __init__(self, file: BinaryIO, schema: pa.Schema, stream: str | None = None) -> None:
        self._file, self._encoder = file, msgspec.json.Encoder()
        self._first = {} if stream is None else {STREAM: stream}

    def write(self, rows: pa.RecordBatch) -> None:
        """A line each."""
        self._file.write(self._encoder.encode_lines([self._first | r for r in rows.to_pylist()]))
        self._file.flush()

    def close(self) -> None:
        """Nothing follows the last line."""


class ParquetRows:
    """A file of Parquet, which is there when it is closed."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._writer = parquet.ParquetWriter(file, schema)

    def write(self, rows: pa.RecordBatch) -> None:
        """A row group."""
        self._writer.write_batch(rows)

    def close(self) -> None:
        """Write the metadata."""
        self._writer.close()


def _exact(column: pa.Array) -> pa.Array:
    """A column, as text where Arrow would write it otherwise."""
    if pa.types.is_string(column.type):
        return _quote(column)
    if not pa.types.is_floating(column.type):
        return column
    whole = pc.fill_null(pc.equal(pc.trunc(column), column), False)
    if not pc.any(whole).as_py():
        return column
    text = column.cast(pa.string())
    told = pc.replace_substring_regex(text.filter(whole), r"^(-?[0-9]+)$", r"\1.0")
    return pc.replace_with_mask(text, whole, told)


def _joined(columns: Sequence[pa.Array]) -> pa.Buffer:
    *others, last = (pc.fill_null(each.cast(pa.string()), "") for each in columns)
    # Each line with its end: together they are the bytes of the array.
    ended = pc.binary_join_element_wise(last, "", "\n")
    lines = pc.binary_join_element_wise(*others, ended, ",")
    length: int = pc.sum(pc.binary_length(lines)).as_py()
    return lines.buffers()[2].slice(0, length)


def _quote(texts: pa.Array) -> pa.Array:
    special = pc.match_substring_regex(texts, _quoted)
    if not pc.any(special).as_py():
        return texts
    doubled = pc.replace_substring(texts, '"', '""')
    return pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), texts)


_writers: dict[Format | None, Callable[[BinaryIO, pa.Schema], RowWriter]] = {
    Format.CSV: CsvRows,
    Format.JSON: JsonRows,
    None: ParquetRows,
}


@dataclass(slots=True)
class OpenOutput:
    """An output on its way into a file, or of which the first rows are kept.

    Attributes
    ----------
    file
        Where it is written; None: nowhere.
    part
        Where it is until it is whole; None: it is written in place.
    is_held
        Whether all rows are held, because somebody compares them.
    """

    schema: pa.Schema
    file: str | None = None
    part: Path | None = None
    writer: RowWriter | None = None
    is_held: bool = False
    rows: int = 0
    rejected: int = 0
    first_rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _held: list[pa.RecordBatch] = field(default_factory=list[pa.RecordBatch])

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows that follow."""
        if not rows.num_rows:
            return
        if self.writer is not None:
            self.writer.write(rows)
        elif len(self.first_rows) < FIRST_ROWS:
            self.first_rows += rows.slice(0, FIRST_ROWS - len(self.first_rows)).to_pylist()
        if self.is_held:
            self._held.append(rows)
        self.rows += rows.num_rows

    def finish(self) -> None:
        """Have the file be there, as a whole."""
        if self.writer is not None:
            self.writer.close()
        if self.part is not None and self.file is not None:
            self.part.replace(self.file)

    def table(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self._held, schema=self.schema)


def printed_outputs(
    schemas: Mapping[str, pa.Schema], stdout: BinaryIO, written: str | None
) -> dict[str, RowWriter]:
    """Writers of all outputs on one pipe: CSV if there is but one, else JSON that names them."""
    if len(schemas) == 1:
        kind = LINES.get(CSV if written is None else f".{written}")
        return {name: _writers[kind](stdout, schema) for name, schema in schemas.items()}
    return {name: JsonRows(stdout, schema, name) for name, schema in schemas.items()}


def open_output(
    schema: pa.Schema, asked: AskedFile, files: ExitStack, stdout: BinaryIO
) -> OpenOutput:
    """Open the file of an output.

    Parameters
    ----------
    files
        Closes what is opened, and removes a file that is not whole.

    Raises
    ------
    InvalidInput
        The file cannot be written.
    """
    file, part = stdout, None
    if asked.path != PIPE:
        try:
            part, file = _opened(Path(asked.path), files)
        except OSError as error:
            raise InvalidInput(
                "command line", "--output", asked.path,
                f"cannot be written ({error.strerror})", "Name another file.",
            ) from None  # fmt: skip
    writer = _writers[LINES.get(asked.suffix or CSV)](file, schema)
    return OpenOutput(schema, file=asked.path, part=part, writer=writer)


def _opened(path: Path, files: ExitStack) -> tuple[Path | None, BinaryIO]:
    """A file beside the one that is meant, unless that is a pipe or a device."""
    if path.exists() and not path.is_file():
        return None, files.enter_context(path.open("wb"))
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    part = Path(name)
    files.callback(part.unlink, missing_ok=True)
    # As the file would be that somebody makes.
    umask = os.umask(0)
    os.umask(umask)
    part.chmod(0o666 & ~umask)
    return part, files.enter_context(os.fdopen(number, "wb", buffering=0))
