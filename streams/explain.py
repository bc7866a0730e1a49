"""Describes the operators of a program for people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streams.expressions import render
from streams.program import AggregatePlan, OperatorInfo, Program, SelectPlan, WindowPlan

_Add = Callable[[str, str], None]


def explain(program: Program) -> Program:
    """The program with `operators` filled in, inputs first."""
    found: list[OperatorInfo] = []

    def add(kind: str, detail: str) -> None:
        number = sum(one.kind == kind for one in found) + 1
        found.append(OperatorInfo(name=f"{kind}-{number}", kind=kind, detail=detail))

    for window in program.windows:
        add("window", describe_window(window, program.reads[window.stream]))
    for select in program.selects:
        _explain_select(program, select, add)
    if len(program.selects) > 1:
        add("union", f"{len(program.selects)} selects")
    add(program.to_stream.value, program.name)
    return replace(program, operators=tuple(found))


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
