"""The rows that a stream takes: its columns, where input has them, how timestamps are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import pyarrow as pa

from streams.vectors.chunk import stream_schema

MOST_ROWS = 2**24
"""Rows of one body: a body of empty lines or of columns without width could hold very many."""

ARRIVAL = "arrival"
"""The timestamp of a tuple is when it arrived."""

UNITS = ("s", "ms", "us", "ns")
"""Formats of timestamps that are numbers since 1970."""

ISO = "iso"
"""Format of timestamps such as `2021-10-07T12:00:01.5Z`; without a zone, UTC."""

NULLS = ("",)
"""What stands for NULL in CSV, outside of quotes, unless a manifest says otherwise."""

_seen = re.compile(rb"\S")

BOM = b"\xef\xbb\xbf"
"""What some programs write at the beginning of a text in UTF-8."""

FieldPath = tuple[str, ...]
"""Names of fields, each within the one before it."""


Tree = Mapping[str, Any]
"""Names of fields → the tree of those within it, or something else."""


class Format(Enum):
    """How rows are written."""

    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


class Unreadable(ValueError):
    """Rows that are not of the stream's form; says which and why.

    Attributes
    ----------
    problem
        What is wrong.
    place
        Where: `line 3` of CSV and JSON, which is that of the body or file, `row 3` of what has no
        lines; both are counted from 1. None: everywhere, or nobody can tell.
    """

    def __init__(self, problem: str, place: str | None = None) -> None:
        super().__init__(problem if place is None else f"{place}: {problem}")
        self.problem = problem
        self.place = place


class Unknown(Enum):
    """What becomes of fields that the stream does not have."""

    IGNORE = "ignore"
    """They are left out, and tuples that had some are counted."""
    REJECT = "reject"
    """Rows that have some are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowForm:
    """The rows that a stream takes.

    Attributes
    ----------
    columns
        Column → type, as the stream has them.
    time_column
        The column with the timestamp; it may be one of `columns`. None: tuples have none.
    time_format
        `s`, `ms`, `us`, `ns`, `iso`, or a pattern of strptime.
    fields
        Column → path of the field that it comes from, unless that is named as the column.
    nulls
        What stands for NULL in CSV, outside of quotes.
    unknown
        What becomes of fields that the stream does not have.
    """

    columns: Mapping[str, str]
    time_column: str | None = None
    time_format: str = ISO
    fields: Mapping[str, FieldPath] = field(default_factory=dict[str, FieldPath])
    nulls: tuple[str, ...] = NULLS
    unknown: Unknown = Unknown.IGNORE

    @property
    def names(self) -> list[str]:
        """The columns of a row in order: the timestamp first, if it is no column of the stream."""
        extra = self.time_column is not None and self.time_column not in self.columns
        return [*([self.time_column] if extra and self.time_column else []), *self.columns]

    @property
    def paths(self) -> dict[str, FieldPath]:
        """Column → path of the field that it comes from, in order."""
        return {name: self.fields.get(name, (name,)) for name in self.names}

    @property
    def tree(self) -> Tree:
        """The fields that columns come from."""
        return tree_of(dict.fromkeys(self.paths.values()))

    @property
    def schema(self) -> pa.Schema:
        """The stream's: tuples as they are returned."""
        return stream_schema(self.columns)

    def check_names(self, wanted: Sequence[str], given: Sequence[str]) -> str | None:
        """The first of the given fields that the stream does not have; None: it has all of them.

        Raises
        ------
        Unreadable
            A wanted one is missing, or stands there twice, or one is unknown and may not be.
        """
        if missing := [name for name in wanted if name not in given]:
            raise Unreadable(f"column {missing[0]} is missing; there are {', '.join(given[:50])}")
        if twice := [name for name in wanted if given.count(name) > 1]:
            raise Unreadable(f"column {twice[0]} stands there twice")
        unknown = next((name for name in given if name not in wanted), None)
        if unknown is not None and self.unknown is Unknown.REJECT:
            raise self.stranger(unknown)
        return unknown

    def stranger(self, name: str, place: str | None = None) -> Unreadable:
        """Why a row is refused with a field that the stream does not have."""
        known = ", ".join(map(".".join, list(self.paths.values())[:50]))
        return Unreadable(
            f"field {short(name)} is none of the stream's, which are {known} (`unknown: reject`)",
            place,
        )


class Ignored(NamedTuple):
    """Fields that the stream does not have: how many tuples had some, and the first of them."""

    tuples: int
    field: str

    @staticmethod
    def in_all(tuples: int, field: str | None) -> Ignored | None:
        """The same field in each of some tuples; None: there is none."""
        return None if field is None or not tuples else Ignored(tuples, field)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """Rows as a reader gives them.

    Attributes
    ----------
    columns
        Those of a form, of the types in which they were read.
    count
        How many rows there are.
    place
        Says where a row stands, counted from 0.
    are_texts
        Whether numbers are written as texts.
    ignored
        Fields that were left out; None: there were none.
    """

    columns: Mapping[str, pa.ChunkedArray]
    count: int
    place: Callable[[int], str]
    are_texts: bool = False
    ignored: Ignored | None = None


def tree_of(leaves: Mapping[FieldPath, Any]) -> dict[str, Any]:
    """Paths with something at the end of each, as mappings of mappings."""
    tree: dict[str, Any] = {}
    for path, leaf in leaves.items():
        place = tree
        for step in path[:-1]:
            place = place.setdefault(step, {})
        place[path[-1]] = leaf
    return tree


def no_rows(form: RowForm) -> ReadRows:
    """None of a form."""
    nothing = {name: pa.chunked_array([], pa.null()) for name in form.names}
    return ReadRows(columns=nothing, count=0, place=row_place)


def row_place(index: int) -> str:
    """Where a row stands that has no line."""
    return f"row {index + 1}"


def first_seen(body: bytes, begin: int = 0) -> bytes:
    """The first byte that is no white space, from a place on; empty if there is none.

    >>> first_seen(b"  {}"), first_seen(b" ")
    (b'{', b'')
    """
    # `strip` would copy the body.
    found = _seen.search(body, begin)
    return b"" if found is None else found[0]


def short(error: BaseException | str) -> str:
    """An error on one line that is not too long."""
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else f"{text[:300]} …"
