"""Compile a syntax tree to a program: resolve names, check types, push conditions and aggregates
down.

The conditions of WHERE are split at AND. A condition on a single source is applied to the rows that
enter and leave that source's window, before any join. The other conditions are applied to joined
rows, cheapest first (numbers before trigonometry before strings). Any order is correct, because a
row is selected only if every condition is true, and no condition can fail.

Aggregates are folded in what lies below them (`streams.plan.pushdown`). Selects that aggregate the
same rows by the same keys share their groups and the aggregates that they have in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from foundation.suggestions import hint
from streams.expressions.typed import (
    Apply,
    InputColumn,
    Typed,
    conjuncts,
    cost,
    fields,
    relocated,
)
from streams.language import QueryError
from streams.language.ast import Select, Statement, Window
from streams.language.names import written_name
from streams.plan.program import Program, SelectPlan, SourcePlan, WindowPlan
from streams.plan.pushdown import computed_once
from streams.plan.resolver import Resolved, Resolver, Scope
from streams.vectors.chunk import TIMESTAMP
from streams.vectors.reserved import taken

MOST_SLIDES = 100_000
"""Most boundaries within a window's range: at each of them the statement is evaluated."""

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
        return _Compiler(statement, catalogue).compile()
    except RecursionError:
        message = "the query is nested too deeply"
        raise QueryError(statement.source, statement.start, message) from None


