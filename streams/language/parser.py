"""Text to syntax tree. The grammar is in `grammar.lark`."""

from __future__ import annotations

import math
from functools import cache
from importlib.resources import files
from typing import Any, TypedDict, TypeVar, cast

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, VisitError
from lark.tree import Meta

from streams.language.ast import (
    Call,
    Column,
    Expression,
    Item,
    Literal,
    Select,
    Source,
    Statement,
    StreamExpression,
    ToStream,
    Window,
)
from streams.language.errors import QueryError
from streams.language.syntax_errors import explain_unexpected

Wanted = TypeVar("Wanted")

milliseconds = {"MILLISECONDS": 1, "SECONDS": 1_000, "MINUTES": 60_000, "HOURS": 3_600_000}
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

LARGEST_INTEGER = 2**63 - 1


def parse(text: str) -> tuple[Statement, ...]:
    """Understand statements, in their order.

    Raises
    ------
    QueryError
        The text is not in the language, or two statements have one name.

    Examples
    --------
    >>> [s.name for s in parse("REGISTER QUERY q RSTREAM(SELECT * FROM s [NOW]);")]
    ['q']
    """
    try:
        tree = _grammar().parse(text)
        statements: tuple[Statement, ...] = _Builder(text).transform(tree)
    except UnexpectedInput as unexpected:
        raise explain_unexpected(text, unexpected) from None
    except VisitError as failed:
        if isinstance(failed.orig_exc, QueryError):
            raise failed.orig_exc from None
        raise
    except RecursionError:
        raise QueryError(text, 0, "the query is nested too deeply") from None
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


def _expressions(items: list[Any]) -> tuple[Expression, ...]:
    return tuple(item for item in items if isinstance(item, Literal | Column | Call))


def _clauses(items: list[Any]) -> list[dict[str, Any]]:
    """Parts of a phrase that may be missing, by name."""
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


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

    def start(self, meta: Meta, items: list[Any]) -> tuple[Statement, ...]:
        return _only(items, Statement)

    def statement(self, meta: Meta, items: list[Any]) -> Statement:
        return Statement(
            **_at(meta),
            name=str(_names(items)[0]),
            text=self._text[meta.start_pos : meta.end_pos] + ";",
            source=self._text,
            body=items[-1],
        )

    def to_stream(self, meta: Meta, items: list[Any]) -> StreamExpression:
        return StreamExpression(
            **_at(meta), to_stream=ToStream(str(items[0]).lower()), selects=items[2]
        )

    def union(self, meta: Meta, items: list[Any]) -> tuple[Select, ...]:
        return _only(items, Select)

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
        return {"group_by": _only(items, Column)}

    def select(self, meta: Meta, items: list[Any]) -> Select:
        clauses: dict[str, Any] = {"where": None, "group_by": ()}
        for item in _clauses(items):
            clauses.update(item)
        return Select(**_at(meta), items=items[1], sources=_only(items, Source), **clauses)

    def source(self, meta: Meta, items: list[Any]) -> Source:
        names = [str(name) for name in _names(items)]
        windows = _only(items, Window)
        return Source(
            **_at(meta),
            stream=names[0],
            alias=names[-1],
            window=windows[0] if windows else None,
        )

    def rows(self, meta: Meta, items: list[Any]) -> dict[str, int]:
        return {"rows": self._positive(items[1], "ROWS")}

    def range(self, meta: Meta, items: list[Any]) -> dict[str, int]:
        return {"range_ms": self._positive(items[1], "RANGE") * milliseconds[items[2].type]}

    def window(self, meta: Meta, items: list[Any]) -> Window:
        now = isinstance(items[1], Token) and items[1].type == "NOW"
        limits: dict[str, int | None] = {"rows": None, "range_ms": 1 if now else None}
        for item in _clauses(items):
            limits.update(item)
        columns = tuple(
            Column(start=name.start_pos or 0, end=name.end_pos or 0, source=None, name=str(name))
            for name in _names(items)
        )
        return Window(
            **_at(meta),
            rows=limits["rows"],
            range_ms=limits["range_ms"],
            partition_by=columns,
        )

    def _positive(self, token: Token, what: str) -> int:
        value = int(token)
        if not 1 <= value <= 10**12:
            at = token.start_pos or 0
            raise QueryError(self._text, at, f"{what} must be from 1 to 10^12, not {token}")
        return value

    def _call(self, meta: Meta, function: str, arguments: tuple[Expression, ...]) -> Call:
        return Call(**_at(meta), function=function, arguments=arguments, infix=True)

    def _chain(self, function: str, parts: tuple[Expression, ...]) -> Expression:
        whole = parts[0]
        for part in parts[1:]:
            whole = Call(
                start=whole.start,
                end=part.end,
                function=function,
                arguments=(whole, part),
                infix=True,
            )
        return whole

    def binary(self, meta: Meta, items: list[Any]) -> Call:
        (function,) = (operators[one.type] for one in _only(items, Token) if one.type in operators)
        return self._call(meta, function, _expressions(items))

    addition = multiplication = comparison = binary

    def is_null(self, meta: Meta, items: list[Any]) -> Call:
        test = self._call(meta, "is_null", _expressions(items))
        negated = any(token.type == "NOT" for token in _only(items, Token))
        return self._call(meta, "not", (test,)) if negated else test

    def disjunction(self, meta: Meta, items: list[Any]) -> Expression:
        return self._chain("or", _expressions(items))

    def conjunction(self, meta: Meta, items: list[Any]) -> Expression:
        return self._chain("and", _expressions(items))

    def negation(self, meta: Meta, items: list[Any]) -> Call:
        return self._call(meta, "not", _expressions(items))

    def minus(self, meta: Meta, items: list[Any]) -> Call:
        return self._call(meta, "negate", _expressions(items))

    def call(self, meta: Meta, items: list[Any]) -> Call:
        star = any(token.type == "STAR" for token in _only(items, Token))
        return Call(
            **_at(meta),
            function=str(items[0]).lower(),
            arguments=_expressions(items[1:]),
            star=star,
        )

    def column(self, meta: Meta, items: list[Any]) -> Column:
        names = [str(name) for name in _names(items)]
        return Column(**_at(meta), source=names[0] if len(names) > 1 else None, name=names[-1])

    def integer(self, meta: Meta, items: list[Any]) -> Literal:
        digits = str(items[0])
        if len(digits) > 19 or int(digits) > LARGEST_INTEGER:
            raise QueryError(self._text, meta.start_pos, f"{digits} does not fit in 64 bits")
        return Literal(**_at(meta), value=int(digits))

    def decimal(self, meta: Meta, items: list[Any]) -> Literal:
        value = float(items[0])
        if not math.isfinite(value):
            raise QueryError(self._text, meta.start_pos, f"{items[0]} is too large a number")
        return Literal(**_at(meta), value=value)

    def string(self, meta: Meta, items: list[Any]) -> Literal:
        return Literal(**_at(meta), value=str(items[0])[1:-1].replace("''", "'"))

    def true(self, meta: Meta, items: list[Any]) -> Literal:
        return Literal(**_at(meta), value=True)

    def false(self, meta: Meta, items: list[Any]) -> Literal:
        return Literal(**_at(meta), value=False)
