"""A query as it was written: one node a phrase, each knowing its place in the text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """A phrase: the characters [start, end) of the text that was parsed."""

    start: int
    end: int


class ToStream(Enum):
    """How a relation becomes a stream."""

    ISTREAM = "istream"
    """The rows inserted since the timestamp before."""
    DSTREAM = "dstream"
    """The rows removed since the timestamp before."""
    RSTREAM = "rstream"
    """All of the relation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal(Phrase):
    """A constant."""

    value: int | float | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Phrase):
    """A column, of a named source or of the only one that has it."""

    source: str | None
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Phrase):
    """A function, an aggregate or an operator applied to arguments.

    Operators carry the names of the functions they stand for: `add`, `less`, `and`, …
    """

    function: str
    arguments: tuple[Expression, ...]
    star: bool = False
    """The argument is `*`."""
    infix: bool = False
    """Written as an operator."""
    distinct: bool = False
    """The aggregate counts equal values once."""


infix: dict[str, str] = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "modulo": "%",
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
}
"""How operators are written that stand between their arguments."""

Expression = Literal | Column | Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Phrase):
    """The part of a stream that is a relation at a timestamp.

    Attributes
    ----------
    rows
        How many of the newest tuples; None: any number.
    range_ms
        Tuples younger than this, ms; None: any age. `[NOW]` is 1: time is whole milliseconds.
    slide_ms, offset_ms
        The relation changes at `offset_ms` plus multiples of `slide_ms` only, ms; None: at any
        time.
    partition_by
        Columns; `rows` counts for each of their values on its own, and each has sessions of its
        own.
    session_ms
        Tuples of sessions that end now, which they do so long after their last tuple, ms; None: no
        sessions.
    """

    rows: int | None
    range_ms: int | None
    partition_by: tuple[Column, ...] = ()
    slide_ms: int | None = None
    offset_ms: int = 0
    session_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Phrase):
    """A stream in FROM."""

    stream: str
    alias: str
    window: Window | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(Phrase):
    """An expression of the SELECT list."""

    expression: Expression
    alias: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked(Phrase):
    """What TOP ranks rows by: the greatest value comes first."""

    expression: Expression
    ascending: bool
    """The least value comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Top(Phrase):
    """TOP n BY … PARTITION BY …

    Attributes
    ----------
    rows
        How many of the first rows.
    by
        What ranks them; of rows that are equal in one, the next one decides.
    partition_by
        Columns; `rows` counts for each of their values on its own.
    """

    rows: int
    by: tuple[Ranked, ...]
    partition_by: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Phrase):
    """SELECT … FROM … WHERE … GROUP BY … HAVING … TOP …"""

    items: tuple[Item, ...]
    """Empty: `*`."""
    sources: tuple[Source, ...]
    where: Expression | None
    group_by: tuple[Column, ...]
    having: Expression | None = None
    distinct: bool = False
    """SELECT DISTINCT: equal rows count once."""
    top: Top | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamExpression(Phrase):
    """ISTREAM, DSTREAM or RSTREAM of the union of selects."""

    to_stream: ToStream
    selects: tuple[Select, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement(Phrase):
    """REGISTER QUERY name …

    Attributes
    ----------
    name
        Of the query and of the stream it gives.
    text
        The statement as it was written, with a semicolon.
    source
        The whole text it was part of; the places of nodes are offsets into it.
    """

    name: str
    text: str
    source: str
    body: StreamExpression
