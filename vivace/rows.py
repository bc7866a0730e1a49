"""Rows of a program as a table of Arrow that sites take.

Whatever offers Arrow's PyCapsule interface is taken as it is, such as DataFrames of pandas and
Polars; none of these libraries is imported. Sites take plain layouts only, so that a body says how
much memory its rows need: dictionaries and views become the values that they stand for.

References
----------
Apache Arrow, *The Arrow PyCapsule interface*.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from vivace.exchange import Refused


@runtime_checkable
class ArrowStream(Protocol):
    """What offers its rows as a stream of Arrow's record batches, such as a DataFrame."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with the stream."""
        ...


Rows = ArrowStream | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
"""A batch: Arrow's, a DataFrame's, columns by name, or rows."""

_index = re.compile(r"__index_level_\d+__")
"""A column that pandas adds for an index without a name, which is no data."""

_FORMS = (
    "rows are a list of dicts, a dict of columns that are lists, a table of Arrow, or a DataFrame "
    "with `__arrow_c_stream__` (pandas from 2.2, Polars from 1.3)"
)


def table_of(rows: Rows) -> pa.Table:
    """A table of rows, in plain layouts.

    Raises
    ------
    Refused
        They are no rows, or values of a column do not go together; says which.
    """
    return _plain(_table(rows))


def _table(rows: Rows) -> pa.Table:
    try:
        if isinstance(rows, pa.Table):
            return rows
        if isinstance(rows, pa.RecordBatch):
            return pa.Table.from_batches([rows])
        if isinstance(rows, ArrowStream):
            return _of_stream(rows)
        if isinstance(rows, Mapping):
            return _of_columns(rows)
        # Otherwise the first row alone says which columns there are.
        kept = list(rows)
        names = dict.fromkeys(name for row in kept for name in row)
        return _of_columns({n: [row.get(n) for row in kept] for n in names})
    except (TypeError, AttributeError):
        raise _refused(_FORMS) from None
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise _refused(str(error)) from None


def _of_stream(rows: ArrowStream) -> pa.Table:
    try:
        found = pa.RecordBatchReader.from_stream(rows).read_all()
    except pa.ArrowInvalid as error:
        # One column, such as a Series.
        raise _refused(f"{_FORMS} ({error})") from None
    return found.select([name for name in found.column_names if not _index.fullmatch(name)])


def _of_columns(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    made: dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            raise TypeError(name)
        try:
            is_arrow = isinstance(values, ArrowStream)
            made[name] = pa.chunked_array(values) if is_arrow else pa.array(values)
        except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
            raise _refused(f"column {name}{_stranger(values, error)}") from None
    return pa.Table.from_pydict(made)


def _stranger(values: Sequence[Any], error: Exception) -> str:
    """The first value that does not go with those before it, in words."""
    known: Any = None
    for number, value in enumerate(values, 1):
        try:
            pa.array([known, value])
        except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as own:
            place = f", row {number}: {value!r:.60}"
            if known is None:
                return f"{place}: {own}"
            kinds = f"is of type {type(value).__name__}, and {known!r:.60} before it of type "
            hint = "; write None for NULL" if isinstance(value, float) else ""
            return f"{place} {kinds}{type(known).__name__}{hint}"
        known = value if known is None else known
    return f": {error}"


def _refused(problem: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, f"nothing was sent: {problem}")


def _plain(table: pa.Table) -> pa.Table:
    for index, field in enumerate(table.schema):
        wanted = _plain_type(field.type)
        if wanted == field.type:
            continue
        try:
            column = _cast(table.column(index), wanted)
        except pa.ArrowException as error:
            raise _refused(
                f"column {field.name} is of type {field.type}; cast it to {wanted}: {error}"
            ) from None
        table = table.set_column(index, field.name, column)
    return table


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if not isinstance(column.type, pa.DictionaryType):
        return column.cast(wanted)
    # Views have no values for places of a dictionary.
    return pa.chunked_array([_decoded(chunk, wanted) for chunk in column.chunks], wanted)


def _decoded(coded: pa.Array, wanted: pa.DataType) -> pa.Array:
    assert isinstance(coded, pa.DictionaryArray)
    values = coded.dictionary.cast(wanted)
    return pa.DictionaryArray.from_arrays(coded.indices, values).dictionary_decode()


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the same values in a layout that sites take."""
    if isinstance(kind, (pa.DictionaryType, pa.RunEndEncodedType)):
        return _plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    if isinstance(kind, pa.StructType):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([field.with_type(_plain_type(field.type)) for field in fields])
    return kind
