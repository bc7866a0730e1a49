"""What computations of functions are made of: vectors of arguments in, a vector of results out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from foundation.arrays import BoolArray
from streams.vectors.vector import Array, Vector, fillers, storage

Columnwise = Callable[[Sequence[Vector]], Vector]

missing: Array = np.array(None, dtype=np.object_)
"""To find where arrays of Python values have none."""


def valid_in_all(arguments: Sequence[Vector]) -> BoolArray | None:
    """Where no argument is NULL; None: nowhere is one."""
    valid: BoolArray | None = None
    for _, known in arguments:
        if known is not None:
            valid = known if valid is None else valid & known
    return valid


def strict(compute: Callable[..., Any]) -> Columnwise:
    """NULL where any argument is."""

    def over_columns(arguments: Sequence[Vector]) -> Vector:
        if len(arguments) == 2:
            (one, one_known), (other, other_known) = arguments
            if one_known is None and other_known is None:
                return Vector(compute(one, other), None)
        values = compute(*[argument.values for argument in arguments])
        return Vector(values, valid_in_all(arguments))

    return over_columns


def folded(compute: Callable[[Any, Any], Any]) -> Columnwise:
    """An operation on two or more values, from the left; NULL where any of them is."""
    two, several = strict(compute), strict(lambda *values: reduce(compute, values))
    return lambda arguments: (two if len(arguments) == 2 else several)(arguments)


def of_each(compute: Callable[..., Any], kind: str, arguments: int) -> Columnwise:
    """A function of Python values; it may give None for NULL."""
    each = np.frompyfunc(compute, arguments, 1)

    def over_columns(given: Sequence[Vector]) -> Vector:
        found = np.asarray(each(*[argument.values for argument in given]), dtype=np.object_)
        valid = valid_in_all(given)
        without: BoolArray = np.equal(found, missing)
        if without.any():
            found = np.where(without, fillers[kind], found)
            valid = ~without if valid is None else valid & ~without
        return Vector(found.astype(storage[kind]), valid)

    return over_columns
