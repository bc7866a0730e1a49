"""Window operators turn a stream into a relation. This file holds the parts they share.

A row is identified by the number of rows of the stream that were evaluated before it. At each event
timestamp a window removes the rows that are too old or too many and inserts the rows that arrived.

A window is stepped from one watermark to another and gives the changes of all timestamps between
them at once. This is exact because the time at which a row leaves follows from the stream alone: it
is the row's timestamp plus the range, or the timestamp of the row that pushes it out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foundation.arrays import IntArray
from streams.operators.row_log import RowLog
from streams.vectors.chunk import FOREVER_MS
from streams.vectors.state import Pieces, SnapshotError, State, no_pieces
from streams.vectors.vector import Delta, Frame, Positions

ALL_INSERTED_UP_TO = 4096
_all_true = np.ones(ALL_INSERTED_UP_TO, dtype=np.bool_)


class Arrived(NamedTuple):
    """Consecutive tuples of a stream, possibly none.

    Attributes
    ----------
    rows
        The tuples.
    timestamps
        Their event timestamps; never fall.
    first_id
        Identity of the first of them.
    """

    rows: Frame
    timestamps: IntArray
    first_id: int

    @property
    def ids(self) -> IntArray:
        """Their identities."""
        return np.arange(self.first_id, self.first_id + self.rows.length, dtype=np.int64)

    def until(self, end_ms: int) -> Arrived:
        """The tuples up to a timestamp."""
        count = int(self.timestamps.searchsorted(end_ms, side="right"))
        return Arrived(self.rows.slice(0, count), self.timestamps[:count], self.first_id)

    def after(self, end_ms: int) -> Arrived:
        """The tuples after a timestamp."""
        count = int(self.timestamps.searchsorted(end_ms, side="right"))
        rows = self.rows.slice(count, self.rows.length)
        return Arrived(rows, self.timestamps[count:], self.first_id + count)


class WindowOperator(ABC):
    """A window on one stream. By default it keeps no rows, and no row ever leaves it."""

    @abstractmethod
    def step(self, arrived: Arrived, until_ms: int) -> Delta | None:
        """Advance to a watermark later than all before; return the change of the relation.

        Parameters
        ----------
        arrived
            The tuples since the last watermark.
        until_ms
            The watermark.
        """

    def next_expiry_ms(self) -> int:
        """The next timestamp at which a row leaves because of its age, unless tuples arrive."""
        return FOREVER_MS

    def evaluated_ms(self, arrived: Arrived, change: Delta | None) -> IntArray:
        """The timestamps of the last step at which the statement is evaluated, in any order.

        Parameters
        ----------
        arrived, change
            What the step was given, and what it gave.
        """
        if change is None:
            return arrived.timestamps
        return np.concatenate([arrived.timestamps, change.times_ms])

    def held(self) -> int:
        """Number of rows in it that it keeps itself."""
        return 0

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


class UnboundedWindow(WindowOperator):
    """`[UNBOUNDED]`: every tuple so far. Rows never leave, so the window keeps none of them."""

    def step(self, arrived: Arrived, until_ms: int) -> Delta | None:
        """Insert the rows that arrived."""
        return _arrivals(arrived)


class LoggedWindow(WindowOperator):
    """A window that keeps its rows in a log until they leave."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self._log = RowLog(kinds)

    def _change(self, arrived: Arrived, left: Positions, left_ms: IntArray) -> Delta | None:
        """The relation's change; discards the rows that left from the log.

        Parameters
        ----------
        arrived
            The tuples since the last watermark. They have been appended to the log.
        left, left_ms
            The rows that have left since, in any order, and when.
        """
        if not len(left):
            return _arrivals(arrived)
        log = self._log
        positions = log.newest(arrived.rows.length)
        removed, removed_ms, entered_ms = left, left_ms, arrived.timestamps
        hidden = log.timestamps(left) == left_ms
        if hidden.any():
            # Rows that leave at the timestamp at which they arrive never show.
            shown = np.ones(arrived.rows.length, dtype=np.bool_)
            shown[log.ids(left[hidden]) - arrived.first_id] = False
            positions, entered_ms = positions[shown], entered_ms[shown]
            removed, removed_ms = left[~hidden], left_ms[~hidden]
        change = self._moved(positions, entered_ms, removed, removed_ms)
        left.sort()
        log.discard(left)
        return change

    def _moved(
        self, positions: Positions, entered_ms: IntArray, removed: Positions, removed_ms: IntArray
    ) -> Delta | None:
        """The change in which some rows of the log enter, and others leave."""
        log = self._log
        positions = np.concatenate([removed, positions])
        times_ms = np.concatenate([removed_ms, entered_ms])
        # Rows that leave at a timestamp arrived before those that enter then, and come first.
        order = np.lexsort((positions, times_ms))
        positions = positions[order]
        if not len(positions):
            return None
        return Delta(
            log.rows(positions), order >= len(removed), times_ms[order], log.ids(positions)
        )

    def held(self) -> int:
        """Number of rows in the window."""
        return len(self._log)

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

    def step(self, arrived: Arrived, until_ms: int) -> Delta | None:
        """Remove the rows that are too old, insert those that arrived."""
        log = self._log
        log.append(arrived.ids, arrived.timestamps, arrived.rows)
        expired = log.until(until_ms - self._range_ms)
        return self._change(arrived, expired, log.timestamps(expired) + self._range_ms)

    def next_expiry_ms(self) -> int:
        """When the oldest row reaches the range's age."""
        oldest_ms = self._log.oldest_ms()
        return FOREVER_MS if oldest_ms is None else oldest_ms + self._range_ms


class RowsWindow(LoggedWindow):
    """`[ROWS n]`: the newest n tuples, in the order (timestamp, sequence)."""

    def __init__(self, rows: int, kinds: Sequence[str]) -> None:
        super().__init__(kinds)
        self._rows = rows

    def step(self, arrived: Arrived, until_ms: int) -> Delta | None:
        """Insert the rows that arrived, remove the oldest rows beyond n.

        The n-th row after a row pushes it out. If more than n rows arrive at one timestamp, only
        the last n enter the relation.
        """
        log = self._log
        room = self._rows - len(log)
        log.append(arrived.ids, arrived.timestamps, arrived.rows)
        excess = log.oldest(max(arrived.rows.length - room, 0))
        return self._change(arrived, excess, arrived.timestamps[room:])


def _arrivals(arrived: Arrived) -> Delta | None:
    """The change in which these rows are inserted and none is removed."""
    rows, timestamps, _ = arrived
    count = rows.length
    if not count:
        return None
    inserted = _all_true[:count] if count <= ALL_INSERTED_UP_TO else np.ones(count, dtype=np.bool_)
    return Delta(rows, inserted, timestamps, arrived.ids)
