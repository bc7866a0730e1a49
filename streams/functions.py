"""The functions and operators of expressions: argument types, result type and computation.

A NULL argument gives a NULL result, with these exceptions: AND and OR use Kleene's three values,
IS NULL tells, `least`, `greatest` and `coalesce` ignore NULLs, and CASE passes over conditions that
are not true. An operation without a result (division by zero, the square root of a negative number,
a float too large) gives NULL. Integers have 64 bits and wrap around.

Every function gives the same bits on every machine: it uses operations that IEEE 754 specifies
exactly, or those of `streams.elementary`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streams import elementary, exact_texts, patterns
from streams.language.ast import infix
from streams.vector import Array, Vector, fillers, known_of, storage, truth
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
    problem
        What is wrong with the values of the arguments, None for those that are no literals; None if
        nothing is.
    """

    takes: str
    arguments: int
    result: TypeRule
    kernel: Kernel
    cost: float = 1.0
    overflows: bool = False
    passes: bool = False
    most_arguments: int | None = None
    problem: Callable[[Sequence[Any]], str | None] | None = None


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


def _case_type(kinds: Sequence[str]) -> str | None:
    """Conditions and values by turns; a value more is that of ELSE."""
    paired = len(kinds) // 2 * 2
    values = [*kinds[1:paired:2], *kinds[paired:]]
    return _alike(values) if set(kinds[0:paired:2]) == {"bool"} else None


def _case(arguments: Sequence[Vector]) -> Vector:
    """The value after the first condition that is true."""
    paired = len(arguments) // 2 * 2
    result = arguments[paired] if paired < len(arguments) else _null_like(arguments[1])
    for place in range(paired - 2, -1, -2):
        chosen: BoolArray = np.asarray(truth(arguments[place]))
        result = _where(chosen, arguments[place + 1], result)
    return result


def _coalesce(arguments: Sequence[Vector]) -> Vector:
    """The first value that is not NULL."""
    result = arguments[-1]
    for argument in reversed(arguments[:-1]):
        result = _where(known_of(argument), argument, result)
    return result


def _null_like(vector: Vector) -> Vector:
    filler: Array = np.zeros((), dtype=vector.values.dtype)
    return Vector(filler, np.zeros((), dtype=np.bool_))


def _where(chosen: BoolArray, one: Vector, other: Vector) -> Vector:
    valid: BoolArray | None = None
    if one.valid is not None or other.valid is not None:
        valid = np.where(chosen, known_of(one), known_of(other))
    return Vector(np.where(chosen, one.values, other.values), valid)


def _texts(kinds: Sequence[str]) -> str | None:
    return "string" if set(kinds) == {"string"} else None


def _text_and_numbers(kinds: Sequence[str]) -> str | None:
    return "string" if kinds[0] == "string" and set(kinds[1:]) == {"int"} else None


_missing: Array = np.array(None, dtype=np.object_)


def _of_each(compute: Callable[..., Any], kind: str, arguments: int) -> Kernel:
    """A function of Python values; it may give None for NULL."""
    each = np.frompyfunc(compute, arguments, 1)

    def kernel(given: Sequence[Vector]) -> Vector:
        found = np.asarray(each(*[argument.values for argument in given]), dtype=np.object_)
        valid = _valid_in_all(given)
        missing: BoolArray = np.equal(found, _missing)
        if missing.any():
            found = np.where(missing, fillers[kind], found)
            valid = ~missing if valid is None else valid & ~missing
        return Vector(found.astype(storage[kind]), valid)

    return kernel


def _concatenated(arguments: Sequence[Vector]) -> Vector:
    values: Array = arguments[0].values
    for argument in arguments[1:]:
        values = np.asarray(values + argument.values, dtype=np.object_)
    return Vector(values, _valid_in_all(arguments))


def _substring(text: str, first: int, length: int) -> str:
    """Characters from the `first`-th on, which counts from 1; those before it do not exist."""
    begin = max(first - 1, 0)
    return text[begin : max(first - 1 + max(length, 0), begin)]


def _rest(text: str, first: int) -> str:
    return text[max(first - 1, 0) :]


