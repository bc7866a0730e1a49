"""`[PARTITION BY c,… ROWS n]` and `[PARTITION BY c,… ROWS n RANGE t]`.

The newest n tuples for each value of the columns; with a range, those of them that are younger
than t. (A tuple that is too old leaves nothing behind: an older one never takes its place, being
older still.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from streams.operators.row_log import RowLog
from streams.operators.window import arrivals, replaced
from streams.state import State
from streams.vector import Delta, Frame

Key = Any
"""Value of the partition column, or tuple of the values of several; None is NULL."""


class PartitionWindow:
    """A window of `rows` rows for each key."""

    def __init__(
        self, rows: int, range_ms: int | None, partition_by: Sequence[int], kinds: Sequence[str]
    ) -> None:
        self._rows = rows
        self._range_ms = range_ms
        self._partition_by = tuple(partition_by)
        self._log = RowLog(kinds)
        self._ids_by_key: dict[Key, deque[int]] = {}
        """Identities of the rows in the window, oldest first. Emptied keys are removed."""

    def step(self, timestamp_ms: int, arrived: Frame, first_seq: int) -> Delta:
        """Let go what is too old or pushed out, take in what arrived."""
        gone = self._expire(timestamp_ms)
        pushed_out, hidden = self._enter(arrived, first_seq)
        gone += pushed_out
        came = arrivals(arrived, first_seq)
        if hidden:
            shown = np.ones(arrived.length, dtype=np.bool_)
            shown[np.array(hidden) - first_seq] = False
            positions = np.flatnonzero(shown)
            came = Delta(arrived.take(positions), shown[positions], first_seq + positions)
        delta = came
        if gone:
            gone_ids = np.array(sorted(gone), dtype=np.int64)
            positions = self._log.positions(gone_ids)
            delta = replaced(self._log.take(positions), gone_ids, came)
            self._log.discard(positions)
        if came.rows.length and came.ids is not None:
            assert isinstance(came.rows, Frame)
            self._log.append(came.ids, timestamp_ms, came.rows)
        return delta

    def _expire(self, timestamp_ms: int) -> list[int]:
        """Take rows that are too old out of their keys."""
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

    def _enter(self, arrived: Frame, first_seq: int) -> tuple[list[int], list[int]]:
        """Put rows into their keys.

        Returns the rows of earlier instants that are pushed out, and those of this one that
        never show.
        """
        pushed_out: list[int] = []
        hidden: list[int] = []
        by_key = self._ids_by_key
        for identity, key in enumerate(self._keys(arrived), first_seq):
            ids = by_key.get(key)
            if ids is None:
                by_key[key] = deque((identity,))
                continue
            ids.append(identity)
            if len(ids) > self._rows:
                oldest = ids.popleft()
                (hidden if oldest >= first_seq else pushed_out).append(oldest)
        return pushed_out, hidden

    def _keys(self, rows: Frame) -> list[Key]:
        if len(self._partition_by) == 1:
            return rows[self._partition_by[0]].to_list()
        return list(zip(*(rows[index].to_list() for index in self._partition_by), strict=True))

    def next_expiry_ms(self) -> int | None:
        """When the oldest row reaches its age."""
        if self._range_ms is None:
            return None
        oldest_ms = self._log.oldest_ms()
        return None if oldest_ms is None else oldest_ms + self._range_ms

    def save(self) -> State:
        """The rows in the window; their keys follow from them."""
        return self._log.save()

    def load(self, state: State) -> None:
        """Go on from saved rows."""
        self._log.load(state)
        positions = self._log.oldest(len(self._log))
        keys = self._keys(self._log.take(positions))
        for key, identity in zip(keys, self._log.ids(positions).tolist(), strict=True):
            self._ids_by_key.setdefault(key, deque()).append(identity)
