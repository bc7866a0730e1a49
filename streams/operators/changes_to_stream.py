"""ISTREAM and DSTREAM: the rows inserted into a relation, or removed, since the last timestamp.

    ISTREAM(R) at τ = R(τ) − R(τ⁻),   DSTREAM(R) at τ = R(τ⁻) − R(τ),

differences of multisets. They follow from the relation's change alone: a row that was inserted as
often as it was removed did not change. These operators therefore have no state.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from streams.vector import Delta, Frame


class ChangesToStream:
    """Emits the net change in one direction."""

    def __init__(self, *, inserted: bool) -> None:
        """
        Parameters
        ----------
        inserted
            True for ISTREAM, False for DSTREAM.
        """
        self._inserted = inserted

    def step(self, change: Delta | None) -> Frame | None:
        """Rows to emit, in the order of the change; None for none.

        If some of several equal rows cancel, the later ones remain.
        """
        if change is None:
            return None
        rows = change.rows
        assert isinstance(rows, Frame)
        wanted = change.inserted if self._inserted else ~change.inserted
        count = int(np.count_nonzero(wanted))
        if not count:
            return None
        if count == rows.length:
            return rows
        emitted = rows.take(np.flatnonzero(wanted))
        cancelling = Counter(rows.take(np.flatnonzero(~wanted)).tuples())
        kept: list[int] = []
        for position, row in enumerate(emitted.tuples()):
            if cancelling[row] > 0:
                cancelling[row] -= 1
            else:
                kept.append(position)
        if len(kept) == emitted.length:
            return emitted
        return emitted.take(np.array(kept, dtype=np.intp)) if kept else None
