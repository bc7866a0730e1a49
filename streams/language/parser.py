"""Text to syntax tree. The grammar is in `grammar.lark`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple, TypedDict, TypeVar, cast

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, VisitError
from lark.tree import Meta

from foundation.loop_limits import DEFAULT_TUPLES, Beyond, LoopLimits
from streams.language.ast import (
    Call,
    Column,
    Expression,
    Item,
    KeptSide,
    Literal,
    Loop,
    OuterJoin,
    Quantifier,
    Ranked,
    RealTime,
    RelationExpression,
    Select,
    SetOperation,
    SetOperator,
    Source,
    Statement,
    StreamDelay,
    StreamExpression,
    SubQuery,
    Top,
    ToStream,
    Window,
)
from streams.language.errors import QueryError
from streams.language.names import COLUMN, PLAIN, is_plain, names_column
from streams.language.syntax_errors import explain_unexpected

Wanted = TypeVar("Wanted")

milliseconds = {
    "MILLISECONDS": 1,
    "SECONDS": 1_000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": 86_400_000,
}
"""Length of a unit of time in a window, ms."""

operators = {
    "PLUS": "add",
    "MINUS": "subtract",
    "STAR": "multiply",
    "SLASH": "divide",
    "PERCENT": "modulo",
    "EQUAL": "equal",
    "NOT_EQUAL": "not_equal",
    "LESS": "less",
    "LESS_EQUAL": "less_equal",
    "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal",
}
"""Terminal → the function an operator stands for."""

opposites = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}
"""Comparison → the one that is true where it is false."""

ASSOCIATIVE = frozenset({"add", "multiply"})
"""Operators whose function takes any number of operands, from the left."""

CAST_TYPES = ("int", "float", "string")
"""Types that CAST gives."""

LARGEST_INTEGER = 2**63 - 1

MOST_DIGITS = 100
"""Of a number, zeros in front included."""

MOST_LENGTH_MS = 10**15
"""Of a length of time: with a timestamp added it is still one."""

MOST_PERIOD_MS = 10**13
"""Of a period: 100,000 of them are still a length of time (`streams.operators.releases`)."""

REMEMBERED = 64
"""Texts that need not be parsed again: replicas come and go, and plans name the same statements."""


@lru_cache(maxsize=REMEMBERED)
def parse(text: str) -> tuple[Statement, ...]:
    """Understand statements, in their order.

    Raises
    ------
    QueryError
        The text is not in the language or no Unicode, or two statements have one name.

    Examples
    --------
    >>> [s.name for s in parse("REGISTER QUERY q RSTREAM(SELECT * FROM s [NOW]);")]
    ['q']
    """
    try:
        text.encode()
    except UnicodeEncodeError as failed:
        # A half of a surrogate pair. Arrow and files hold texts in UTF-8, which has none for it.
        message = f"{text[failed.start]!r} is no character"
        raise QueryError(text, failed.start, message) from None
    try:
        tree = _grammar().parse(text)
        builder = _Builder(text)
        statements: tuple[Statement, ...] = builder.transform(tree)
    except UnexpectedInput as unexpected:
        raise explain_unexpected(text, unexpected) from None
    except VisitError as failed:
        if isinstance(failed.orig_exc, QueryError):
            raise failed.orig_exc from None
        if not isinstance(failed.orig_exc, RecursionError):
            raise
        raise QueryError(text, 0, "the query is nested too deeply") from None
    except RecursionError:
        raise QueryError(text, 0, "the query is nested too deeply") from None
    builder.check()
    seen: set[str] = set()
    for statement in statements:
        if statement.name in seen:
            raise QueryError(text, statement.start, f"{statement.name} is registered twice")
        seen.add(statement.name)
    return statements


@cache
def _grammar() -> Lark:
    text = files("streams.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(
        text, parser="lalr", lexer="contextual", propagate_positions=True, keep_all_tokens=True
    )


def _only(items: list[Any], kind: type[Wanted]) -> tuple[Wanted, ...]:
    return tuple(item for item in items if isinstance(item, kind))


def _names(items: list[Any]) -> list[Token]:
    return [token for token in _only(items, Token) if token.type == "NAME"]


def _has(items: list[Any], kind: str) -> bool:
    """Whether a word or sign is among the children."""
    return any(token.type == kind for token in _only(items, Token))


def _expressions(items: list[Any]) -> tuple[Expression, ...]:
    return tuple(item for item in items if isinstance(item, Literal | Column | Call | SubQuery))


def _unquoted(text: Token) -> str:
    """What a literal of a text says."""
    return str(text)[1:-1].replace("''", "'")


def _clauses(items: list[Any]) -> list[dict[str, Any]]:
    """Parts of a phrase that may be missing, by name."""
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


class _Branch(NamedTuple):
    """WHEN condition THEN value."""

    condition: Expression
    value: Expression


class _SetSign(NamedTuple):
    """UNION, INTERSECT or EXCEPT, with ALL or without."""

    word: str
    every: bool


class _Join(NamedTuple):
    """LEFT JOIN source ON condition."""

    keeps: KeptSide
    source: Source
    condition: Expression | None


class _Joined(NamedTuple):
    """A source and all that is joined with it, as sources and conditions."""

    sources: tuple[Source, ...]
    conditions: tuple[Expression, ...]


def _relation(one: Select | RelationExpression | _SetSign) -> RelationExpression:
    assert not isinstance(one, _SetSign)
    if isinstance(one, RelationExpression):
        return one
    return RelationExpression(start=one.start, end=one.end, selects=(one,))


def _all_of(
    derived: RelationExpression | SetOperation, *, distinct: bool = False
) -> RelationExpression:
    """SELECT * of what stands in the place of a stream."""
    whole = _Span(start=derived.start, end=derived.end)
    source = Source(**whole, stream="", alias="", window=None, derived=derived)
    select = Select(
        **whole, items=(), sources=(source,), where=None, group_by=(), distinct=distinct
    )
    return RelationExpression(**whole, selects=(select,))


def _outer(keeps: KeptSide, left: Source, right: Source, condition: Expression | None) -> Source:
    whole = _Span(start=left.start, end=right.end)
    join = OuterJoin(**whole, keeps=keeps, left=left, right=right, condition=condition)
    return Source(**whole, stream="", alias="", window=None, derived=join)


def _inner(sources: Sequence[Source], condition: Expression | None) -> Source:
    """Sources that are joined before an outer join, as one."""
    left = sources[0]
    for place, right in enumerate(sources[1:], 2):
        on = condition if place == len(sources) else None
        left = _outer(KeptSide.NEITHER, left, right, on)
    return left


class _Span(TypedDict):
    start: int
    end: int


def _at(meta: Meta) -> _Span:
    return {"start": meta.start_pos, "end": meta.end_pos}


@v_args(meta=True)
class _Builder(Transformer[Token, Any]):
    """One method a rule of the grammar; children come as nodes and tokens."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self._beyond: dict[int, str] = {}
        """Where integers stand that do not fit in 64 bits, unless a minus is before them."""

    def check(self) -> None:
        """Refuse integers that do not fit."""
        for at, digits in self._beyond.items():
            raise self._does_not_fit(at, digits)

    def _does_not_fit(self, at: int, digits: str) -> QueryError:
        return QueryError(self._text, at, f"{digits} does not fit in 64 bits")

    def QUOTED(self, token: Token) -> Token:
        """A name in double quotes, which is one like any other from here on."""
        name = str(token)[1:-1]
        if not names_column(name):
            message = f"{token} cannot be a name: it has {COLUMN}"
            raise QueryError(self._text, token.start_pos or 0, message)
        return Token.new_borrow_pos("NAME", name, token)

    def _plain(self, name: Token) -> str:
        """The name of a stream or a statement."""
        if not is_plain(name):
            message = f"{name} cannot be the name of a stream: it has {PLAIN}"
            raise QueryError(self._text, name.start_pos or 0, message)
        return str(name)

    def start(self, meta: Meta, items: list[Any]) -> tuple[Statement, ...]:
        return _only(items, Statement)

    def statement(self, meta: Meta, items: list[Any]) -> Statement:
        body, *after = items[3:]
        is_relation = isinstance(body, RelationExpression) and not after
        if isinstance(body, RelationExpression):
            # Each release of a periodic statement shows the whole relation.
            to_stream = ToStream.ISTREAM if is_relation else ToStream.RSTREAM
            whole = _Span(start=body.start, end=body.end)
            body = StreamExpression(**whole, to_stream=to_stream, selects=body.selects)
        for one in _only(after, StreamDelay):
            body = replace(body, delay=one)
        for one in _only(after, RealTime):
            if body.to_stream is not ToStream.RSTREAM:
                word = body.to_stream.name
                message = f"a release shows the whole relation: write RSTREAM in place of {word}"
                raise QueryError(self._text, body.start, message)
            body = replace(body, real_time=one)
        return self._statement(meta, items, body, is_relation=is_relation)

    def real_time(self, meta: Meta, items: list[Any]) -> RealTime:
        parts: dict[str, int] = {}
        for item in _clauses(items):
            parts.update(item)
        begins_ms, ends_ms = parts.get("begins_ms", 0), parts.get("ends_ms")
        if ends_ms is not None and ends_ms < begins_ms:
            message = "ETIME is before STIME: nothing would be released"
            raise QueryError(self._text, meta.start_pos, message)
        return RealTime(**_at(meta), **parts)

    def stime(self, meta: Meta, items: list[Any]) -> dict[str, int]:
        return {"begins_ms": self._length_ms(items, "STIME", least=0)}

    def etime(self, meta: Meta, items: list[Any]) -> dict[str, int]:
        return {"ends_ms": self._length_ms(items, "ETIME", least=0)}

    def period(self, meta: Meta, items: list[Any]) -> dict[str, int]:
        parts = {"period_ms": self._length_ms(items, "PERIOD", most_ms=MOST_PERIOD_MS)}
        for item in _clauses(items):
            parts.update(item)
        if parts.get("offset_ms", 0) >= parts["period_ms"]:
            raise QueryError(self._text, meta.start_pos, "OFFSET must be less than PERIOD")
        return parts

    def deadline(self, meta: Meta, items: list[Any]) -> dict[str, int]:
        return {"deadline_ms": self._length_ms(items, "DEADLINE")}

    def importance(self, meta: Meta, items: list[Any]) -> dict[str, int]:
        return {"importance": self._whole(items[1], "IMPORTANCE", least=0)}

    def _length_ms(
        self, items: list[Any], what: str, *, least: int = 1, most_ms: int = MOST_LENGTH_MS
    ) -> int:
        """A whole number and a unit of time after a word."""
        length_ms = self._whole(items[1], what, least=least) * milliseconds[items[2].type]
        if length_ms > most_ms:
            days, at = most_ms // milliseconds["DAYS"], items[1].start_pos or 0
            raise QueryError(self._text, at, f"{what} must be at most {days} DAYS")
        return length_ms

    def _statement(
        self,
        meta: Meta,
        items: list[Any],
        body: StreamExpression,
        *,
        is_relation: bool = False,
        loop: Loop | None = None,
    ) -> Statement:
        return Statement(
            **_at(meta),
            name=self._plain(_names(items)[0]),
            text=self._text[meta.start_pos : meta.end_pos] + ";",
            source=self._text,
            body=body,
            is_relation=is_relation,
            loop=loop,
        )

    def delay(self, meta: Meta, items: list[Any]) -> StreamDelay:
        if _has(items, "NOW"):
            return StreamDelay(**_at(meta), duration_ms=None)
        return StreamDelay(**_at(meta), duration_ms=self._length_ms(items, "a delay"))

    def loop(self, meta: Meta, items: list[Any]) -> Statement:
        numbers = [token for token in _only(items, Token) if token.type == "INT"]
        steps, *more = (self._whole(token, "LOOP") for token in numbers)
        (tuples,) = more or [DEFAULT_TUPLES]
        beyond = Beyond.CUT if _has(items, "CUT") else Beyond.ERROR
        made = Loop(
            **_at(meta),
            statements=_only(items, Statement),
            exported=tuple(map(self._plain, _names(items)[1:])),
            limits=LoopLimits(steps, tuples, beyond),
        )
        body = StreamExpression(**_at(meta), to_stream=ToStream.ISTREAM, selects=())
        return self._statement(meta, items, body, loop=made)

    def to_stream(self, meta: Meta, items: list[Any]) -> StreamExpression:
        return StreamExpression(
            **_at(meta), to_stream=ToStream(str(items[0]).lower()), selects=items[2].selects
        )

    def query(self, meta: Meta, items: list[Any]) -> RelationExpression:
        """Operations on relations, from the left."""
        given = [one for one in items if isinstance(one, Select | RelationExpression | _SetSign)]
        left = _relation(given[0])
        for sign, operand in zip(given[1::2], given[2::2], strict=True):
            assert isinstance(sign, _SetSign)
            right = _relation(operand)
            whole = _Span(start=left.start, end=right.end)
            if sign.word == "UNION":
                left = RelationExpression(**whole, selects=left.selects + right.selects)
                if not sign.every:
                    left = _all_of(left, distinct=True)
                continue
            operation = SetOperation(
                **whole,
                operator=SetOperator(sign.word.lower()),
                every=sign.every,
                left=left,
                right=right,
            )
            left = _all_of(operation)
        return left

    first_intersected = later_intersected = query

    def set_sign(self, meta: Meta, items: list[Any]) -> _SetSign:
        return _SetSign(items[0].type, _has(items, "ALL"))

    intersect_sign = set_sign

    def selected(self, meta: Meta, items: list[Any]) -> tuple[Item, ...]:
        return _only(items, Item)

    def item(self, meta: Meta, items: list[Any]) -> Item:
        names = _names(items)
        return Item(
            **_at(meta),
            expression=_expressions(items)[0],
            alias=str(names[0]) if names else None,
        )

    def where(self, meta: Meta, items: list[Any]) -> dict[str, Any]:
        return {"where": _expressions(items)[0]}

    def group_by(self, meta: Meta, items: list[Any]) -> dict[str, Any]:
        for each in _expressions(items):
            if isinstance(each, Literal):
                message = "GROUP BY takes columns and expressions of them, no positions"
                raise QueryError(self._text, each.start, message)
        return {"group_by": _expressions(items)}

    def having(self, meta: Meta, items: list[Any]) -> dict[str, Any]:
        return {"having": _expressions(items)[0]}

    def ranked(self, meta: Meta, items: list[Any]) -> Ranked:
        return Ranked(**_at(meta), expression=_expressions(items)[0], ascending=_has(items, "ASC"))

    def top(self, meta: Meta, items: list[Any]) -> dict[str, Any]:
        made = Top(
            **_at(meta),
            rows=self._whole(items[1], "TOP"),
            by=_only(items, Ranked),
            partition_by=_only(items, Column),
        )
        return {"top": made}

    def select(self, meta: Meta, items: list[Any]) -> Select:
        clauses: dict[str, Any] = {"where": None, "group_by": ()}
        for item in _clauses(items):
            clauses.update(item)
        distinct = _has(items, "DISTINCT")
        joined = _only(items, _Joined)
        conditions = [one for each in joined for one in each.conditions]
        if conditions:
            # Of an inner join a condition is worth the same in ON and in WHERE.
            where = clauses["where"]
            conditions += [] if where is None else [where]
            clauses["where"] = self._chain("and", tuple(conditions))
        return Select(
            **_at(meta),
            items=items[2 if distinct else 1],
            sources=tuple(source for each in joined for source in each.sources),
            distinct=distinct,
            **clauses,
        )

    def source(self, meta: Meta, items: list[Any]) -> Source:
        aliases = [str(name) for name in _names(items)]
        windows = _only(items, Window)
        queries = _only(items, RelationExpression)
        stream = "" if queries else items[0]
        return Source(
            **_at(meta),
            stream=stream,
            alias=aliases[0] if aliases else stream,
            window=windows[0] if windows else None,
            derived=queries[0] if queries else None,
        )

    def join(self, meta: Meta, items: list[Any]) -> _Join:
        (source,) = _only(items, Source)
        words = {token.type for token in _only(items, Token)}
        sides = {"LEFT": KeptSide.LEFT, "RIGHT": KeptSide.RIGHT, "FULL": KeptSide.BOTH}
        keeps = next((side for word, side in sides.items() if word in words), KeptSide.NEITHER)
        conditions = _expressions(items)
        return _Join(keeps, source, conditions[0] if conditions else None)

    def joined(self, meta: Meta, items: list[Any]) -> _Joined:
        """Joins from the left; of inner ones only sources and conditions remain."""
        sources = [*_only(items, Source)]
        conditions: list[Expression] = []
        for join in _only(items, _Join):
            if join.keeps is KeptSide.NEITHER:
                sources.append(join.source)
                conditions += [] if join.condition is None else [join.condition]
                continue
            left = _inner(sources, self._chain("and", tuple(conditions)) if conditions else None)
            sources, conditions = [_outer(join.keeps, left, join.source, join.condition)], []
        return _Joined(tuple(sources), tuple(conditions))

    def stream(self, meta: Meta, items: list[Any]) -> str:
        return ".".join(map(self._plain, _names(items)))

    def rows(self, meta: Meta, items: list[Any]) -> dict[str, int]:
        return {"rows": self._whole(items[1], "ROWS")}

    def hop(self, meta: Meta, items: list[Any]) -> dict[str, int]:
        return {"slide_rows": self._whole(items[1], "SLIDE")}

    def range(self, meta: Meta, items: list[Any]) -> dict[str, int]:
        return {"range_ms": self._length_ms(items, "RANGE")}

    def slide(self, meta: Meta, items: list[Any]) -> dict[str, int]:
        slide_ms = self._length_ms(items, "SLIDE")
        limits = {"slide_ms": slide_ms}
        for item in _clauses(items):
            limits.update(item)
        if limits.get("offset_ms", 0) >= slide_ms:
            message = "OFFSET must be less than SLIDE"
            raise QueryError(self._text, meta.start_pos, message)
        return limits

    def offset(self, meta: Meta, items: list[Any]) -> dict[str, int]:
        return {"offset_ms": self._length_ms(items, "OFFSET", least=0)}

    def zone(self, meta: Meta, items: list[Any]) -> dict[str, str]:
        return {"zone": _unquoted(items[-1])}

    def session(self, meta: Meta, items: list[Any]) -> dict[str, Any]:
        gap_ms = self._length_ms(items, "SESSION")
        return {"session_ms": gap_ms, "partition_by": _only(items, Column)}

    def window(self, meta: Meta, items: list[Any]) -> Window:
        now = isinstance(items[1], Token) and items[1].type == "NOW"
        limits: dict[str, Any] = {
            "rows": None,
            "range_ms": 1 if now else None,
            "now": now,
            "partition_by": _only(items, Column),
        }
        for item in _clauses(items):
            limits.update(item)
        return Window(**_at(meta), **limits)

    def _whole(self, token: Token, what: str, *, least: int = 1) -> int:
        # Python reads no number of thousands of digits.
        if len(token) > MOST_DIGITS or not least <= int(token) <= 10**12:
            at, given = token.start_pos or 0, token[:MOST_DIGITS]
            raise QueryError(self._text, at, f"{what} must be from {least} to 10^12, not {given}")
        return int(token)

    def _call(self, meta: Meta, function: str, arguments: tuple[Expression, ...]) -> Call:
        return Call(**_at(meta), function=function, arguments=arguments, infix=True)

    def _chain(self, function: str, parts: tuple[Expression, ...]) -> Expression:
        """AND or OR of any number of tests, as a tree that is no deeper than it must be."""
        if len(parts) == 1:
            return parts[0]
        middle = (len(parts) + 1) // 2
        halves = self._chain(function, parts[:middle]), self._chain(function, parts[middle:])
        return Call(
            start=halves[0].start,
            end=halves[1].end,
            function=function,
            arguments=halves,
            infix=True,
        )

    def comparison(self, meta: Meta, items: list[Any]) -> Expression:
        """Operands with operators between them, from the left.

        A sum or a product of any number is one operation, so that its length is no depth.
        """
        signs = [operators[one.type] for one in _only(items, Token) if one.type in operators]
        result, *others = _expressions(items)
        gathered: list[Expression] = [result]
        for sign, following, other in zip(signs, [*signs[1:], ""], others, strict=True):
            gathered.append(other)
            if sign != following or sign not in ASSOCIATIVE:
                whole = _Span(start=result.start, end=other.end)
                result = Call(**whole, function=sign, arguments=tuple(gathered), infix=True)
                gathered = [result]
        return result

    addition = multiplication = comparison

    def is_null(self, meta: Meta, items: list[Any]) -> Call:
        return self._test(meta, items, self._call(meta, "is_null", _expressions(items)))

    def _test(self, meta: Meta, items: list[Any], test: Expression) -> Call:
        """A condition that may be written with NOT inside."""
        assert isinstance(test, Call)
        return self._call(meta, "not", (test,)) if _has(items, "NOT") else test

    def like(self, meta: Meta, items: list[Any]) -> Call:
        return self._test(meta, items, self._call(meta, "like", _expressions(items)))

    def between(self, meta: Meta, items: list[Any]) -> Call:
        value, least, most = _expressions(items)
        above = self._call(meta, "greater_equal", (value, least))
        below = self._call(meta, "less_equal", (value, most))
        return self._test(meta, items, self._call(meta, "and", (above, below)))

    def contained(self, meta: Meta, items: list[Any]) -> Call:
        value, *members = _expressions(items)
        tests = [self._call(meta, "equal", (value, member)) for member in members]
        return self._test(meta, items, self._chain("or", tuple(tests)))

    def in_query(self, meta: Meta, items: list[Any]) -> Expression:
        (value,) = _expressions(items)
        found = self._any(meta, items, "equal", value)
        return self._call(meta, "not", (found,)) if _has(items, "NOT") else found

    def quantified(self, meta: Meta, items: list[Any]) -> Expression:
        (value,) = _expressions(items)
        sign = next(operators[one.type] for one in _only(items, Token) if one.type in operators)
        if _has(items, "ANY_OF"):
            return self._any(meta, items, sign, value)
        return self._call(meta, "not", (self._any(meta, items, opposites[sign], value),))

    def _any(self, meta: Meta, items: list[Any], function: str, value: Expression) -> SubQuery:
        (query,) = _only(items, RelationExpression)
        return SubQuery(
            **_at(meta), quantifier=Quantifier.ANY, query=query, value=value, function=function
        )

    def exists(self, meta: Meta, items: list[Any]) -> SubQuery:
        (query,) = _only(items, RelationExpression)
        return SubQuery(**_at(meta), quantifier=Quantifier.EXISTS, query=query)

    def scalar(self, meta: Meta, items: list[Any]) -> SubQuery:
        (query,) = _only(items, RelationExpression)
        return SubQuery(**_at(meta), quantifier=Quantifier.VALUE, query=query)

    def operand(self, meta: Meta, items: list[Any]) -> dict[str, Expression]:
        return {"operand": _expressions(items)[0]}

    def otherwise(self, meta: Meta, items: list[Any]) -> dict[str, Expression]:
        return {"otherwise": _expressions(items)[0]}

    def when(self, meta: Meta, items: list[Any]) -> _Branch:
        return _Branch(*_expressions(items))

    def case(self, meta: Meta, items: list[Any]) -> Call:
        parts: dict[str, Expression] = {}
        for item in _clauses(items):
            parts.update(item)
        arguments: list[Expression] = []
        for branch in _only(items, _Branch):
            condition = branch.condition
            if "operand" in parts:
                condition = self._call(meta, "equal", (parts["operand"], condition))
            arguments += [condition, branch.value]
        if "otherwise" in parts:
            arguments.append(parts["otherwise"])
        return self._call(meta, "case", tuple(arguments))

    def cast(self, meta: Meta, items: list[Any]) -> Call:
        (name,) = _names(items)
        kind = str(name).lower()
        if kind not in CAST_TYPES:
            message = f"there is no type {name}; there is {', '.join(CAST_TYPES)}"
            if kind == "bool":
                message = "Vivace has no CAST to bool yet; a comparison gives one, such as x <> 0"
            raise QueryError(self._text, name.start_pos or 0, message)
        return self._call(meta, f"cast_{kind}", _expressions(items))

    def disjunction(self, meta: Meta, items: list[Any]) -> Expression:
        return self._chain("or", _expressions(items))

    def conjunction(self, meta: Meta, items: list[Any]) -> Expression:
        return self._chain("and", _expressions(items))

    def negation(self, meta: Meta, items: list[Any]) -> Call:
        return self._call(meta, "not", _expressions(items))

    def minus(self, meta: Meta, items: list[Any]) -> Expression:
        (operand,) = _expressions(items)
        if isinstance(operand, Literal) and operand.start in self._beyond:
            digits = self._beyond.pop(operand.start)
            if digits != str(LARGEST_INTEGER + 1):
                raise self._does_not_fit(meta.start_pos, f"-{digits}")
            return Literal(**_at(meta), value=-LARGEST_INTEGER - 1)
        return self._call(meta, "negate", (operand,))

    def call(self, meta: Meta, items: list[Any]) -> Call:
        return Call(
            **_at(meta),
            function=str(items[0]).lower(),
            arguments=_expressions(items[1:]),
            star=_has(items, "STAR"),
            distinct=_has(items, "DISTINCT"),
        )

    def column(self, meta: Meta, items: list[Any]) -> Column:
        names = [str(name) for name in _names(items)]
        return Column(**_at(meta), source=names[0] if len(names) > 1 else None, name=names[-1])

    def integer(self, meta: Meta, items: list[Any]) -> Literal:
        digits = items[0].lstrip("0") or "0"
        if len(digits) > 19 or int(digits) > LARGEST_INTEGER:
            self._beyond[meta.start_pos] = digits
            return Literal(**_at(meta), value=LARGEST_INTEGER)
        return Literal(**_at(meta), value=int(digits))

    def decimal(self, meta: Meta, items: list[Any]) -> Literal:
        value = float(items[0])
        if not math.isfinite(value):
            raise QueryError(self._text, meta.start_pos, f"{items[0]} is too large a number")
        return Literal(**_at(meta), value=value)

    def string(self, meta: Meta, items: list[Any]) -> Literal:
        return Literal(**_at(meta), value=_unquoted(items[0]))

    def true(self, meta: Meta, items: list[Any]) -> Literal:
        return Literal(**_at(meta), value=True)

    def false(self, meta: Meta, items: list[Any]) -> Literal:
        return Literal(**_at(meta), value=False)

    def null(self, meta: Meta, items: list[Any]) -> Literal:
        return Literal(**_at(meta), value=None)
