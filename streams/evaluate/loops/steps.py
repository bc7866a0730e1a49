"""Expressions as steps of the loop machine (`streams.kernels.loops.expressions`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streams.expressions.typed import Apply, Constant, InputColumn, Typed
from streams.kernels.loops import layout

Locate = Callable[[int], tuple[int, int]]
"""A column of all sources side by side → its source, and its place there."""

_arithmetic = {
    "add": (layout.ADD_INT, layout.ADD_FLOAT),
    "subtract": (layout.SUBTRACT_INT, layout.SUBTRACT_FLOAT),
    "multiply": (layout.MULTIPLY_INT, layout.MULTIPLY_FLOAT),
    "divide": (layout.DIVIDE_INT, layout.DIVIDE_FLOAT),
    "modulo": (layout.MODULO_INT, layout.MODULO_FLOAT),
    "least": (layout.LEAST_INT, layout.LEAST_FLOAT),
    "greatest": (layout.GREATEST_INT, layout.GREATEST_FLOAT),
}

_comparisons = {
    "equal": (layout.EQUAL_INT, layout.EQUAL_FLOAT),
    "not_equal": (layout.EQUAL_INT, layout.EQUAL_FLOAT),
    "less": (layout.LESS_INT, layout.LESS_FLOAT),
    "greater": (layout.LESS_INT, layout.LESS_FLOAT),
    "less_equal": (layout.LESS_EQUAL_INT, layout.LESS_EQUAL_FLOAT),
    "greater_equal": (layout.LESS_EQUAL_INT, layout.LESS_EQUAL_FLOAT),
}

_of_one = {
    "negate": (layout.NEGATE_INT, layout.NEGATE_FLOAT),
    "abs": (layout.ABS_INT, layout.ABS_FLOAT),
}

_rounding = {
    "floor": layout.FLOOR,
    "ceil": layout.CEIL,
    "round": layout.ROUND,
    "cast_int": layout.TRUNCATE,
}
"""Of floats; integers stay as they are."""


class ExpressionSteps:
    """Makes the steps of one expression. Its result is in the first register.

    Parameters
    ----------
    locate
        Where columns are.
    code_of
        The code of a text.
    """

    def __init__(self, locate: Locate, code_of: Callable[[str], int]) -> None:
        self._locate, self._code_of = locate, code_of
        self.words: list[int] = []

    def of(self, expression: Typed, to: int = 0) -> None:
        """Append the steps that put an expression into a register; they use those after it."""
        match expression:
            case InputColumn(index=index):
                self._add(layout.LOAD, to, *self._locate(index))
            case Constant():
                self._constant(expression, to)
            case Apply():
                self._apply(expression, to)

    def _add(self, what: int, to: int, one: int = 0, other: int = 0) -> None:
        self.words += (what, to, one, other)

    def _constant(self, constant: Constant, to: int) -> None:
        value = constant.value
        if value is None:
            word = 0
        elif constant.kind == "float":
            word = int((np.float64(value) + 0.0).view(np.int64))
        elif isinstance(value, str):
            word = self._code_of(value)
        else:
            word = int(value)
        self._add(layout.CONSTANT, to, int(value is not None), word)

    def _as(self, kind: str, wanted: str, to: int) -> None:
        """Have the value of a register be of another type."""
        if wanted == "float" and kind != "float":
            self._add(layout.TO_FLOAT, to, to)

    def _two(self, one: Typed, other: Typed, to: int) -> bool:
        """Put two values of one type into a register and the next; whether they are floats."""
        self.of(one, to)
        self.of(other, to + 1)
        floats = "float" in (one.kind, other.kind)
        if floats:
            self._as(one.kind, "float", to)
            self._as(other.kind, "float", to + 1)
        return floats

    def _apply(self, applied: Apply, to: int) -> None:
        function, arguments = applied.function, applied.arguments
        if function in _arithmetic:
            self._fold(_arithmetic[function], arguments, to)
        elif function in _comparisons:
            self._compare(applied, to)
        elif function in _of_one:
            (argument,) = arguments
            self.of(argument, to)
            self._add(_of_one[function][argument.kind == "float"], to, to)
        elif function in _rounding:
            (argument,) = arguments
            self.of(argument, to)
            if argument.kind == "float":
                self._add(_rounding[function], to, to)
        else:
            self._other(applied, to)

    def _fold(self, steps: tuple[int, int], arguments: tuple[Typed, ...], to: int) -> None:
        """An operation on two or more numbers, from the left: integers as long as there are."""
        first, *rest = arguments
        self.of(first, to)
        kind = first.kind
        for other in rest:
            self.of(other, to + 1)
            if "float" in (kind, other.kind):
                self._as(kind, "float", to)
                self._as(other.kind, "float", to + 1)
                kind = "float"
            self._add(steps[kind == "float"], to, to, to + 1)

    def _compare(self, applied: Apply, to: int) -> None:
        one, other = applied.arguments
        floats = self._two(one, other, to)
        places = (to + 1, to) if applied.function.startswith("greater") else (to, to + 1)
        self._add(_comparisons[applied.function][floats], to, *places)
        if applied.function == "not_equal":
            self._add(layout.NOT, to, to)

    def _other(self, applied: Apply, to: int) -> None:
        arguments = applied.arguments
        match applied.function:
            case "and" | "or" as function:
                one, other = arguments
                self.of(one, to)
                self.of(other, to + 1)
                self._add(layout.AND if function == "and" else layout.OR, to, to, to + 1)
            case "not" | "is_null" as function:
                self.of(arguments[0], to)
                self._add(layout.NOT if function == "not" else layout.IS_NULL, to, to)
            case "case":
                self._case(applied, to)
            case "coalesce":
                self._of_kind(arguments[-1], applied.kind, to)
                for argument in reversed(arguments[:-1]):
                    self._of_kind(argument, applied.kind, to + 1)
                    self._add(layout.COALESCE, to, to + 1, to)
            case "nullif":
                one, other = arguments
                self.of(one, to)
                floats = self._two(one, other, to + 1)
                equal = layout.EQUAL_FLOAT if floats else layout.EQUAL_INT
                self._add(equal, to + 1, to + 1, to + 2)
                self._add(layout.NULL_IF, to, to + 1)
            case "sqrt":
                self._of_kind(arguments[0], "float", to)
                self._add(layout.SQRT, to, to)
            case "cast_float":
                self._of_kind(arguments[0], "float", to)
            case "cast_string":
                self.of(arguments[0], to)
            case function:
                raise AssertionError(f"{function} is nothing for the compiled core")

    def _of_kind(self, expression: Typed, kind: str, to: int) -> None:
        self.of(expression, to)
        self._as(expression.kind, kind, to)

    def _case(self, applied: Apply, to: int) -> None:
        arguments = applied.arguments
        paired = len(arguments) // 2 * 2
        if paired < len(arguments):
            self._of_kind(arguments[paired], applied.kind, to)
        else:
            self._add(layout.CONSTANT, to)
        for place in range(paired - 2, -1, -2):
            self.of(arguments[place], to + 1)
            self._of_kind(arguments[place + 1], applied.kind, to + 2)
            self._add(layout.CHOOSE, to, to + 1, to + 2)
