"""The form of rows that nobody has described: columns, their types, and which one is the timestamp.

Types follow from the first rows: a later value that does not fit is refused when it is read, never
adapted to. The timestamp is the column that is named as such, or the only one with dates and times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json

from foundation.suggestions import nearest
from orchestrator.edges.sources.formats.csv_rows import header_of, line_number
from orchestrator.edges.sources.formats.row_form import (
    ISO,
    NULLS,
    Format,
    RowForm,
    Unreadable,
    first_seen,
    short,
)
from streams.language.names import names_column
from streams.vectors.chunk import TIMESTAMP
from streams.vectors.reserved import taken

TIME_NAMES = (TIMESTAMP, "timestamp", "ts", "time", "datetime", "date", "event_time", "at")
"""Names of a column with the timestamp, the likeliest first; in any case."""

UNITS_FROM = (("ns", 1e17), ("us", 1e14), ("ms", 1e11), ("s", 1e9))
"""Unit of a number since 1970, and from which number on it is taken for that: in 1973 at the
earliest, but for seconds in 2001. Smaller numbers are milliseconds: somebody counts from 0."""


NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""What other programs write between columns."""


class Unclear(ValueError):
    """Nobody can tell the columns, or which one is the timestamp: the problem, then the remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredForm:
    """A form that follows from rows.

    Attributes
    ----------
    left_out
        Column of the rows that the form does not have → why not.
    doubtful
        Column of CSV taken for text though most of its values are numbers → the first other one,
        and its line.
    """

    form: RowForm
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    doubtful: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeColumn:
    """What somebody says of the timestamp's column; None: nothing."""

    name: str | None = None
    written: str | None = None


def infer_lines(written: Format, body: bytes, time: TimeColumn) -> InferredForm:
    """The form of lines of CSV, which begin with a header, or of JSON.

    Raises
    ------
    Unclear
        As the name says.
    Unreadable
        There are no lines, or nobody can tell the columns.
    """
    if not first_seen(body):
        if time.name is None:
            raise Unreadable("it is empty")
        form = RowForm(columns={}, time_column=time.name, time_format=time.written or "ms")
        return InferredForm(form=form)
    if written is Format.JSON:
        return _inferred(_json(body), time, are_texts=True)
    sample = _csv(body)
    return replace(_inferred(sample, time, are_texts=True), doubtful=_doubtful(sample, body))


def infer_table(sample: pa.Table, time: TimeColumn) -> InferredForm:
    """The form of rows that have types, of which these are some; see `infer_lines`."""
    return _inferred(sample, time, are_texts=False)


def _csv(body: bytes) -> pa.Table:
    names, _ = header_of(body)
    if len(names) == 1 and (other := next((each for each in SEPARATORS if each in names[0]), "")):
        problem = f"has {SEPARATORS[other]} between its columns: {names[0]}"
        raise Unclear(problem, "Columns of CSV are separated by commas: write it with these.")
    for sample in _samples(body, 2):
        try:
            found = csv.read_csv(
                pa.BufferReader(sample),
                read_options=csv.ReadOptions(use_threads=False, block_size=len(sample) + 1),
                convert_options=csv.ConvertOptions(
                    null_values=list(NULLS),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except (pa.ArrowException, OSError):
            # Some line is wrong. Whoever reads them says which.
            continue
        return found.rename_columns(names)
    return pa.table({name: pa.nulls(0, pa.string()) for name in names})


def _doubtful(sample: pa.Table, body: bytes) -> dict[str, str]:
    """See `InferredForm.doubtful`."""
    found: dict[str, str] = {}
    for name in sample.column_names:
        column = sample.column(name)
        if not pa.types.is_string(column.type):
            continue
        are_numbers = pc.match_substring_regex(column, NUMBER)
        others: int = pc.sum(pc.invert(are_numbers)).as_py() or 0
        if 0 < others < (len(column) - column.null_count) / 2:
            row: int = pc.index(are_numbers, False).as_py()
            found[name] = f"{column[row].as_py()!r} in line {line_number(body, row + 1)}"
    return found


def _json(body: bytes) -> pa.Table:
    problem = ""
    for sample in _samples(body, 1):
        try:
            return json.read_json(
                pa.BufferReader(sample),
                read_options=json.ReadOptions(use_threads=False, block_size=len(sample) + 1),
            )
        except (pa.ArrowException, OSError) as error:
            problem = short(error)
    raise Unreadable(f"its first line is no object of JSON: {problem}")


def _samples(body: bytes, count: int) -> Iterator[bytes]:
    """All lines; then, if they cannot be read, the first ones."""
    yield body
    yield b"\n".join([line for line in body.splitlines() if line.strip()][:count])


def _inferred(sample: pa.Table, time: TimeColumn, *, are_texts: bool) -> InferredForm:
    if twice := [each for each in sample.column_names if sample.column_names.count(each) > 1]:
        raise Unreadable(f"column {twice[0]} stands there twice")
    name, written = _timestamp(sample, time)
    columns: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for each in sample.schema:
        if each.name == name:
            continue
        kind = _kind(each.type, are_texts=are_texts)
        if not names_column(each.name):
            left_out[each.name] = "its name cannot be that of a column"
        elif (reason := taken(each.name)) is not None:
            left_out[each.name] = f"its name {reason}"
        elif are_texts and pa.types.is_binary(each.type):
            raise Unreadable(f"column {each.name} holds text that is not UTF-8")
        elif kind is None:
            left_out[each.name] = f"it is of type {each.type}"
        else:
            columns[each.name] = kind
    form = RowForm(columns=columns, time_column=name, time_format=written)
    return InferredForm(form=form, left_out=left_out)


def _kind(kind: pa.DataType, *, are_texts: bool) -> str | None:
    """The type of the language that a column is of; None: none."""
    types = pa.types
    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    if types.is_boolean(kind):
        return "bool"
    if types.is_integer(kind):
        return "int"
    if types.is_floating(kind) or types.is_decimal(kind):
        return "float"
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)
    # Dates are texts in CSV and JSON; where they are not, no type of the language holds them.
    return "string" if is_text or (are_texts and types.is_temporal(kind)) else None


def _timestamp(sample: pa.Table, time: TimeColumn) -> tuple[str, str]:
    """The column with the timestamp, and how it is written."""
    names = sample.column_names
    if time.name is not None:
        if time.name not in names:
            raise Unclear(f"has no column {time.name}", nearest(time.name, names))
        return time.name, time.written or _format(sample, time.name)
    folded = {name.casefold(): name for name in names}
    usual = [folded[name] for name in TIME_NAMES if name in folded]
    dated = [field.name for field in sample.schema if pa.types.is_temporal(field.type)]
    found = usual[:1] if usual else dated
    if len(found) != 1:
        told = f"{', '.join(dated)} could all be the timestamp" if dated else "has no timestamp"
        problem = f"{told}; its columns are {', '.join(names)}"
        raise Unclear(problem, "Name it: --timestamp COLUMN.")
    return found[0], time.written or _format(sample, found[0])


def _format(sample: pa.Table, name: str) -> str:
    column = sample.column(name)
    if name == TIMESTAMP and pa.types.is_integer(column.type):
        return "ms"
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return ISO
    largest = pc.max(pc.abs(column.cast(pa.float64(), safe=False))).as_py() or 0.0
    return next((unit for unit, least in UNITS_FROM if largest >= least), "ms")
