"""Files of rows as tuples of a stream: Parquet, Arrow's IPC formats, CSV, JSON lines.

The suffix of its name says how a file is written. CSV begins with a line that names the columns.

A file may be damaged, or replaced while it is read. pyarrow's readers of Parquet and Arrow then
give arrays that lie outside of their memory, so every batch is validated before anything looks at
it. A file's size says little about what it holds, so that is bounded, too.
"""

from __future__ import annotations

import io
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pyarrow import compute, ipc, parquet

from orchestrator.edges.sources.formats.arrow_rows import check_fields, field_of, rows_of, within
from orchestrator.edges.sources.formats.formats import Note, nobody_told, parse, tuples_of
from orchestrator.edges.sources.formats.parquet_pages import counted_columns
from orchestrator.edges.sources.formats.row_form import (
    MOST_ROWS,
    Format,
    Ignored,
    ReadRows,
    RowForm,
    Unreadable,
    row_place,
)
from streams.vectors.arrow_frame import decompressed_bytes

MOST_BYTES = 2**31
"""Of a file, as it is and decompressed: all of it is held at once."""

ROWS_AT_ONCE = 2**16
"""Rows of Parquet that are decoded until their size is looked at."""


def read_file(path: Path, form: RowForm, note: Note = nobody_told) -> pa.RecordBatch:
    """All tuples of a file, in its order.

    Raises
    ------
    Unreadable
        It is missing, of an unknown kind, or does not hold such rows.
    """
    try:
        _check_regular(path)
        with path.open("rb") as file:
            return read_rows(path.suffix, file, form, note)
    except OSError as error:
        raise Unreadable(_line(error)) from None


def read_whole(path: Path) -> bytes:
    """What a file holds, unread.

    Raises
    ------
    OSError
        It cannot be read now, or is no regular file: whoever opens a pipe waits for a writer.
    Unreadable
        It is too large.
    """
    if _check_regular(path) > MOST_BYTES:
        raise _too_large()
    return path.read_bytes()


def _check_regular(path: Path) -> int:
    """The size of a file in bytes, unless it is a pipe or a device; a folder opens as an error."""
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise OSError(f"{path} is no regular file")
    return status.st_size


def read_rows(
    suffix: str, file: BinaryIO, form: RowForm, note: Note = nobody_told
) -> pa.RecordBatch:
    """All tuples of an open file whose name ends with a suffix.

    Raises
    ------
    Unreadable
        Of an unknown kind, or it does not hold such rows.
    """
    read = _readers.get(suffix.lower())
    if read is None:
        raise Unreadable(f"its name ends with none of {', '.join(SUFFIXES)}")
    with reading():
        if file.seek(0, io.SEEK_END) > MOST_BYTES:
            raise _too_large()
        file.seek(0)
        return read(file, form, note)


@contextmanager
def reading() -> Generator[None]:
    """For the time of a block, all that reading a file may raise is `Unreadable`."""
    try:
        yield
    except Unreadable:
        raise
    # Damaged names make pyarrow raise what it does not document.
    except (OSError, pa.ArrowException, ArithmeticError, LookupError, ValueError) as error:
        raise Unreadable(_line(error)) from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def parquet_rows(
    file: BinaryIO, form: RowForm, note: Note = nobody_told
) -> Iterator[pa.RecordBatch]:
    """The tuples of an open file of Parquet in its order, few of which are held at once.

    Raises
    ------
    Unreadable
        It does not hold such rows.
    """
    begin = 0
    with reading():
        unknown = check_fields(form, parquet.ParquetFile(file).schema_arrow)
        for batch in _decoded(_coded(file, form)):
            batch.validate(full=True)
            found = ReadRows(
                columns={name: pa.chunked_array([batch.column(name)]) for name in form.paths},
                count=batch.num_rows,
                place=partial(_later_row, begin),
                ignored=Ignored.in_all(batch.num_rows, unknown),
            )
            begin += batch.num_rows
            yield tuples_of(form, found, note)


def _later_row(begin: int, index: int) -> str:
    return row_place(begin + index)


def _parquet(file: BinaryIO, form: RowForm, note: Note) -> pa.RecordBatch:
    plain = parquet.ParquetFile(file)
    schema, rows = plain.schema_arrow, plain.metadata.num_rows
    unknown = check_fields(form, schema)
    if rows > MOST_ROWS:
        raise Unreadable(f"more than {MOST_ROWS} rows")
    coded, _ = _with_dictionaries(file, form)
    types = {
        name: _decoded_type(field_of(coded.schema_arrow, name, path).type)
        for name, path in form.paths.items()
    }
    table = _validated(_decoded(_coded(file, form)), pa.schema(list(types.items())))
    found = ReadRows(
        columns={name: table.column(name) for name in types},
        count=rows,
        place=row_place,
        ignored=Ignored.in_all(rows, unknown),
    )
    return tuples_of(form, found, note)


