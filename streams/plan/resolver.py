"""Resolve the names of one SELECT to columns of its sources, and type its expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Protocol

from foundation.suggestions import hint
from streams.expressions.functions import Function, functions, written
from streams.expressions.owned import FunctionError, function_of, known_function, owned_names
from streams.expressions.typed import (
    UNTYPED,
    Apply,
    Constant,
    InputColumn,
    Typed,
    as_kind,
    relocated,
)
from streams.language import QueryError
from streams.language.ast import Call, Column, Expression, Item, Literal, Select, SubQuery, Top
from streams.language.names import written_name
from streams.language.parser import CAST_TYPES
from streams.plan.other_systems import (
    BOUNDS_OF_WINDOWS,
    QUANTIFIED,
    TIME,
    clocks,
    known_elsewhere,
    quantifiers,
    window_bounds,
)
from streams.plan.program import EXACT_SUMS, AggregatePlan, GroupPlan, RankedBy, TopPlan
from streams.plan.relations import Resolved
from streams.vectors.chunk import TIMESTAMP
from streams.vectors.reserved import taken

_hyphenated = re.compile(r"[A-Za-z_]\w*(-[A-Za-z_]\w*)+")
"""What people may mean as a name."""

aggregate_names = (
    *("count", "sum", "avg", "stddev", "min", "max", "first", "last"),
    *EXACT_SUMS,
)
UNREPEATED = ("min", "max", "first", "last")
"""Aggregates of which equal values may count as one: DISTINCT makes no difference."""

MOST_NULLS = 3
"""NULLs among the arguments of a function that may be of different types."""

literal_kinds = {bool: "bool", int: "int", float: "float", str: "string", type(None): UNTYPED}
"""Python's type of a literal → its type."""


OUTER = 1 << 30
"""Added to the position of a column that belongs to what is around a sub-query."""

