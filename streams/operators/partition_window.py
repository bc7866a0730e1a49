"""`[PARTITION BY c,… ROWS n]` and `[PARTITION BY c,… ROWS n RANGE t]`.

The window holds the newest n tuples for each value of the columns; with a range, only those of
them that are younger than t. An expired tuple is not replaced: every other candidate is older.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from foundation.arrays import IntArray
from streams.operators.window import Arrived, LoggedWindow
from streams.vectors.chunk import FOREVER_MS
from streams.vectors.state import State
from streams.vectors.vector import Delta, Positions, Rows

_none: IntArray = np.empty(0, dtype=np.int64)

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

    def step(self, arrived: Arrived, until_ms: int) -> Delta | None:
        """Remove the rows that are too old or pushed out, insert those that arrived."""
        log = self._log
        log.append(arrived.ids, arrived.timestamps, arrived.rows)
        pushed_out, left_ms = self._enter(arrived)
        left = log.positions(pushed_out)
        if self._range_ms is not None:
            left_ms = np.minimum(left_ms, log.timestamps(left) + self._range_ms)
            if self.next_expiry_ms() <= until_ms:
                expired = log.until(until_ms - self._range_ms)
                expired = expired[~np.isin(expired, left)]
                self._drop(expired)
                left = np.concatenate([left, expired])
                left_ms = np.concatenate([left_ms, log.timestamps(expired) + self._range_ms])
        return self._change(arrived, left, left_ms)

    def _enter(self, arrived: Arrived) -> tuple[IntArray, IntArray]:
        """Add rows to their keys.

        Returns the identities of the rows that are pushed out, in order, and when. Such a row may
        have grown too old before; whether it has does not change which rows are pushed out.
        """
        ids_by_key, rows = self._ids_by_key, self._rows
        pushed_out: dict[int, int] = {}
        keys = self._keys(arrived.rows)
        timestamps: list[int] = arrived.timestamps.tolist()
        for identity, (key, timestamp_ms) in enumerate(
            zip(keys, timestamps, strict=True), arrived.first_id
        ):
            ids = ids_by_key.get(key)
            if ids is None:
                ids_by_key[key] = deque((identity,))
                continue
            ids.append(identity)
            if len(ids) > rows:
                pushed_out[ids.popleft()] = timestamp_ms
        if not pushed_out:
            return _none, _none
        identities = np.array(list(pushed_out), dtype=np.int64)
        order = identities.argsort()
        left_ms = np.array(list(pushed_out.values()), dtype=np.int64)
        return identities[order], left_ms[order]

    def _drop(self, expired: Positions) -> None:
        """Remove the rows that are too old from their keys."""
        for key in self._keys(self._log.rows(expired)):
            ids = self._ids_by_key[key]
            # The oldest row overall is the oldest of its key.
            ids.popleft()
            if not ids:
                del self._ids_by_key[key]

    def _keys(self, rows: Rows) -> list[Key]:
        return keys_of(rows, self._partition_by)

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
        keys = self._keys(self._log.rows(positions))
        for key, identity in zip(keys, self._log.ids(positions).tolist(), strict=True):
            self._ids_by_key.setdefault(key, deque()).append(identity)


def keys_of(rows: Rows, partition_by: Sequence[int]) -> list[Key]:
    """The values of some columns, row by row."""
    if not partition_by:
        return [()] * rows.length
    if len(partition_by) == 1:
        return rows[partition_by[0]].to_list()
    return list(zip(*(rows[index].to_list() for index in partition_by), strict=True))
