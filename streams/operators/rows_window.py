"""`[ROWS n]`: the newest n tuples, in the order (timestamp, sequence)."""

from __future__ import annotations

from collections.abc import Sequence

from streams.operators.row_log import RowLog
from streams.operators.window import arrivals, replaced
from streams.state import State
from streams.vector import Delta, Frame


class RowsWindow:
    """Rows leave when `rows` newer ones have come."""

    def __init__(self, rows: int, kinds: Sequence[str]) -> None:
        self._rows = rows
        self._log = RowLog(kinds)

    def step(self, timestamp_ms: int, arrived: Frame, first_seq: int) -> Delta:
        """Take in what arrived, let go what is too much.

        Of more than n rows of one instant only the last n are ever in the relation.
        """
        skipped = max(arrived.length - self._rows, 0)
        if skipped:
            arrived = arrived.slice(skipped, arrived.length)
        came = arrivals(arrived, first_seq + skipped)
        too_many = max(len(self._log) + arrived.length - self._rows, 0)
        delta = came
        if too_many:
            pushed_out = self._log.oldest(too_many)
            delta = replaced(self._log.take(pushed_out), self._log.ids(pushed_out), came)
            self._log.discard(pushed_out)
        if arrived.length and came.ids is not None:
            self._log.append(came.ids, timestamp_ms, arrived)
        return delta

    def next_expiry_ms(self) -> int | None:
        """Never: only other rows push a row out."""
        return None

    def save(self) -> State:
        """The rows in the window."""
        return self._log.save()

    def load(self, state: State) -> None:
        """Go on from saved rows."""
        self._log.load(state)
