"""Window operators turn a stream into a relation. This file holds the parts they share.

A row is identified by the number of rows of the stream that were evaluated before it. At each event
timestamp a window removes the rows that are too old or too many and inserts the rows that arrived.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from streams.chunk import FOREVER_MS
from streams.operators.row_log import RowLog
from streams.state import Pieces, SnapshotError, State, no_pieces
from streams.vector import Delta, Frame, Positions, concat_frames
from topology.arrays import IntArray

ALL_INSERTED_UP_TO = 4096
_all_true = np.ones(ALL_INSERTED_UP_TO, dtype=np.bool_)
_no_ids: IntArray = np.empty(0, dtype=np.int64)


class Window(ABC):
    """A window on one stream. By default it keeps no rows, and no row ever leaves it."""

    @abstractmethod
    def step(self, timestamp_ms: int, arrived: Frame, first_id: int) -> Delta:
        """Advance to a timestamp later than all before; return the change of the relation.

        Parameters
        ----------
        timestamp_ms
            The event timestamp.
        arrived
            The tuples of that timestamp, possibly none.
        first_id
            Identity of the first of them.
        """

    def next_expiry_ms(self) -> int:
        """The next timestamp at which a row leaves because of its age, unless tuples arrive."""
        return FOREVER_MS

    def save(self) -> Pieces:
        """The state that later output depends on."""
        return no_pieces

    def load(self, state: State) -> None:
        """Take the next piece of saved state; only on a new window.

        Raises
        ------
        SnapshotError
            The state is not that of this window.
        """
        raise SnapshotError("the snapshot has rows of a window that keeps none")

    def loaded(self) -> None:
        """Note that all pieces have been taken: nothing is left to do."""
        return


class UnboundedWindow(Window):
    """`[UNBOUNDED]`: every tuple so far. Rows never leave, so the window keeps none of them."""

    def step(self, timestamp_ms: int, arrived: Frame, first_id: int) -> Delta:
        """Insert the rows that arrived."""
        return arrivals(arrived, first_id)


class LoggedWindow(Window):
    """A window that keeps its rows in a log until they leave."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._log = RowLog(kinds)

    def _change(self, timestamp_ms: int, removed: Positions, inserted: Delta) -> Delta:
        """Discard rows from the log, append those inserted; return the relation's change."""
        rows, _, ids = inserted
        assert isinstance(rows, Frame)
        assert ids is not None
        change = inserted
        if len(removed):
            change = _replaced(self._log.take(removed), self._log.ids(removed), inserted)
            self._log.discard(removed)
        if rows.length:
            self._log.append(ids, timestamp_ms, rows)
        return change

    def save(self) -> Pieces:
        """The rows in the window."""
        return self._log.save()

    def load(self, state: State) -> None:
        """Append saved rows."""
        self._log.load(state)


class RangeWindow(LoggedWindow):
    """`[RANGE t]`: tuples with timestamps in (τ - t, τ]. `[NOW]` is the range of 1 ms."""

    def __init__(self, range_ms: int, kinds: Sequence[str]) -> None:
        super().__init__(kinds)
        self._range_ms = range_ms

    def step(self, timestamp_ms: int, arrived: Frame, first_id: int) -> Delta:
        """Remove the rows that are too old, insert those that arrived."""
        expired = self._log.until(timestamp_ms - self._range_ms)
        return self._change(timestamp_ms, expired, arrivals(arrived, first_id))

    def next_expiry_ms(self) -> int:
        """When the oldest row reaches the range's age."""
        oldest_ms = self._log.oldest_ms()
        return FOREVER_MS if oldest_ms is None else oldest_ms + self._range_ms


class RowsWindow(LoggedWindow):
    """`[ROWS n]`: the newest n tuples, in the order (timestamp, sequence)."""

    def __init__(self, rows: int, kinds: Sequence[str]) -> None:
        super().__init__(kinds)
        self._rows = rows

    def step(self, timestamp_ms: int, arrived: Frame, first_id: int) -> Delta:
        """Insert the rows that arrived, remove the oldest rows beyond n.

        If more than n rows arrive at one timestamp, only the last n enter the relation.
        """
        skipped = max(arrived.length - self._rows, 0)
        if skipped:
            arrived = arrived.slice(skipped, arrived.length)
        excess = max(len(self._log) + arrived.length - self._rows, 0)
        return self._change(
            timestamp_ms, self._log.oldest(excess), arrivals(arrived, first_id + skipped)
        )


def arrivals(arrived: Frame, first_id: int) -> Delta:
    """The change in which these rows are inserted and none is removed."""
    count = arrived.length
    inserted = _all_true[:count] if count <= ALL_INSERTED_UP_TO else np.ones(count, dtype=np.bool_)
    return Delta(arrived, inserted, np.arange(first_id, first_id + count, dtype=np.int64))


def _replaced(removed: Frame, removed_ids: IntArray, inserted: Delta) -> Delta:
    """The change with the removed rows first, then those inserted."""
    assert isinstance(inserted.rows, Frame)
    rows = concat_frames([removed, inserted.rows]) if inserted.rows.length else removed
    flags = np.zeros(rows.length, dtype=np.bool_)
    flags[removed.length :] = True
    ids = _no_ids if inserted.ids is None else inserted.ids
    return Delta(rows, flags, np.concatenate([removed_ids, ids]))
