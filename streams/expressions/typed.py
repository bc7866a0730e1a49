"""Typed expressions and their evaluators, which work column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from foundation.arrays import BoolArray
from streams.expressions.owned import function_of
from streams.vectors.vector import Columns, Frame, Rows, Vector, fillers, normalised, storage, truth


@dataclass(frozen=True, slots=True)
class InputColumn:
    """A column of the rows the expression is evaluated on, by position."""

    index: int
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; None is NULL."""

    value: int | float | str | bool | None
    kind: str


MOST_DEPTH = 150
"""Of an expression: making an evaluator of it, and evaluating, takes several calls a level."""


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of `streams.expressions.functions` applied to expressions of types that it takes.

    Raises
    ------
    RecursionError
        They are nested more deeply than could be evaluated.
    """

    function: str
    arguments: tuple[Typed, ...]
    kind: str
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        depths = [each.depth for each in self.arguments if isinstance(each, Apply)]
        object.__setattr__(self, "depth", 1 + max(depths, default=0))
        if self.depth > MOST_DEPTH:
            raise RecursionError(f"an expression of {self.depth} levels")


UNTYPED = "null"
"""Type of the literal NULL until it is known what it stands for."""


Typed = InputColumn | Constant | Apply
Evaluator = Callable[[Columns], Vector]


def evaluator(expression: Typed) -> Evaluator:
    """A function that computes an expression; its result broadcasts to the columns' length."""
    raw = _raw(expression)
    if not _makes_floats(expression):
        return raw
    return lambda columns: normalised(raw(columns))


def _raw(expression: Typed) -> Evaluator:
    """As `evaluator`, but float results may not be normalised yet."""
    match expression:
        case InputColumn(index=index):
            return lambda columns: columns[index]
        case Constant(value=value, kind=kind):
            constant = _constant(value, kind)
            return lambda columns: constant
        case Apply():
            function = function_of(expression.function)
            inner = _raw if function.passes else evaluator
            arguments = [inner(argument) for argument in expression.arguments]
            return _applied(function.compute, arguments)


def _constant(value: float | str | bool | None, kind: str) -> Vector:
    if value is None:
        filler = np.array(fillers[kind], dtype=storage[kind])
        return Vector(filler, np.zeros((), dtype=np.bool_))
    return Vector(np.array(value, dtype=storage[kind]), None)


def _applied(compute: Callable[[list[Vector]], Vector], arguments: list[Evaluator]) -> Evaluator:
    if len(arguments) == 2:
        left, right = arguments
        return lambda columns: compute([left(columns), right(columns)])
    return lambda columns: compute([argument(columns) for argument in arguments])


def _makes_floats(expression: Typed) -> bool:
    """Whether results are floats beside those that it is given, which are normalised."""
    return (
        isinstance(expression, Apply)
        and expression.kind == "float"
        and not function_of(expression.function).chooses
    )


def project(evaluators: tuple[Evaluator, ...], rows: Rows) -> Frame:
    """Evaluate expressions on rows: one column for each, with one value a row."""
    length = rows.length
    return Frame(tuple(evaluate(rows).filled_to(length) for evaluate in evaluators), length)


def holds(condition: Evaluator, columns: Columns, shape: tuple[int, ...]) -> BoolArray:
    """True where a condition is true, broadcast to a shape."""
    found = truth(condition(columns))
    return found if found.shape == shape else np.broadcast_to(found, shape)


def fields(expression: Typed) -> Iterator[InputColumn]:
    """The columns an expression names, with repetitions."""
    match expression:
        case InputColumn():
            yield expression
        case Apply(arguments=arguments):
            for argument in arguments:
                yield from fields(argument)
        case Constant():
            return


def relocated(expression: Typed, move: Callable[[InputColumn], InputColumn]) -> Typed:
    """The same expression on rows whose columns lie elsewhere."""
    match expression:
        case InputColumn():
            return move(expression)
        case Apply():
            arguments = tuple(relocated(argument, move) for argument in expression.arguments)
            return Apply(expression.function, arguments, expression.kind)
        case Constant():
            return expression


def united_kind(kinds: Iterable[str]) -> str | None:
    """The type of a column that holds values of several types; None if there is none.

    >>> united_kind(["int", "null", "float"]), united_kind(["null"]), united_kind(["int", "bool"])
    ('float', 'null', None)
    """
    known = {*kinds} - {UNTYPED}
    if known == {"int", "float"}:
        return "float"
    return next(iter(known), UNTYPED) if len(known) < 2 else None


def as_kind(expression: Typed, kind: str) -> Typed:
    """An expression as one of a type that `united_kind` gave for its own and others."""
    if expression.kind == kind:
        return expression
    if expression.kind == UNTYPED:
        return Constant(None, kind)
    return Apply("cast_float", (expression,), kind)


def conjuncts(expression: Typed) -> list[Typed]:
    """The conditions that must all hold."""
    if isinstance(expression, Apply) and expression.function == "and":
        return [part for argument in expression.arguments for part in conjuncts(argument)]
    return [expression]


STRING_COST = 20.0
"""Cost of reading an element of a string column; adding two floats costs 1."""


def cost(expression: Typed) -> float:
    """Relative cost of evaluating an expression on one element."""
    match expression:
        case Apply():
            own = function_of(expression.function).cost
            return own + sum(cost(argument) for argument in expression.arguments)
        case InputColumn(kind="string"):
            return STRING_COST
        case InputColumn():
            return 1.0
        case Constant():
            return 0.0
