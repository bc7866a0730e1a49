"""Files of rows as tuples of a stream: Parquet, Arrow's IPC formats, CSV, JSON lines.

The suffix of its name says how a file is written. CSV begins with a line that names the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
    read = _readers.get(path.suffix.lower())
    if read is None:
        raise Unreadable(f"its name ends with none of {', '.join(_readers)}")
    try:
        return read(path, form)
    except (OSError, pa.ArrowException) as error:
        raise Unreadable(" ".join(str(error).split())) from None


def _parquet(path: Path, form: RowForm) -> pa.RecordBatch:
    found = parquet.ParquetFile(str(path)).schema_arrow.names
    if missing := [name for name in form.names if name not in found]:
        raise Unreadable(f"column {missing[0]} is missing; there are {', '.join(found)}")
    return tuples_of(form, parquet.read_table(str(path), columns=form.names))


def _arrow_file(path: Path, form: RowForm) -> pa.RecordBatch:
    with path.open("rb") as file:
        return tuples_of(form, ipc.open_file(file).read_all())


def _arrow_stream(path: Path, form: RowForm) -> pa.RecordBatch:
    with path.open("rb") as file:
        return tuples_of(form, ipc.open_stream(file).read_all())


def _csv(path: Path, form: RowForm) -> pa.RecordBatch:
    return parse(form, Format.CSV, path.read_bytes())


def _json(path: Path, form: RowForm) -> pa.RecordBatch:
    return parse(form, Format.JSON, path.read_bytes())


_readers: dict[str, Callable[[Path, RowForm], pa.RecordBatch]] = {
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
