"""Statements that compute the same, so that one of them may give its rows to the others.

What a statement computes does not depend on its name, on the names of its columns and of its
sources, or on the order of its columns. An RSTREAM without DISTINCT gives a row for each row of its
relation, whatever columns it selects, so another one may select fewer of them; with TOP, columns
and their order decide between equal rows, so they must be the same. A source that is itself the
stream of a statement counts as what that one computes, under the names of its columns.

A statement whose rows come from another one becomes

    f = RSTREAM(SELECT c AS a, d AS b FROM g [NOW]),

which keeps no state. It gives what `f` gives if both began with the stream; if `f` begins later,
its windows hold what was there before.

Not recognised as equal, although they are: conditions in another order, sources in another order,
and what is written otherwise. Statements with `*`, and those whose HAVING, TOP or GROUP BY contains
the name that SELECT gives to something else, are not compared at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256

from streams.language import parse
from streams.language.ast import (
    Call,
    Column,
    Expression,
    Item,
    Literal,
    Select,
    Statement,
    SubQuery,
    ToStream,
)
from streams.language.names import written_name
from streams.language.walk import is_flat, streams_of
from streams.language.writer import written_expression, written_select
from streams.plan.partial import aggregates_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """What a statement computes.

    Attributes
    ----------
    form
        Equal for statements of which one gives the rows of the other, as far as it has the columns.
    columns
        Column → what it is computed from; of a UNION ALL, for each SELECT.
    """

    form: str
    columns: Mapping[str, str]

    @property
    def whole(self) -> str:
        """Equal for statements that give the same rows under the same names.

        A digest: what reads it twice would be twice as long otherwise, and so on.
        """
        text = f"{self.form} {sorted(self.columns.items())}"
        return f"#{sha256(text.encode()).hexdigest()}"

    def columns_of(self, other: Computation) -> dict[str, str] | None:
        """Own column → the other's of the same values; None if the other does not give the rows.

        Examples
        --------
        >>> text = "RSTREAM(SELECT k, count(*) AS n FROM s [RANGE 9 SECONDS] GROUP BY k)"
        >>> same = "RSTREAM(SELECT count(*) AS c FROM s [RANGE 9 SECONDS] AS t GROUP BY t.k)"
        >>> one, other = parse(f"REGISTER QUERY f {same}; REGISTER QUERY g {text};")
        >>> computed = computations({"f": (one, ["c"]), "g": (other, ["k", "n"])})
        >>> computed["f"].columns_of(computed["g"])
        {'c': 'n'}
        """
        if self.form != other.form:
            return None
        names: dict[str, str] = {}
        for name, expression in other.columns.items():
            names.setdefault(expression, name)
        if not names.keys() >= {*self.columns.values()}:
            return None
        return {name: names[expression] for name, expression in self.columns.items()}


def computations(
    statements: Mapping[str, tuple[Statement, list[str]]],
) -> dict[str, Computation]:
    """What statements compute; those that are not compared are missing.

    Parameters
    ----------
    statements
        Stream → the statement that gives it, and the names of its columns, in order.
    """
    made: dict[str, Computation] = {}
    left = dict(statements)
    reads = {name: streams_of(one) for name, (one, _) in left.items()}
    while left:
        ready = {name for name in left if not reads[name] & left.keys()}
        if not ready:
            # They feed each other in a cycle, or read one that does.
            break
        for name in ready:
            statement, names = left.pop(name)
            streams = {stream: stream for stream in reads[name]}
            streams |= {each: made[each].whole for each in streams.keys() & made.keys()}
            known = streams.keys() & statements.keys() <= made.keys()
            if known and is_flat(statement) and all(map(_is_plain, statement.body.selects)):
                # One whose expressions are nested too deeply is not compared.
                with suppress(RecursionError):
                    made[name] = _computed(statement, names, streams)
    return made


def _computed(
    statement: Statement, names: Iterable[str], streams: Mapping[str, str]
) -> Computation:
    """What a statement computes whose streams are as `streams` says."""
    body = statement.body
    renamed = [_renamed(select, streams) for select in body.selects]
    listed = [[written_expression(one.expression) for one in each.items] for each in renamed]
    columns = {
        name: " | ".join(parts)
        for name, parts in zip(names, zip(*listed, strict=True), strict=True)
    }
    form = [body.to_stream.value, *(_form(each) for each in renamed)]
    if any(select.top is not None for select in body.selects):
        # Of equal rows TOP takes the first ones by all their columns.
        form += columns.values()
    elif body.to_stream is not ToStream.RSTREAM or any(s.distinct for s in body.selects):
        form += sorted(columns.values())
    return Computation(form=" ".join(form), columns=columns)


def forwarding(name: str, of: str, columns: Mapping[str, str]) -> Statement:
    """The statement that gives the rows of a stream under other names.

    Parameters
    ----------
    columns
        Own column → the stream's.

    Examples
    --------
    >>> forwarding("f", "g", {"c": "n"}).text
    'REGISTER QUERY f RSTREAM(SELECT n AS c FROM g [NOW]);'
    """
    items = ", ".join(
        f"{written_name(theirs)} AS {written_name(own)}" for own, theirs in columns.items()
    )
    body = f"RSTREAM(SELECT {items} FROM {written_name(of)} [NOW])"
    (statement,) = parse(f"REGISTER QUERY {written_name(name)} {body};")
    return statement


def _is_plain(select: Select) -> bool:
    """Whether nothing in a SELECT depends on how its columns are named."""
    renamed = {
        item.alias
        for item in select.items
        if item.alias is not None
        and not (isinstance(item.expression, Column) and item.expression.name == item.alias)
    }
    parts = [*select.group_by, *((select.having,) if select.having is not None else ())]
    if select.top is not None:
        parts += [*(one.expression for one in select.top.by), *select.top.partition_by]
    named = {column.name for part in parts for column in _columns(part)}
    return bool(select.items) and not renamed & named


def _columns(expression: Expression) -> Iterator[Column]:
    if isinstance(expression, Column):
        yield expression
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from _columns(argument)


def _renamed(select: Select, streams: Mapping[str, str]) -> Select:
    """A SELECT whose sources have their numbers as names, and whose items have none."""
    numbers = {source.alias: f"#{number}" for number, source in enumerate(select.sources)}
    single = len(select.sources) == 1

    def of(expression: Expression) -> Expression:
        match expression:
            case Column(source=source):
                return replace(
                    expression, source=None if single or source is None else numbers.get(source)
                )
            case Call():
                return replace(expression, arguments=tuple(map(of, expression.arguments)))
            case Literal() | SubQuery():
                return expression

    def column(one: Column) -> Column:
        changed = of(one)
        assert isinstance(changed, Column)
        return changed

    top = select.top
    return replace(
        select,
        items=tuple(
            replace(one, expression=of(one.expression), alias=None) for one in select.items
        ),
        sources=tuple(
            replace(each, stream=streams[each.stream], alias=numbers[each.alias])
            for each in select.sources
        ),
        where=None if select.where is None else of(select.where),
        group_by=tuple(map(of, select.group_by)),
        having=None if select.having is None else of(select.having),
        top=None
        if top is None
        else replace(
            top,
            by=tuple(replace(one, expression=of(one.expression)) for one in top.by),
            partition_by=tuple(map(column, top.partition_by)),
        ),
    )


def _form(select: Select) -> str:
    """A SELECT without its items, but whether it gives a row for each group."""
    kind = "groups" if select.group_by or aggregates_of(select) else "rows"
    item = Item(expression=Literal(value=kind, start=0, end=0), alias=None, start=0, end=0)
    return written_select(replace(select, items=(item,)))
