"""Statements of the query language as Spark SQL, over whole streams at once.

A relation is a table of rows, each with the time during which it is in the relation: `_since`
(included) to `_until` (excluded), ms. Windows say when a tuple is in them, a join intersects the
times of the rows that it pairs, an aggregate has a row from each change of its group to the next
one. So there is no state, and no order in which tuples are processed: nothing of the engine is
reused but the parser and the types.

Rows are joined by time within *slices* of it, because Spark joins by equality: a row is in each
slice that it touches, and a pair counts in the slice in which it begins.

`_ord` is a tuple's place among those of its timestamp. Where SQL knows none, windows that count
rows cannot be expressed (`Inexpressible`). Neither can sessions, TOP, sums of floats (Spark adds
them in any order), and functions whose results may differ in their last bits from ours; in
conditions, these may occur.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.spark.verify.sql_expressions import (
    CONDITIONS,
    NEAR,
    GroupExpressions,
    Inexpressible,
    aggregate_sql,
    column_sql,
    expression_sql,
    quoted,
)
from orchestrator.spark.verify.sql_windows import (
    checked,
    slice_sql,
    sliced_sql,
    span_ms,
    view_name,
    window_of,
    windowed_sql,
)
from streams.expressions.typed import UNTYPED
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
)
from streams.language.walk import is_flat, leaves_of
from streams.plan.partial import aggregates_of
from streams.plan.resolver import literal_kinds
from streams.vectors.chunk import TIMESTAMP

SLICES = 6
"""Slices of the longest window."""

_types = {"int": "BIGINT", "float": "DOUBLE", "string": "STRING", "bool": "BOOLEAN"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The streams that a statement may read.

    Attributes
    ----------
    columns
        Stream → column → type.
    ordered
        Streams whose tuples have an order within a timestamp.
    until_ms
        The last timestamp of interest.
    """

    columns: Mapping[str, Mapping[str, str]]
    ordered: frozenset[str]
    until_ms: int


def keeps_order(statement: Statement, catalogue: Catalogue) -> bool:
    """Whether the translation knows the order of output tuples within a timestamp."""
    return (
        is_flat(statement)
        and _is_stateless(statement)
        and all(
            source.stream in catalogue.ordered
            for select in statement.body.selects
            for source in select.sources
        )
    )


def translate(statement: Statement, columns: Mapping[str, str], catalogue: Catalogue) -> str:
    """The output of a statement up to the last timestamp of interest, as one SQL query.

    Parameters
    ----------
    columns
        Of the output: name → type.

    Raises
    ------
    Inexpressible
        SQL cannot say it.
    """
    if statement.body.real_time is not None:
        raise Inexpressible("releases of periodic statements are not translated")
    if any(each.window and each.window.zone for each in leaves_of(statement.body.selects)):
        raise Inexpressible("days of a time zone are not translated")
    if not is_flat(statement):
        raise Inexpressible(
            "sub-queries, outer joins and operations on relations are not translated"
        )
    selects = [
        _Translation(select, number, list(columns), catalogue)
        for number, select in enumerate(statement.body.selects)
    ]
    relation = "\nUNION ALL\n".join(each.relation() for each in selects)
    names = ", ".join(column_sql(name) for name in columns)
    emitted = _emitted(statement, selects, relation, names, catalogue)
    casts = ", ".join(
        f"CAST({column_sql(n)} AS {_types[k]}) AS {column_sql(n)}" for n, k in columns.items()
    )
    return (
        f"SELECT t AS {TIMESTAMP}, _ord, {casts} FROM (\n{emitted}\n) "
        f"WHERE t <= {catalogue.until_ms}"
    )


def _emitted(
    statement: Statement,
    selects: Sequence[_Translation],
    relation: str,
    names: str,
    catalogue: Catalogue,
) -> str:
    """A query of `t`, `_ord` and the columns: what ISTREAM, DSTREAM or RSTREAM emits."""
    if statement.body.to_stream is ToStream.RSTREAM:
        if _is_stateless(statement):
            return f"SELECT _since AS t, _ord, {names} FROM (\n{relation}\n)"
        if any(each.endless for each in selects):
            raise Inexpressible("RSTREAM of windows without an end repeats ever more rows")
        length_ms = max(each.slice_ms for each in selects)
        times = _evaluation_times(selects)
        rows = sliced_sql(f"(\n{relation}\n)", length_ms)
        return (
            f"SELECT i.t, CAST(NULL AS ARRAY<BIGINT>) AS _ord, {names} FROM ({times}) AS i JOIN "
            f"({rows}) AS r ON {slice_sql('i.t', length_ms)} = r._slice "
            "WHERE r._since <= i.t AND i.t < r._until"
        )
    sign = 1 if statement.body.to_stream is ToStream.ISTREAM else -1
    ends = f"named_struct('t', _since, '_n', {sign}), named_struct('t', _until, '_n', {-sign})"
    changes = (
        f"SELECT e.t, e._n, {names} FROM (\n{relation}\n) LATERAL VIEW inline(array({ends})) e"
    )
    # What leaves after the end has not left.
    return (
        f"SELECT t, CAST(NULL AS ARRAY<BIGINT>) AS _ord, {names} FROM (SELECT *, "
        f"explode(sequence(1, CAST(_n AS INT))) AS _copy FROM (SELECT t, {names}, sum(_n) AS _n "
        f"FROM ({changes}) WHERE t <= {catalogue.until_ms} GROUP BY t, {names}) WHERE _n > 0)"
    )


