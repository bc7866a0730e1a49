"""`[ROWS n SLIDE m]`: the newest n tuples, as of every m-th tuple.

Tuples are numbered from 0. At each multiple of m, a *boundary* b, the window comes to hold the
tuples with numbers in [b - n, b), in which it resembles windows that slide in time. So a tuple with
the number i

    enters at the first boundary past i,    leaves at the first one at or past i + 1 + n,

and never shows if these are the same, or if both are reached at one timestamp. A boundary is
reached at the timestamp of the tuple before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foundation.arrays import IntArray
from streams.operators.window import Arrived, LoggedWindow
from streams.vectors.vector import Delta


class HopWindow(LoggedWindow):
    """A window that counts rows, and changes when a number of them have come.

    Parameters
    ----------
    rows, slide
        n and m.
    kinds
        Types of the columns that the program reads.
    """

    def __init__(self, rows: int, slide: int, kinds: Sequence[str]) -> None:
        super().__init__(kinds)
        self._rows = rows
        self._slide = slide

    def step(self, arrived: Arrived, until_ms: int) -> Delta | None:
        """Insert the rows before the boundaries that were reached, remove the oldest."""
        log = self._log
        log.append(arrived.ids, arrived.timestamps, arrived.rows)
        passed = self._boundary_before(np.array([arrived.first_id]))
        reached = self._boundary_before(np.array([arrived.first_id + arrived.rows.length]))
        if reached[0] == passed[0]:
            return None
        positions = log.oldest(len(log))
        ids = log.ids(positions)
        enters, leaves = self._boundary_from(ids + 1), self._boundary_from(ids + 1 + self._rows)
        gone = leaves <= reached
        entered_ms, left_ms = (
            self._reached_ms(boundaries, arrived) for boundaries in (enters, leaves)
        )
        shown = np.where(gone & (enters > passed), entered_ms < left_ms, enters < leaves)
        entering = shown & (enters > passed) & (enters <= reached)
        leaving = shown & gone
        change = self._moved(
            positions[entering], entered_ms[entering], positions[leaving], left_ms[leaving]
        )
        log.discard(positions[gone])
        return change

    def evaluated_ms(self, arrived: Arrived, change: Delta | None) -> IntArray:
        """The timestamps at which a boundary was reached."""
        return arrived.timestamps[(arrived.ids + 1) % self._slide == 0]

    def _boundary_before(self, counts: IntArray) -> IntArray:
        return counts - counts % self._slide

    def _boundary_from(self, counts: IntArray) -> IntArray:
        return counts + -counts % self._slide

    def _reached_ms(self, boundaries: IntArray, arrived: Arrived) -> IntArray:
        """When boundaries are reached, as far as this is at one of the tuples that have arrived."""
        places = boundaries - 1 - arrived.first_id
        return arrived.timestamps[np.clip(places, 0, arrived.rows.length - 1)]
