"""The buffers of Arrow arrays as numpy arrays.

Arrow's own conversions take longer than most chunks take to be evaluated: tens of microseconds for
a column with NULLs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foundation.arrays import BoolArray

VALIDITY, VALUES, TEXTS = 0, 1, 2
"""Places of buffers. Strings have offsets in the place of values, and then their texts."""


def fixed(array: pa.Array, element: type[Any]) -> npt.NDArray[Any]:
    """The values of an array whose elements have this type of numpy's, where they lie."""
    begin = array.offset
    return np.frombuffer(_buffer(array, VALUES), element)[begin : begin + len(array)]


def offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    """Where the texts of an array of strings begin and the last one ends, shape (n + 1,)."""
    found = np.frombuffer(_buffer(array, VALUES), np.int32)
    return found[array.offset :][: len(array) + 1]


def text_bytes(array: pa.Array) -> npt.NDArray[np.uint8]:
    """The texts of an array of strings one after the other, in UTF-8, where offsets say."""
    return np.frombuffer(_buffer(array, TEXTS), np.uint8)


def bits(array: pa.Array, place: int) -> BoolArray:
    """A buffer of bits: the validity of any array, or the values of an array of booleans."""
    end = array.offset + len(array)
    packed = np.frombuffer(_buffer(array, place), np.uint8)
    return np.unpackbits(packed, count=end, bitorder="little")[array.offset :].view(np.bool_)


def _buffer(array: pa.Array, place: int) -> memoryview:
    """One of the buffers, which an array without rows need not have."""
    buffer = array.buffers()[place]
    return memoryview(b"" if buffer is None else buffer)
