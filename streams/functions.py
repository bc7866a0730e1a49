"""The functions and operators of expressions: what they take, what they give, how.

NULL in, NULL out, except AND, OR (Kleene's three values), IS NULL, and `least` and `greatest`,
which pass NULLs over. An operation without a result — division by zero, the square root of a
negative number, a float too large — gives NULL; integers are of 64 bits and wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streams.vector import Array, Vector, known_of
from topology.arrays import BoolArray

Kernel = Callable[[Sequence[Vector]], Vector]
TypeRule = Callable[[Sequence[str]], str | None]
"""Types of the arguments → type of the result; None: the function does not take those."""

LARGEST_FLOAT_INTEGER = 2.0**63
"""Floats from here on have no 64-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function.

    Attributes
    ----------
    takes
        Its arguments, in words, for messages.
    least_arguments, most_arguments
        How many.
    result
        Type rule.
    kernel
        The computation.
    cost
        Relative cost an element; an addition is 1.
    overflows
        Float results may be infinite or not a number and are made NULL where they are used.
    passes
        Takes such results as arguments and passes them on, so that a sum of products is checked
        once and not at every step.
    """

    takes: str
    least_arguments: int
    most_arguments: int
    result: TypeRule
    kernel: Kernel
    cost: float = 1.0
    overflows: bool = False
    passes: bool = False


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


def _ordered(kinds: Sequence[str]) -> str | None:
    return "bool" if _alike(kinds) and "bool" not in kinds else None


def _comparable(kinds: Sequence[str]) -> str | None:
    return "bool" if _alike(kinds) else None


def _conditions(kinds: Sequence[str]) -> str | None:
    return "bool" if set(kinds) == {"bool"} else None


def _valid_in_all(arguments: Sequence[Vector]) -> BoolArray | None:
    valid: BoolArray | None = None
    for argument in arguments:
        if argument.valid is not None:
            valid = argument.valid if valid is None else valid & argument.valid
    return valid


def _strict(compute: Callable[..., Any]) -> Kernel:
    """NULL where any argument is."""

    def kernel(arguments: Sequence[Vector]) -> Vector:
        values = compute(*(argument.values for argument in arguments))
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
    """Round to an integer; NULL where it has no 64 bits."""

    def kernel(arguments: Sequence[Vector]) -> Vector:
        (argument,) = arguments
        if argument.values.dtype == np.int64:
            return argument
        rounded = rounding(argument.values)
        fits: BoolArray = np.abs(rounded) < LARGEST_FLOAT_INTEGER
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


def _power(base: Array, exponent: Array) -> Array:
    # A whole-number exponent of 2 is the common one, and pow() is slow.
    if np.ndim(exponent) == 0 and exponent == 2:
        squared = np.asarray(base, dtype=np.float64)
        return squared * squared
    return np.power(np.asarray(base, dtype=np.float64), np.asarray(exponent, dtype=np.float64))


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
    if one.valid is not None or other.valid is not None:
        one_known, other_known = known_of(one), known_of(other)
        takes_other = other_known & (takes_other | ~one_known)
        valid = one_known | other_known
        return Vector(np.where(takes_other, other.values, one.values), valid)
    return Vector(np.where(takes_other, other.values, one.values), None)


def _and(arguments: Sequence[Vector]) -> Vector:
    one, other = arguments
    if one.valid is None and other.valid is None:
        return Vector(one.values & other.values, None)
    one_known, other_known = known_of(one), known_of(other)
    # One false decides; otherwise both must be known.
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


def _binary(
    takes: str, result: TypeRule, kernel: Kernel, *, overflows: bool = False, passes: bool = False
) -> Function:
    return Function(
        takes=takes,
        least_arguments=2,
        most_arguments=2,
        result=result,
        kernel=kernel,
        overflows=overflows,
        passes=passes,
    )


def _unary(
    takes: str,
    result: TypeRule,
    kernel: Kernel,
    *,
    cost: float = 1.0,
    overflows: bool = False,
    passes: bool = False,
) -> Function:
    return Function(
        takes=takes,
        least_arguments=1,
        most_arguments=1,
        result=result,
        kernel=kernel,
        cost=cost,
        overflows=overflows,
        passes=passes,
    )


_two_numbers = "two numbers"
_two_alike = "two numbers or two values of one type"
_two_ordered = "two numbers or two strings"
_several = "two or more numbers, or strings"

functions: dict[str, Function] = {
    "add": _binary(_two_numbers, _numbers, _strict(np.add), overflows=True, passes=True),
    "subtract": _binary(_two_numbers, _numbers, _strict(np.subtract), overflows=True, passes=True),
    "multiply": _binary(_two_numbers, _numbers, _strict(np.multiply), overflows=True, passes=True),
    "divide": _binary(_two_numbers, _to("float"), _strict(np.true_divide), overflows=True),
    "modulo": _binary(_two_numbers, _numbers, _modulo),
    "negate": _unary("a number", _numbers, _strict(np.negative), overflows=True, passes=True),
    "equal": _binary(_two_alike, _comparable, _strict(np.equal)),
    "not_equal": _binary(_two_alike, _comparable, _strict(np.not_equal)),
    "less": _binary(_two_ordered, _ordered, _strict(np.less)),
    "less_equal": _binary(_two_ordered, _ordered, _strict(np.less_equal)),
    "greater": _binary(_two_ordered, _ordered, _strict(np.greater)),
    "greater_equal": _binary(_two_ordered, _ordered, _strict(np.greater_equal)),
    "and": _binary("two conditions", _conditions, _and),
    "or": _binary("two conditions", _conditions, _or),
    "not": _unary("a condition", _conditions, _strict(np.logical_not)),
    "is_null": _unary("one value", lambda kinds: "bool", _is_null),
    "abs": _unary("a number", _numbers, _strict(np.abs), overflows=True, passes=True),
    "floor": _unary("a number", _to("int"), _to_integer(np.floor)),
    "ceil": _unary("a number", _to("int"), _to_integer(np.ceil)),
    "round": _unary("a number", _numbers, _strict(_round)),
    "sqrt": _unary("a number", _to("float"), _strict(np.sqrt), cost=4, overflows=True),
    "cos": _unary("an angle in radians", _to("float"), _strict(np.cos), cost=15),
    "sin": _unary("an angle in radians", _to("float"), _strict(np.sin), cost=15),
    "radians": _unary("an angle in degrees", _to("float"), _strict(np.radians)),
    "power": Function(
        takes="a base and an exponent",
        least_arguments=2,
        most_arguments=2,
        result=_to("float"),
        kernel=_strict(_power),
        cost=10,
        overflows=True,
    ),
    "least": Function(
        takes=_several,
        least_arguments=2,
        most_arguments=100,
        result=lambda kinds: _alike(kinds) if "bool" not in kinds else None,
        kernel=_extreme(np.less),
        cost=3,
    ),
    "greatest": Function(
        takes=_several,
        least_arguments=2,
        most_arguments=100,
        result=lambda kinds: _alike(kinds) if "bool" not in kinds else None,
        kernel=_extreme(np.greater),
        cost=3,
    ),
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
