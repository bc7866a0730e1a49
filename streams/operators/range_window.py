"""`[RANGE t]`: tuples with timestamps in (τ − t, τ]. `[NOW]` is the range of one millisecond."""

from __future__ import annotations

from collections.abc import Sequence

from streams.operators.row_log import RowLog
from streams.operators.window import arrivals, replaced
from streams.state import State
from streams.vector import Delta, Frame


class RangeWindow:
    """Rows leave `range_ms` after their timestamp."""

    def __init__(self, range_ms: int, kinds: Sequence[str]) -> None:
        self._range_ms = range_ms
        self._log = RowLog(kinds)

    def step(self, timestamp_ms: int, arrived: Frame, first_seq: int) -> Delta:
        """Let go what is too old, take in what arrived."""
        came = arrivals(arrived, first_seq)
        expired = self._log.until(timestamp_ms - self._range_ms)
        delta = came
        if len(expired):
            delta = replaced(self._log.take(expired), self._log.ids(expired), came)
            self._log.discard(expired)
        if arrived.length and came.ids is not None:
            self._log.append(came.ids, timestamp_ms, arrived)
        return delta

    def next_expiry_ms(self) -> int | None:
        """When the oldest row reaches its age."""
        oldest_ms = self._log.oldest_ms()
        return None if oldest_ms is None else oldest_ms + self._range_ms

    def save(self) -> State:
        """The rows in the window."""
        return self._log.save()

    def load(self, state: State) -> None:
        """Go on from saved rows."""
        self._log.load(state)
