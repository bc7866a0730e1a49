"""Rows of Arrow: tables, and the IPC stream format, as `streams.vectors.arrow_frame` checks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from orchestrator.edges.sources.formats.row_form import (
    MOST_ROWS,
    FieldPath,
    Ignored,
    ReadRows,
    RowForm,
    Tree,
    Unknown,
    Unreadable,
    row_place,
)
from streams.vectors.arrow_frame import read_batch


def read(form: RowForm, body: bytes, _: bool) -> ReadRows:
    """The rows of an IPC stream.

    Raises
    ------
    Unreadable
        The body does not hold such rows.
    FrameRefused
        A message is damaged, compressed, or lays out rows in another way.
    """
    reader = ipc.MessageReader.open_stream(pa.py_buffer(body))
    try:
        first = reader.read_next_message()
    except StopIteration:
        raise Unreadable("the body is empty") from None
    if first.type != "schema":
        raise Unreadable("the body does not begin with a schema of Arrow's IPC stream format")
    schema = ipc.read_schema(first)
    for field in schema:
        if (other := _other_layout(field.type)) is not None:
            raise Unreadable(f"column {field.name} is of type {field.type}; cast it to {other}")
    return rows_of(form, pa.Table.from_batches(_batches(reader, schema), schema=schema))


def rows_of(form: RowForm, table: pa.Table) -> ReadRows:
    """The rows of a table.

    Raises
    ------
    Unreadable
        As of `check_fields`.
    """
    unknown = check_fields(form, table.schema)
    return ReadRows(
        columns={name: within(table, path) for name, path in form.paths.items()},
        count=table.num_rows,
        place=row_place,
        ignored=Ignored.in_all(table.num_rows, unknown),
    )


def check_fields(form: RowForm, schema: pa.Schema) -> str | None:
    """The first field that the stream does not have; None: it has all of them.

    Raises
    ------
    Unreadable
        A wanted one is missing or there twice, or one is unknown and may not be.
    """
    unknown = form.check_names(list(form.tree), schema.names)
    for name, path in form.paths.items():
        field_of(schema, name, path)
    unknown = unknown or _stranger(list(schema), form.tree)
    if unknown is not None and form.unknown is Unknown.REJECT:
        raise form.stranger(unknown)
    return unknown


def field_of(schema: pa.Schema, name: str, path: FieldPath) -> pa.Field:
    """The field that a column comes from.

    Raises
    ------
    Unreadable
        There is no such field.
    """
    field = schema.field(path[0])
    for step in path[1:]:
        if not isinstance(field.type, pa.StructType) or field.type.get_field_index(step) < 0:
            raise Unreadable(f"column {name} is missing: there is no field {'.'.join(path)}")
        field = field.type.field(step)
    return field


def within(table: Any, path: FieldPath) -> Any:
    """The field at the end of a path."""
    column = table.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def _stranger(fields: Sequence[pa.Field], known: Tree) -> str | None:
    """The first field that is unknown, also within those that hold known ones."""
    for field in fields:
        if field.name not in known:
            return field.name
        inner = known[field.name]
        if inner and isinstance(field.type, pa.StructType):
            held = [field.type.field(at) for at in range(field.type.num_fields)]
            if (found := _stranger(held, inner)) is not None:
                return f"{field.name}.{found}"
    return None


def _other_layout(kind: pa.DataType) -> str | None:
    """What to cast a type to that needs more than one message, or a layout of its own."""
    types = pa.types
    if isinstance(kind, (pa.DictionaryType, pa.RunEndEncodedType)):
        return str(kind.value_type)
    if types.is_string_view(kind):
        return "string"
    if types.is_binary_view(kind):
        return "binary"
    if types.is_nested(kind):
        inner = (_other_layout(kind.field(at).type) for at in range(kind.num_fields))
        return "fields without dictionaries and views" if any(inner) else None
    return None


def _batches(reader: ipc.MessageReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rows = 0
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        if message.type != "record batch":
            raise Unreadable(f"a {message.type} stands among the rows")
        batch = read_batch(memoryview(message.serialize()), schema)
        rows += batch.num_rows
        if rows > MOST_ROWS:
            raise Unreadable(f"more than {MOST_ROWS} rows")
        yield batch
