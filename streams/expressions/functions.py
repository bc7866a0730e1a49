"""The functions and operators of expressions: argument types, result type and computation.

The computations are those of `streams.expressions.scalars`, `streams.expressions.texts` and
`streams.expressions.partial_sums`.

A NULL argument gives a NULL result, with these exceptions: AND and OR use Kleene's three values,
IS NULL tells, `least`, `greatest` and `coalesce` ignore NULLs, and CASE passes over conditions that
are not true. An operation without a result (division by zero, the square root of a negative number,
a float too large) gives NULL. Floats have one zero, 0.0. Integers have 64 bits and wrap around.

Every function gives the same bits on every machine: it uses operations that IEEE 754 specifies
exactly, or those of `streams.arithmetic.elementary`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streams.arithmetic import elementary
from streams.expressions import partial_sums, patterns, scalars, texts
from streams.expressions.columnwise import Columnwise, folded, of_each, strict
from streams.language.ast import infix
from streams.vectors.vector import Array

TypeRule = Callable[[Sequence[str]], str | None]
"""Types of the arguments → type of the result; None: the function does not accept them."""


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
    compute
        The computation.
    cost
        Relative cost of one element; an addition is 1.
    passes
        The function accepts floats that are not `normalised` and passes them on, so that a sum of
        products is normalised once and not at every step.
    chooses
        A result is one of the arguments, so that floats need not be normalised again.
    most_arguments
        The greatest number of arguments; None: `arguments`.
    problem
        What is wrong with the values of the arguments, None for those that are no literals; None if
        nothing is.
    """

    takes: str
    arguments: int
    result: TypeRule
    compute: Columnwise
    cost: float = 1.0
    passes: bool = False
    chooses: bool = False
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


def _case_type(kinds: Sequence[str]) -> str | None:
    """Conditions and values by turns; a value more is that of ELSE."""
    paired = len(kinds) // 2 * 2
    values = [*kinds[1:paired:2], *kinds[paired:]]
    return _alike(values) if set(kinds[0:paired:2]) == {"bool"} else None


def _texts(kinds: Sequence[str]) -> str | None:
    return "string" if set(kinds) == {"string"} else None


def _text_and_numbers(kinds: Sequence[str]) -> str | None:
    return "string" if kinds[0] == "string" and set(kinds[1:]) == {"int"} else None


def _integers(kinds: Sequence[str]) -> str | None:
    return "int" if set(kinds) == {"int"} else None


def _float_of(*wanted: str) -> TypeRule:
    return lambda kinds: "float" if tuple(kinds) == wanted else None


_two_numbers = "two numbers"
_two_alike = "two numbers or two values of one type"
_two_ordered = "two numbers or two strings"
_an_angle = "an angle in radians"


MOST_TERMS = 10_000
"""Of a sum or a product, which are one operation however long they are."""


def _arithmetic(
    takes: str, arguments: int, compute: Columnwise, most_arguments: int | None = None
) -> Function:
    """An operation whose float results are normalised only at the end of a sum of products."""
    return Function(
        takes,
        arguments,
        _numbers,
        compute,
        passes=True,
        most_arguments=most_arguments,
    )


def _comparison(compute: Callable[..., Any]) -> Function:
    return Function(_two_ordered, 2, _ordered, strict(compute))


def _choice(better: Callable[[Array, Array], Array]) -> Function:
    takes = "two or more numbers, or strings"
    return Function(
        takes,
        2,
        _alike_ordered,
        scalars.best(better),
        cost=3,
        chooses=True,
        most_arguments=100,
    )