class _Compiler:
    """Compiles one statement; collects its inputs and windows on the way."""

    def __init__(self, statement: Statement, catalogue: Catalogue) -> None:
        self._statement = statement
        self._catalogue = catalogue
        self._scopes = [self._scope(select) for select in statement.body.selects]
        sources = [source for scope in self._scopes for source in scope.streams]
        self._inputs = tuple(dict.fromkeys(sources))
        self._windows: list[WindowPlan] = []

    def compile(self) -> Program:
        """Resolve every select, then keep only the columns that are used."""
        resolved = [
            Resolver(self._statement.source, scope, select).resolve()
            for scope, select in zip(self._scopes, self._statement.body.selects, strict=True)
        ]
        columns = {name: output.kind for name, output in resolved[0].outputs}
        for select, other in zip(self._statement.body.selects[1:], resolved[1:], strict=True):
            self._check_union(select, columns, [output.kind for _, output in other.outputs])
        used: dict[str, set[str]] = {stream: set() for stream in self._inputs}
        for scope, one in zip(self._scopes, resolved, strict=True):
            for field in one.used():
                source = scope.source_of(field.index)
                used[scope.streams[source]].add(scope.columns[field.index])
            for stream, window in zip(scope.streams, scope.windows, strict=True):
                used[stream].update(column.name for column in window.partition_by)
        reads = {
            stream: tuple(
                name for name in (TIMESTAMP, *self._catalogue[stream]) if name in used[stream]
            )
            for stream in self._inputs
        }
        selects = tuple(
            self._plan(scope, reads, one) for scope, one in zip(self._scopes, resolved, strict=True)
        )
        return Program(
            name=self._statement.name,
            inputs=self._inputs,
            columns=columns,
            text=self._statement.text,
            input_columns={stream: dict(self._catalogue[stream]) for stream in self._inputs},
            reads=reads,
            windows=tuple(self._windows),
            selects=computed_once(selects),
            to_stream=self._statement.body.to_stream,
        )

    def _error(self, offset: int, message: str) -> QueryError:
        return QueryError(self._statement.source, offset, message)

    def _suggestion(self, stream: str) -> str:
        """What to write in place of a stream that there is not, as the end of a phrase."""
        beside, _, side = stream.rpartition(".")
        if side in ("late", "rejected") and beside in self._catalogue:
            return f"; write `{side}: true` in the source of {beside}, which must be a live one"
        return hint(stream, self._catalogue)

    def _scope(self, select: Select) -> Scope:
        """The columns that the sources of a select offer. Checks every window."""
        aliases: set[str] = set()
        streams: list[str] = []
        windows: list[Window] = []
        for source in select.sources:
            columns = self._catalogue.get(source.stream)
            if columns is None:
                suggestion = self._suggestion(source.stream)
                raise self._error(source.start, f"there is no stream {source.stream}{suggestion}")
            for column in columns:
                if (reason := taken(column)) is not None:
                    message = f"{source.stream} has a column {column}, which {reason}"
                    raise self._error(source.start, message)
            if source.alias in aliases:
                message = f"two sources are called {source.alias}; rename one with AS"
                raise self._error(source.start, message)
            if source.window is None:
                message = f"{source.stream} is a stream and needs a window, such as [NOW]"
                raise self._error(source.start, message)
            for column in source.window.partition_by:
                if column.name not in columns:
                    suggestion = hint(written_name(column.name), map(written_name, columns))
                    message = f"{source.stream} has no column {column.name}{suggestion}"
                    raise self._error(column.start, message)
            self._check_slide(source.window)
            if source.window.session_ms is not None and len(select.sources) > 1:
                message = "sessions cannot be joined; register their aggregate, and join that"
                raise self._error(source.window.start, message)
            aliases.add(source.alias)
            streams.append(source.stream)
            windows.append(source.window)
        return Scope(
            aliases=tuple(source.alias for source in select.sources),
            streams=tuple(streams),
            windows=tuple(windows),
            catalogue=self._catalogue,
        )

    def _check_slide(self, window: Window) -> None:
        if window.slide_ms is None or window.range_ms is None:
            return
        if window.range_ms > MOST_SLIDES * window.slide_ms:
            message = f"RANGE may be at most {MOST_SLIDES} times as long as SLIDE"
            raise self._error(window.start, message)

    def _check_union(self, select: Select, columns: dict[str, str], kinds: list[str]) -> None:
        wanted = list(columns.values())
        if kinds != wanted:
            message = (
                f"this SELECT gives columns of types ({', '.join(kinds)}), "
                f"the first one ({', '.join(wanted)}): UNION ALL needs the same"
            )
            raise self._error(select.start, message)

    def _window(self, window: Window, stream: str, reads: tuple[str, ...]) -> int:
        plan = WindowPlan(
            stream=stream,
            rows=window.rows,
            range_ms=window.range_ms,
            slide_ms=window.slide_ms,
            offset_ms=window.offset_ms,
            session_ms=window.session_ms,
            partition_by=tuple(reads.index(column.name) for column in window.partition_by),
        )
        if plan not in self._windows:
            self._windows.append(plan)
        return self._windows.index(plan)

    def _plan(
        self,
        scope: Scope,
        reads: dict[str, tuple[str, ...]],
        resolved: Resolved,
    ) -> SelectPlan:
        """Renumber fields to the columns that the program reads; push conditions down."""
        where, group, top = resolved.where, resolved.group, resolved.top
        outputs = tuple(output for _, output in resolved.outputs)
        starts = [0, *accumulate(len(reads[stream]) for stream in scope.streams)]

        def within_source(field: InputColumn) -> InputColumn:
            stream = scope.streams[scope.source_of(field.index)]
            index = reads[stream].index(scope.columns[field.index])
            return InputColumn(index, field.kind, field.name)

        def side_by_side(field: InputColumn) -> InputColumn:
            start = starts[scope.source_of(field.index)]
            return InputColumn(start + within_source(field).index, field.kind, field.name)

        own: list[list[Typed]] = [[] for _ in scope.streams]
        joint: list[Typed] = []
        for condition in conjuncts(where) if where is not None else []:
            concerned = {scope.source_of(field.index) for field in fields(condition)}
            if len(concerned) > 1:
                joint.append(relocated(condition, side_by_side))
            else:
                own[min(concerned, default=0)].append(relocated(condition, within_source))
        sources = tuple(
            SourcePlan(
                window=self._window(window, stream, reads[stream]),
                condition=_all_of(sorted(conditions, key=cost)),
            )
            for window, stream, conditions in zip(scope.windows, scope.streams, own, strict=True)
        )
        if group is None:
            outputs = tuple(relocated(output, side_by_side) for output in outputs)
            top = None if top is None else top.relocated(side_by_side)
        else:
            group = group.relocated(side_by_side)
        return SelectPlan(
            sources=sources,
            conjuncts=tuple(sorted(joint, key=cost)),
            group=group,
            outputs=outputs,
            having=resolved.having,
            top=top,
        )


def _all_of(conditions: list[Typed]) -> Typed | None:
    return _conjunction(conditions) if conditions else None


def _conjunction(conditions: list[Typed]) -> Typed:
    """All of some conditions, as a tree that is no deeper than it must be."""
    if len(conditions) == 1:
        return conditions[0]
    middle = (len(conditions) + 1) // 2
    halves = _conjunction(conditions[:middle]), _conjunction(conditions[middle:])
    return Apply("and", halves, "bool")
