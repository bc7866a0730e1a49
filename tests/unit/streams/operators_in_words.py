"""Describes the operators of a compiled statement, to see what the compiler made of it."""

from __future__ import annotations

from collections.abc import Callable

from streams.expressions.functions import written
from streams.expressions.typed import Apply, Constant, InputColumn, Typed
from streams.plan.program import AggregatePlan, Program, SelectPlan, WindowPlan

_Add = Callable[[str, str], None]


def operators(program: Program) -> list[tuple[str, str]]:
    """Kind and description of each operator, inputs first."""
    found: list[tuple[str, str]] = []

    def add(kind: str, detail: str) -> None:
        found.append((kind, detail))

    for window in program.windows:
        add("window", describe_window(window, program.reads[window.stream]))
    for select in program.selects:
        _explain_select(program, select, add)
    if len(program.selects) > 1:
        add("union", f"{len(program.selects)} selects")
    add(program.to_stream.value, program.name)
    return found


def _explain_select(program: Program, select: SelectPlan, add: _Add) -> None:
    for source in select.sources:
        if source.condition is not None:
            add("filter", render(source.condition))
    if len(select.sources) > 1:
        streams = [program.windows[source.window].stream for source in select.sources]
        conditions = " AND ".join(render(condition) for condition in select.conjuncts)
        add("join", " × ".join(streams) + (f" WHERE {conditions}" if conditions else ""))
    if select.group is not None:
        aggregates = ", ".join(_describe_aggregate(one) for one in select.group.aggregates)
        keys = ", ".join(render(key) for key in select.group.keys)
        add("aggregate", " ".join(filter(None, [aggregates, f"GROUP BY {keys}" if keys else ""])))
    named = zip(select.outputs, program.columns, strict=True)
    add("project", ", ".join(f"{render(output)} AS {name}" for output, name in named))


def describe_window(window: WindowPlan, columns: tuple[str, ...]) -> str:
    """A window as it is written in a query."""
    parts: list[str] = []
    if window.partition_by:
        parts.append("PARTITION BY " + ", ".join(columns[index] for index in window.partition_by))
    if window.rows is not None:
        parts.append(f"ROWS {window.rows}")
    if window.range_ms == 1 and window.rows is None:
        parts.append("NOW")
    elif window.range_ms is not None:
        parts.append(f"RANGE {window.range_ms} MILLISECONDS")
    return f"{window.stream} [{' '.join(parts) or 'UNBOUNDED'}]"


def _describe_aggregate(aggregate: AggregatePlan) -> str:
    argument = "*" if aggregate.argument is None else render(aggregate.argument)
    return f"{aggregate.function}({argument})"


def render(expression: Typed) -> str:
    """The expression as text."""
    match expression:
        case InputColumn(name=name):
            return name
        case Constant(value=bool(value)):
            return str(value).upper()
        case Constant(value=str(value)):
            return "'" + value.replace("'", "''") + "'"
        case Constant(value=value):
            return str(value)
        case Apply():
            arguments = [render(argument) for argument in expression.arguments]
            name = written.get(expression.function)
            if name is None:
                return f"{expression.function}({', '.join(arguments)})"
            if len(arguments) == 2:
                return f"({arguments[0]} {name} {arguments[1]})"
            return f"({arguments[0]} {name})" if name == "IS NULL" else f"({name} {arguments[0]})"