functions: dict[str, Function] = {
    "add": _arithmetic("numbers", 2, folded(np.add), MOST_TERMS),
    "subtract": _arithmetic(_two_numbers, 2, strict(np.subtract)),
    "multiply": _arithmetic("numbers", 2, folded(np.multiply), MOST_TERMS),
    "divide": Function(_two_numbers, 2, _to("float"), strict(scalars.quotient)),
    "modulo": Function(_two_numbers, 2, _numbers, scalars.modulo),
    "negate": _arithmetic("a number", 1, strict(np.negative)),
    "equal": Function(_two_alike, 2, _comparable, strict(np.equal)),
    "not_equal": Function(_two_alike, 2, _comparable, strict(np.not_equal)),
    "less": _comparison(np.less),
    "less_equal": _comparison(np.less_equal),
    "greater": _comparison(np.greater),
    "greater_equal": _comparison(np.greater_equal),
    "and": Function("two conditions", 2, _conditions, scalars.both),
    "or": Function("two conditions", 2, _conditions, scalars.either),
    "not": Function("a condition", 1, _conditions, strict(np.logical_not)),
    "is_null": Function("one value", 1, lambda kinds: "bool", scalars.is_null),
    "case": Function(
        "conditions and values of one type",
        2,
        _case_type,
        scalars.first_true,
        chooses=True,
        most_arguments=200,
    ),
    "coalesce": Function(
        "two or more values of one type",
        2,
        _alike,
        scalars.first_known,
        chooses=True,
        most_arguments=100,
    ),
    "nullif": Function(
        _two_alike,
        2,
        lambda kinds: kinds[0] if _alike(kinds) else None,
        scalars.unless_equal,
        chooses=True,
    ),
    "like": Function(
        "a string and a pattern",
        2,
        lambda kinds: "bool" if _texts(kinds) else None,
        texts.like,
        cost=40,
        problem=lambda values: texts.like_problem(values[1]),
    ),
    "cast_int": Function("one value", 1, lambda kinds: "int", texts.to_int, cost=3),
    "cast_float": Function("one value", 1, lambda kinds: "float", texts.to_float, cost=3),
    "cast_string": Function("one value", 1, lambda kinds: "string", texts.to_text, cost=40),
    "concat": Function(
        "two or more strings", 2, _texts, texts.concatenated, 40, most_arguments=100
    ),
    "substring": Function(
        "a string, the place of its first character, and a length if not all",
        2,
        _text_and_numbers,
        texts.substring,
        cost=40,
        most_arguments=3,
    ),
    "split_part": Function(
        "a string, a separator, and the number of the part",
        3,
        lambda kinds: "string" if list(kinds) == ["string", "string", "int"] else None,
        of_each(texts.part, "string", 3),
        cost=40,
    ),
    "lower": Function("a string", 1, _texts, texts.lowered, cost=40),
    "upper": Function("a string", 1, _texts, texts.raised, cost=40),
    "trim": Function("a string", 1, _texts, of_each(texts.trimmed, "string", 1), cost=40),
    "ltrim": Function("a string", 1, _texts, of_each(texts.left_trimmed, "string", 1), 40),
    "rtrim": Function("a string", 1, _texts, of_each(texts.right_trimmed, "string", 1), 40),
    "replace": Function(
        "a string, what to replace, and by what",
        3,
        _texts,
        of_each(texts.replaced, "string", 3),
        cost=40,
    ),
    "regexp_extract": Function(
        "a string, a pattern, and the number of a group",
        3,
        lambda kinds: "string" if list(kinds) == ["string", "string", "int"] else None,
        texts.extracted,
        cost=100,
        problem=lambda values: patterns.problem(*values[1:]),
    ),
    "length": Function(
        "a string",
        1,
        lambda kinds: "int" if _texts(kinds) else None,
        of_each(len, "int", 1),
        cost=40,
    ),
    "abs": _arithmetic("a number", 1, strict(np.abs)),
    "floor": Function("a number", 1, _to("int"), scalars.to_integer(np.floor)),
    "ceil": Function("a number", 1, _to("int"), scalars.to_integer(np.ceil)),
    "round": Function("a number", 1, _numbers, strict(scalars.rounded)),
    "sqrt": Function("a number", 1, _to("float"), strict(np.sqrt), cost=4),
    "cos": Function(_an_angle, 1, _to("float"), strict(elementary.cosine), cost=30),
    "sin": Function(_an_angle, 1, _to("float"), strict(elementary.sine), cost=30),
    "radians": Function("an angle in degrees", 1, _to("float"), strict(elementary.radians)),
    "ln": Function("a number", 1, _to("float"), strict(elementary.logarithm), cost=8),
    "exp": Function("a number", 1, _to("float"), strict(elementary.exponential), cost=8),
    "power": Function(
        "a base and an exponent",
        2,
        _to("float"),
        strict(elementary.power),
        cost=10,
    ),
    "high_half": Function("an int", 1, _integers, partial_sums.high_half),
    "low_half": Function("an int", 1, _integers, partial_sums.low_half),
    "joined_sum": Function("two ints", 2, _integers, partial_sums.joined_sum, cost=10),
    "joined_mean": Function(
        "three ints", 3, _float_of("int", "int", "int"), partial_sums.joined_mean, cost=20
    ),
    "exact_value": Function(
        "an exact sum",
        1,
        _float_of("string"),
        partial_sums.exact_value,
        cost=40,
    ),
    "exact_mean": Function(
        "an exact sum and an int",
        2,
        _float_of("string", "int"),
        partial_sums.exact_mean,
        cost=40,
    ),
    "exact_deviation": Function(
        "exact sums of values and of their squares, and an int",
        3,
        _float_of("string", "string", "int"),
        partial_sums.exact_deviation,
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
