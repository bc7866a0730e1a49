"""Syntax tree to text: the inverse of `parser`.

Every operation stands in parentheses, so the text means the same whatever binds more tightly.
"""

from __future__ import annotations

import math

from streams.language.ast import (
    Call,
    Column,
    Expression,
    Literal,
    OuterJoin,
    Quantifier,
    RelationExpression,
    Select,
    SetOperation,
    Source,
    SubQuery,
    Top,
    Window,
    infix,
)
from streams.language.names import written_name


def written_statement(name: str, to_stream: str, *selects: Select) -> str:
    """A statement of some SELECTs, with a semicolon."""
    union = " UNION ALL ".join(map(written_select, selects))
    return f"REGISTER QUERY {written_name(name)} {to_stream}({union});"


def written_select(select: Select) -> str:
    """A SELECT with its clauses."""
    items = [
        written_expression(item.expression)
        + (f" AS {written_name(item.alias)}" if item.alias else "")
        for item in select.items
    ]
    text = "SELECT DISTINCT " if select.distinct else "SELECT "
    text += ", ".join(items) or "*"
    text += f" FROM {', '.join(map(_source, select.sources))}"
    if select.where is not None:
        text += f" WHERE {written_expression(select.where)}"
    if select.group_by:
        text += f" GROUP BY {', '.join(map(written_expression, select.group_by))}"
    if select.having is not None:
        text += f" HAVING {written_expression(select.having)}"
    return text if select.top is None else f"{text} {_top(select.top)}"


def _top(top: Top) -> str:
    by = [written_expression(one.expression) + (" ASC" if one.ascending else "") for one in top.by]
    text = f"TOP {top.rows} BY {', '.join(by)}"
    if top.partition_by:
        text += f" PARTITION BY {', '.join(map(written_expression, top.partition_by))}"
    return text


def written_relation(relation: RelationExpression) -> str:
    """The SELECTs of a relation."""
    return " UNION ALL ".join(map(written_select, relation.selects))


def _derived(derived: RelationExpression | SetOperation | OuterJoin) -> str:
    match derived:
        case RelationExpression():
            return f"({written_relation(derived)})"
        case SetOperation(operator=operator, every=every):
            sides = [f"(SELECT * FROM {_derived(one)})" for one in (derived.left, derived.right)]
            word = operator.name + (" ALL" if every else "")
            # A relation begins with SELECT.
            return f"({sides[0][1:-1]} {word} {sides[1]})"
        case OuterJoin(keeps=keeps, left=left, right=right, condition=condition):
            if condition is None:
                return f"{_source(left)} CROSS JOIN {_source(right)}"
            on = written_expression(condition)
            return f"{_source(left)} {keeps.value.upper()} JOIN {_source(right)} ON {on}"


def _source(source: Source) -> str:
    if source.derived is not None:
        alias = f" AS {written_name(source.alias)}" if source.alias else ""
        return _derived(source.derived) + alias
    window = "" if source.window is None else f" {written_window(source.window)}"
    alias = "" if source.alias == source.stream else f" AS {written_name(source.alias)}"
    stream = ".".join(map(written_name, source.stream.split(".")))
    return stream + window + alias


def written_window(window: Window) -> str:
    """A window in brackets."""
    columns = ", ".join(written_name(column.name) for column in window.partition_by)
    partition = f"PARTITION BY {columns}" if columns else ""
    if window.session_ms is not None:
        parts = [f"SESSION {window.session_ms} MILLISECONDS", partition]
    else:
        parts = [
            partition,
            "" if window.rows is None else f"ROWS {window.rows}",
            "" if window.range_ms is None else f"RANGE {window.range_ms} MILLISECONDS",
            "" if window.slide_rows is None else f"SLIDE {window.slide_rows}",
            "" if window.slide_ms is None else f"SLIDE {window.slide_ms} MILLISECONDS",
            f"OFFSET {window.offset_ms} MILLISECONDS" if window.offset_ms else "",
            "" if window.zone is None else f"AT TIME ZONE {_literal(window.zone)}",
        ]
    return f"[{' '.join(part for part in parts if part) or 'UNBOUNDED'}]"


def written_expression(expression: Expression) -> str:
    """An expression, which may stand wherever one may."""
    match expression:
        case Literal(value=value):
            return _literal(value)
        case Column(source=source, name=name):
            return ".".join(written_name(one) for one in (source, name) if one is not None)
        case Call():
            return _call(expression)
        case SubQuery(quantifier=quantifier, query=query, value=value, function=function):
            text = f"({written_relation(query)})"
            if quantifier is Quantifier.EXISTS:
                return f"EXISTS {text}"
            if value is None or function is None:
                return text
            return f"({written_expression(value)} {infix[function]} ANY {text})"


def _literal(value: float | str | bool | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    # A minus before another one would begin a comment; -0.0 has one, too.
    return f"({value!r})" if math.copysign(1, value) < 0 else repr(value)


def _call(call: Call) -> str:
    arguments = [written_expression(one) for one in call.arguments]
    if not call.infix:
        shown = "*" if call.star else ", ".join(arguments)
        return f"{call.function}({'DISTINCT ' if call.distinct else ''}{shown})"
    if call.function in infix:
        return f"({f' {infix[call.function]} '.join(arguments)})"
    if call.function == "case":
        pairs = zip(arguments[::2], arguments[1::2], strict=False)
        branches = [f"WHEN {condition} THEN {value}" for condition, value in pairs]
        last = [f"ELSE {arguments[-1]}"] if len(arguments) % 2 else []
        return " ".join(["CASE", *branches, *last, "END"])
    if call.function.startswith("cast_"):
        return f"CAST({arguments[0]} AS {call.function.removeprefix('cast_')})"
    shown = {"not": "(NOT {})", "negate": "(-{})", "is_null": "({} IS NULL)"}[call.function]
    return shown.format(arguments[0])