def _part(text: str, separator: str, number: int) -> str:
    """The `number`-th part, which counts from 1; empty if there are fewer."""
    parts = text.split(separator) if separator else [text]
    return parts[number - 1] if 1 <= number <= len(parts) else ""


def _either_substring(arguments: Sequence[Vector]) -> Vector:
    return _substring_kernels[len(arguments)](arguments)


_substring_kernels = {2: _of_each(_rest, "string", 2), 3: _of_each(_substring, "string", 3)}


def _like(arguments: Sequence[Vector]) -> Vector:
    """Whether texts match a pattern, by RE2: in time linear in the text."""
    texts, patterns = np.broadcast_arrays(*[argument.values for argument in arguments])
    found = np.zeros(texts.shape, dtype=np.bool_)
    for pattern in dict.fromkeys(arguments[1].values.ravel().tolist()):
        these: BoolArray = np.equal(patterns, pattern)
        matching = pc.match_like(pa.array(texts[these], pa.string()), pattern)
        found[these] = matching.to_numpy(zero_copy_only=False)
    return Vector(found, _valid_in_all(arguments))


def _lowered(arguments: Sequence[Vector]) -> Vector:
    return _by_arrow("ascii_lower", arguments)


def _raised(arguments: Sequence[Vector]) -> Vector:
    return _by_arrow("ascii_upper", arguments)


def _by_arrow(function: str, arguments: Sequence[Vector]) -> Vector:
    (values, valid) = arguments[0]
    found = pc.call_function(function, [pa.array(values.ravel(), pa.string())])
    return Vector(found.to_numpy(zero_copy_only=False).reshape(values.shape), valid)


def _replaced(text: str, sought: str, other: str) -> str:
    return text.replace(sought, other) if sought else text


def _extracted(arguments: Sequence[Vector]) -> Vector:
    """What a group of a pattern matches; NULL where nothing matches."""
    texts, pattern, group = (argument.values for argument in arguments)
    found = patterns.extract(texts.ravel(), str(pattern), int(group)).reshape(texts.shape)
    matched: BoolArray = np.not_equal(found, _missing)
    valid = _valid_in_all(arguments)
    known = matched if valid is None else matched & valid
    return Vector(np.where(known, found, fillers["string"]), known)


_whole_number = re.compile(r"\s*[+-]?[0-9]{1,30}\s*")
_decimal_number = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?\s*")


def _text_to_int(text: str) -> int | None:
    if _whole_number.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _text_to_float(text: str) -> float | None:
    return float(text) if _decimal_number.fullmatch(text) else None


def _to_int(arguments: Sequence[Vector]) -> Vector:
    (argument,) = arguments
    if argument.values.dtype == np.object_:
        return _parse_int(arguments)
    if argument.values.dtype == np.bool_:
        return Vector(argument.values.astype(np.int64), argument.valid)
    return _truncated(arguments)


def _to_float(arguments: Sequence[Vector]) -> Vector:
    (argument,) = arguments
    if argument.values.dtype == np.object_:
        return _parse_float(arguments)
    return Vector(argument.values.astype(np.float64), argument.valid)


def _to_text(arguments: Sequence[Vector]) -> Vector:
    (argument,) = arguments
    return argument if argument.values.dtype == np.object_ else _write(arguments)


def _written_text(value: Any) -> str:
    """A value as the language writes it."""
    return str(value).upper() if isinstance(value, bool) else str(value)


_parse_int = _of_each(_text_to_int, "int", 1)
_parse_float = _of_each(_text_to_float, "float", 1)
_write = _of_each(_written_text, "string", 1)
_truncated = _to_integer(np.trunc)


def _integers(kinds: Sequence[str]) -> str | None:
    return "int" if set(kinds) == {"int"} else None


def _float_of(*wanted: str) -> TypeRule:
    return lambda kinds: "float" if tuple(kinds) == wanted else None


HALF_BITS = 32
"""Ints are high half · 2^32 + low half. Sums of 2^31 halves fit in 64 bits."""

_low_bits = (1 << HALF_BITS) - 1


def _high_half(arguments: Sequence[Vector]) -> Vector:
    return Vector(arguments[0].values >> HALF_BITS, arguments[0].valid)


def _low_half(arguments: Sequence[Vector]) -> Vector:
    return Vector(arguments[0].values & _low_bits, arguments[0].valid)


