"""Selection: the rows for which a condition is true."""

from __future__ import annotations

import numpy as np

from streams.expressions import Typed, evaluator
from streams.vector import Delta, Frame, truth


class Filter:
    """Lets through changes that concern rows the condition holds for; remembers nothing."""

    def __init__(self, condition: Typed) -> None:
        self._evaluate = evaluator(condition)

    def step(self, delta: Delta) -> Delta:
        """The part of a change that shows."""
        rows = delta.rows
        if not rows.length:
            return delta
        assert isinstance(rows, Frame)
        holds = np.broadcast_to(truth(self._evaluate(rows)), (rows.length,))
        if holds.all():
            return delta
        kept = np.flatnonzero(holds)
        ids = None if delta.ids is None else delta.ids[kept]
        return Delta(rows.take(kept), delta.inserted[kept], ids)
