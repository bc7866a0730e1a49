"""Partial aggregation below a union: each of its streams is summed up where it comes from.

A statement that passes streams of several sites on as one,

    u = RSTREAM(SELECT e1 FROM s1 [NOW] WHERE c1 UNION ALL SELECT e2 FROM s2 [NOW] WHERE c2 …),

and one that aggregates it, f = … FROM u [RANGE r SLIDE d] WHERE c GROUP BY k …, become

    f__partial_1 = RSTREAM(… FROM s1 [RANGE d SLIDE d] WHERE c1 AND c(e1) GROUP BY k(e1)),
    f__partial_2 = RSTREAM(… FROM s2 [RANGE d SLIDE d] WHERE c2 AND c(e2) GROUP BY k(e2)), …
    f__partial = RSTREAM(SELECT * FROM f__partial_1 [NOW] UNION ALL SELECT * FROM f__partial_2 …),
    f = … FROM f__partial [RANGE r SLIDE d] GROUP BY k …,

where the columns of u stand for its expressions. The last one is the final statement of `f` split
by itself (`streams.plan.partial`): it cannot tell whether a key has one partial row a pane, or one
from each stream. `u` itself is not made any more, so nothing else may read it.

Besides what is not split at all, these stay above their union:

- `first` and `last`: of rows of two panes that end together, nothing tells which value came first.
- Keys that a stream of the union computes: GROUP BY takes columns. Constants are fine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streams.language import QueryError, parse
from streams.language.ast import (
    Call,
    Column,
    Expression,
    Literal,
    Select,
    Source,
    Statement,
    SubQuery,
    ToStream,
    Window,
)
from streams.language.writer import written_statement
from streams.plan.choice import EvaluationWay, way_of
from streams.plan.compiler import Catalogue, compile_statement
from streams.plan.partial import aggregates_of, operation, some_rows, split
from streams.vectors.chunk import TIMESTAMP

_ordered = ("first", "last")


def split_below(
    statement: Statement, union: Statement, catalogue: Catalogue
) -> tuple[Statement, ...] | None:
    """What a statement and the union that it reads become; None if it is not split below it.

    Parameters
    ----------
    statement, union
        Both can be compiled, and the first reads the second and nothing else.
    catalogue
        All streams that they read, the union among them.

    Returns
    -------
    tuple
        A partial statement for each stream of the union, their union, and the final statement.
    """
    parts = split(statement, catalogue)
    if parts is None or len(union.body.selects) < 2:
        return None
    if way_of(compile_statement(union, catalogue)) is not EvaluationWay.STATELESS:
        return None
    partial, final = parts
    (pane,) = partial.body.selects
    if any(call.function in _ordered for call in aggregates_of(pane)):
        return None
    names = tuple(catalogue[union.name])
    selects = [_below(pane, branch, names, catalogue) for branch in union.body.selects]
    try:
        written = [
            written_statement(f"{partial.name}_{place}", ToStream.RSTREAM.name, select)
            for place, select in enumerate(selects, 1)
            if select is not None
        ]
        if len(written) < len(selects):
            return None
        merged = [_passed_on(f"{partial.name}_{place + 1}") for place in range(len(selects))]
        written.append(written_statement(partial.name, ToStream.RSTREAM.name, *merged))
        return (*(one for text in written for one in parse(text)), final)
    except (QueryError, RecursionError):
        # Written with all its parentheses, it is nested too deeply.
        return None


def _below(
    pane: Select, branch: Select, names: tuple[str, ...], catalogue: Catalogue
) -> Select | None:
    """The aggregates of a pane, over one stream of the union; None if it cannot be said."""
    (source,) = branch.sources
    expressions = dict(zip(names, _expressions(branch, catalogue), strict=True))
    expressions[TIMESTAMP] = Column(start=0, end=0, source=None, name=TIMESTAMP)
    keys = [_over(key, expressions) for key in pane.group_by]
    if any(isinstance(key, Call) for key in keys):
        return None
    columns = {key.name: key for key in keys if isinstance(key, Column)}
    group_by = tuple(columns.values())
    where = None if pane.where is None else _over(pane.where, expressions)
    if where is None or branch.where is None:
        where = where or branch.where
    else:
        where = operation("and", branch.where, where)
    return Select(
        start=0,
        end=0,
        items=tuple(
            replace(item, expression=_over(item.expression, expressions)) for item in pane.items
        ),
        sources=(replace(source, window=pane.sources[0].window),),
        where=where,
        group_by=group_by,
        having=pane.having if group_by else some_rows(),
    )


def _expressions(branch: Select, catalogue: Catalogue) -> tuple[Expression, ...]:
    """The columns of the union, over one of its streams."""
    if branch.items:
        return tuple(item.expression for item in branch.items)
    columns = catalogue[branch.sources[0].stream]
    return tuple(Column(start=0, end=0, source=None, name=name) for name in columns)


def _over(expression: Expression, expressions: Mapping[str, Expression]) -> Expression:
    """An expression over the union's columns, over those of one of its streams."""
    match expression:
        case Literal() | SubQuery():
            return expression
        case Column():
            return expressions[expression.name]
        case Call():
            arguments = tuple(_over(one, expressions) for one in expression.arguments)
            return replace(expression, arguments=arguments)


def _passed_on(stream: str) -> Select:
    """A stream as it is."""
    now = Window(start=0, end=0, rows=None, range_ms=1)
    source = Source(start=0, end=0, stream=stream, alias=stream, window=now)
    return Select(start=0, end=0, items=(), sources=(source,), where=None, group_by=())
