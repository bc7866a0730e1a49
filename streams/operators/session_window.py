"""`[SESSION g]` and `[SESSION g PARTITION BY c,…]`: the tuples of sessions that have just ended.

A tuple belongs to the session of its key's tuple before it if it comes less than g after that one;
else it begins a session. A session ends g after its last tuple, at the timestamp e. At e the window
holds the tuples of all sessions that end then, and a millisecond later none of them. A statement is
evaluated at these timestamps only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

import numpy as np

from foundation.arrays import IntArray
from streams.operators.partition_window import Key, keys_of
from streams.operators.window import Arrived, LoggedWindow
from streams.vectors.chunk import FOREVER_MS
from streams.vectors.state import Pieces, State
from streams.vectors.vector import Delta


class _Session:
    """An open session: the identities of its rows, and the timestamp of the last one."""

    __slots__ = ("ids", "last_ms")

    def __init__(self, identity: int, last_ms: int) -> None:
        self.ids = [identity]
        self.last_ms = last_ms


class SessionWindow(LoggedWindow):
    """A window of sessions that end `gap_ms` after their last tuple."""

    def __init__(self, gap_ms: int, partition_by: Sequence[int], kinds: Sequence[str]) -> None:
        super().__init__(kinds)
        self._gap_ms = gap_ms
        self._partition_by = tuple(partition_by)
        self._open: dict[Key, _Session] = {}
        self._ends: list[tuple[int, int, Key]] = []
        """For each open session a time, by which it may have ended, its first row and its key."""
        self._shown: list[int] = []
        """Identities of the rows that the window holds."""
        self._shown_ms = -FOREVER_MS
        """Since when."""

    def step(self, arrived: Arrived, until_ms: int) -> Delta | None:
        """End the sessions that go on no more; take those out that ended before."""
        self._log.append(arrived.ids, arrived.timestamps, arrived.rows)
        ended = self._add(arrived)
        ended += self._ended(until_ms)
        entered = [(identity, end_ms) for end_ms, ids in ended for identity in ids]
        left = [(identity, self._shown_ms + 1) for identity in self._shown]
        left += [(identity, end_ms + 1) for identity, end_ms in entered if end_ms < until_ms]
        self._shown = [identity for identity, end_ms in entered if end_ms == until_ms]
        self._shown_ms = until_ms
        return self._change_of(entered, left)

    def _add(self, arrived: Arrived) -> list[tuple[int, list[int]]]:
        """Add rows to their sessions. Returns ends and rows of those that others follow."""
        ended: list[tuple[int, list[int]]] = []
        keys = keys_of(arrived.rows, self._partition_by)
        times_ms: list[int] = arrived.timestamps.tolist()
        for identity, (key, at_ms) in enumerate(zip(keys, times_ms, strict=True), arrived.first_id):
            session = self._open.get(key)
            if session is not None:
                if at_ms - session.last_ms < self._gap_ms:
                    session.ids.append(identity)
                    session.last_ms = at_ms
                    continue
                ended.append((session.last_ms + self._gap_ms, session.ids))
            self._begin(key, identity, at_ms)
        return ended

    def _begin(self, key: Key, identity: int, at_ms: int) -> None:
        self._open[key] = _Session(identity, at_ms)
        heappush(self._ends, (at_ms + self._gap_ms, identity, key))

    def _ended(self, until_ms: int) -> list[tuple[int, list[int]]]:
        """Close the sessions that end until a timestamp; returns their ends and rows."""
        ended: list[tuple[int, list[int]]] = []
        while self._ends and self._ends[0][0] <= until_ms:
            _, first, key = heappop(self._ends)
            session = self._open.get(key)
            if session is None or session.ids[0] != first:
                continue
            end_ms = session.last_ms + self._gap_ms
            if end_ms > until_ms:
                # It has gone on since.
                heappush(self._ends, (end_ms, first, key))
                continue
            ended.append((end_ms, session.ids))
            del self._open[key]
        return ended

    def _change_of(
        self, entered: list[tuple[int, int]], left: list[tuple[int, int]]
    ) -> Delta | None:
        """The change in which rows enter and leave; discards those that left."""
        moves = np.array([*left, *entered], dtype=np.int64).reshape(-1, 2)
        if not len(moves):
            return None
        inserted = np.arange(len(moves)) >= len(left)
        order = np.lexsort((moves[:, 0], inserted, moves[:, 1]))
        ids, times_ms = moves[order, 0], moves[order, 1]
        log = self._log
        sorted_ids = np.unique(ids)
        positions = log.positions(sorted_ids)[sorted_ids.searchsorted(ids)]
        # A row that enters and leaves is in the log once: take the rows before they are discarded.
        change = Delta(log.take(positions), inserted[order], times_ms, ids)
        log.discard(log.positions(np.unique(moves[: len(left), 0])))
        return change

    def next_expiry_ms(self) -> int:
        """When a row may leave, or a session may end."""
        end_ms = self._ends[0][0] if self._ends else FOREVER_MS
        return min(end_ms, self._shown_ms + 1) if self._shown else end_ms

    def evaluated_ms(self, arrived: Arrived, change: Delta | None) -> IntArray:
        """When sessions end, and a millisecond later."""
        return arrived.timestamps[:0] if change is None else change.times_ms

    def save(self) -> Pieces:
        """Since when rows are held, if some are, then all rows."""
        values = {"shown_ms": self._shown_ms, "shown": len(self._shown)}
        rows, shown = super().save(), bool(self._shown)

        def pieces() -> Iterator[State]:
            if shown:
                yield State(values=values)
            yield from rows()

        return pieces

    def load(self, state: State) -> None:
        """Take since when rows are held, or append saved rows."""
        match state.values:
            case {"shown_ms": int(shown_ms)}:
                self._shown_ms = shown_ms
            case _:
                super().load(state)

    def loaded(self) -> None:
        """Find the sessions of the rows."""
        log = self._log
        positions = log.newest(len(log))
        rows = log.take(positions)
        ids = log.ids(positions)
        times_ms = log.timestamps(positions)
        ended: list[tuple[int, list[int]]] = []
        for identity, key, at_ms in zip(
            ids.tolist(), keys_of(rows, self._partition_by), times_ms.tolist(), strict=True
        ):
            session = self._open.get(key)
            if session is not None and at_ms - session.last_ms < self._gap_ms:
                session.ids.append(identity)
                session.last_ms = at_ms
                continue
            if session is not None:
                ended.append((session.last_ms + self._gap_ms, session.ids))
            self._begin(key, identity, at_ms)
        ended += self._ended(self._shown_ms)
        self._shown = [identity for _, of_session in ended for identity in of_session]
