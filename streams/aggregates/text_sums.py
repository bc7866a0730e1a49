"""Exact sums as texts (`streams.arithmetic.exact_texts`): panes make them, and read them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from foundation.arrays import BoolArray
from streams.aggregates.parts import Digits, FloatSum
from streams.arithmetic.exact_sums import UNSPANNED, total_of
from streams.arithmetic.exact_texts import LEAST_SQUARE_EXPONENT, exact_text
from streams.kernels import kernels
from streams.kernels.reference_texts import cut
from streams.vectors.arrays import Codes
from streams.vectors.arrow_buffers import offsets, text_bytes
from streams.vectors.vector import Array, Vector


class TextSum(FloatSum):
    """The sum of exact sums, which are given as texts, in units of 2⁻²¹⁴⁸."""

    least_exponent = LEAST_SQUARE_EXPONENT
    reads_texts = True

    def add(self, state: Array, slots: Codes, column: Vector, begin: int, end: int) -> int:
        """Add, as far as the digits reach."""
        counted = slots[begin:end] >= 0
        if column.valid is not None:
            counted &= column.valid[begin:end]
        (places,) = counted.nonzero()
        places += begin
        texts = pa.array(column.values[places], pa.string())
        lowest = self.span[0] if self.width else 0
        done = kernels.current().sum_texts(
            offsets(texts), text_bytes(texts), slots[places], state, lowest
        )
        return int(places[done]) if done < len(places) else end

    def wider(self, column: Vector, place: int) -> tuple[int, int]:
        """The span that the text at a place needs too."""
        first, digits = cut(column.values[place])
        begin, end = (first, first) if self.span == UNSPANNED else self.span
        return min(begin, first), max(end, first + len(digits) + 1)


def texts(total: Digits, codes: Codes, some: BoolArray) -> Vector:
    """The sums of groups that have some values."""
    values: Array = np.full(len(codes), "", dtype=np.object_)
    for place in np.flatnonzero(some).tolist():
        values[place] = exact_text(total_of(total.totals[codes[place]]), total.exponent)
    return Vector(values, None if some.all() else some)
