"""`[RANGE r SLIDE s OFFSET o]`: a window that changes at its *boundaries* only.

The boundaries are o plus the multiples of s. From a boundary b on, until the next one, the window
holds the tuples with timestamps in (b - r, b]. A tuple with timestamp t hence

    enters at the first boundary at or past t,    leaves at the first one at or past t + r,

and never shows if these are the same. A statement is evaluated at every boundary at which the
window holds tuples or has held some just before. At those at which none enters or leaves, only
RSTREAM emits anything, so the others need not know them: they are range / slide for each tuple.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from foundation.arrays import BoolArray, IntArray
from streams.operators.window import Arrived, LoggedWindow
from streams.vectors.chunk import FOREVER_MS
from streams.vectors.state import Pieces, SnapshotError, State
from streams.vectors.vector import Delta, Positions

_none: IntArray = np.empty(0, dtype=np.int64)


class SlideWindow(LoggedWindow):
    """A window with a range, a slide and an offset, ms.

    Parameters
    ----------
    range_ms, slide_ms, offset_ms
        As above.
    kinds
        Types of the columns that the program reads.
    each_boundary
        Whether `evaluated_ms` gives the boundaries at which nothing changes, too.
    """

    def __init__(
        self,
        range_ms: int,
        slide_ms: int,
        offset_ms: int,
        kinds: Sequence[str],
        *,
        each_boundary: bool,
    ) -> None:
        super().__init__(kinds)
        self._each_boundary = each_boundary
        self._range_ms = range_ms
        self._slide_ms = slide_ms
        self._offset_ms = offset_ms
        self._boundary_ms = -FOREVER_MS
        """The last boundary that was passed."""
        self._emptied_ms = -FOREVER_MS
        """The boundary at which the newest row that has entered leaves."""
        self._pending = 0
        """Number of the newest rows of the log that have not entered yet."""
        self._entering_ms = FOREVER_MS
        """The boundary at which the oldest of them enters."""
        self._evaluated_ms = _none

    def step(self, arrived: Arrived, until_ms: int) -> Delta | None:
        """Remove the rows that are too old at a boundary, insert those that it brings."""
        log = self._log
        log.append(arrived.ids, arrived.timestamps, arrived.rows)
        if arrived.rows.length and not self._pending:
            self._entering_ms = self._boundary_from(int(arrived.timestamps[0]))
        self._pending += arrived.rows.length
        passed_ms, self._evaluated_ms = self._boundary_ms, _none
        if until_ms < self.next_expiry_ms():
            return None
        self._boundary_ms = boundary_ms = until_ms - (until_ms - self._offset_ms) % self._slide_ms
        positions = log.newest(self._pending)
        entering = int(log.timestamps(positions).searchsorted(boundary_ms, side="right"))
        positions = positions[:entering]
        entered_ms = self._boundaries_from(log.timestamps(positions))
        their_end_ms = self._boundaries_from(log.timestamps(positions) + self._range_ms)
        shown = their_end_ms > entered_ms
        positions, entered_ms, their_end_ms = (
            positions[shown],
            entered_ms[shown],
            their_end_ms[shown],
        )
        if self._each_boundary:
            self._evaluated_ms = self._held_at(passed_ms, entered_ms, their_end_ms)
        if len(their_end_ms):
            self._emptied_ms = int(their_end_ms[-1])
        self._pending -= entering
        self._look_ahead()
        left = log.until(boundary_ms - self._range_ms)
        left_ms = self._boundaries_from(log.timestamps(left) + self._range_ms)
        seen = left_ms > self._boundaries_from(log.timestamps(left))
        showing = self.rows_to_keep(positions, entered_ms, their_end_ms)
        hidden = positions[:0]
        if showing is not None:
            hidden = positions[~showing]
            positions, entered_ms = positions[showing], entered_ms[showing]
            seen &= ~np.isin(left, hidden)
        change = self._moved(positions, entered_ms, left[seen], left_ms[seen])
        log.discard(np.union1d(left, hidden) if len(hidden) else left)
        return change

    def rows_to_keep(
        self, positions: Positions, entered_ms: IntArray, left_ms: IntArray
    ) -> BoolArray | None:
        """Which of the rows that enter are wanted; None for all.

        Parameters
        ----------
        positions
            The rows in the order in which they came, of whole panes.
        entered_ms, left_ms
            The boundaries at which they enter and leave.
        """
        return None

    def _held_at(self, passed_ms: int, entered_ms: IntArray, left_ms: IntArray) -> IntArray:
        """The boundaries of this step at which some row has entered and has not left before."""
        slide_ms = self._slide_ms
        begins = np.concatenate([[passed_ms + slide_ms], entered_ms])
        ends = np.concatenate([[self._emptied_ms], left_ms])
        ends = np.minimum(ends, self._boundary_ms)
        # Neither begins nor ends fall: what lies before an end is that of a row before.
        begins[1:] = np.maximum(begins[1:], ends[:-1] + slide_ms)
        counts = np.maximum((ends - begins) // slide_ms + 1, 0)
        places = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(begins, counts) + places * slide_ms

    def _look_ahead(self) -> None:
        """Find out when the oldest pending row enters."""
        self._entering_ms = FOREVER_MS
        if self._pending:
            first = self._log.timestamps(self._log.newest(self._pending)[:1])
            self._entering_ms = self._boundary_from(int(first[0]))

    def _boundaries_from(self, times_ms: IntArray) -> IntArray:
        """The first boundary at or past each timestamp."""
        return times_ms + (self._offset_ms - times_ms) % self._slide_ms

    def _boundary_from(self, at_ms: int) -> int:
        return at_ms + (self._offset_ms - at_ms) % self._slide_ms

    def next_expiry_ms(self) -> int:
        """The next boundary at which the statement is evaluated."""
        if self._emptied_ms > self._boundary_ms:
            return min(self._boundary_ms + self._slide_ms, self._entering_ms)
        return self._entering_ms

    def evaluated_ms(self, arrived: Arrived, change: Delta | None) -> IntArray:
        """Boundaries."""
        if self._each_boundary:
            return self._evaluated_ms
        return _none if change is None else change.times_ms

    def save(self) -> Pieces:
        """How many rows are pending and the last boundary, then the rows."""
        held = self._emptied_ms > self._boundary_ms
        values = {"pending": self._pending, "boundary_ms": self._boundary_ms if held else None}
        rows, empty = super().save(), not len(self._log)

        def pieces() -> Iterator[State]:
            if not empty:
                yield State(values=values)
            yield from rows()

        return pieces

    def load(self, state: State) -> None:
        """Take the number of pending rows and the last boundary, or append saved rows."""
        match state.values:
            case {"pending": int(pending), "boundary_ms": int(boundary_ms)}:
                self._pending, self._boundary_ms = pending, boundary_ms
            case {"pending": int(pending), "boundary_ms": None}:
                self._pending = pending
            case _:
                super().load(state)

    def loaded(self) -> None:
        """Find out when rows enter and leave next."""
        log = self._log
        if not 0 <= self._pending <= len(log):
            raise SnapshotError(f"{self._pending} rows of {len(log)} cannot be pending")
        if self._boundary_ms != -FOREVER_MS:
            if self._pending == len(log):
                raise SnapshotError("no row has entered, yet a boundary was passed")
            newest = log.timestamps(log.newest(self._pending + 1)[:1])
            self._emptied_ms = self._boundary_from(int(newest[0]) + self._range_ms)
        self._look_ahead()
