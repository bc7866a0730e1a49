"""Credit of a host that takes as many tuples of a stream as it processes within a time.

Producers count credit in bytes, of their own chunks (`ha.messages.Ack.room_bytes`), and a chunk of
few tuples takes as much as one of many. So the host notes how many bytes the chunks had that have
come, and expects the next ones to be like the last ones.

How many tuples a reader can process is computed elsewhere. If it has always had some lately, it
also shows here: it may be slower because its own consumers hold it up.
"""

from __future__ import annotations

from collections import deque

from ha.messages import Data

RECENT_TUPLES = 256
"""Tuples whose size in bytes is averaged: few, because chunks soon grow when more tuples come."""

WATCHED_US = 400_000
"""How long a reader must have had input until its pace counts; several acknowledgements, which may
come every 200 ms."""


class Pace:
    """What has come of one stream for one reader, and how fast it is processed."""

    def __init__(self) -> None:
        self._generation = 0
        self._begin = 0, 0
        self._ends: deque[tuple[int, int]] = deque()
        """(number, bytes) up to the end of each chunk that is not processed."""
        self._recent_bytes = self._recent_tuples = 0.0
        self._processed: deque[tuple[int, int]] = deque()
        """When was processed up to which number, as long as more was there."""

    def came(self, data: Data) -> None:
        """Note data; what has come before is left out."""
        if data.generation != self._generation:
            self._generation = data.generation
            self._ends.clear()
            self._processed.clear()
            self._begin = data.chunk.first_seq, 0
        last_seq, last_bytes = self._last
        if data.chunk.first_seq < last_seq:
            return
        self._ends.append((data.chunk.next_seq, last_bytes + data.counted_bytes))
        self._recent_bytes += data.counted_bytes
        self._recent_tuples += data.chunk.rows.num_rows
        if self._recent_tuples > RECENT_TUPLES:
            kept = RECENT_TUPLES / 2 / self._recent_tuples
            self._recent_bytes *= kept
            self._recent_tuples *= kept

    def tuples(self, processed_seq: int, most: int, within_us: float, now_us: int) -> int:
        """How many tuples beyond what is processed the reader should have, at most.

        Parameters
        ----------
        processed_seq
            Number of the first tuple that is not processed.
        most
            How many it can process, as is computed.
        within_us
            The time within which.
        """
        watched = self._processed
        if self._last[0] <= processed_seq or (watched and watched[-1][1] > processed_seq):
            watched.clear()
        watched.append((now_us, processed_seq))
        while len(watched) > 1 and watched[1][0] <= now_us - WATCHED_US:
            watched.popleft()
        since_us, since_seq = watched[0]
        if now_us - since_us < WATCHED_US:
            return most
        paced = (processed_seq - since_seq) * within_us / (now_us - since_us)
        return max(min(most, int(paced)), 1)

    def room_bytes(self, processed_seq: int, tuples: int) -> int | None:
        """The credit beyond what is processed for so many tuples; None while nothing has come."""
        if not self._recent_tuples:
            return None
        while self._ends and self._ends[0][0] <= processed_seq:
            self._begin = self._ends.popleft()
        begin_bytes = self._begin[1]
        last_seq, last_bytes = self._last
        lacks = processed_seq + tuples - max(last_seq, processed_seq)
        if lacks >= 0:
            each_bytes = self._recent_bytes / self._recent_tuples
            return round(last_bytes - begin_bytes + lacks * each_bytes)
        wanted_seq = processed_seq + tuples
        return next(size for seq, size in self._ends if seq >= wanted_seq) - begin_bytes

    @property
    def _last(self) -> tuple[int, int]:
        return self._ends[-1] if self._ends else self._begin