def _is_stateless(statement: Statement) -> bool:
    return statement.body.to_stream is ToStream.RSTREAM and all(
        len(select.sources) == 1
        and window_of(select.sources[0]) == (None, 1, None, None)
        and not select.group_by
        and not aggregates_of(select)
        and not select.distinct
        for select in statement.body.selects
    )


def _evaluation_times(selects: Sequence[_Translation]) -> str:
    """The timestamps at which a statement is evaluated."""
    parts = [part for each in selects for part in each.evaluation_times()]
    return f"SELECT DISTINCT t FROM ({' UNION ALL '.join(dict.fromkeys(parts))})"


class _Translation:
    """One SELECT as a query of its relation.

    Attributes
    ----------
    endless
        Whether rows stay for ever.
    slice_ms
        Length of a slice of time.
    """

    def __init__(
        self, select: Select, number: int, names: Sequence[str], catalogue: Catalogue
    ) -> None:
        if select.distinct:
            raise Inexpressible("SELECT DISTINCT is not translated")
        if select.top is not None:
            raise Inexpressible("TOP is not translated")
        self._select = select
        self._number = number
        self._names = names
        self._catalogue = catalogue
        self._scope = {each.alias: catalogue.columns[each.stream] for each in select.sources}
        windows = [checked(each) for each in select.sources]
        ends = [span_ms(each) for each in windows]
        self.endless = all(each is None for each in ends)
        self._joins_endless = any(each is None for each in ends)
        longest_ms = max((each for each in ends if each is not None), default=1)
        self.slice_ms = max(longest_ms // SLICES, 1)
        self._grouped = bool(select.group_by) or bool(aggregates_of(select))

    def evaluation_times(self) -> list[str]:
        """Queries of the timestamps at which a window changes."""
        found: list[str] = []
        for source in self._select.sources:
            window, view = checked(source), view_name(source.stream)
            if window.slide_ms is not None:
                step = f"sequence(_since, _until, {window.slide_ms})"
                found.append(f"SELECT explode({step}) AS t FROM ({self._windowed(source)})")
                continue
            found.append(f"SELECT {TIMESTAMP} AS t FROM {view}")
            if window.range_ms is not None:
                aged = f"_until = {TIMESTAMP} + {window.range_ms}"
                found.append(f"SELECT _until AS t FROM ({self._windowed(source)}) WHERE {aged}")
        return found

    def relation(self) -> str:
        """A query of the output columns, `_since`, `_until` and `_ord`."""
        if self._grouped:
            return self._groups()
        if self._select.items:
            written = [self._exact(item.expression) for item in self._select.items]
        else:
            written = [
                f"{quoted(alias)}.{column_sql(name)}"
                for alias, columns in self._scope.items()
                for name in columns
            ]
        outputs = ", ".join(
            f"{each} AS {column_sql(name)}" for each, name in zip(written, self._names, strict=True)
        )
        alone = self._select.sources[0]
        order = "CAST(NULL AS ARRAY<BIGINT>)"
        if len(self._select.sources) == 1:
            order = f"concat(array(CAST({self._number} AS BIGINT)), {quoted(alone.alias)}._ord)"
        return f"SELECT {outputs}, {order} AS _ord, {self._rows()}"

    def _rows(self) -> str:
        """`_since` and `_until` of the joined rows for which the condition holds, and FROM."""
        sources = self._select.sources
        condition = [] if self._select.where is None else [self._near(self._select.where)]
        aliases = [quoted(each.alias) for each in sources]
        if len(sources) == 1:
            where = f" WHERE {condition[0]}" if condition else ""
            one = aliases[0]
            return f"{one}._since, {one}._until FROM ({self._windowed(sources[0])}) AS {one}{where}"
        since = f"greatest({', '.join(f'{each}._since' for each in aliases)})"
        until = f"least({', '.join(f'{each}._until' for each in aliases)})"
        if self._joins_endless:
            if not self._has_equality():
                raise Inexpressible("a join of a window without an end needs an equality")
            tables = [
                f"({self._windowed(s)}) AS {a}" for s, a in zip(sources, aliases, strict=True)
            ]
        else:
            tables = [
                f"({sliced_sql(f'({self._windowed(s)})', self.slice_ms)}) AS {a}"
                for s, a in zip(sources, aliases, strict=True)
            ]
            condition += [f"{aliases[0]}._slice = {each}._slice" for each in aliases[1:]]
            condition.append(f"{aliases[0]}._slice = {slice_sql(since, self.slice_ms)}")
        condition.append(f"{since} < {until}")
        return (
            f"{since} AS _since, {until} AS _until FROM {' CROSS JOIN '.join(tables)} "
            f"WHERE {' AND '.join(condition)}"
        )

    def _has_equality(self) -> bool:
        def of(one: Expression | None) -> bool:
            if not isinstance(one, Call):
                return False
            if one.function == "and":
                return any(of(each) for each in one.arguments)
            sides = [each.source for each in one.arguments if isinstance(each, Column)]
            return one.function == "equal" and len(set(sides)) == 2

        return of(self._select.where)

    def _groups(self) -> str:
        """An aggregate's rows: each from one change of its group to the next."""
        select = self._select
        calls = aggregates_of(select)
        values = [aggregate_sql(one, f"r.g{i}") for i, one in enumerate(calls)]
        if self.endless:
            raise Inexpressible("aggregates over windows without an end are not translated")
        keys = [self._exact(key) for key in select.group_by]
        arguments = ["1" if one.star else self._exact(one.arguments[0]) for one in calls]
        for one in calls:
            if one.function in ("sum", "avg") and self._kind(one.arguments[0]) != "int":
                raise Inexpressible(f"Spark adds the floats of {one.function} in any order")
        named = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        named += [f"{each} AS g{i}" for i, each in enumerate(arguments)]
        rows = f"SELECT {', '.join([*named, ''])}{self._rows()}"
        names = [f"k{i}" for i in range(len(keys))]
        listed = "".join(f"{name}, " for name in names)
        changes = f"SELECT DISTINCT {listed}explode(array(_since, _until)) AS t FROM ({rows})"
        if not keys:
            changes = (
                f"SELECT t FROM ({changes}) UNION SELECT min(t) FROM ({_evaluation_times([self])})"
            )
        computed = ", ".join([f"{each} AS a{i}" for i, each in enumerate(values)])
        own = "".join(f"c.{name}, " for name in names)
        same = "".join(f"c.{name} <=> r.{name} AND " for name in names)
        grouped = (
            f"SELECT {own}c.t, count(r._since) AS _rows{', ' if computed else ''}{computed} "
            f"FROM ({changes}) AS c LEFT JOIN ({sliced_sql(f'({rows})', self.slice_ms)}) AS r "
            f"ON {same}{slice_sql('c.t', self.slice_ms)} = r._slice AND r._since <= c.t "
            f"AND c.t < r._until GROUP BY {own}c.t"
        )
        partition = f"PARTITION BY {', '.join(names)} " if names else ""
        # The last change of a group without keys holds until the end.
        following = f"lead(t, 1, {self._end_ms}) OVER ({partition}ORDER BY t)"
        timed = f"SELECT *, t AS _since, {following} AS _until FROM ({grouped})"
        shown = GroupExpressions(select.group_by, calls)
        outputs = ", ".join(
            f"{shown.sql(item.expression)} AS {column_sql(name)}"
            for item, name in zip(select.items, self._names, strict=True)
        )
        kept = ["_rows > 0"] if keys else []
        if select.having is not None:
            kept.append(shown.sql(select.having))
        where = f" WHERE {' AND '.join(kept)}" if kept else ""
        order = "CAST(NULL AS ARRAY<BIGINT>)"
        return f"SELECT {outputs}, {order} AS _ord, _since, _until FROM ({timed}){where}"

    @property
    def _end_ms(self) -> int:
        return self._catalogue.until_ms + 1

    def _windowed(self, source: Source) -> str:
        ordered = source.stream in self._catalogue.ordered
        return windowed_sql(source, ordered=ordered, end_ms=self._end_ms)

    def _exact(self, expression: Expression) -> str:
        """An expression whose value shows in the output."""
        if isinstance(expression, Call) and expression.function not in CONDITIONS:
            if expression.function in NEAR:
                raise Inexpressible(f"results of {expression.function} differ in the last bits")
            for each in expression.arguments:
                self._exact(each)
        return self._near(expression)

    def _near(self, expression: Expression) -> str:
        return expression_sql(expression, self._column)

    def _column(self, column: Column) -> str:
        return f"{quoted(self._alias_of(column))}.{column_sql(column.name)}"

    def _alias_of(self, column: Column) -> str:
        if column.source is not None:
            return column.source
        return next(
            alias
            for alias, columns in self._scope.items()
            if column.name in columns or column.name == TIMESTAMP
        )

    def _kind(self, expression: Expression) -> str:
        """`int`, `float` or another type."""
        if isinstance(expression, Literal):
            return literal_kinds[type(expression.value)]
        if isinstance(expression, Column):
            columns = self._scope[self._alias_of(expression)]
            return "int" if expression.name == TIMESTAMP else columns[expression.name]
        if isinstance(expression, SubQuery):
            raise Inexpressible("sub-queries are not translated")
        if expression.function in ("divide", "sqrt", *NEAR):
            return "float"
        if expression.function in ("floor", "ceil", "count"):
            return "int"
        if expression.function in CONDITIONS:
            return "bool"
        kinds = {self._kind(each) for each in expression.arguments} - {"bool", UNTYPED}
        return "float" if "float" in kinds else next(iter(kinds), "bool")
