"""Compile a syntax tree to a program: resolve names and check types.

What names stand for becomes a graph of relations (`streams.plan.relations`), and that a program, in
which conditions are pushed down (`streams.plan.numbering`).

Aggregates are folded in what lies below them (`streams.plan.pushdown`). Selects that aggregate the
same rows by the same keys share their groups and the aggregates that they have in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from foundation.suggestions import hint
from streams.expressions.typed import UNTYPED, Typed, as_kind, conjuncts, united_kind
from streams.language import QueryError
from streams.language.ast import (
    Expression,
    OuterJoin,
    RelationExpression,
    Select,
    SetOperation,
    Source,
    Statement,
    Window,
)
from streams.language.names import written_name
from streams.plan.local_days import days_of, in_equal_days, with_days
from streams.plan.loops import compiled_loop
from streams.plan.numbering import numbered
from streams.plan.outer_joins import identified, joined
from streams.plan.periods import MOST_SLIDES, sliding
from streams.plan.program import ENDS, Program
from streams.plan.relations import Chosen, Columns, Combined, Node, Resolved, United, Windowed
from streams.plan.resolver import Resolver, Scope, ScopeColumn, Surrounding
from streams.plan.sub_queries import Attachments, attached_to, moved_to, names_outer
from streams.vectors.chunk import TIMESTAMP
from streams.vectors.reserved import taken

Catalogue = Mapping[str, Mapping[str, str]]
"""Stream → column → type, one of `streams.vectors.chunk.type_names`."""


def compile_statement(statement: Statement, catalogue: Catalogue) -> Program:
    """Resolve and type a statement.

    Parameters
    ----------
    statement
        As parsed.
    catalogue
        The streams that exist, with their columns.

    Raises
    ------
    QueryError
        A stream, column or function is unknown (the message names the nearest known one), or
        types do not fit together. The error carries the place.

    Examples
    --------
    >>> from streams.language import parse
    >>> (statement,) = parse("REGISTER QUERY q RSTREAM(SELECT x + 1 AS y FROM s [NOW]);")
    >>> compile_statement(statement, {"s": {"x": "int"}}).columns
    {'y': 'int'}
    """
    try:
        if statement.loop is not None:
            return compiled_loop(statement, statement.loop, catalogue, _compiled)
        return _compiled(statement, catalogue)
    except RecursionError:
        message = "the query is nested too deeply"
        raise QueryError(statement.source, statement.start, message) from None


def _compiled(statement: Statement, catalogue: Catalogue) -> Program:
    days = days_of(statement)
    if days is None:
        return _Compiler(sliding(statement), catalogue).compile()
    return with_days(_Compiler(in_equal_days(statement), catalogue).compile(), statement, days)


class _Compiler:
    """Resolves the names of one statement."""

    def __init__(self, statement: Statement, catalogue: Catalogue) -> None:
        self._statement = statement
        self._catalogue = catalogue

    def compile(self) -> Program:
        """Resolve every select, then keep only the columns that are used."""
        body = self._statement.body
        root = self._united(
            RelationExpression(start=body.start, end=body.end, selects=body.selects)
        )
        return numbered(self._statement, root, self._catalogue)

    def _error(self, offset: int, message: str) -> QueryError:
        return QueryError(self._statement.source, offset, message)

    def _suggestion(self, stream: str) -> str:
        """What to write in place of a stream that there is not, as the end of a phrase."""
        beside, _, side = stream.rpartition(".")
        if side in ("late", "rejected") and beside in self._catalogue:
            return f"; write `{side}: true` in the source of {beside}, which must be a live one"
        return hint(stream, self._catalogue)

    def _united(self, relation: RelationExpression, around: Surrounding | None = None) -> United:
        """The rows of all SELECTs; in a sub-query, columns need no names."""
        parts = [self._chosen(select, around) for select in relation.selects]
        columns = self._columns(relation, [part.resolved for part in parts])
        kinds = [kind for _, kind in columns]
        return United(
            parts=tuple(replace(part, resolved=_of_kinds(part.resolved, kinds)) for part in parts),
            columns=columns,
        )

    def _chosen(self, select: Select, around: Surrounding | None) -> Chosen:
        """One SELECT, to whose rows its sub-queries are attached."""
        sources = [self._source(source) for source in select.sources]
        self._check_aliases(select.sources, sources)
        self._check_sessions(select)
        inputs = tuple(source.node for source in sources)
        levels: list[Attachments] = []

        def attach(surrounding: Surrounding) -> Attachments:
            levels.append(Attachments(surrounding, self._united, self._error))
            return levels[-1]

        resolver = Resolver(
            self._statement.source,
            self._scope(sources),
            select,
            attach=attach,
            around=around,
            named=around is None,
        )
        resolved = resolver.resolve()
        rows, groups = (level.attached for level in levels)
        if rows:
            if _reads_ends(resolved):
                message = (
                    "first and last need the order of one stream, which rows with sub-queries have "
                    "not; make a stream of them, and aggregate that"
                )
                raise self._error(select.start, message)
            width = sum(len(one.columns) for one in inputs)
            node, where = attached_to(inputs, resolved.where, rows)
            inputs, resolved = (node,), replace(resolved, where=where).relocated(moved_to(width))
        if groups:
            assert resolved.group is not None
            if resolved.where is not None and names_outer(resolved.where):
                message = (
                    "a sub-query with a sub-query in HAVING cannot name columns from around it; "
                    "write the inner one as a source in FROM"
                )
                raise self._error(select.start, message)
            made = Chosen(inputs=inputs, resolved=resolved.groups_alone)
            grouped = United(parts=(made,), columns=made.resolved.columns)
            node, where = attached_to((grouped,), resolved.having, groups)
            over = replace(resolved, where=where, group=None, having=None)
            inputs, resolved = (node,), over.relocated(moved_to(len(grouped.columns)))
        return Chosen(inputs=inputs, resolved=resolved)

    def _scope(self, sources: Sequence[_Source]) -> Scope:
        """The columns that the sources of a select offer."""
        aliases = [alias for source in sources for alias in source.aliases]
        return Scope(
            [column for source in sources for column in source.columns],
            aliases,
            ordered=len(sources) == 1 and isinstance(sources[0].node, Windowed),
        )

    def _source(self, source: Source) -> _Source:
        match source.derived:
            case None:
                return self._stream(source)
            case OuterJoin():
                return self._outer_join(source.derived)
            case RelationExpression():
                node: Node = self._united(source.derived)
            case SetOperation():
                node = self._combined(source.derived)
        if source.window is not None:
            message = f"{source.alias or 'a sub-query'} is a relation, which takes no window"
            raise self._error(source.window.start, message)
        columns = [
            ScopeColumn(alias=source.alias, name=name, kind=kind) for name, kind in node.columns
        ]
        return _Source(node, columns, [source.alias])

    def _stream(self, source: Source) -> _Source:
        """A stream with its window, which is checked."""
        columns = self._catalogue.get(source.stream)
        if columns is None:
            suggestion = self._suggestion(source.stream)
            raise self._error(source.start, f"there is no stream {source.stream}{suggestion}")
        for column in columns:
            if (reason := taken(column)) is not None:
                message = f"{source.stream} has a column {column}, which {reason}"
                raise self._error(source.start, message)
        if source.window is None:
            message = f"{source.stream} is a stream and needs a window, such as [NOW]"
            raise self._error(source.start, message)
        for column in source.window.partition_by:
            if column.source not in (None, source.alias, source.stream):
                message = f"PARTITION BY takes columns of {source.stream} only"
                raise self._error(column.start, message)
            if column.name not in columns:
                suggestion = hint(written_name(column.name), map(written_name, columns))
                message = f"{source.stream} has no column {column.name}{suggestion}"
                raise self._error(column.start, message)
        self._check_slide(source.window)
        named = (*columns.items(), (TIMESTAMP, "int"))
        node = Windowed(stream=source.stream, window=source.window, columns=named)
        known = [ScopeColumn(alias=source.alias, name=name, kind=kind) for name, kind in named]
        return _Source(node, known, [source.alias])

    def _outer_join(self, join: OuterJoin) -> _Source:
        left, right = self._source(join.left), self._source(join.right)
        self._check_aliases([join.left, join.right], [left, right])
        conditions: list[Typed] = []
        if join.condition is not None:
            place = (join.condition.start, join.condition.end)
            conditions = conjuncts(self._on(join.condition, [left, right], place))
        node = joined(identified(left.node), identified(right.node), conditions, join.keeps)
        return _Source(node, left.columns + right.columns, left.aliases + right.aliases)

    def _on(
        self, condition: Expression, sources: Sequence[_Source], place: tuple[int, int]
    ) -> Typed:
        """The condition of an outer join, over the columns of both sides."""
        levels: list[Attachments] = []

        def attach(surrounding: Surrounding) -> Attachments:
            levels.append(Attachments(surrounding, self._united, self._error))
            return levels[-1]

        start, end = place
        select = Select(start=start, end=end, items=(), sources=(), where=condition, group_by=())
        scope = self._scope(sources)
        resolver = Resolver(self._statement.source, scope, select, attach=attach, named=False)
        where = resolver.resolve().where
        if any(level.attached for level in levels):
            raise self._error(
                start, "sub-queries cannot stand in ON: join with a sub-query in FROM"
            )
        assert where is not None
        return where

    def _combined(self, operation: SetOperation) -> Combined:
        left, right = self._united(operation.left), self._united(operation.right)
        columns = self._together(
            operation.operator.name, operation.right.start, left.columns, right.columns
        )
        kinds = [kind for _, kind in columns]
        left, right = (_of_types(one, kinds) for one in (left, right))
        return Combined(
            operator=operation.operator,
            every=operation.every,
            left=left,
            right=right,
            columns=columns,
        )

    def _check_aliases(self, written: Sequence[Source], sources: Sequence[_Source]) -> None:
        seen: set[str] = set()
        for source, known in zip(written, sources, strict=True):
            for alias in filter(None, known.aliases):
                if alias in seen:
                    message = f"two sources are called {alias}; rename one with AS"
                    raise self._error(source.start, message)
                seen.add(alias)

    def _check_sessions(self, select: Select) -> None:
        for source in select.sources if len(select.sources) > 1 else ():
            if source.window is not None and source.window.session_ms is not None:
                message = "sessions cannot be joined; join a sub-query that aggregates them"
                raise self._error(source.window.start, message)

    def _check_slide(self, window: Window) -> None:
        if window.slide_ms is None or window.range_ms is None:
            return
        if window.range_ms > MOST_SLIDES * window.slide_ms:
            message = f"RANGE may be at most {MOST_SLIDES} times as long as SLIDE"
            raise self._error(window.start, message)

    def _columns(self, relation: RelationExpression, resolved: Sequence[Resolved]) -> Columns:
        """The columns of all selects together, as the first one names them."""
        columns = resolved[0].columns
        for select, other in zip(relation.selects[1:], resolved[1:], strict=True):
            columns = self._together("UNION ALL", select.start, columns, other.columns)
        for name, kind in columns:
            if kind == UNTYPED:
                message = f"nothing says of which type the NULL {name} is: write CAST(NULL AS int)"
                raise self._error(relation.selects[0].start, message)
        return columns

    def _together(self, operation: str, at: int, first: Columns, other: Columns) -> Columns:
        """The columns of two relations that become one."""
        kinds, own = ([kind for _, kind in columns] for columns in (first, other))
        united = [united_kind(each) for each in zip(kinds, own, strict=False)]
        if None in united or len(own) != len(kinds):
            message = (
                f"this SELECT gives columns of types ({', '.join(own)}), "
                f"the first one ({', '.join(kinds)}): {operation} needs the same"
            )
            raise self._error(at, message)
        return tuple(
            (name, each) for (name, _), each in zip(first, united, strict=True) if each is not None
        )


class _Source(NamedTuple):
    """What a source is, and the columns and names by which it is known."""

    node: Node
    columns: list[ScopeColumn]
    aliases: list[str]


def _of_kinds(resolved: Resolved, kinds: Sequence[str]) -> Resolved:
    """A SELECT that gives columns of these types."""
    outputs = tuple(
        (name, as_kind(output, kind))
        for (name, output), kind in zip(resolved.outputs, kinds, strict=True)
    )
    return replace(resolved, outputs=outputs)


def _of_types(united: United, kinds: Sequence[str]) -> United:
    """A relation with columns of these types."""
    columns = tuple((name, kind) for (name, _), kind in zip(united.columns, kinds, strict=True))
    parts = tuple(replace(one, resolved=_of_kinds(one.resolved, kinds)) for one in united.parts)
    return United(parts=parts, columns=columns)


def _reads_ends(resolved: Resolved) -> bool:
    aggregates = () if resolved.group is None else resolved.group.aggregates
    return any(one.function in ENDS for one in aggregates)
