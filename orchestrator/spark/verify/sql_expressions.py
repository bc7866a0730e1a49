"""Expressions of the query language in Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streams.language.ast import Call, Column, Expression, Literal, SubQuery, infix
from streams.language.writer import written_expression
from streams.vectors.chunk import TIMESTAMP

_infix = {name: sign for name, sign in infix.items() if name != "like"}
"""Written alike in Spark SQL; LIKE is not translated."""
_same = frozenset({"abs", "floor", "ceil", "least", "greatest", "coalesce", "concat"})
NEAR = frozenset({"cos", "sin", "radians", "power"})
"""Functions of the same name whose last bits may differ."""

CONDITIONS = frozenset(
    {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "and", "or", "not"}
) | {"is_null", "like"}


class Inexpressible(Exception):
    """Spark SQL does not give the rows of a statement; says why."""


@dataclass(frozen=True, slots=True)
class GroupExpressions:
    """Expressions over the keys and aggregates of a group."""

    keys: Sequence[Expression]
    calls: Sequence[Call]

    def sql(self, expression: Expression) -> str:
        """An expression in SQL, of the columns `k0`, … and `a0`, …"""
        if isinstance(expression, Call):
            for i, key in enumerate(self.keys):
                if written_expression(key) == written_expression(expression):
                    return f"k{i}"
            for i, call in enumerate(self.calls):
                if (call.start, call.end) == (expression.start, expression.end):
                    return f"a{i}"
            return call_sql(expression, [self.sql(each) for each in expression.arguments])
        return expression_sql(expression, self._key)

    def _key(self, column: Column) -> str:
        columns = [(i, key) for i, key in enumerate(self.keys) if isinstance(key, Column)]
        for i, key in columns:
            if key.name == column.name and column.source in (key.source, None):
                return f"k{i}"
        for i, key in columns:
            if key.name == column.name and key.source is None:
                return f"k{i}"
        raise Inexpressible(f"{column.name} is no key of the group")


def expression_sql(expression: Expression, column: Callable[[Column], str]) -> str:
    """An expression; `column` says how columns are written."""
    if isinstance(expression, Literal):
        return _literal(expression.value)
    if isinstance(expression, Column):
        return column(expression)
    if isinstance(expression, SubQuery):
        raise Inexpressible("sub-queries are not translated")
    return call_sql(expression, [expression_sql(each, column) for each in expression.arguments])


def call_sql(call: Call, arguments: list[str]) -> str:
    """A function or an operator of arguments in SQL."""
    name = call.function
    if name in _infix:
        return f"({f' {_infix[name]} '.join(arguments)})"
    if name in _same or name in NEAR:
        return f"{name}({', '.join(arguments)})"
    match name:
        case "sqrt":
            return f"CASE WHEN {arguments[0]} >= 0 THEN sqrt({arguments[0]}) END"
        case "negate":
            return f"(- {arguments[0]})"
        case "not":
            return f"(NOT {arguments[0]})"
        case "is_null":
            return f"({arguments[0]} IS NULL)"
        case "case":
            pairs = zip(arguments[0::2], arguments[1::2], strict=False)
            branches = "".join(f" WHEN {when} THEN {then}" for when, then in pairs)
            otherwise = f" ELSE {arguments[-1]}" if len(arguments) % 2 else ""
            return f"CASE{branches}{otherwise} END"
        case _:
            raise Inexpressible(f"{name} is not translated")


def aggregate_sql(call: Call, argument: str) -> str:
    """An aggregate of an argument in SQL."""
    distinct = "DISTINCT " if call.distinct else ""
    if call.star:
        return "count(r._since)"
    match call.function:
        case "sum":
            # Beyond 64 bits it is NULL.
            total = f"sum({distinct}CAST({argument} AS DECIMAL(38, 0)))"
            return f"try_cast({total} AS BIGINT)"
        case "avg":
            total = f"sum({distinct}CAST({argument} AS DECIMAL(38, 0)))"
            return f"CAST({total} AS DOUBLE) / count({distinct}{argument})"
        case "count" | "min" | "max":
            return f"{call.function}({distinct}{argument})"
        case _:
            raise Inexpressible(f"Spark has no {call.function} that gives the same bits")


def _literal(value: float | str | bool | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return f"{value}L"
    if isinstance(value, float):
        return f"{value!r}D"
    text = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def quoted(name: str) -> str:
    """A name in SQL."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def spark_name(column: str) -> str:
    """A stream's column as Spark is told it: columns of ours beside it have no such names."""
    return column if column == TIMESTAMP else f"column {column}"


def column_sql(column: str) -> str:
    """A stream's column in SQL."""
    return quoted(spark_name(column))
