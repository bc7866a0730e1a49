"""Partial aggregation: one statement as two, of which the first sums up panes.

A statement that aggregates a window that slides,

    f = … FROM s [RANGE r SLIDE d] WHERE c GROUP BY k HAVING h,

becomes a *partial* statement and a *final* one:

    f__partial = RSTREAM(… FROM s [RANGE d SLIDE d] WHERE c GROUP BY k),
    f = … FROM f__partial [RANGE r SLIDE d] GROUP BY k HAVING h.

The partial one gives a row for each key and pane, and the final one aggregates these rows. So the
partial one can run beside the stream's source, and only its rows travel on. Both give the rows of
the whole statement at each timestamp, to the bit. The order of the rows of one timestamp, which has
no meaning, may be another one.

Counts are summed. Least, greatest, first and last values are those of the panes' values. The sum
of ints in a pane may need more than 64 bits although that of the window does not, and a mean is
rounded once; so high and low halves of ints are summed apart, and put together at the end. Sums of
floats, and those of the squares that a standard deviation needs, travel unrounded as texts
(`streams.arithmetic.exact_texts`).

Which statements are not split, because the result would not be the same or nothing would be gained:

- Several SELECTs or sources, DISTINCT, and windows that tumble: these ship their result anyway.
- A range that is no multiple of its slide: panes would have to be shorter than the slide.
- `count(DISTINCT x)` and its like: a pane would have to ship its values.

Without GROUP BY a window that holds tuples has a row even if the condition selects none of them. So
the condition moves into the arguments of the aggregates then, and the partial statement gives a row
for each pane with tuples.

A statement over a union of streams may be split below that union (`streams.plan.partial_union`).

References
----------
Li, Maier, Tufte, Papadimos, Tucker, *No pane, no gain*, SIGMOD Record 34, 2005.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from streams.language import QueryError, parse
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
    SubQuery,
    Top,
    ToStream,
    Window,
)
from streams.language.walk import is_flat
from streams.language.writer import written_expression, written_statement
from streams.plan.compiler import Catalogue, compile_statement
from streams.plan.program import EXACT_SUMS
from streams.plan.resolver import UNREPEATED, aggregate_names

PARTIAL_INFIX = "__partial"
"""In the names of partial statements, after that of the whole one; no name that a user gives may
contain it."""

_summed = ("sum", "avg")


def split(statement: Statement, catalogue: Catalogue) -> tuple[Statement, Statement] | None:
    """The partial and the final statement of one that can be compiled; None if it is not split.

    Examples
    --------
    >>> text = "RSTREAM(SELECT k, max(i) AS m FROM s [RANGE 9 SECONDS SLIDE 3 SECONDS] GROUP BY k)"
    >>> (statement,) = parse(f"REGISTER QUERY f {text};")
    >>> for part in split(statement, {"s": {"k": "string", "i": "int"}}):
    ...     print(part.text.replace(" FROM", "\\n  FROM"))
    REGISTER QUERY f__partial RSTREAM(SELECT k AS k0, max(i) AS p0
      FROM s [RANGE 3000 MILLISECONDS SLIDE 3000 MILLISECONDS] GROUP BY k);
    REGISTER QUERY f RSTREAM(SELECT k0 AS k, max(p0) AS m
      FROM f__partial [RANGE 9000 MILLISECONDS SLIDE 3000 MILLISECONDS] GROUP BY k0);
    """
    if len(statement.body.selects) != 1 or not is_flat(statement):
        return None
    (select,) = statement.body.selects
    window = _pane_window(select)
    aggregates = aggregates_of(select)
    if window is None or select.distinct or not (select.group_by or aggregates):
        return None
    keys = tuple(key for key in select.group_by if isinstance(key, Column))
    if keys != select.group_by:
        return None
    if any(call.distinct and call.function not in UNREPEATED for call in aggregates):
        return None
    try:
        kinds = _kinds(statement, select, aggregates, catalogue)
        return _Split(statement, select, keys, window, kinds).statements()
    except (QueryError, RecursionError):
        # Written with all its parentheses, it is nested too deeply.
        return None


def whole_name(name: str) -> str:
    """The name of the statement that a partial one is a part of; of others their own."""
    return name.partition(PARTIAL_INFIX)[0]


def _pane_window(select: Select) -> Window | None:
    """The window of the only source, if several of its panes make it up."""
    if len(select.sources) != 1:
        return None
    window = select.sources[0].window
    if window is None or window.slide_ms is None or window.range_ms is None:
        return None
    if window.zone is not None:
        return None
    whole = window.range_ms % window.slide_ms == 0
    return window if whole and window.range_ms > window.slide_ms else None


def aggregates_of(select: Select) -> list[Call]:
    """The aggregates in the SELECT list, HAVING and TOP."""
    found: list[Call] = []

    def visit(expression: Expression) -> None:
        if isinstance(expression, Call):
            if expression.function in aggregate_names:
                found.append(expression)
                return
            for argument in expression.arguments:
                visit(argument)

    for item in select.items:
        visit(item.expression)
    if select.having is not None:
        visit(select.having)
    for one in select.top.by if select.top is not None else ():
        visit(one.expression)
    return found


def _kinds(
    statement: Statement, select: Select, aggregates: list[Call], catalogue: Catalogue
) -> dict[str, str]:
    """Argument of an aggregate, as it is written → its type."""
    arguments = {written_expression(one): one for call in aggregates for one in call.arguments}
    if not arguments:
        return {}
    items = tuple(_item(one, f"a{place}") for place, one in enumerate(arguments.values()))
    plain = Select(start=0, end=0, items=items, sources=select.sources, where=None, group_by=())
    body = StreamExpression(start=0, end=0, to_stream=ToStream.RSTREAM, selects=(plain,))
    columns = compile_statement(replace(statement, body=body), catalogue).columns
    return dict(zip(arguments, columns.values(), strict=True))


class _Split:
    """Builds the two statements of one, collecting the columns that lie between them."""

    def __init__(
        self,
        statement: Statement,
        select: Select,
        keys: Sequence[Column],
        window: Window,
        kinds: Mapping[str, str],
    ) -> None:
        self._statement = statement
        self._select = select
        self._grouped = keys
        self._window = window
        self._kinds = kinds
        """Argument of an aggregate, as it is written → its type."""
        self._keys = {column.name: f"k{place}" for place, column in enumerate(keys)}
        self._parts: dict[str, Call] = {}
        """Partial aggregate as it is written → the partial aggregate, in their order."""

    def statements(self) -> tuple[Statement, Statement]:
        """The partial and the final statement."""
        final, partial = self._final(), self._partial()
        name = self._statement.name
        to_stream = self._statement.body.to_stream.name
        (first,) = parse(written_statement(name + PARTIAL_INFIX, ToStream.RSTREAM.name, partial))
        (second,) = parse(written_statement(name, to_stream, final))
        return first, second

    def _partial(self) -> Select:
        select, window = self._select, self._window
        items = [_item(column, self._keys[column.name]) for column in self._grouped]
        items = list({item.alias: item for item in items}.values())
        items += [_item(call, f"p{place}") for place, call in enumerate(self._parts.values())]
        pane = replace(window, range_ms=window.slide_ms)
        grouped = bool(select.group_by)
        return Select(
            start=0,
            end=0,
            items=tuple(items),
            sources=(replace(select.sources[0], window=pane),),
            where=select.where if grouped else None,
            group_by=select.group_by,
            # A window that becomes empty is evaluated once more, which only the final statement
            # may do.
            having=None if grouped else some_rows(),
        )

    def _final(self) -> Select:
        select = self._select
        name = self._statement.name + PARTIAL_INFIX
        items = tuple(
            _item(self._over_parts(item.expression), item.alias or _name(item.expression))
            for item in select.items
        )
        top = select.top
        if top is not None:
            by = tuple(replace(one, expression=self._over_parts(one.expression)) for one in top.by)
            partition_by = tuple(self._key(column) for column in top.partition_by)
            top = Top(start=0, end=0, rows=top.rows, by=by, partition_by=partition_by)
        return Select(
            start=0,
            end=0,
            items=items,
            sources=(Source(start=0, end=0, stream=name, alias=name, window=self._window),),
            where=None,
            group_by=tuple(dict.fromkeys(self._key(column) for column in self._grouped)),
            having=None if select.having is None else self._over_parts(select.having),
            top=top,
        )

    def _key(self, column: Column) -> Column:
        return _column(self._keys[column.name])

    def _over_parts(self, expression: Expression) -> Expression:
        """An expression over keys and aggregates, as one over keys and partial aggregates."""
        match expression:
            case Literal() | SubQuery():
                return expression
            case Column():
                return self._key(expression)
            case Call() if expression.function in aggregate_names:
                return self._merged(expression)
            case Call():
                arguments = tuple(map(self._over_parts, expression.arguments))
                return replace(expression, arguments=arguments)

    def _merged(self, call: Call) -> Expression:
        """An aggregate of the window, from those of its panes."""
        if call.star:
            return self._counted(None)
        (argument,) = call.arguments
        if call.function == "count":
            return self._counted(argument)
        if call.function in EXACT_SUMS:
            return self._exact(call.function, argument)
        if call.function == "stddev":
            sums = [self._exact(function, argument) for function in EXACT_SUMS]
            return _call("exact_deviation", *sums, self._counted(argument))
        if call.function not in _summed:
            return _call(call.function, self._part(call.function, argument))
        if self._kinds[written_expression(argument)] != "int":
            total = self._exact("exact_sum", argument)
            if call.function == "sum":
                return _call("exact_value", total)
            return _call("exact_mean", total, self._counted(argument))
        halves = [
            _call("sum", self._part("sum", _call(half, argument)))
            for half in ("high_half", "low_half")
        ]
        if call.function == "sum":
            return _call("joined_sum", *halves)
        return _call("joined_mean", *halves, self._counted(argument))

    def _exact(self, function: str, argument: Expression) -> Expression:
        """An unrounded sum of the window."""
        return _call("exact_sum", self._part(function, argument))

    def _counted(self, argument: Expression | None) -> Expression:
        total = _call("sum", self._part("count", argument))
        # Without GROUP BY there is a row for a window without tuples too.
        return total if self._select.group_by else _call("coalesce", total, _literal(0))

    def _part(self, function: str, argument: Expression | None) -> Column:
        """The column of a partial aggregate; equal ones share theirs."""
        where = None if self._select.group_by else self._select.where
        if where is not None:
            value = _literal(1) if argument is None else argument
            argument = operation("case", where, value)
        part = _count() if argument is None else _call(function, argument)
        text = written_expression(part)
        self._parts.setdefault(text, part)
        return _column(f"p{list(self._parts).index(text)}")


def some_rows() -> Expression:
    """A condition for HAVING: there are rows."""
    return operation("greater", _count(), _literal(0))


def _name(expression: Expression) -> str:
    assert isinstance(expression, Column)
    return expression.name


def _item(expression: Expression, alias: str) -> Item:
    return Item(start=0, end=0, expression=expression, alias=alias)


def _column(name: str) -> Column:
    return Column(start=0, end=0, source=None, name=name)


def _literal(value: int) -> Literal:
    return Literal(start=0, end=0, value=value)


def _count() -> Call:
    return Call(start=0, end=0, function="count", arguments=(), star=True)


def _call(function: str, *arguments: Expression) -> Call:
    return Call(start=0, end=0, function=function, arguments=arguments)


def operation(function: str, *arguments: Expression) -> Call:
    """An operator applied to arguments."""
    return Call(start=0, end=0, function=function, arguments=arguments, infix=True)
