"""`[PARTITION BY c,… ROWS n]` and `[PARTITION BY c,… ROWS n RANGE t]`.

The window holds the newest n tuples for each value of the columns; with a range, only those of
them that are younger than t. An expired tuple is not replaced: every other candidate is older.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from streams.chunk import FOREVER_MS
from streams.operators.window import LoggedWindow, arrivals
from streams.state import State
from streams.vector import Delta, Frame

Key = Any
"""Value of the partition column, or tuple of the values of several; None is NULL."""


class PartitionWindow(LoggedWindow):
    """A window of `rows` rows for each key."""

    def __init__(
        self, rows: int, range_ms: int | None, partition_by: Sequence[int], kinds: Sequence[str]
    ) -> None:
        super().__init__(kinds)
        self._rows = rows
        self._range_ms = range_ms
        self._partition_by = tuple(partition_by)
        self._ids_by_key: dict[Key, deque[int]] = {}
        """Identities of the rows in the window, oldest first. Emptied keys are removed."""

    def step(self, timestamp_ms: int, arrived: Frame, first_id: int) -> Delta:
        """Remove the rows that are too old or pushed out, insert those that arrived."""
        removed = self._expire(timestamp_ms)
        pushed_out, hidden = self._enter(arrived, first_id)
        removed += pushed_out
        inserted = arrivals(arrived, first_id)
        if hidden:
            shown = np.ones(arrived.length, dtype=np.bool_)
            shown[np.array(hidden) - first_id] = False
            positions = np.flatnonzero(shown)
            inserted = Delta(arrived.take(positions), shown[positions], first_id + positions)
        removed_ids = np.array(sorted(removed), dtype=np.int64)
        return self._change(timestamp_ms, self._log.positions(removed_ids), inserted)

    def _expire(self, timestamp_ms: int) -> list[int]:
        """Remove the rows that are too old from their keys; return their identities."""
        if self._range_ms is None:
            return []
        positions = self._log.until(timestamp_ms - self._range_ms)
        if not len(positions):
            return []
        expired: list[int] = self._log.ids(positions).tolist()
        for key in self._keys(self._log.take(positions)):
            ids = self._ids_by_key[key]
            # The oldest row overall is the oldest of its key.
            ids.popleft()
            if not ids:
                del self._ids_by_key[key]
        return expired

    def _enter(self, arrived: Frame, first_id: int) -> tuple[list[int], list[int]]:
        """Add rows to their keys.

        Returns the identities of earlier rows that are pushed out, and of arrived rows that later
        rows of the same timestamp push out before they ever show.
        """
        pushed_out: list[int] = []
        hidden: list[int] = []
        by_key = self._ids_by_key
        for identity, key in enumerate(self._keys(arrived), first_id):
            ids = by_key.get(key)
            if ids is None:
                by_key[key] = deque((identity,))
                continue
            ids.append(identity)
            if len(ids) > self._rows:
                oldest = ids.popleft()
                (hidden if oldest >= first_id else pushed_out).append(oldest)
        return pushed_out, hidden

    def _keys(self, rows: Frame) -> list[Key]:
        if len(self._partition_by) == 1:
            return rows[self._partition_by[0]].to_list()
        return list(zip(*(rows[index].to_list() for index in self._partition_by), strict=True))

    def next_expiry_ms(self) -> int:
        """When the oldest row reaches the range's age."""
        oldest_ms = self._log.oldest_ms()
        if self._range_ms is None or oldest_ms is None:
            return FOREVER_MS
        return oldest_ms + self._range_ms

    def load(self, state: State) -> None:
        """Append saved rows; the keys follow from them."""
        before = len(self._log)
        super().load(state)
        positions = self._log.newest(len(self._log) - before)
        keys = self._keys(self._log.take(positions))
        for key, identity in zip(keys, self._log.ids(positions).tolist(), strict=True):
            self._ids_by_key.setdefault(key, deque()).append(identity)
