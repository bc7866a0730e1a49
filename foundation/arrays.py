"""Types of numpy arrays, and what numpy itself does slowly, for all layers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def rising(numbers: IntArray) -> IntArray:
    """The different numbers, in order. `np.unique` takes several times as long for a few."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
