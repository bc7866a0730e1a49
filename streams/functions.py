"""The functions and operators of expressions: argument types, result type and computation.

A NULL argument gives a NULL result, with these exceptions: AND and OR use Kleene's three values,
IS NULL tells, and `least` and `greatest` ignore NULLs. An operation without a result (division by
zero, the square root of a negative number, a float too large) gives NULL. Integers have 64 bits
and wrap around.

Every function gives the same bits on every machine: it uses operations that IEEE 754 specifies
exactly, or those of `streams.elementary`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streams import elementary
from streams.vector import Array, Vector, known_of
from topology.arrays import BoolArray

Kernel = Callable[[Sequence[Vector]], Vector]
TypeRule = Callable[[Sequence[str]], str | None]
"""Types of the arguments → type of the result; None: the function does not accept them."""

PAST_INTEGERS = 2.0**63
"""The least float greater than every 64-bit integer; its negative is one."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function.

    Attributes
    ----------
    takes
        Its arguments, in words, for messages.
    arguments
        Their number, or the least number if `most_arguments` is given.
    result
        Type rule.
    kernel
        The computation.
    cost
        Relative cost of one element; an addition is 1.
    overflows
        Float results may be infinite or not a number. They become NULL where they are used.
    passes
        The function accepts such float results as arguments and passes them on, so that a sum of
        products is checked once and not at every step.
    most_arguments
        The greatest number of arguments; None: `arguments`.
    """

    takes: str
    arguments: int
    result: TypeRule
    kernel: Kernel
    cost: float = 1.0
    overflows: bool = False
    passes: bool = False
    most_arguments: int | None = None


def _numbers(kinds: Sequence[str]) -> str | None:
    if any(kind not in ("int", "float") for kind in kinds):
        return None
    return "float" if "float" in kinds else "int"


def _to(result: str) -> TypeRule:
    """Numbers in, one type out."""
    return lambda kinds: result if _numbers(kinds) else None


def _alike(kinds: Sequence[str]) -> str | None:
    """All numbers, or all of one type."""
    return _numbers(kinds) or (kinds[0] if len(set(kinds)) == 1 else None)


def _alike_ordered(kinds: Sequence[str]) -> str | None:
    return None if "bool" in kinds else _alike(kinds)


def _ordered(kinds: Sequence[str]) -> str | None:
    return "bool" if _alike_ordered(kinds) else None


def _comparable(kinds: Sequence[str]) -> str | None:
    return "bool" if _alike(kinds) else None


def _conditions(kinds: Sequence[str]) -> str | None:
    return "bool" if set(kinds) == {"bool"} else None


def _valid_in_all(arguments: Sequence[Vector]) -> BoolArray | None:
    valid: BoolArray | None = None
    for _, known in arguments:
        if known is not None:
            valid = known if valid is None else valid & known
    return valid


def _strict(compute: Callable[..., Any]) -> Kernel:
    """NULL where any argument is."""

    def kernel(arguments: Sequence[Vector]) -> Vector:
        if len(arguments) == 2:
            (one, one_known), (other, other_known) = arguments
            if one_known is None and other_known is None:
                return Vector(compute(one, other), None)
        values = compute(*[argument.values for argument in arguments])
        return Vector(values, _valid_in_all(arguments))

    return kernel


def _modulo(arguments: Sequence[Vector]) -> Vector:
    divided, divisor = arguments
    defined: BoolArray = np.not_equal(divisor.values, 0)
    valid = _valid_in_all(arguments)
    safe: Array = np.where(defined, divisor.values, 1)
    values: Array = np.fmod(divided.values, safe)
    return Vector(values, defined if valid is None else valid & defined)


def _to_integer(rounding: Callable[[Array], Array]) -> Kernel:
    """Round to an integer; NULL where it does not fit into 64 bits."""

    def kernel(arguments: Sequence[Vector]) -> Vector:
        (argument,) = arguments
        if argument.values.dtype == np.int64:
            return argument
        rounded = rounding(argument.values)
        fits: BoolArray = (rounded >= -PAST_INTEGERS) & (rounded < PAST_INTEGERS)
        if fits.all():
            return Vector(rounded.astype(np.int64), argument.valid)
        integers: Array = np.where(fits, rounded, 0.0).astype(np.int64)
        return Vector(integers, fits if argument.valid is None else fits & argument.valid)

    return kernel


def _round(values: Array) -> Array:
    """To the nearest integer, halves away from zero; exact, unlike adding a half."""
    if values.dtype == np.int64:
        return values
    whole: Array = np.trunc(values)
    return whole + np.copysign(np.abs(values - whole) >= 0.5, values)


def _extreme(better: Callable[[Array, Array], Array]) -> Kernel:
    """The best of the arguments that are not NULL."""

    def kernel(arguments: Sequence[Vector]) -> Vector:
        best = arguments[0]
        for other in arguments[1:]:
            best = _better_of(best, other, better)
        return best

    return kernel


def _better_of(one: Vector, other: Vector, better: Callable[[Array, Array], Array]) -> Vector:
    takes_other: BoolArray = np.asarray(better(other.values, one.values))
    valid: BoolArray | None = None
    if one.valid is not None or other.valid is not None:
        one_known, other_known = known_of(one), known_of(other)
        takes_other = other_known & (takes_other | ~one_known)
        valid = one_known | other_known
    return Vector(np.where(takes_other, other.values, one.values), valid)


def _and(arguments: Sequence[Vector]) -> Vector:
    one, other = arguments
    if one.valid is None and other.valid is None:
        return Vector(one.values & other.values, None)
    one_known, other_known = known_of(one), known_of(other)
    # One false argument decides; otherwise both must be known.
    false = (one_known & ~one.values) | (other_known & ~other.values)
    known = false | (one_known & other_known)
    return Vector(known & ~false, known)


def _or(arguments: Sequence[Vector]) -> Vector:
    one, other = arguments
    if one.valid is None and other.valid is None:
        return Vector(one.values | other.values, None)
    one_known, other_known = known_of(one), known_of(other)
    true = (one_known & one.values) | (other_known & other.values)
    return Vector(true, true | (one_known & other_known))


def _is_null(arguments: Sequence[Vector]) -> Vector:
    return Vector(~known_of(arguments[0]), None)


_two_numbers = "two numbers"
_two_alike = "two numbers or two values of one type"
_two_ordered = "two numbers or two strings"
_an_angle = "an angle in radians"


def _arithmetic(takes: str, arguments: int, compute: Callable[..., Any]) -> Function:
    """An operation whose float results are checked only at the end of a sum of products."""
    return Function(takes, arguments, _numbers, _strict(compute), overflows=True, passes=True)


def _comparison(compute: Callable[..., Any]) -> Function:
    return Function(_two_ordered, 2, _ordered, _strict(compute))


def _choice(better: Callable[[Array, Array], Array]) -> Function:
    takes = "two or more numbers, or strings"
    return Function(takes, 2, _alike_ordered, _extreme(better), cost=3, most_arguments=100)


functions: dict[str, Function] = {
    "add": _arithmetic(_two_numbers, 2, np.add),
    "subtract": _arithmetic(_two_numbers, 2, np.subtract),
    "multiply": _arithmetic(_two_numbers, 2, np.multiply),
    "divide": Function(_two_numbers, 2, _to("float"), _strict(np.true_divide), overflows=True),
    "modulo": Function(_two_numbers, 2, _numbers, _modulo),
    "negate": _arithmetic("a number", 1, np.negative),
    "equal": Function(_two_alike, 2, _comparable, _strict(np.equal)),
    "not_equal": Function(_two_alike, 2, _comparable, _strict(np.not_equal)),
    "less": _comparison(np.less),
    "less_equal": _comparison(np.less_equal),
    "greater": _comparison(np.greater),
    "greater_equal": _comparison(np.greater_equal),
    "and": Function("two conditions", 2, _conditions, _and),
    "or": Function("two conditions", 2, _conditions, _or),
    "not": Function("a condition", 1, _conditions, _strict(np.logical_not)),
    "is_null": Function("one value", 1, lambda kinds: "bool", _is_null),
    "abs": _arithmetic("a number", 1, np.abs),
    "floor": Function("a number", 1, _to("int"), _to_integer(np.floor)),
    "ceil": Function("a number", 1, _to("int"), _to_integer(np.ceil)),
    "round": Function("a number", 1, _numbers, _strict(_round)),
    "sqrt": Function("a number", 1, _to("float"), _strict(np.sqrt), cost=4, overflows=True),
    "cos": Function(_an_angle, 1, _to("float"), _strict(elementary.cosine), cost=30),
    "sin": Function(_an_angle, 1, _to("float"), _strict(elementary.sine), cost=30),
    "radians": Function("an angle in degrees", 1, _to("float"), _strict(elementary.radians)),
    "power": Function(
        "a base and an exponent",
        2,
        _to("float"),
        _strict(elementary.power),
        cost=10,
        overflows=True,
    ),
    "least": _choice(np.less),
    "greatest": _choice(np.greater),
}
"""Every function and operator by its name in the syntax tree."""

written: dict[str, str] = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "modulo": "%",
    "negate": "-",
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and": "AND",
    "or": "OR",
    "not": "NOT",
    "is_null": "IS NULL",
}
"""How the operators are written; the other functions are called by name."""
