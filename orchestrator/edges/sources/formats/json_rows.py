"""Rows of JSON: objects, each on a line of its own.

pyarrow reads them as the stream's types. Numbers that it cannot take for an int are read as they
are written, as decimals, and so are timestamps. Where it does not say which row is wrong, or which
field, parts of the body are read until that is known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from json import JSONDecodeError, JSONDecoder
from typing import Any, cast

import msgspec
import pyarrow as pa
from pyarrow import json

from orchestrator.edges.sources.formats.arrow_rows import within
from orchestrator.edges.sources.formats.column_values import (
    NARROW,
    SHOWN_CHARS,
    WIDE,
    first_failing,
    reader_type,
)
from orchestrator.edges.sources.formats.row_form import (
    BOM,
    FieldPath,
    Ignored,
    ReadRows,
    RowForm,
    Tree,
    Unknown,
    Unreadable,
    first_seen,
    no_rows,
    row_place,
    short,
    tree_of,
)

MOST_VALUES = 2**25
"""Of one body, whose rows may leave columns out: `{}` is a row of any number of columns."""

_null_row = re.compile(rb"\}\s*null")
"""Perhaps a row that is null; it may also stand in a text."""

_other_kind = re.compile(
    r"JSON parse error: Column\(/?(.*)\) changed from (\w+) to (\w+) in row (\d+)"
)
_twice = re.compile(r"JSON parse error: Column\(/(.*)\) was specified twice in row (\d+)")
_in_row = re.compile(r"JSON parse error: (.*?)\.? in row (\d+)")
_unconverted = re.compile(r"(?:Failed to convert JSON to .*: |The string ')([^' ]+)")
_row = re.compile(r"\S")
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])

SAMPLE = 256
"""Rows that are looked at first where fields are unknown."""


def read(form: RowForm, body: bytes, _: bool) -> ReadRows:
    """The rows of a body.

    Raises
    ------
    Unreadable
        The body does not hold such rows.
    """
    # The reader takes a line in which nothing is written for an end.
    if not (first := first_seen(body)):
        return no_rows(form)
    if first == b"[":
        raise Unreadable("an array; each row is an object on a line of its own")
    # The reader takes any bytes for a text; whoever reads it later would break.
    body.decode()
    _check_rows(body)
    if body.count(b"}") * len(form.names) > MOST_VALUES:
        raise Unreadable(f"more than {MOST_VALUES} values; send fewer rows at once")
    table, has_unknown = _table(form, body)
    return ReadRows(
        columns={name: within(table, path) for name, path in form.paths.items()},
        count=table.num_rows,
        place=lambda index: _place(body, index, table.num_rows),
        ignored=_ignored(form, body) if has_unknown else None,
    )


def _table(form: RowForm, body: bytes) -> tuple[pa.Table, bool]:
    """The rows, and whether they have fields that are unknown."""
    types = {name: reader_type(form, name) for name in form.names}
    time, may_have = form.time_column, False
    wide = {name for name, kind in types.items() if kind in (pa.int64(), NARROW)}
    while True:
        try:
            return _parsed(form.paths, body, types, may_have), may_have
        except pa.ArrowInvalid as error:
            said = str(error)
        other = _other_kind.match(said)
        if "unexpected field" in said and not may_have:
            if form.unknown is Unknown.REJECT:
                raise _stranger(form, body)
            may_have = True
        elif (
            other is not None
            and time in wide
            and tuple(other[1].split("/")) == form.paths[time]
            and types[time] != WIDE
        ):
            # A text may hold a number.
            types[time] = WIDE
        elif "Failed to convert JSON" in said and any(types[name] != WIDE for name in wide):
            # All values are numbers by now: other kinds are noticed before.
            types |= dict.fromkeys(wide, WIDE)
        else:
            raise _explained(form, body, types, short(said))


def _parsed(
    paths: Mapping[str, FieldPath],
    body: bytes,
    types: Mapping[str, pa.DataType],
    may_have_unknown: bool,
) -> pa.Table:
    tree = tree_of({paths[name]: kind for name, kind in types.items()})
    return json.read_json(
        pa.BufferReader(body),
        read_options=json.ReadOptions(use_threads=False, block_size=max(len(body) + 1, 1 << 16)),
        parse_options=json.ParseOptions(
            explicit_schema=pa.schema(_fields(tree)),
            unexpected_field_behavior="ignore" if may_have_unknown else "error",
            newlines_in_values=False,
        ),
    )


def _fields(tree: Mapping[str, Any]) -> list[pa.Field]:
    return [
        pa.field(name, kind if isinstance(kind, pa.DataType) else pa.struct(_fields(kind)))
        for name, kind in tree.items()
    ]


def _place(body: bytes, index: int, count: int | None = None) -> str:
    """Where a row stands; only if each is known to have a line of its own, it is a line."""
    lines = [(n, line) for n, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    whole = lines[:index] if count is None else lines
    alone = all(line.strip()[:1] == b"{" and line.strip()[-1:] == b"}" for _, line in whole)
    if not alone or index >= len(lines) or count not in (None, len(lines)):
        return row_place(index)
    return f"line {lines[index][0]}"


def _explained(
    form: RowForm, body: bytes, types: Mapping[str, pa.DataType], said: str
) -> Unreadable:
    """What is wrong with a body, in which row and column; the reader does not always say."""
    names = {"/".join(path): name for name, path in form.paths.items()}
    if (other := _other_kind.match(said)) is not None:
        # It counts rows from 0, and tells what it expects as what there was before.
        field, expected, found, row = other.groups()
        expected = expected.replace("number_or_string", "number")
        if not field:
            return Unreadable(f"a {found}; each row is an object", _place(body, int(row)))
        problem = f"column {names.get(field, field)}: {found} instead of {expected}"
        return Unreadable(problem, _place(body, int(row)))
    if (twice := _twice.match(said)) is not None:
        problem = f"column {names.get(twice[1], twice[1])} stands there twice"
        return Unreadable(problem, _place(body, int(twice[2])))
    if (found := _in_row.match(said)) is not None:
        place = _place(body, int(found[2]))
        large = _too_large(body, int(found[2])) if "too big" in said else None
        if large is not None:
            return Unreadable(f"column {names.get(large, large)}: a number beyond 64 bits", place)
        return Unreadable(f"no JSON: {found[1]}", place)
    lines = [line for line in body.split(b"\n") if line.strip()]

    def attempt(begin: int, end: int, only: str | None = None) -> None:
        kinds = types if only is None else {only: types[only]}
        _parsed(form.paths, b"\n".join(lines[begin:end]), kinds, may_have_unknown=True)

    index = first_failing(len(lines), attempt)
    try:
        # Values that no column takes are JSON, too.
        for _ in _decoded(lines[index]):
            pass
    except Unreadable as error:
        return Unreadable(error.problem, _place(body, index))
    for name in form.names:
        try:
            attempt(index, index + 1, name)
        except pa.ArrowInvalid as error:
            value = _unconverted.search(str(error))
            shown = short(error) if value is None else f"{value[1][:SHOWN_CHARS]}"
            problem = f"column {name}: {shown} is no {form.columns.get(name, 'number')}"
            return Unreadable(problem, _place(body, index))
    return Unreadable(said, _place(body, index) if len(lines) > 1 else None)


def _too_large(body: bytes, index: int) -> str | None:
    """The field of a row whose number no float holds; fields within others after a slash."""
    row, _ = next(islice(_decoded(body), index, None), (None, 0))
    left: list[tuple[str, Any]] = [("", row)]
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", value)
            left += [(f"{name}/{key}".lstrip("/"), each) for key, each in inner.items()]
        elif isinstance(value, float) and math.isinf(value):
            return name
    return None


def _check_rows(body: bytes) -> None:
    """Refuse a body with a row that is null: the reader would end the process."""
    if b"null" not in body:
        return
    if body.removeprefix(BOM).lstrip().startswith(b"null") or _null_row.search(body) is not None:
        for row, line in _decoded(body):
            if not isinstance(row, dict):
                raise Unreadable("a row is no object", f"line {line}")


def _decoded(body: bytes) -> Iterator[tuple[Any, int]]:
    """Rows as Python reads them, one after the other, wherever lines end; and the line of each."""
    text, at, line = body.decode("utf-8-sig"), 0, 1
    # Python makes no int of thousands of digits.
    decoder = JSONDecoder(parse_int=float)
    while (row := _row.search(text, at)) is not None:
        line += text.count("\n", at, row.start())
        try:
            found, end = decoder.raw_decode(text, row.start())
        except JSONDecodeError as error:
            near = text[error.pos : error.pos + SHOWN_CHARS]
            raise Unreadable(f"no JSON: {error.msg} at {short(repr(near))}") from None
        except (ValueError, RecursionError) as error:
            raise Unreadable(short(error)) from None
        yield found, line
        line, at = line + text.count("\n", row.start(), end), end


def _ignored(form: RowForm, body: bytes) -> Ignored | None:
    """How many rows have fields that the stream does not have, and the first of these.

    To look at each row takes several times as long as to read all. Most often all are alike: if
    those of a sample spread over the body have such fields, all count.
    """
    lines = [line for line in body.removeprefix(BOM).split(b"\n") if line.strip()]
    try:
        sample = _strangers(lines[:: max(len(lines) // SAMPLE, 1)], form.tree)
        if all(sample) and len(lines) > SAMPLE:
            return Ignored.in_all(len(lines), sample[0])
        names = _strangers(lines, form.tree)
    except (msgspec.DecodeError, RecursionError):
        # Rows that share a line, or take several.
        names = [_stranger_in(row, form.tree) for row, _ in _decoded(body)]
    found = [name for name in names if name is not None]
    return Ignored(len(found), found[0]) if found else None


def _strangers(lines: Sequence[bytes], known: Tree) -> list[str | None]:
    """Of each line, the first field that is unknown, if there is one."""
    return [_stranger_in(_object.decode(line), known) for line in lines]


def _stranger_in(row: Mapping[str, Any], known: Tree) -> str | None:
    """The first field that is unknown, also within those that hold known ones."""
    if row.keys() - known.keys():
        return next(name for name in row if name not in known)
    for name, inner in known.items():
        held = row.get(name) if inner else None
        if isinstance(held, msgspec.Raw):
            held = msgspec.json.decode(held)
        if isinstance(held, dict):
            found = _stranger_in(cast("dict[str, Any]", held), inner)
            if found is not None:
                return f"{name}.{found}"
    return None


def _stranger(form: RowForm, body: bytes) -> Unreadable:
    """The row of a body that has a field that may not be there, and which it is."""
    for index, (row, _) in enumerate(_decoded(body)):
        if (name := _stranger_in(row, form.tree)) is not None:
            return form.stranger(name, _place(body, index))
    return Unreadable("a row has a field that the stream does not have (`unknown: reject`)")
