"""Resolve the names of one SELECT to columns of its sources, and type its expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from foundation.suggestions import hint
from streams.expressions.functions import functions, written
from streams.expressions.typed import Apply, Constant, InputColumn, Typed, fields
from streams.language import QueryError
from streams.language.ast import Call, Column, Expression, Item, Literal, Select, Top, Window
from streams.language.names import written_name
from streams.plan.other_systems import (
    BOUNDS_OF_WINDOWS,
    TIME,
    clocks,
    known_elsewhere,
    window_bounds,
)
from streams.plan.program import EXACT_SUMS, AggregatePlan, GroupPlan, RankedBy, TopPlan
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

literal_kinds = {bool: "bool", int: "int", float: "float", str: "string"}
"""Python's type of a literal → its type."""


class Scope:
    """The columns a SELECT can name: those of its sources, side by side."""

    def __init__(
        self,
        *,
        aliases: tuple[str, ...],
        streams: tuple[str, ...],
        windows: tuple[Window, ...],
        catalogue: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.aliases = aliases
        self.streams = streams
        self.windows = windows
        columns = [
            (source, name, kind)
            for source, stream in enumerate(streams)
            for name, kind in (*catalogue[stream].items(), (TIMESTAMP, "int"))
        ]
        self._sources = [source for source, _, _ in columns]
        self.columns = [name for _, name, _ in columns]
        self._kinds = [kind for _, _, kind in columns]

    def source_of(self, index: int) -> int:
        """Position in FROM of the source that a column belongs to."""
        return self._sources[index]

    def field(self, index: int) -> InputColumn:
        """A column as an expression; its name tells the source where there are several."""
        name = self.columns[index]
        shown = name if len(self.aliases) == 1 else f"{self.aliases[self.source_of(index)]}.{name}"
        return InputColumn(index, self._kinds[index], shown)

    def of_source(self, alias: str | None) -> list[int]:
        """The columns of the source with that alias; None: those of all sources."""
        every = range(len(self.columns))
        return [index for index in every if alias in (None, self.aliases[self.source_of(index)])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A SELECT with every name resolved; fields are positions in its scope."""

    outputs: tuple[tuple[str, Typed], ...]
    where: Typed | None
    group: GroupPlan | None
    having: Typed | None = None
    top: TopPlan | None = None

    def used(self) -> Iterator[InputColumn]:
        """The columns of the scope that the SELECT needs."""
        if self.where is not None:
            yield from fields(self.where)
        if self.group is None:
            for _, output in self.outputs:
                yield from fields(output)
            for one in self.top.expressions() if self.top is not None else ():
                yield from fields(one)
            return
        for key in self.group.keys:
            yield from fields(key)
        for aggregate in self.group.aggregates:
            if aggregate.argument is not None:
                yield from fields(aggregate.argument)


class Resolver:
    """Resolves one SELECT."""

    def __init__(self, text: str, scope: Scope, select: Select) -> None:
        self._text = text
        self._scope = scope
        self._select = select
        self._keys: list[Typed] = []
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
            where = self._typed(self._select.where)
            self._check_condition("WHERE", where, self._select.where)
        self._keys = list(dict.fromkeys(map(self._typed, self._select.group_by)))
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
            having = self._over_groups(self._select.having)
            self._check_condition("HAVING", having, self._select.having)
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
                RankedBy(expression=resolve(one.expression), ascending=one.ascending)
                for one in top.by
            ),
            partition_by=tuple(resolve(column) for column in top.partition_by),
        )

    def _distinct(self, outputs: tuple[tuple[str, Typed], ...], where: Typed | None) -> Resolved:
        """SELECT DISTINCT: the rows are the keys of groups."""
        keys = tuple(dict.fromkeys(output for _, output in outputs))
        fields = tuple(
            (name, InputColumn(keys.index(output), output.kind, name)) for name, output in outputs
        )
        return Resolved(outputs=fields, where=where, group=GroupPlan(keys=keys, aggregates=()))

    def _check_condition(self, clause: str, typed: Typed, at: Expression) -> None:
        if typed.kind != "bool":
            raise self._error(at, f"{clause} needs a condition, this is of type {typed.kind}")

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
        for position, (name, _) in enumerate(named):
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
                return self._scope.field(self._index(expression))
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

    def _index(self, column: Column) -> int:
        scope = self._scope
        if column.source is not None and column.source not in scope.aliases:
            suggestion = hint(column.source, scope.aliases)
            raise self._error(column, f"there is no {column.source} in FROM{suggestion}")
        known = scope.of_source(column.source)
        found = [index for index in known if scope.columns[index] == column.name]
        if not found:
            where = column.source or " or ".join(scope.aliases)
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
            if any(column is key for key in self._select.group_by):
                return f"{found}; GROUP BY takes columns: group the stream of this one"
            return f"{found}; write {self._text[item.expression.start : item.expression.end]}"
        if name.lower() in clocks:
            return f"there is no {name}; {TIME}"
        return BOUNDS_OF_WINDOWS if name.lower() in window_bounds else None

    def _check_function(self, call: Call) -> None:
        name = call.function
        if name in functions and (name not in written or call.infix):
            return
        message = f"there is no function {name}"
        if name.lower() in window_bounds:
            message = BOUNDS_OF_WINDOWS
        elif name.lower() in clocks:
            message += f"; {TIME}"
        elif (other := known_elsewhere.get(name.lower())) is not None:
            message += f"; write {other}"
        else:
            internal = ("exact_", "joined_")
            names = [each for each in (*functions, *aggregate_names) if each not in written]
            known = [each for each in names if not each.startswith(internal)]
            message += hint(name, known, most=len(known))
        raise self._error(call, message)

    def _applied(self, call: Call, arguments: tuple[Typed, ...]) -> Typed:
        known = functions[call.function]
        shown = written.get(call.function, call.function)
        if call.star:
            raise self._error(call, f"{shown} takes {known.takes}, not *")
        if call.distinct:
            raise self._error(call, f"{shown} is no aggregate: DISTINCT stands in those only")
        most_arguments = known.most_arguments or known.arguments
        if not known.arguments <= len(arguments) <= most_arguments:
            message = f"{shown} takes {known.takes}, not {len(arguments)} arguments"
            raise self._error(call, message)
        kinds = [argument.kind for argument in arguments]
        result = known.result(kinds)
        if result is None:
            message = f"{shown} takes {known.takes}, not {' and '.join(dict.fromkeys(kinds))}"
            raise self._error(call, message)
        if known.problem is not None:
            values = [one.value if isinstance(one, Constant) else None for one in arguments]
            if (problem := known.problem(values)) is not None:
                raise self._error(call, f"{shown} {problem}")
        return Apply(call.function, arguments, result)

    def _over_groups(self, expression: Expression) -> Typed:
        """An expression over the group's keys, then its aggregates."""
        match expression:
            case Literal():
                return self._typed(expression)
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
        if call.function in ("first", "last") and len(self._scope.aliases) > 1:
            message = (
                f"{call.function} needs the order of one stream: rows of a join have none; "
                "register the join, and aggregate its stream"
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


def _has_aggregate(expression: Expression) -> bool:
    return isinstance(expression, Call) and (
        expression.function in aggregate_names or any(map(_has_aggregate, expression.arguments))
    )
