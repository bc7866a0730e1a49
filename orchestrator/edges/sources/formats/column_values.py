"""Values of a column as another type, exactly: what would change is refused.

A number is taken for an `int` if it is whole, however it is written: `2`, `2.0` and `2e0` are the
same. For a `float` it becomes the nearest one. Texts are no numbers, except in CSV, which has only
texts. Whole columns are converted at once; if that fails, halves of halves tell which value it is.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.edges.sources.formats.row_form import UNITS, RowForm
from streams.vectors.chunk import type_names

WIDE = pa.decimal256(76, 38)
"""Holds whatever number may be an `int` or a timestamp, as it is written."""

NARROW = pa.decimal128(38, 18)
"""The same in half the memory, with up to 18 digits behind the point."""

SHOWN_CHARS = 60
"""Of a value, in an error."""

_null_words = frozenset({"null", "nan", "na", "n/a", "none", "nil", "\\n", "-", "?"})
"""What others write for NULL."""

_infinite = r"(?i)^[+-]?inf"

Failure = (pa.ArrowException, ValueError, OverflowError)
"""What a conversion raises."""


class Unfit(ValueError):
    """A value, or a whole column, that is not of the type.

    Attributes
    ----------
    index
        Of the value; None: the column.
    """

    def __init__(self, problem: str, index: int | None = None) -> None:
        super().__init__(problem)
        self.index = index


def reader_type(form: RowForm, name: str) -> pa.DataType:
    """The type as which a reader of texts takes a column at first."""
    kind = form.columns.get(name)
    if name == form.time_column and form.time_format in UNITS and kind in (None, "float"):
        # Digits are read as they are written, but whole numbers in a quicker way.
        return pa.int64() if kind is None and form.time_format != "s" else NARROW
    return pa.string() if kind is None else type_names[kind]


def one_piece(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece; copied only if it is in several."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def as_type(column: pa.Array, kind: str, *, texts: bool = False) -> pa.Array:
    """A column as a type of the query language.

    Parameters
    ----------
    texts
        Whether numbers are written as texts, as in CSV.

    Raises
    ------
    Unfit
        It is of another type, or a value has no equal in that one.
    """
    wanted = type_names[kind]
    column = decoded(column)
    if column.type == wanted:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), wanted)
    if not (_is_text(column.type) and texts) and not _takes[kind](column.type):
        raise Unfit(f"is of type {column.type}; cast it to {_casts[kind]}")
    return converted(column, _converters[kind], f"is no {kind}", hints_at_null=texts)


def converted(
    column: pa.Array,
    convert: Callable[[pa.Array], pa.Array],
    problem: str,
    *,
    hints_at_null: bool = False,
) -> pa.Array:
    """A column as a conversion gives it.

    Raises
    ------
    Unfit
        The conversion raises for a value: `'x' …`, followed by the problem.
    """
    try:
        return convert(column)
    except Failure as error:
        if not len(column):
            raise Unfit(f"is of type {column.type}, which {problem}") from error
        index = first_failing(len(column), lambda at, end: convert(column.slice(at, end - at)))
    try:
        convert(column.slice(index, 1))
    except Unfit as error:
        problem += f": {error}"
    except Failure:
        pass
    value = column[index].as_py()
    shown = repr(value) if isinstance(value, str) else str(value)
    if isinstance(value, Decimal):
        shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
    if len(shown) > SHOWN_CHARS:
        shown = f"{shown[:SHOWN_CHARS]} …"
    if hints_at_null and isinstance(value, str) and value.strip().lower() in _null_words:
        problem += "; if it stands for NULL, add it to the stream's `nulls`"
    raise Unfit(f"{shown} {problem}", index)


def first_failing(count: int, attempt: Callable[[int, int], object]) -> int:
    """Which of several is the first that fails, found by attempts at halves of halves.

    Parameters
    ----------
    count
        Together they fail.
    attempt
        Raises for a range if one of it fails.
    """
    begin, end = 0, count
    while end - begin > 1:
        middle = (begin + end) // 2
        try:
            attempt(begin, middle)
            begin = middle
        except Failure:
            end = middle
    return begin


def decoded(column: pa.Array) -> pa.Array:
    """A column with values instead of places in a dictionary."""
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def number_of(texts: pa.Array) -> pa.Array:
    """Texts of numbers as they are written, exactly."""
    trimmed = pc.utf8_trim(texts.cast(pa.string()), characters=" \t")
    return trimmed.cast(WIDE)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)


def _to_int(column: pa.Array) -> pa.Array:
    if not _is_text(column.type):
        return column.cast(pa.int64())
    trimmed = pc.utf8_trim(column.cast(pa.string()), characters=" \t")
    # The reader of numbers takes 0x10 for 16.
    if not pc.any(pc.match_substring(trimmed, "x", ignore_case=True)).as_py():
        try:
            return trimmed.cast(pa.int64())
        except pa.ArrowInvalid:
            pass
    return trimmed.cast(WIDE).cast(pa.int64())


def _to_float(column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type):
        return column.cast(pa.float64())
    if pa.types.is_integer(column.type):
        return column.cast(pa.float64(), safe=False)
    texts = pc.utf8_trim(column.cast(pa.string()), characters=" \t")
    found = texts.cast(pa.float64())
    infinite = pc.is_inf(found)
    if pc.any(infinite).as_py():
        written = pc.match_substring_regex(texts, _infinite)
        if pc.any(pc.and_not(infinite, written)).as_py():
            raise OverflowError("beyond 64 bits")
    return found


def _to_text(column: pa.Array) -> pa.Array:
    return column.cast(pa.string())


def _to_bool(column: pa.Array) -> pa.Array:
    return column.cast(pa.bool_())


_converters: dict[str, Callable[[pa.Array], pa.Array]] = {
    "int": _to_int,
    "float": _to_float,
    "string": _to_text,
    "bool": _to_bool,
}
_takes: dict[str, Callable[[pa.DataType], bool]] = {
    "int": _is_number,
    "float": _is_number,
    "string": _is_text,
    "bool": pa.types.is_boolean,
}
"""Arrow's types that a type of the language takes."""

_casts = {"int": "int64", "float": "float64", "string": "string", "bool": "bool"}
"""What to cast a column to that is of none of them."""