def _coded(file: BinaryIO, form: RowForm) -> Iterator[pa.RecordBatch]:
    """Rows of a file with columns as a form names them; some texts as places in dictionaries."""
    leaves = [".".join(path) for path in form.paths.values()]
    coded, texts = _with_dictionaries(file, form)
    # Few bytes of a dictionary may stand for very many: texts are counted before they are made,
    # where it is not known that there is room.
    counted = counted_columns(file, coded, texts, ROWS_AT_ONCE, MOST_BYTES)
    for names, run in groupby(range(len(counted)), counted.__getitem__):
        reader = parquet.ParquetFile(file, read_dictionary=names)
        for batch in reader.iter_batches(
            batch_size=ROWS_AT_ONCE, row_groups=list(run), columns=leaves
        ):
            flat = {name: within(batch, path) for name, path in form.paths.items()}
            yield pa.RecordBatch.from_arrays(list(flat.values()), names=list(flat))


def _with_dictionaries(file: BinaryIO, form: RowForm) -> tuple[parquet.ParquetFile, list[str]]:
    """A file whose texts are places in dictionaries, and the names of these columns."""
    schema = parquet.ParquetFile(file).schema_arrow
    texts = [
        ".".join(path)
        for name, path in form.paths.items()
        if _is_text(field_of(schema, name, path).type)
    ]
    return parquet.ParquetFile(file, read_dictionary=texts), texts


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


def _decoded_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


def _decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches with values instead of places in dictionaries, unless they would be too large."""
    for batch in batches:
        fields = [field.with_type(_decoded_type(field.type)) for field in batch.schema]
        coded = [column for column in batch.columns if isinstance(column, pa.DictionaryArray)]
        for column in coded:
            column.validate(full=True)
        texts = [column for column in coded if _is_text(column.dictionary.type)]
        most = sum(len(column) * _longest(column.dictionary) for column in texts)
        if most > MOST_BYTES and sum(map(_text_bytes, texts)) > MOST_BYTES:
            raise _too_large()
        columns = [
            column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
            for column in batch.columns
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _longest(texts: pa.Array) -> int:
    return compute.max(compute.binary_length(texts)).as_py() or 0


def _text_bytes(column: pa.DictionaryArray) -> int:
    """What the texts of a column take once they are made."""
    lengths = compute.binary_length(column.dictionary).take(column.indices)
    return compute.sum(lengths.cast(pa.int64())).as_py() or 0


def _arrow_file(file: BinaryIO, form: RowForm, note: Note) -> pa.RecordBatch:
    body = file.read()
    # Between two magic words stands a stream.
    _check_messages(memoryview(body)[8:])
    opened = ipc.open_file(body)
    batches = (opened.get_batch(number) for number in range(opened.num_record_batches))
    return tuples_of(form, rows_of(form, _plain(batches, opened.schema)), note)


def _arrow_stream(file: BinaryIO, form: RowForm, note: Note) -> pa.RecordBatch:
    body = file.read()
    _check_messages(body)
    opened = ipc.open_stream(body)
    return tuples_of(form, rows_of(form, _plain(opened, opened.schema)), note)


def _plain(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    fields = [field.with_type(_decoded_type(field.type)) for field in schema]
    return _validated(_decoded(batches), pa.schema(fields))


def _check_messages(body: bytes | memoryview) -> None:
    """Refuse messages that would take very much memory once they are decompressed."""
    reader = ipc.MessageReader.open_stream(pa.py_buffer(body))
    left = MOST_BYTES
    while left >= 0:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        left -= decompressed_bytes(memoryview(message.serialize()))
    raise _too_large()


def _validated(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    kept: list[pa.RecordBatch] = []
    rows, size = 0, 0
    for batch in batches:
        batch.validate(full=True)
        kept.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > MOST_ROWS:
            raise Unreadable(f"more than {MOST_ROWS} rows")
        if size > MOST_BYTES:
            raise _too_large()
    return pa.Table.from_batches(kept, schema=schema)


def _too_large() -> Unreadable:
    return Unreadable(f"it holds more than {MOST_BYTES} bytes; write smaller files")


def _csv(file: BinaryIO, form: RowForm, note: Note) -> pa.RecordBatch:
    return parse(form, Format.CSV, file.read(), note=note)


def _json(file: BinaryIO, form: RowForm, note: Note) -> pa.RecordBatch:
    return parse(form, Format.JSON, file.read(), note=note)


_readers: dict[str, Callable[[BinaryIO, RowForm, Note], pa.RecordBatch]] = {
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
