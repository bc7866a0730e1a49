"""Selection: the rows for which a condition is true."""

from __future__ import annotations

from streams.expressions.typed import Typed, evaluator, holds
from streams.vectors.vector import Delta


class Filter:
    """Passes on the changes of rows for which the condition is true; has no state."""

    def __init__(self, condition: Typed) -> None:
        self._evaluate = evaluator(condition)

    def step(self, delta: Delta) -> Delta | None:
        """The part of a change that passes; None for none."""
        rows, inserted, times_ms, ids = delta
        passing = holds(self._evaluate, rows, (rows.length,))
        kept = passing.nonzero()[0]
        if len(kept) == rows.length:
            return delta
        if not len(kept):
            return None
        kept_ids = None if ids is None else ids[kept]
        return Delta(rows.take(kept), inserted[kept], times_ms[kept], kept_ids)
