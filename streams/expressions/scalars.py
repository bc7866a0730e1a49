"""The computation of functions of numbers and conditions, and of those that choose a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from foundation.arrays import BoolArray
from streams.expressions.columnwise import Columnwise, valid_in_all
from streams.vectors.vector import Array, Vector, filler_of, known_of, truth

PAST_INTEGERS = 2.0**63
"""The least float greater than every 64-bit integer; its negative is one."""


EXACT_INTEGERS = 2**53
"""Integers up to this size are floats."""


def quotient(dividend: Array, divisor: Array) -> Array:
    """The quotient, rounded once: numpy would first round integers that are no floats."""
    found: Array = np.true_divide(dividend, divisor)
    if dividend.dtype != np.int64 or divisor.dtype != np.int64:
        return found
    if not (_exceeds_floats(dividend) or _exceeds_floats(divisor)):
        return found
    given = np.broadcast_arrays(dividend, divisor, found)
    exact = [
        one / other if other else rough
        for one, other, rough in zip(*(each.ravel().tolist() for each in given), strict=True)
    ]
    return np.array(exact, dtype=np.float64).reshape(found.shape)


def _exceeds_floats(values: Array) -> bool:
    return bool(values.size and (values.max() > EXACT_INTEGERS or values.min() < -EXACT_INTEGERS))


def modulo(arguments: Sequence[Vector]) -> Vector:
    """The remainder, of the sign of the dividend; NULL of a division by zero."""
    divided, divisor = arguments
    defined: BoolArray = np.not_equal(divisor.values, 0)
    valid = valid_in_all(arguments)
    safe: Array = np.where(defined, divisor.values, 1)
    values: Array = np.fmod(divided.values, safe)
    return Vector(values, defined if valid is None else valid & defined)


def to_integer(rounding: Callable[[Array], Array]) -> Columnwise:
    """Round to an integer; NULL where it does not fit into 64 bits."""

    def over_columns(arguments: Sequence[Vector]) -> Vector:
        (argument,) = arguments
        if argument.values.dtype == np.int64:
            return argument
        rounded = rounding(argument.values)
        fits: BoolArray = (rounded >= -PAST_INTEGERS) & (rounded < PAST_INTEGERS)
        if fits.all():
            return Vector(rounded.astype(np.int64), argument.valid)
        integers: Array = np.where(fits, rounded, 0.0).astype(np.int64)
        return Vector(integers, fits if argument.valid is None else fits & argument.valid)

    return over_columns


def rounded(values: Array) -> Array:
    """To the nearest integer, halves away from zero; exact, unlike adding a half."""
    if values.dtype == np.int64:
        return values
    whole: Array = np.trunc(values)
    return whole + np.copysign(np.abs(values - whole) >= 0.5, values)


def best(better: Callable[[Array, Array], Array]) -> Columnwise:
    """The best of the arguments that are not NULL."""

    def over_columns(arguments: Sequence[Vector]) -> Vector:
        best = arguments[0]
        for other in arguments[1:]:
            best = _better_of(best, other, better)
        return best

    return over_columns


def _better_of(one: Vector, other: Vector, better: Callable[[Array, Array], Array]) -> Vector:
    takes_other: BoolArray = np.asarray(better(other.values, one.values))
    valid: BoolArray | None = None
    if one.valid is not None or other.valid is not None:
        one_known, other_known = known_of(one), known_of(other)
        takes_other = other_known & (takes_other | ~one_known)
        valid = one_known | other_known
    return Vector(np.where(takes_other, other.values, one.values), valid)


def both(arguments: Sequence[Vector]) -> Vector:
    """AND, of three values."""
    one, other = arguments
    if one.valid is None and other.valid is None:
        return Vector(one.values & other.values, None)
    one_known, other_known = known_of(one), known_of(other)
    # One false argument decides; otherwise both must be known.
    false = (one_known & ~one.values) | (other_known & ~other.values)
    known = false | (one_known & other_known)
    return Vector(known & ~false, known)


def either(arguments: Sequence[Vector]) -> Vector:
    """OR, of three values."""
    one, other = arguments
    if one.valid is None and other.valid is None:
        return Vector(one.values | other.values, None)
    one_known, other_known = known_of(one), known_of(other)
    true = (one_known & one.values) | (other_known & other.values)
    return Vector(true, true | (one_known & other_known))


def first_true(arguments: Sequence[Vector]) -> Vector:
    """The value after the first condition that is true."""
    paired = len(arguments) // 2 * 2
    result = arguments[paired] if paired < len(arguments) else _null_like(arguments[1])
    for place in range(paired - 2, -1, -2):
        chosen: BoolArray = np.asarray(truth(arguments[place]))
        result = _where(chosen, arguments[place + 1], result)
    return result


def first_known(arguments: Sequence[Vector]) -> Vector:
    """The first value that is not NULL."""
    result = arguments[-1]
    for argument in reversed(arguments[:-1]):
        result = _where(known_of(argument), argument, result)
    return result


def unless_equal(arguments: Sequence[Vector]) -> Vector:
    """The first value; NULL where the second one is equal."""
    one, other = arguments
    differs: BoolArray = np.not_equal(one.values, other.values)
    if other.valid is not None:
        differs = differs | ~other.valid
    valid = differs if one.valid is None else differs & one.valid
    return Vector(np.broadcast_to(one.values, differs.shape), valid)


def _null_like(vector: Vector) -> Vector:
    filler: Array = np.array(filler_of(vector.values), dtype=vector.values.dtype)
    return Vector(filler, np.zeros((), dtype=np.bool_))


def _where(chosen: BoolArray, one: Vector, other: Vector) -> Vector:
    valid: BoolArray | None = None
    if one.valid is not None or other.valid is not None:
        valid = np.where(chosen, known_of(one), known_of(other))
    return Vector(np.where(chosen, one.values, other.values), valid)


def is_null(arguments: Sequence[Vector]) -> Vector:
    """Whether values are NULL."""
    return Vector(~known_of(arguments[0]), None)
