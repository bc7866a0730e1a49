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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from streams.chunk import TIMESTAMP
from streams.language.ast import (
    Call,
    Column,
    Expression,
    Literal,
    Select,
    Source,
    Statement,
    ToStream,
    Window,
    infix,
)
from streams.resolver import aggregate_names

AGGREGATES = frozenset({"count", "sum", "avg", "min", "max"})

SLICES = 6
"""Slices of the longest window."""

_types = {"int": "BIGINT", "float": "DOUBLE", "string": "STRING", "bool": "BOOLEAN"}
_infix = {name: sign for name, sign in infix.items() if name != "like"}
"""Written alike in Spark SQL; LIKE is not translated."""
_same = frozenset({"abs", "floor", "ceil", "least", "greatest", "coalesce", "concat"})
_near = {"cos": "cos", "sin": "sin", "radians": "radians", "power": "power"}
"""Functions whose last bits may differ."""

_conditions = frozenset(
    {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "and", "or", "not"}
) | {"is_null", "like"}


class Inexpressible(Exception):
    """Spark SQL does not give the rows of a statement; says why."""


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


def view_name(stream: str) -> str:
    """The view with a stream's tuples: `_ts`, `_ord` and its columns."""
    return stream.replace(".", "_beside_")


def keeps_order(statement: Statement, catalogue: Catalogue) -> bool:
    """Whether the translation knows the order of output tuples within a timestamp."""
    return _is_stateless(statement) and all(
        source.stream in catalogue.ordered
        for select in statement.body.selects
        for source in select.sources
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
    selects = [
        _Translation(select, number, list(columns), catalogue)
        for number, select in enumerate(statement.body.selects)
    ]
    relation = "\nUNION ALL\n".join(each.relation() for each in selects)
    names = ", ".join(_quoted(name) for name in columns)
    emitted = _emitted(statement, selects, relation, names, catalogue)
    casts = ", ".join(
        f"CAST({_quoted(n)} AS {_types[k]}) AS {_quoted(n)}" for n, k in columns.items()
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
        rows = _sliced(f"(\n{relation}\n)", length_ms)
        return (
            f"SELECT i.t, CAST(NULL AS ARRAY<BIGINT>) AS _ord, {names} FROM ({times}) AS i JOIN "
            f"({rows}) AS r ON {_slice('i.t', length_ms)} = r._slice "
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
        and _window(select.sources[0]) == (None, 1, None, None)
        and not select.group_by
        and not _aggregates(select)
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
        windows = [_checked(each) for each in select.sources]
        ends = [_span_ms(each) for each in windows]
        self.endless = all(each is None for each in ends)
        self._joins_endless = any(each is None for each in ends)
        longest_ms = max((each for each in ends if each is not None), default=1)
        self.slice_ms = max(longest_ms // SLICES, 1)
        self._grouped = bool(select.group_by) or bool(_aggregates(select))

    def evaluation_times(self) -> list[str]:
        """Queries of the timestamps at which a window changes."""
        found: list[str] = []
        for source in self._select.sources:
            window, view = _checked(source), view_name(source.stream)
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
                f"{_quoted(alias)}.{_quoted(name)}"
                for alias, columns in self._scope.items()
                for name in columns
            ]
        outputs = ", ".join(
            f"{each} AS {_quoted(name)}" for each, name in zip(written, self._names, strict=True)
        )
        alone = self._select.sources[0]
        order = "CAST(NULL AS ARRAY<BIGINT>)"
        if len(self._select.sources) == 1:
            order = f"concat(array(CAST({self._number} AS BIGINT)), {_quoted(alone.alias)}._ord)"
        return f"SELECT {outputs}, {order} AS _ord, {self._rows()}"

    def _rows(self) -> str:
        """`_since` and `_until` of the joined rows for which the condition holds, and FROM."""
        sources = self._select.sources
        condition = [] if self._select.where is None else [self._near(self._select.where)]
        aliases = [_quoted(each.alias) for each in sources]
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
                f"({_sliced(f'({self._windowed(s)})', self.slice_ms)}) AS {a}"
                for s, a in zip(sources, aliases, strict=True)
            ]
            condition += [f"{aliases[0]}._slice = {each}._slice" for each in aliases[1:]]
            condition.append(f"{aliases[0]}._slice = {_slice(since, self.slice_ms)}")
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
        if self.endless:
            raise Inexpressible("aggregates over windows without an end are not translated")
        select = self._select
        keys = [self._exact(key) for key in select.group_by]
        calls = _aggregates(select)
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
        values = [_aggregate(one, f"r.g{i}") for i, one in enumerate(calls)]
        computed = ", ".join([f"{each} AS a{i}" for i, each in enumerate(values)])
        own = "".join(f"c.{name}, " for name in names)
        same = "".join(f"c.{name} <=> r.{name} AND " for name in names)
        grouped = (
            f"SELECT {own}c.t, count(r._since) AS _rows{', ' if computed else ''}{computed} "
            f"FROM ({changes}) AS c LEFT JOIN ({_sliced(f'({rows})', self.slice_ms)}) AS r "
            f"ON {same}{_slice('c.t', self.slice_ms)} = r._slice AND r._since <= c.t "
            f"AND c.t < r._until GROUP BY {own}c.t"
        )
        partition = f"PARTITION BY {', '.join(names)} " if names else ""
        # The last change of a group without keys holds until the end.
        following = f"lead(t, 1, {self._end_ms}) OVER ({partition}ORDER BY t)"
        timed = f"SELECT *, t AS _since, {following} AS _until FROM ({grouped})"
        shown = _Group(self, select.group_by, calls)
        outputs = ", ".join(
            f"{shown.sql(item.expression)} AS {_quoted(name)}"
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
        """A query of a stream's tuples with the times at which they are in a window."""
        window = _checked(source)
        order = f"{TIMESTAMP}, _ord"
        since, until = TIMESTAMP, str(self._end_ms)
        if window.rows is not None:
            if source.stream not in self._catalogue.ordered:
                raise Inexpressible(
                    f"the tuples of {source.stream} have no order within a timestamp in SQL, and a "
                    "window counts them"
                )
            keys = ", ".join(_quoted(each.name) for each in window.partition_by)
            partition = f"PARTITION BY {keys} " if keys else ""
            following = f"lead({TIMESTAMP}, {window.rows}) OVER ({partition}ORDER BY {order})"
            until = f"coalesce({following}, {self._end_ms})"
            if window.range_ms is not None:
                until = f"least({until}, {TIMESTAMP} + {window.range_ms})"
        elif window.slide_ms is not None:
            slide_ms, offset_ms = window.slide_ms, window.offset_ms
            end = f"({TIMESTAMP} + {window.range_ms})"
            since = f"{TIMESTAMP} + pmod({offset_ms} - {TIMESTAMP}, {slide_ms})"
            until = f"{end} + pmod({offset_ms} - {end}, {slide_ms})"
        elif window.range_ms is not None:
            until = f"{TIMESTAMP} + {window.range_ms}"
        return (
            f"SELECT * FROM (SELECT *, {since} AS _since, {until} AS _until "
            f"FROM {view_name(source.stream)}) WHERE _since < _until"
        )

    def _exact(self, expression: Expression) -> str:
        """An expression whose value shows in the output."""
        if isinstance(expression, Call) and expression.function not in _conditions:
            if expression.function in _near:
                raise Inexpressible(f"results of {expression.function} differ in the last bits")
            for each in expression.arguments:
                self._exact(each)
        return self._near(expression)

    def _near(self, expression: Expression) -> str:
        return _expression(expression, self._column)

    def _column(self, column: Column) -> str:
        return f"{_quoted(self._alias_of(column))}.{_quoted(column.name)}"

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
            kinds = {bool: "bool", int: "int", float: "float", str: "string"}
            return kinds[type(expression.value)]
        if isinstance(expression, Column):
            columns = self._scope[self._alias_of(expression)]
            return "int" if expression.name == TIMESTAMP else columns[expression.name]
        if expression.function in ("divide", "sqrt", *_near):
            return "float"
        if expression.function in ("floor", "ceil", "count"):
            return "int"
        if expression.function in _conditions:
            return "bool"
        kinds = {self._kind(each) for each in expression.arguments} - {"bool"}
        return "float" if "float" in kinds else next(iter(kinds), "bool")


@dataclass(frozen=True, slots=True)
class _Group:
    """Expressions over the keys and aggregates of a group."""

    of: _Translation
    keys: Sequence[Column]
    calls: Sequence[Call]

    def sql(self, expression: Expression) -> str:
        if isinstance(expression, Call):
            for i, call in enumerate(self.calls):
                if (call.start, call.end) == (expression.start, expression.end):
                    return f"a{i}"
            return _call(expression, [self.sql(each) for each in expression.arguments])
        return _expression(expression, self._key)

    def _key(self, column: Column) -> str:
        for i, key in enumerate(self.keys):
            if key.name == column.name and column.source in (key.source, None):
                return f"k{i}"
        for i, key in enumerate(self.keys):
            if key.name == column.name and key.source is None:
                return f"k{i}"
        raise Inexpressible(f"{column.name} is no key of the group")


def _expression(expression: Expression, column: Callable[[Column], str]) -> str:
    if isinstance(expression, Literal):
        return _literal(expression.value)
    if isinstance(expression, Column):
        return column(expression)
    return _call(expression, [_expression(each, column) for each in expression.arguments])


def _call(call: Call, arguments: list[str]) -> str:
    name = call.function
    if name in _infix:
        left, right = arguments
        return f"({left} {_infix[name]} {right})"
    if name in _same:
        return f"{name}({', '.join(arguments)})"
    if name in _near:
        return f"{_near[name]}({', '.join(arguments)})"
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


def _aggregate(call: Call, argument: str) -> str:
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
        case name:
            return f"{name}({distinct}{argument})"


def _aggregates(select: Select) -> list[Call]:
    """The aggregates of the SELECT list and of HAVING, each where it stands."""
    found: list[Call] = []

    def look(expression: Expression) -> None:
        if isinstance(expression, Call):
            if expression.function in AGGREGATES:
                found.append(expression)
            elif expression.function in aggregate_names:
                raise Inexpressible(f"Spark has no {expression.function} that gives the same bits")
            else:
                for each in expression.arguments:
                    look(each)

    for item in select.items:
        look(item.expression)
    if select.having is not None:
        look(select.having)
    return found


def _checked(source: Source) -> Window:
    assert source.window is not None
    if source.window.session_ms is not None:
        raise Inexpressible("sessions are not translated")
    return source.window


def _window(source: Source) -> tuple[int | None, int | None, int | None, int | None]:
    one = _checked(source)
    return one.rows, one.range_ms, one.slide_ms, one.session_ms


def _span_ms(window: Window) -> int | None:
    """How long a tuple is in a window at most; None: for ever."""
    return None if window.range_ms is None else window.range_ms + (window.slide_ms or 0)


def _slice(at: str, length_ms: int) -> str:
    return f"(({at}) - pmod({at}, {length_ms})) div {length_ms}"


def _sliced(table: str, length_ms: int) -> str:
    """The rows of a table in each slice of time that they touch."""
    first, last = _slice("_since", length_ms), _slice("_until - 1", length_ms)
    return f"SELECT *, explode(sequence({first}, {last})) AS _slice FROM {table}"


def _literal(value: float | str | bool) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return f"{value}L"
    if isinstance(value, float):
        return f"{value!r}D"
    text = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def _quoted(name: str) -> str:
    return f"`{name}`"
