"""Digests of a replica's output, by which two replicas notice that they differ.

Both replicas of a fragment must produce the same tuples with the same sequence numbers. Each keeps
a digest of its output for each interval of event time, and peers compare the newest ones in their
control messages. A digest covers the tuples whose event timestamps lie in the interval, and their
numbers; it does not depend on how the output is cut into chunks. Intervals without tuples have no
digest. Digests need no state from before: a new secondary begins with the first whole interval.
"""

from __future__ import annotations

from collections import OrderedDict

from ha.messages import OutputDigest
from streams.vectors.chunk import NO_WATERMARK, Chunk
from streams.vectors.row_digest import RowDigest

INTERVAL_MS = 5_000
"""Event time that a digest covers. A divergence is noticed about one interval after it began."""

KEPT = 64
"""Digests kept: the peer replica may be that many intervals ahead or behind."""


class OutputDigests:
    """The digests of one replica's output.

    Parameters
    ----------
    since_ms
        Output watermark at which this replica's output begins; the interval that contains it is
        incomplete and gets no digest.
    """

    def __init__(self, since_ms: int = NO_WATERMARK) -> None:
        self._first = NO_WATERMARK if since_ms == NO_WATERMARK else since_ms // INTERVAL_MS + 1
        self._open: tuple[int, int, RowDigest] | None = None
        self._closed: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self._complete = self._first - 1

    def add(self, chunk: Chunk) -> None:
        """Take in the next chunk of the output."""
        if chunk.rows.num_rows:
            intervals = chunk.timestamps // INTERVAL_MS
            begin = 0
            while begin < len(intervals):
                interval = int(intervals[begin])
                end = int(intervals.searchsorted(interval, side="right"))
                self._add_rows(interval, chunk, begin, end)
                begin = end
        self._complete = max(self._complete, (chunk.watermark_ms + 1) // INTERVAL_MS - 1)
        if self._open is not None and self._open[0] <= self._complete:
            self._close()

    def newest(self, generation: int) -> OutputDigest | None:
        """The digest of the newest interval that is complete and has tuples."""
        if not self._closed:
            return None
        interval = next(reversed(self._closed))
        first_seq, rows = self._closed[interval]
        return OutputDigest(
            generation=generation, interval=interval, first_seq=first_seq, rows=rows
        )

    def differs(self, digest: OutputDigest) -> bool:
        """Whether this replica's output differs from the peer replica's in that interval.

        False if the interval is not complete here, or too long ago.
        """
        oldest = next(iter(self._closed), self._first)
        if not max(self._first, oldest) <= digest.interval <= self._complete:
            return False
        return self._closed.get(digest.interval) != (digest.first_seq, digest.rows)

    def _add_rows(self, interval: int, chunk: Chunk, begin: int, end: int) -> None:
        if interval < self._first:
            return
        if self._open is not None and self._open[0] != interval:
            self._close()
        if self._open is None:
            self._open = interval, chunk.first_seq + begin, RowDigest()
        self._open[2].update(chunk.rows.slice(begin, end - begin))

    def _close(self) -> None:
        assert self._open is not None
        interval, first_seq, digest = self._open
        self._closed[interval] = first_seq, digest.value
        self._open = None
        if len(self._closed) > KEPT:
            self._closed.popitem(last=False)
