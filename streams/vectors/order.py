"""Whole numbers in the order of other values, for sorting and comparing them in arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foundation.arrays import IntArray
from streams.vectors.vector import Array


def float_order(bits: IntArray) -> IntArray:
    """Numbers in the order of floats, which are given by their bits; its own inverse."""
    # As whole numbers, floats are in order but for the negative ones, whose order is reversed.
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)


def text_order(texts: Array) -> IntArray:
    """Numbers in the order of some texts. Few texts are compared if many are equal."""
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    return numbers[encoded.indices.to_numpy()]