ATTACHED = 1 << 29
"""Added to the number of a column that comes from a sub-query: those of the SELECT come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeColumn:
    """A column that a SELECT can name, and the name of the source that it belongs to."""

    alias: str
    name: str
    kind: str


class Scope:
    """The columns a SELECT can name: those of its sources, side by side.

    Parameters
    ----------
    columns
        In the order in which they lie.
    aliases
        Names of the sources, in their order.
    ordered
        Whether its rows have the order of one stream.
    """

    def __init__(
        self, columns: Sequence[ScopeColumn], aliases: Sequence[str], *, ordered: bool
    ) -> None:
        self._columns = columns
        self.columns = [column.name for column in columns]
        self.aliases = tuple(aliases)
        self.ordered = ordered

    def field(self, index: int) -> InputColumn:
        """A column as an expression; its name tells the source where there are several."""
        column = self._columns[index]
        several = len(self.aliases) > 1 and column.alias
        shown = f"{column.alias}.{column.name}" if several else column.name
        return InputColumn(index, column.kind, shown)

    def of_source(self, alias: str | None) -> list[int]:
        """The columns of the source with that alias; None: those of all sources."""
        return [i for i, one in enumerate(self._columns) if alias in (None, one.alias)]


@dataclass(frozen=True, slots=True)
class Surrounding:
    """The rows that a sub-query stands among: those of WHERE, or those of groups.

    Attributes
    ----------
    names
        Whether a column can be named there.
    column
        An expression over them.
    """

    names: Callable[[Column], bool]
    column: Callable[[Expression], Typed]


class SubQueries(Protocol):
    """Finds out what sub-queries in the expressions of one level of a SELECT give."""

    def value(self, sub: SubQuery, meant: bool | None) -> Typed:
        """What a sub-query stands for, over the rows of the level and `ATTACHED` columns.

        Parameters
        ----------
        meant
            True if only whether it is true matters, False if only whether it is false does, which
            the result is true for; None: its value.
        """
        ...


class Resolver:
    """Resolves one SELECT."""

    def __init__(
        self,
        text: str,
        scope: Scope,
        select: Select,
        *,
        attach: Callable[[Surrounding], SubQueries],
        around: Surrounding | None = None,
        named: bool = True,
    ) -> None:
        """
        Parameters
        ----------
        text
            That of all statements.
        scope
            What the SELECT can name.
        select
            The SELECT.
        attach
            Called once for the rows that WHERE is about, and once for those of groups.
        around
            What the SELECT stands in, if it is a sub-query that may name columns of that.
        named
            Whether the columns it gives need names.
        """
        self._text = text
        self._scope = scope
        self._select = select
        self._around = around
        self._named = named
        self._sub_queries = attach(Surrounding(self._names, self._typed))
        self._group_sub_queries = attach(Surrounding(self._names, self._over_groups))
        self._keys: list[Typed] = []
        self._keys_that_compute = False
        self._aggregates: list[AggregatePlan] = []
        self._written = 0

    def resolve(self) -> Resolved:
        """Type the clauses in the order in which they are evaluated.

        Raises
        ------
        QueryError
            A name is unknown or a type does not fit; the message says which.
        """
        where = None
        if self._select.where is not None:
            where = self._tested(self._select.where, self._typed, self._sub_queries)
            where = self._condition("WHERE", where, self._select.where)
        self._keys = list(dict.fromkeys(map(self._typed, self._select.group_by)))
        self._keys_that_compute = any(isinstance(key, Apply) for key in self._keys)
        top = self._select.top
        shown = [*self._select.items, *(top.by if top is not None else ())]
        grouped = (
            bool(self._keys)
            or self._select.having is not None
            or any(_has_aggregate(one.expression) for one in shown)
        )
        outputs = self._outputs(grouped)
        having = None
        if self._select.having is not None:
            having = self._tested(self._select.having, self._over_groups, self._group_sub_queries)
            having = self._condition("HAVING", having, self._select.having)
        best = None if top is None else self._top(top, grouped)
        group = GroupPlan(
            keys=tuple(self._keys), aggregates=tuple(self._aggregates), written=self._written
        )
        if not self._select.distinct:
            return Resolved(
                outputs=outputs,
                where=where,
                group=group if grouped else None,
                having=having,
                top=best,
            )
        if not grouped:
            return self._distinct(outputs, where)
        shown = {output.index for _, output in outputs if isinstance(output, InputColumn)}
        if not shown.issuperset(range(len(group.keys))):
            message = "SELECT DISTINCT of groups needs all GROUP BY columns in its list"
            raise self._error(self._select, message)
        return Resolved(outputs=outputs, where=where, group=group, having=having)

    def _top(self, top: Top, grouped: bool) -> TopPlan:
        """TOP n BY, over the rows that the SELECT list is over."""
        if self._select.distinct:
            message = "TOP of different rows: make SELECT DISTINCT a statement, and read its stream"
            raise QueryError(self._text, top.start, message)
        resolve = self._over_groups if grouped else self._typed
        return TopPlan(
            rows=top.rows,
            by=tuple(
                RankedBy(expression=_known(resolve(one.expression)), ascending=one.ascending)
                for one in top.by
            ),
            partition_by=tuple(resolve(column) for column in top.partition_by),
        )

    def _distinct(self, outputs: tuple[tuple[str, Typed], ...], where: Typed | None) -> Resolved:
        """SELECT DISTINCT: the rows are the keys of groups."""
        listed = [_known(output) for _, output in outputs]
        keys = tuple(dict.fromkeys(listed))
        fields = tuple(
            (name, InputColumn(keys.index(key), output.kind, name))
            for (name, output), key in zip(outputs, listed, strict=True)
        )
        return Resolved(outputs=fields, where=where, group=GroupPlan(keys=keys, aggregates=()))

    def _tested(
        self,
        condition: Expression,
        typed: Callable[[Expression], Typed],
        sub_queries: SubQueries,
    ) -> Typed:
        """A condition of which only matters whether it is true."""
        match condition:
            case Call(function="and"):
                parts = tuple(self._tested(one, typed, sub_queries) for one in condition.arguments)
                if all(one.kind == "bool" for one in parts):
                    return self._applied(condition, parts)
            case Call(function="not", arguments=(SubQuery() as sub,)):
                return sub_queries.value(sub, False)
            case SubQuery():
                return sub_queries.value(condition, True)
            case _:
                pass
        return typed(condition)

    def _condition(self, clause: str, typed: Typed, at: Expression) -> Typed:
        if typed.kind not in ("bool", UNTYPED):
            raise self._error(at, f"{clause} needs a condition, this is of type {typed.kind}")
        return as_kind(typed, "bool")

    def _error(self, at: Expression | Item | Select, message: str) -> QueryError:
        return QueryError(self._text, at.start, message)

    def _outputs(self, grouped: bool) -> tuple[tuple[str, Typed], ...]:
        named: list[tuple[str, Typed]] = []
        if not self._select.items:
            if grouped:
                raise self._error(self._select, "SELECT * cannot be grouped; name the columns")
            scope = self._scope
            named = [
                (name, scope.field(index))
                for index, name in enumerate(scope.columns)
                if name != TIMESTAMP
            ]
        for item in self._select.items:
            resolve = self._over_groups if grouped else self._typed
            named.append((self._name(item), resolve(item.expression)))
        for position, (name, _) in enumerate(named) if self._named else ():
            item = self._select.items[position] if self._select.items else self._select
            if name in [other for other, _ in named[:position]]:
                message = f"two columns are called {name}; rename one with AS"
                raise self._error(item, message)
            if (reason := taken(name)) is not None:
                raise self._error(item, f"{name} {reason}; give it another name with AS")
        return tuple(named)

    def _name(self, item: Item) -> str:
        if item.alias is not None:
            return item.alias
        if isinstance(item.expression, Column):
            return item.expression.name
        written_as = self._text[item.start : item.end]
        if not self._named:
            return written_as
        message = f"the column {written_as} needs a name: {written_as} AS …"
        if _hyphenated.fullmatch(written_as):
            message += f'; if {written_as} is a name, write "{written_as}"'
        raise self._error(item, message)

    def _typed(self, expression: Expression) -> Typed:
        """An expression over the scope's columns."""
        match expression:
            case Literal(value=value):
                return Constant(value, literal_kinds[type(value)])
            case Column():
                around = self._around
                if around is not None and not self._names(expression) and around.names(expression):
                    return relocated(around.column(expression), _around)
                return self._scope.field(self._index(expression))
            case SubQuery():
                return self._sub_queries.value(expression, None)
            case Call():
                if expression.function in aggregate_names:
                    name = expression.function
                    message = (
                        f"{name} is an aggregate: possible in SELECT, HAVING and TOP, "
                        "not in WHERE or an aggregate"
                    )
                    raise self._error(expression, message)
                self._check_function(expression)
                arguments = tuple(self._typed(argument) for argument in expression.arguments)
                return self._applied(expression, arguments)

    def _names(self, column: Column) -> bool:
        """Whether a source has a column of that name."""
        known = self._scope.of_source(column.source)
        return any(self._scope.columns[index] == column.name for index in known)

    def _index(self, column: Column) -> int:
        scope = self._scope
        if column.source is not None and column.source not in scope.aliases:
            suggestion = hint(column.source, filter(None, scope.aliases))
            raise self._error(column, f"there is no {column.source} in FROM{suggestion}")
        known = scope.of_source(column.source)
        found = [index for index in known if scope.columns[index] == column.name]
        if not found:
            where = column.source or " or ".join(filter(None, scope.aliases)) or "FROM"
            if (given := self._given_name(column)) is not None:
                raise self._error(column, given)
            known_names = [written_name(scope.columns[index]) for index in known]
            suggestion = hint(written_name(column.name), known_names)
            if self._text[column.start : column.end].endswith('"'):
                suggestion += f"; a string stands in single quotes: '{column.name}'"
            raise self._error(column, f"{where} has no column {column.name}{suggestion}")
        if len(found) > 1:
            options = " or ".join(scope.field(index).name for index in found)
            raise self._error(column, f"{column.name} is ambiguous: {options}?")
        return found[0]

    def _given_name(self, column: Column) -> str | None:
        """What to write for a column that there is not, if people are likely to mean something."""
        name = column.name
        for item in self._select.items:
            if column.source is not None or item.alias != name:
                continue
            found = f"{name} is a name that SELECT gives, known to readers of this statement only"
            return f"{found}; write {self._text[item.expression.start : item.expression.end]}"
        if name.lower() in clocks:
            return f"there is no {name}; {TIME}"
        return BOUNDS_OF_WINDOWS if name.lower() in window_bounds else None

    def _check_function(self, call: Call) -> None:
        name = call.function
        try:
            known = known_function(name)
        except FunctionError as error:
            raise self._error(call, str(error)) from error
        if known is not None and (name not in written or call.infix):
            return
        message = f"there is no function {name}"
        if name.lower() in window_bounds:
            message = BOUNDS_OF_WINDOWS
        elif name.lower() in clocks:
            message += f"; {TIME}"
        elif name.lower() in quantifiers:
            message += f"; {QUANTIFIED.format(name.upper())}"
        elif (other := known_elsewhere.get(name.lower())) is not None:
            message += f"; write {other}"
        else:
            internal = ("exact_", "joined_")
            names = [
                each
                for each in (*functions, *owned_names(), *aggregate_names)
                if each not in written
            ]
            shown = [each for each in names if not each.startswith(internal)]
            message += hint(name, shown, most=len(shown))
        raise self._error(call, message)

    def _applied(self, call: Call, arguments: tuple[Typed, ...]) -> Typed:
        known = function_of(call.function)
        shown = written.get(call.function, call.function)
        if call.star:
            raise self._error(call, f"{shown} takes {known.takes}, not *")
        if call.distinct:
            raise self._error(call, f"{shown} is no aggregate: DISTINCT stands in those only")
        most_arguments = known.most_arguments or known.arguments
        if not known.arguments <= len(arguments) <= most_arguments:
            message = f"{shown} takes {known.takes}, not {len(arguments)} arguments"
            raise self._error(call, message)
        made = applied(call.function, arguments)
        if made is None:
            kinds = [argument.kind for argument in arguments]
            message = f"{shown} takes {known.takes}, not {' and '.join(dict.fromkeys(kinds))}"
            raise self._error(call, message)
        if known.problem is not None:
            values = [one.value if isinstance(one, Constant) else None for one in arguments]
            if (problem := known.problem(values)) is not None:
                raise self._error(call, f"{shown} {problem}")
        return made

    def _over_groups(self, expression: Expression) -> Typed:
        """An expression over the group's keys, then its aggregates."""
        match expression:
            case Literal():
                return self._typed(expression)
            case SubQuery():
                return self._group_sub_queries.value(expression, None)
            case Column():
                field = self._typed(expression)
                if field not in self._keys:
                    message = f"{expression.name} is neither in GROUP BY nor in an aggregate"
                    if expression.name == TIMESTAMP:
                        message += (
                            f"; the {TIMESTAMP} of a result is known to statements that read it"
                        )
                    raise self._error(expression, message)
                return InputColumn(self._keys.index(field), field.kind, expression.name)
            case Call() if expression.function in aggregate_names:
                return self._aggregate(expression)
            case Call():
                self._check_function(expression)
                parts = _has_aggregate(expression) or _has_sub_query(expression)
                if self._keys_that_compute and not parts:
                    key = self._typed(expression)
                    if key in self._keys:
                        written_as = self._text[expression.start : expression.end]
                        return InputColumn(self._keys.index(key), key.kind, written_as)
                arguments = tuple(self._over_groups(argument) for argument in expression.arguments)
                return self._applied(expression, arguments)

    def _aggregate(self, call: Call) -> InputColumn:
        """The position of an aggregate; equal ones share theirs."""
        argument: Typed | None = None
        if call.star:
            if call.function != "count":
                raise self._error(call, f"{call.function} takes one value, not *")
        elif len(call.arguments) != 1:
            raise self._error(call, f"{call.function} takes one value, not {len(call.arguments)}")
        else:
            argument = self._typed(call.arguments[0])
            argument = _known(argument)
        kind = self._aggregate_kind(call, argument)
        distinct = call.distinct and call.function not in UNREPEATED
        plan = AggregatePlan(
            function=call.function, argument=argument, kind=kind, distinct=distinct
        )
        self._written += 1
        if plan not in self._aggregates:
            self._aggregates.append(plan)
        index = len(self._keys) + self._aggregates.index(plan)
        return InputColumn(index, kind, self._text[call.start : call.end])

    def _aggregate_kind(self, call: Call, argument: Typed | None) -> str:
        if argument is None or call.function == "count":
            return "int"
        if call.function in ("first", "last") and not self._scope.ordered:
            message = (
                f"{call.function} needs the order of one stream: rows of a join have none, nor has "
                "a relation; make a stream of it, and aggregate that"
            )
            raise self._error(call, message)
        numeric = ("sum", "avg", "stddev", "exact_squares")
        if call.function in numeric and argument.kind not in ("int", "float"):
            raise self._error(call, f"{call.function} takes a number, not {argument.kind}")
        if call.function in EXACT_SUMS:
            if argument.kind == "bool":
                raise self._error(call, f"{call.function} takes numbers or exact sums, not bool")
            return "string"
        if call.function in ("min", "max") and argument.kind == "bool":
            raise self._error(call, f"{call.function} takes numbers or strings, not bool")
        return "float" if call.function in ("avg", "stddev") else argument.kind


