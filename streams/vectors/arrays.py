"""Types of the arrays that kernels work on."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
"""Codes of groups, and places of groups in a pane; -1 for none."""

Bits = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

_Array = npt.NDArray[Any]
_Item = TypeVar("_Item", bound=np.generic)


def sound(values: _Array) -> _Array:
    """An array as kernels take it. `np.require` looks as closely, but takes microseconds."""
    flags = values.flags
    if flags.c_contiguous and flags.aligned:
        return values
    return np.require(values, requirements=["C", "A"])


def resized(values: npt.NDArray[_Item], length: int, filler: Any = 0) -> npt.NDArray[_Item]:
    """A longer or shorter copy of an array, with a filler behind what there is."""
    made = np.full((length, *values.shape[1:]), filler, dtype=values.dtype)
    kept = min(length, len(values))
    made[:kept] = values[:kept]
    return made


def home_shift(places: int) -> int:
    """How far a hash of 64 bits is shifted for the first place to look at, of a power of two.

    All bits of a factor bear on the highest bits of a product; on a lower bit, only those that are
    not above it.
    """
    return 64 - (places - 1).bit_length()
