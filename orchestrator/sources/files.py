"""Files of rows as tuples of a stream: Parquet, Arrow's IPC formats, CSV, JSON lines.

The suffix of its name says how a file is written. CSV begins with a line that names the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pyarrow import ipc, parquet

from orchestrator.sources.formats import Format, RowForm, Unreadable, parse, tuples_of


def read_file(path: Path, form: RowForm) -> pa.RecordBatch:
    """All tuples of a file, in its order.

    Raises
    ------
    Unreadable
        It is missing, of an unknown kind, or does not hold such rows.
    """
    try:
        with path.open("rb") as file:
            return read_rows(path.suffix, file, form)
    except OSError as error:
        raise Unreadable(_line(error)) from None


def read_rows(suffix: str, file: BinaryIO, form: RowForm) -> pa.RecordBatch:
    """All tuples of an open file whose name ends with a suffix.

    Raises
    ------
    Unreadable
        Of an unknown kind, or it does not hold such rows.
    """
    read = _readers.get(suffix.lower())
    if read is None:
        raise Unreadable(f"its name ends with none of {', '.join(SUFFIXES)}")
    try:
        return read(file, form)
    except (OSError, pa.ArrowException) as error:
        raise Unreadable(_line(error)) from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _parquet(file: BinaryIO, form: RowForm) -> pa.RecordBatch:
    opened = parquet.ParquetFile(file)
    found = opened.schema_arrow.names
    if missing := [name for name in form.names if name not in found]:
        raise Unreadable(f"column {missing[0]} is missing; there are {', '.join(found)}")
    return tuples_of(form, opened.read(columns=form.names))


def _arrow_file(file: BinaryIO, form: RowForm) -> pa.RecordBatch:
    return tuples_of(form, ipc.open_file(file).read_all())


def _arrow_stream(file: BinaryIO, form: RowForm) -> pa.RecordBatch:
    return tuples_of(form, ipc.open_stream(file).read_all())


def _csv(file: BinaryIO, form: RowForm) -> pa.RecordBatch:
    return parse(form, Format.CSV, file.read())


def _json(file: BinaryIO, form: RowForm) -> pa.RecordBatch:
    return parse(form, Format.JSON, file.read())


_readers: dict[str, Callable[[BinaryIO, RowForm], pa.RecordBatch]] = {
    ".parquet": _parquet,
    ".arrow": _arrow_file,
    ".feather": _arrow_file,
    ".arrows": _arrow_stream,
    ".csv": _csv,
    ".jsonl": _json,
    ".ndjson": _json,
    ".json": _json,
}
"""By suffix."""

SUFFIXES = tuple(_readers)
"""Of the files that can be read."""
