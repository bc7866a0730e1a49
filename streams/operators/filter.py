"""Selection: the rows for which a condition is true."""

from __future__ import annotations

import numpy as np

from streams.expressions import Typed, evaluator, holds
from streams.vector import Delta, Frame


class Filter:
    """Passes on the changes of rows for which the condition is true; has no state."""

    def __init__(self, condition: Typed) -> None:
        self._evaluate = evaluator(condition)

    def step(self, delta: Delta) -> Delta:
        """The part of a change that passes."""
        rows = delta.rows
        if not rows.length:
            return delta
        assert isinstance(rows, Frame)
        passing = holds(self._evaluate, rows, (rows.length,))
        if passing.all():
            return delta
        kept = np.flatnonzero(passing)
        ids = None if delta.ids is None else delta.ids[kept]
        return Delta(rows.take(kept), delta.inserted[kept], ids)
