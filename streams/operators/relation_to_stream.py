"""RSTREAM: the whole relation, at every timestamp at which one of its windows changed.

Of a periodic statement, at its releases.
"""

from __future__ import annotations

import numpy as np

from foundation.arrays import IntArray
from streams.operators.identify import IdentifiedRows
from streams.vectors.vector import Delta, Emitted


class RelationToStream(IdentifiedRows):
    """Keeps the relation, its rows in order of insertion."""

    def emitted(self, change: Delta | None, steps_ms: IntArray) -> Emitted | None:
        """Rows to emit; None for none.

        Parameters
        ----------
        change
            The change of the relation.
        steps_ms
            The timestamps at which it is emitted, rising.
        """
        relation = self.relation
        if change is not None:
            self.step(change)
        if not len(steps_ms):
            return None
        entered_ms, left_ms = relation.entered_ms, relation.left_ms
        steps: list[int] = steps_ms.tolist()
        places = [np.flatnonzero((entered_ms <= at_ms) & (at_ms < left_ms)) for at_ms in steps]
        held = np.concatenate(places)
        if not len(held):
            return None
        times_ms = steps_ms.repeat([len(of_step) for of_step in places])
        return Emitted(relation.rows.take(held), times_ms)
