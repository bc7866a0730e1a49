"""A query as it was written: one node a phrase, each knowing its place in the text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from foundation.loop_limits import LoopLimits


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
    """A constant; None is NULL."""

    value: int | float | str | bool | None


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


class Quantifier(Enum):
    """What a condition or a value takes of the rows of a sub-query."""

    EXISTS = "exists"
    """Whether there is one."""
    ANY = "any"
    """Whether a comparison with one is true."""
    VALUE = "value"
    """The only column of the only row; NULL if there is none or are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubQuery(Phrase):
    """A sub-query in an expression. IN is ANY; ALL is the opposite of ANY of the opposite.

    Attributes
    ----------
    value, function
        What is compared with each row, and by which function; None if nothing is.
    """

    quantifier: Quantifier
    query: RelationExpression
    value: Expression | None = None
    function: str | None = None


Expression = Literal | Column | Call | SubQuery


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
    zone
        The time zone whose days are counted, which may have other lengths; None: there is none.
    partition_by
        Columns; `rows` counts for each of their values on its own, and each has sessions of its
        own.
    slide_rows
        The relation changes with each tuple whose number is a multiple of this; None: at each.
    session_ms
        Tuples of sessions that end now, which they do so long after their last tuple, ms; None: no
        sessions.
    now
        It is `[NOW]`, which in a loop lasts one instant instead of a millisecond.
    """

    rows: int | None
    range_ms: int | None
    partition_by: tuple[Column, ...] = ()
    slide_ms: int | None = None
    offset_ms: int = 0
    zone: str | None = None
    session_ms: int | None = None
    slide_rows: int | None = None
    now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Phrase):
    """A stream in FROM, or what stands in the place of one.

    Attributes
    ----------
    stream
        Its name; empty if there is none.
    alias
        What its columns are of; empty if it has no name.
    derived
        A sub-query, an operation on relations or a join; None: it is a stream.
    """

    stream: str
    alias: str
    window: Window | None
    derived: RelationExpression | SetOperation | OuterJoin | None = None


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
    group_by: tuple[Expression, ...]
    having: Expression | None = None
    distinct: bool = False
    """SELECT DISTINCT: equal rows count once."""
    top: Top | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationExpression(Phrase):
    """The union of selects. Other operations on relations are the source of one."""

    selects: tuple[Select, ...]


class SetOperator(Enum):
    """Operations on two relations with columns of the same types."""

    INTERSECT = "intersect"
    EXCEPT = "except"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperation(Phrase):
    """The rows that two relations have in common, or those that the first one has alone.

    Attributes
    ----------
    every
        A row counts as often as it occurs (ALL), not once.
    """

    operator: SetOperator
    every: bool
    left: RelationExpression
    right: RelationExpression


class KeptSide(Enum):
    """Of which sides a join keeps rows without a partner."""

    NEITHER = "inner"
    LEFT = "left"
    RIGHT = "right"
    BOTH = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterJoin(Phrase):
    """A join whose condition cannot stand in WHERE as well, or a side of such a join."""

    keeps: KeptSide
    left: Source
    right: Source
    condition: Expression | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDelay(Phrase):
    """`<NOW>` or `<5 SECONDS>`: a stream has its tuples later.

    Attributes
    ----------
    duration_ms
        How much later, ms, at least 1; None: by one instant (`<NOW>`), which is shorter than any
        duration.
    """

    duration_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RealTime(Phrase):
    """`RTSPEC STIME … ETIME … PERIOD … OFFSET … DEADLINE … IMPORTANCE …`: a periodic statement.

    Its *releases* are at multiples of the period, plus the offset. Each shows the whole relation.

    Attributes
    ----------
    begins_ms, ends_ms
        STIME and ETIME: releases lie between them, counted from the first tuple that the statement
        reads, ms; without an end, for ever.
    period_ms, offset_ms
        The offset is less than the period, ms.
    deadline_ms
        How long after a release its result is at its site, ms; None: as the query's manifest says.
    importance
        Greater is more important; it counts where not all can be in time.
    """

    period_ms: int
    offset_ms: int = 0
    begins_ms: int = 0
    ends_ms: int | None = None
    deadline_ms: int | None = None
    importance: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamExpression(Phrase):
    """ISTREAM, DSTREAM or RSTREAM of the union of selects.

    The phrase ends before the delay and before RTSPEC.
    """

    to_stream: ToStream
    selects: tuple[Select, ...]
    delay: StreamDelay | None = None
    real_time: RealTime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop(Phrase):
    """Statements that are evaluated together, instant by instant (`streams.language.loops`).

    Attributes
    ----------
    statements
        In the order in which they were written.
    exported
        Names of those whose streams are given. One has the loop's name; several have tags.
    """

    statements: tuple[Statement, ...]
    exported: tuple[str, ...]
    limits: LoopLimits


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
    is_relation
        It gives a relation, which is part of the statements that read it, and no stream. `body` is
        its ISTREAM then.
    loop
        What it consists of if it is a loop; `body` has no SELECT then.
    """

    name: str
    text: str
    source: str
    body: StreamExpression
    is_relation: bool = False
    loop: Loop | None = None
