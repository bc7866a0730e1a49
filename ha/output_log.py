"""The tuples a producer keeps until nobody can need them again.

Every copy of a fragment (and every source) numbers its output and keeps it here until all
consumers have acknowledged it: a primary to send again after a broken link, a secondary to send in
the primary's stead after a takeover (paper 1, §3.1: output queues of active standby).

The log is bounded. When consumers fall so far behind that it overflows, the oldest chunks go, and
the tuples lost to somebody are counted; a consumer that comes back for them is told where the log
now begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ha.errors import InvariantViolation
from streams.chunk import Chunk, Position
from topology.arrays import IntArray

DEFAULT_CAPACITY_BYTES = 256 * 1024 * 1024
"""Room for minutes of a fast stream, and small beside an executor's memory."""

DEFAULT_LINGER_US = 2_000_000
"""Output stays for this long even when everybody known has acknowledged it. A consumer that
subscribed at the primary just now is unknown to the secondary until the next assignment or
acknowledgement reaches that; it must still find there what it lacks if the primary dies
meanwhile."""

Consumer = tuple[str, str]
"""Node, and the name under which the consumer there reads (a fragment or a sink)."""


@dataclass(slots=True)
class Subscriber:
    """What one consumer has acknowledged, and the cut up to which it has been sent chunks."""

    acknowledged: Position
    sent: Position


class OutputLog:
    """Sequence-numbered output of one stream, with its consumers.

    Parameters
    ----------
    schema
        Of the rows.
    base
        Where the log begins; the first appended tuple gets `base.next_seq`.
    capacity_bytes
        Rows kept at most, by Arrow size.
    linger_us
        How much longer than needed output is kept, on the clock of the tuples' origins.
    """

    def __init__(
        self,
        schema: pa.Schema,
        base: Position | None = None,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        linger_us: int = DEFAULT_LINGER_US,
    ) -> None:
        self.schema = schema
        self._base = base or Position()
        self._end = self._base
        self._chunks: deque[Chunk] = deque()
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self._capacity_bytes = capacity_bytes
        self._linger_us = linger_us
        self._subscribers: dict[Consumer, Subscriber] = {}
        self.overflowed_tuples = 0

    @property
    def base(self) -> Position:
        """The cut before which everything has been trimmed."""
        return self._base

    @property
    def end(self) -> Position:
        """The cut after the newest tuple."""
        return self._end

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """Those subscribed, in the order they came."""
        return tuple(self._subscribers)

    def chunks(self) -> tuple[Chunk, ...]:
        """All that is kept, oldest first."""
        return tuple(self._chunks)

    def acknowledged(self, consumer: Consumer) -> Position:
        """What a subscribed consumer has acknowledged."""
        return self._subscribers[consumer].acknowledged

    def append(
        self, rows: pa.RecordBatch, watermarks_ms: IntArray, ingestion_times_us: IntArray
    ) -> Chunk:
        """Number the rows and keep them."""
        chunk = Chunk(
            first_seq=self._end.next_seq,
            rows=rows,
            watermarks_ms=watermarks_ms,
            ingestion_times_us=ingestion_times_us,
        )
        self.extend(chunk)
        return chunk

    def extend(self, chunk: Chunk) -> None:
        """Keep a chunk that is numbered already (a twin's, on bootstrap)."""
        if (
            chunk.first_seq != self._end.next_seq
            or chunk.watermarks_ms[0] <= self._end.watermark_ms
        ):
            raise InvariantViolation(
                f"log ends at {self._end}, chunk begins at sequence {chunk.first_seq} "
                f"with watermark {chunk.watermarks_ms[0]}"
            )
        size = chunk.rows.nbytes
        self._chunks.append(chunk)
        self._sizes.append(size)
        self._end = chunk.end
        self._bytes += size
        while self._bytes > self._capacity_bytes and len(self._chunks) > 1:
            self.overflowed_tuples += self._chunks[0].rows.num_rows
            self._drop_oldest()

    def subscribe(self, consumer: Consumer, position: Position | None) -> Position:
        """Serve `consumer` from `position` on, or from as near to it as is still kept."""
        start = self._base if position is None or _before(position, self._base) else position
        self._subscribers[consumer] = Subscriber(acknowledged=start, sent=start)
        return start

    def unsubscribe(self, consumer: Consumer) -> None:
        """Stop keeping anything for `consumer`."""
        self._subscribers.pop(consumer, None)
        self._trim()

    def acknowledge(self, consumer: Consumer, position: Position) -> bool:
        """Note what `consumer` does not need any more; False if it is not subscribed."""
        subscriber = self._subscribers.get(consumer)
        if subscriber is None:
            return False
        if _before(subscriber.acknowledged, position):
            subscriber.acknowledged = position
        self._trim()
        return True

    def take_unsent(self, consumer: Consumer) -> list[Chunk]:
        """What `consumer` has not been sent yet; it counts as sent from now on."""
        subscriber = self._subscribers[consumer]
        fresh = list(self._after(subscriber.sent))
        subscriber.sent = self._end
        return fresh

    def rewind(self) -> None:
        """Count as sent only what is acknowledged: a secondary that takes over starts there."""
        for subscriber in self._subscribers.values():
            subscriber.sent = max(
                subscriber.acknowledged, self._base, key=lambda cut: cut.watermark_ms
            )

    def _after(self, cut: Position) -> Iterator[Chunk]:
        # Chunks to send lie at the end of the log, so look from there.
        fresh: list[Chunk] = []
        for chunk in reversed(self._chunks):
            rest = chunk.after(cut)
            if rest is None:
                break
            fresh.append(rest)
        return reversed(fresh)

    def _trim(self) -> None:
        if not self._subscribers:
            return
        needed_ms = min(s.acknowledged.watermark_ms for s in self._subscribers.values())
        while self._chunks and self._chunks[0].watermark_ms <= needed_ms:
            newest_us, oldest_us = (
                self._chunks[-1].ingestion_times_us[-1],
                self._chunks[0].ingestion_times_us[-1],
            )
            if newest_us - oldest_us < self._linger_us:
                return
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        chunk = self._chunks.popleft()
        self._bytes -= self._sizes.popleft()
        self._base = chunk.end

    def check_invariants(self) -> None:
        """Raise unless the log is what it promises to be; tests call this after every step."""
        cut = self._base
        for chunk in self._chunks:
            if chunk.first_seq != cut.next_seq:
                raise InvariantViolation(f"sequence jumps from {cut.next_seq} to {chunk.first_seq}")
            if chunk.watermarks_ms[0] <= cut.watermark_ms:
                raise InvariantViolation(
                    f"watermark {chunk.watermarks_ms[0]} after {cut.watermark_ms}"
                )
            cut = chunk.end
        if self._chunks:
            # The others do not change, and were the newest once.
            self._chunks[-1].check(self.schema)
        if cut != self._end:
            raise InvariantViolation(f"log ends at {cut}, not at {self._end}")


def _before(one: Position, other: Position) -> bool:
    # Chunks are closed, so progress orders cuts completely: equal progress, equal sequence.
    return one.watermark_ms < other.watermark_ms
