"""What the compiled loop core can evaluate, and why it cannot evaluate a loop.

The compiled core (`streams.kernels.loops`) knows windows whose rows leave by age or number, selects
with joins and groups of them, ISTREAM, DSTREAM and RSTREAM; and expressions of numbers and
conditions. Texts are codes to it: it can tell whether they are equal. Any other loop is evaluated
stepwise. Both give the same tuples in the same order, and the same snapshots. Which one a loop has
follows from its text.
"""

from __future__ import annotations

from collections.abc import Iterator

from streams.expressions.functions import functions, written
from streams.expressions.typed import Apply, Constant, InputColumn, Typed
from streams.plan.program import (
    ENDS,
    EXACT_SUMS,
    EXTREMES,
    AggregatePlan,
    ChildPlan,
    MatchPlan,
    Program,
    SelectPlan,
    SetPlan,
    WindowPlan,
)

MOST_SOURCES = 16
MOST_COLUMNS = 62
"""Of a row: which of them are NULL is a word."""

MOST_KEYS = 62
MOST_REGISTERS = 250

_numbers = {"int", "float"}
_of_numbers = {
    *("add", "subtract", "multiply", "divide", "modulo", "negate", "abs"),
    *("floor", "ceil", "round", "sqrt", "least", "greatest"),
    *("less", "less_equal", "greater", "greater_equal"),
}
_of_all = {"equal", "not_equal", "and", "or", "not", "is_null", "case", "coalesce", "nullif"}
_kinds = {"int", "float", "bool", "string"}


def why_stepwise(program: Program) -> str | None:
    """Why a loop is evaluated stepwise, as a phrase; None if the compiled core evaluates it."""
    assert program.loop is not None
    for member in program.loop.members:
        reason = next(_reasons(member.program), None)
        if reason is not None:
            return f"{member.program.name} has {reason}"
    return None


def _reasons(program: Program) -> Iterator[str]:
    for window in program.windows:
        yield from _window_reasons(window)
    for relation in program.relations:
        match relation:
            case SetPlan(operator=operator):
                yield operator.name
            case MatchPlan():
                yield "IN, EXISTS, an outer join or a comparison with a sub-query"
            case _:
                pass
    for stream in program.inputs:
        if len(program.reads[stream]) > MOST_COLUMNS:
            yield f"more than {MOST_COLUMNS} columns of {stream}"
    for select in program.all_selects:
        yield from _select_reasons(program, select)


def _window_reasons(window: WindowPlan) -> Iterator[str]:
    if window.session_ms is not None:
        yield "sessions"
    if window.slide_ms is not None or window.slide_rows is not None:
        yield "a window that slides"
    if window.rows is not None and window.range_ms is not None and not window.partition_by:
        yield "a window of rows and time without PARTITION BY"
    if len(window.partition_by) > MOST_KEYS:
        yield f"more than {MOST_KEYS} columns in PARTITION BY"


def _select_reasons(program: Program, select: SelectPlan) -> Iterator[str]:
    if select.top is not None:
        yield "TOP"
    if len(select.sources) > MOST_SOURCES:
        yield f"a join of more than {MOST_SOURCES} relations"
    outputs = len(select.outputs)
    if select.group is not None:
        if len(select.group.keys) > MOST_KEYS:
            yield f"more than {MOST_KEYS} columns in GROUP BY"
        outputs = max(outputs, len(select.group.keys) + len(select.group.aggregates))
        for aggregate in select.group.aggregates:
            yield from _aggregate_reasons(program, select.child, aggregate)
    if outputs > MOST_COLUMNS:
        yield f"more than {MOST_COLUMNS} columns"
    for expression in _expressions(select):
        yield from _expression_reasons(expression)


def _aggregate_reasons(
    program: Program, child: ChildPlan, aggregate: AggregatePlan
) -> Iterator[str]:
    if aggregate.distinct:
        yield "an aggregate of different values"
    elif aggregate.function in ("stddev", *EXACT_SUMS):
        yield aggregate.function
    elif aggregate.function in (*ENDS, *EXTREMES):
        if aggregate.kind == "string":
            yield f"{aggregate.function} of texts"
        elif not program.in_order(child):
            yield f"{aggregate.function} of rows that do not leave in the order in which they come"


def _expressions(select: SelectPlan) -> Iterator[Typed]:
    for source in select.sources:
        if source.condition is not None:
            yield source.condition
    yield from select.conjuncts
    yield from select.outputs
    if select.having is not None:
        yield select.having
    if select.group is not None:
        yield from select.group.keys
        for aggregate in select.group.aggregates:
            if aggregate.argument is not None:
                yield aggregate.argument


def _expression_reasons(expression: Typed) -> Iterator[str]:
    match expression:
        case InputColumn() | Constant():
            if expression.kind not in _kinds:
                yield "a NULL without a type"
        case Apply(function=function, arguments=arguments):
            kinds = {each.kind for each in arguments}
            if not _can(function, kinds):
                texts = " of texts" if "string" in kinds else ""
                yield f"{written.get(function, function)}{texts}"
            if expression.depth > MOST_REGISTERS // 3:
                yield "an expression of too many levels"
            for each in arguments:
                yield from _expression_reasons(each)


def _can(function: str, kinds: set[str]) -> bool:
    if function not in functions:
        return False
    match function:
        case "cast_string":
            return kinds == {"string"}
        case "cast_int" | "cast_float":
            return "string" not in kinds
        case _:
            return function in _of_all or (function in _of_numbers and kinds <= _numbers)
