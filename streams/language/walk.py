"""What lies inside a statement: its selects, the sources of these, the sub-queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from streams.language.ast import (
    Call,
    Expression,
    OuterJoin,
    RelationExpression,
    Select,
    SetOperation,
    Source,
    Statement,
    SubQuery,
)


def streams_of(statement: Statement) -> set[str]:
    """The streams that a statement reads, and the relations; a loop's own are not among them."""
    if statement.loop is None:
        return {source.stream for source in leaves_of(statement.body.selects)}
    inside = statement.loop.statements
    return {stream for each in inside for stream in streams_of(each)} - {
        each.name for each in inside
    }


def leaves_of(selects: Iterable[Select]) -> Iterator[Source]:
    """The sources that are streams, at any depth, in the order in which they are written."""
    return (node for node in _inside(selects) if isinstance(node, Source))


def functions_of(statement: Statement) -> set[str]:
    """The functions and operators that a statement calls, at any depth; for a loop none."""
    return {node.function for node in _inside(statement.body.selects) if isinstance(node, Call)}


def _inside(selects: Iterable[Select]) -> Iterator[Source | Call | SubQuery]:
    """Sources that are streams, calls and sub-queries, at any depth, in the order of the text."""
    for select in selects:
        for source in select.sources:
            yield from _inside_source(source)
        for expression in expressions_of(select):
            yield from _inside_expression(expression)


def _inside_source(source: Source) -> Iterator[Source | Call | SubQuery]:
    match source.derived:
        case None:
            yield source
        case RelationExpression(selects=selects):
            yield from _inside(selects)
        case SetOperation(left=left, right=right):
            yield from _inside((*left.selects, *right.selects))
        case OuterJoin(left=left, right=right, condition=condition):
            yield from _inside_source(left)
            yield from _inside_source(right)
            if condition is not None:
                yield from _inside_expression(condition)


def _inside_expression(expression: Expression) -> Iterator[Source | Call | SubQuery]:
    match expression:
        case Call(arguments=arguments):
            yield expression
            for argument in arguments:
                yield from _inside_expression(argument)
        case SubQuery(value=value, query=query):
            yield expression
            if value is not None:
                yield from _inside_expression(value)
            yield from _inside(query.selects)
        case _:
            return


def expressions_of(select: Select) -> Iterator[Expression]:
    """All expressions of one SELECT, without those of its sources."""
    yield from (item.expression for item in select.items)
    yield from (one for one in (select.where, select.having) if one is not None)
    yield from select.group_by
    if select.top is not None:
        yield from (one.expression for one in select.top.by)
        yield from select.top.partition_by


def is_flat(statement: Statement) -> bool:
    """Whether a statement has one level: streams with windows, selects, and what unites these.

    A periodic one has more: its releases.
    """
    if statement.loop is not None or statement.body.real_time is not None:
        return False
    selects = statement.body.selects
    return all(
        source.derived is None and source.window is not None
        for select in selects
        for source in select.sources
    ) and not any(isinstance(node, SubQuery) for node in _inside(selects))


def with_leaves(
    selects: tuple[Select, ...], change: Callable[[Source], Source]
) -> tuple[Select, ...]:
    """The same selects over other sources: each that is a stream is changed."""
    return tuple(_with_leaves(select, change) for select in selects)


def _with_leaves(select: Select, change: Callable[[Source], Source]) -> Select:
    def of(expression: Expression) -> Expression:
        match expression:
            case Call():
                return replace(expression, arguments=tuple(map(of, expression.arguments)))
            case SubQuery():
                value = expression.value
                return replace(
                    expression,
                    value=None if value is None else of(value),
                    query=relation(expression.query),
                )
            case _:
                return expression

    def maybe(expression: Expression | None) -> Expression | None:
        return None if expression is None else of(expression)

    def relation(one: RelationExpression) -> RelationExpression:
        return replace(one, selects=with_leaves(one.selects, change))

    def source(one: Source) -> Source:
        match one.derived:
            case None:
                return change(one)
            case RelationExpression():
                return replace(one, derived=relation(one.derived))
            case SetOperation(left=left, right=right):
                sides = {"left": relation(left), "right": relation(right)}
                return replace(one, derived=replace(one.derived, **sides))
            case OuterJoin(left=left, right=right, condition=condition):
                join = replace(
                    one.derived, left=source(left), right=source(right), condition=maybe(condition)
                )
                return replace(one, derived=join)

    top = select.top
    return replace(
        select,
        items=tuple(replace(item, expression=of(item.expression)) for item in select.items),
        sources=tuple(map(source, select.sources)),
        where=maybe(select.where),
        group_by=tuple(map(of, select.group_by)),
        having=maybe(select.having),
        top=None
        if top is None
        else replace(
            top,
            by=tuple(replace(one, expression=of(one.expression)) for one in top.by),
            partition_by=tuple(map(of, top.partition_by)),
        ),
    )