def _known(expression: Typed) -> Typed:
    """An expression of a type, whichever it is of a NULL."""
    return as_kind(expression, "int") if expression.kind == UNTYPED else expression


def _known_kinds(arguments: Sequence[Typed], function: Function) -> Iterator[list[str]]:
    """Types of arguments that a function takes, with one for each NULL, which has none.

    A NULL has the type of the other arguments if that will do.
    """
    kinds = [argument.kind for argument in arguments]
    places = [place for place, kind in enumerate(kinds) if kind == UNTYPED]
    if not places:
        return
    likely = dict.fromkeys((*(kind for kind in kinds if kind != UNTYPED), *CAST_TYPES, "bool"))
    alike = ((kind,) * len(places) for kind in likely)
    others = product(likely, repeat=len(places)) if len(places) <= MOST_NULLS else ()
    for chosen in chain(alike, others):
        for place, kind in zip(places, chosen, strict=True):
            kinds[place] = kind
        if function.result(kinds) is not None:
            yield kinds


def applied(function: str, arguments: tuple[Typed, ...]) -> Apply | None:
    """A function of arguments, in which each NULL has a type; None if it takes no such ones."""
    known = function_of(function)
    kinds = next(_known_kinds(arguments, known), [argument.kind for argument in arguments])
    result = known.result(kinds)
    if result is None:
        return None
    typed = (
        as_kind(argument, kind) if argument.kind == UNTYPED else argument
        for argument, kind in zip(arguments, kinds, strict=True)
    )
    return Apply(function, tuple(typed), result)


def _around(column: InputColumn) -> InputColumn:
    return replace(column, index=column.index + OUTER)


def _has_aggregate(expression: Expression) -> bool:
    match expression:
        case Call():
            return expression.function in aggregate_names or any(
                map(_has_aggregate, expression.arguments)
            )
        case SubQuery(value=value):
            return value is not None and _has_aggregate(value)
        case _:
            return False


def _has_sub_query(expression: Expression) -> bool:
    return isinstance(expression, SubQuery) or (
        isinstance(expression, Call) and any(map(_has_sub_query, expression.arguments))
    )