def _joined_sum(arguments: Sequence[Vector]) -> Vector:
    """Sums of high and of low halves as one int; NULL if it does not fit in 64 bits."""
    high, low = (argument.values for argument in arguments)
    high = high + (low >> HALF_BITS)
    fits: BoolArray = np.equal(high, (high << HALF_BITS) >> HALF_BITS)
    valid = _valid_in_all(arguments)
    values = (high << HALF_BITS) + (low & _low_bits)
    return Vector(values, fits if valid is None else valid & fits)


def _mean_of(high: int, low: int, count: int) -> float | None:
    """Python divides ints of any size, and rounds once."""
    return ((high << HALF_BITS) + low) / count if count else None


_joined_mean = _of_each(_mean_of, "float", 3)


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
    "case": Function("conditions and values of one type", 2, _case_type, _case, most_arguments=200),
    "coalesce": Function(
        "two or more values of one type", 2, _alike, _coalesce, most_arguments=100
    ),
    "like": Function(
        "a string and a pattern",
        2,
        lambda kinds: "bool" if _texts(kinds) else None,
        _like,
        cost=40,
    ),
    "cast_int": Function("one value", 1, lambda kinds: "int", _to_int, cost=3),
    "cast_float": Function(
        "a number or a string",
        1,
        lambda kinds: None if kinds[0] == "bool" else "float",
        _to_float,
        cost=3,
        overflows=True,
    ),
    "cast_string": Function("one value", 1, lambda kinds: "string", _to_text, cost=40),
    "concat": Function("two or more strings", 2, _texts, _concatenated, 40, most_arguments=100),
    "substring": Function(
        "a string, the place of its first character, and a length if not all",
        2,
        _text_and_numbers,
        _either_substring,
        cost=40,
        most_arguments=3,
    ),
    "split_part": Function(
        "a string, a separator, and the number of the part",
        3,
        lambda kinds: "string" if list(kinds) == ["string", "string", "int"] else None,
        _of_each(_part, "string", 3),
        cost=40,
    ),
    "lower": Function("a string", 1, _texts, _lowered, cost=40),
    "upper": Function("a string", 1, _texts, _raised, cost=40),
    "replace": Function(
        "a string, what to replace, and by what",
        3,
        _texts,
        _of_each(_replaced, "string", 3),
        cost=40,
    ),
    "regexp_extract": Function(
        "a string, a pattern, and the number of a group",
        3,
        lambda kinds: "string" if list(kinds) == ["string", "string", "int"] else None,
        _extracted,
        cost=100,
        problem=lambda values: patterns.problem(*values[1:]),
    ),
    "length": Function(
        "a string",
        1,
        lambda kinds: "int" if _texts(kinds) else None,
        _of_each(len, "int", 1),
        cost=40,
    ),
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
    "high_half": Function("an int", 1, _integers, _high_half),
    "low_half": Function("an int", 1, _integers, _low_half),
    "joined_sum": Function("two ints", 2, _integers, _joined_sum, cost=10),
    "joined_mean": Function("three ints", 3, _float_of("int", "int", "int"), _joined_mean, cost=20),
    "exact_value": Function(
        "an exact sum",
        1,
        _float_of("string"),
        _of_each(exact_texts.exact_value, "float", 1),
        cost=40,
    ),
    "exact_mean": Function(
        "an exact sum and an int",
        2,
        _float_of("string", "int"),
        _of_each(exact_texts.exact_mean, "float", 2),
        cost=40,
    ),
    "exact_deviation": Function(
        "exact sums of values and of their squares, and an int",
        3,
        _float_of("string", "string", "int"),
        _of_each(exact_texts.exact_deviation, "float", 3),
        cost=40,
    ),
    "least": _choice(np.less),
    "greatest": _choice(np.greater),
}
"""Every function and operator by its name in the syntax tree."""

written: dict[str, str] = infix | {
    "negate": "-",
    "not": "NOT",
    "is_null": "IS NULL",
    "case": "CASE",
    "cast_int": "CAST",
    "cast_float": "CAST",
    "cast_string": "CAST",
}
"""How the operators are written; the other functions are called by name."""
