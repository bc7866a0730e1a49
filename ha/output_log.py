"""The producer's side of a stream: an output buffer, and how it feeds the stream's subscribers.

Every source and every replica of a fragment is a *producer*. It numbers its output and keeps it in
an *output log* until all consumers have acknowledged it: tuples that some consumer may still need.
A primary keeps them to send them again after a broken link, a secondary to send them after a
takeover (reliable placement, §3.3: Q counts such tuples of an upstream primary).

The log is bounded. If consumers fall so far behind that it overflows, the oldest chunks are
dropped and their tuples counted. A consumer that asks for them later is told where the log begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from ha.errors import InvariantViolation
from ha.messages import Ack, Data, Subscribe, Subscribed
from streams.chunk import Chunk, Position
from topology.arrays import IntArray

DEFAULT_CAPACITY_BYTES = 256 * 1024 * 1024
"""Room for minutes of a fast stream, and small beside an executor's memory."""

DEFAULT_LINGER_US = 2_000_000
"""Output is kept for at least this long, even if all known consumers have acknowledged it. The
secondary does not know a consumer that has just subscribed to the primary until an assignment or
an acknowledgement arrives. If the primary dies before that, the consumer still finds the output it
lacks at the secondary."""

Consumer = tuple[str, str]
"""Node, and the name under which the consumer there reads (a fragment or a sink)."""


@dataclass(slots=True)
class Subscriber:
    """The cuts up to which a consumer has acknowledged output, and has been sent output."""

    acknowledged: Position
    sent: Position


class OutputLog:
    """Sequence-numbered output of one stream, with its consumers.

    Parameters
    ----------
    schema
        Of the rows.
    base
        Position at which the log begins; the first appended tuple gets `base.next_seq`.
    capacity_bytes
        Greatest size of the rows kept, as Arrow counts it.
    linger_us
        How much longer than needed output is kept, measured in ingestion times.

    Attributes
    ----------
    base
        The cut before which all output has been trimmed.
    end
        The cut after the newest tuple.
    overflowed_tuples
        Tuples dropped because the log was full.
    """

    def __init__(
        self,
        schema: pa.Schema,
        base: Position | None = None,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        linger_us: int = DEFAULT_LINGER_US,
    ) -> None:
        self.schema = schema
        self.base = self.end = base or Position()
        self._chunks: deque[Chunk] = deque()
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self._capacity_bytes = capacity_bytes
        self._linger_us = linger_us
        self._subscribers: dict[Consumer, Subscriber] = {}
        self.overflowed_tuples = 0

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """The subscribed consumers, in the order of their subscriptions."""
        return tuple(self._subscribers)

    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks kept, oldest first."""
        return tuple(self._chunks)

    def acknowledged(self, consumer: Consumer) -> Position:
        """The position that a subscribed consumer has acknowledged."""
        return self._subscribers[consumer].acknowledged

    def append(
        self, rows: pa.RecordBatch, watermarks_ms: IntArray, ingestion_times_us: IntArray
    ) -> Chunk:
        """Number the rows and keep them."""
        chunk = Chunk(
            first_seq=self.end.next_seq,
            rows=rows,
            watermarks_ms=watermarks_ms,
            ingestion_times_us=ingestion_times_us,
        )
        self.extend(chunk)
        return chunk

    def extend(self, chunk: Chunk) -> None:
        """Keep a chunk that is numbered already, such as one from a peer replica's snapshot."""
        if chunk.first_seq != self.end.next_seq or chunk.watermarks_ms[0] <= self.end.watermark_ms:
            raise InvariantViolation(
                f"log ends at {self.end}, chunk begins at sequence {chunk.first_seq} "
                f"with watermark {chunk.watermarks_ms[0]}"
            )
        size = chunk.rows.nbytes
        self._chunks.append(chunk)
        self._sizes.append(size)
        self.end = chunk.end
        self._bytes += size
        while self._bytes > self._capacity_bytes and len(self._chunks) > 1:
            self.overflowed_tuples += self._chunks[0].rows.num_rows
            self._drop_oldest()

    def subscribe(self, consumer: Consumer, position: Position | None) -> Position:
        """Subscribe `consumer` from `position` on, or from the log's beginning if that is later."""
        start = self.base if position is None or _before(position, self.base) else position
        self._subscribers[consumer] = Subscriber(acknowledged=start, sent=start)
        return start

    def unsubscribe(self, consumer: Consumer) -> None:
        """Keep nothing for `consumer` any more."""
        self._subscribers.pop(consumer, None)
        self._trim()

    def acknowledge(self, consumer: Consumer, position: Position) -> bool:
        """Note that `consumer` needs nothing before `position`; False if it is not subscribed."""
        subscriber = self._subscribers.get(consumer)
        if subscriber is None:
            return False
        if _before(subscriber.acknowledged, position):
            subscriber.acknowledged = position
        self._trim()
        return True

    def take_unsent(self, consumer: Consumer) -> list[Chunk]:
        """The chunks `consumer` has not been sent yet; they count as sent from now on."""
        subscriber = self._subscribers[consumer]
        fresh = list(self._after(subscriber.sent))
        subscriber.sent = self.end
        return fresh

    def rewind(self) -> None:
        """Count only acknowledged output as sent, so that a new primary sends the rest again."""
        for subscriber in self._subscribers.values():
            subscriber.sent = max(
                subscriber.acknowledged, self.base, key=lambda cut: cut.watermark_ms
            )

    def _after(self, cut: Position) -> Iterator[Chunk]:
        # Unsent chunks lie at the end of the log.
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
            newest, oldest = self._chunks[-1], self._chunks[0]
            if newest.ingestion_times_us[-1] - oldest.ingestion_times_us[-1] < self._linger_us:
                return
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        chunk = self._chunks.popleft()
        self._bytes -= self._sizes.popleft()
        self.base = chunk.end

    def check_invariants(self) -> None:
        """Raise unless chunks follow each other without gaps; tests call this after every step."""
        cut = self.base
        for chunk in self._chunks:
            if chunk.first_seq != cut.next_seq:
                raise InvariantViolation(f"sequence jumps from {cut.next_seq} to {chunk.first_seq}")
            if chunk.watermarks_ms[0] <= cut.watermark_ms:
                raise InvariantViolation(
                    f"watermark {chunk.watermarks_ms[0]} after {cut.watermark_ms}"
                )
            cut = chunk.end
        if self._chunks:
            # The other chunks were checked when they were the newest, and do not change.
            self._chunks[-1].check(self.schema)
        if cut != self.end:
            raise InvariantViolation(f"log ends at {cut}, not at {self.end}")


def _before(one: Position, other: Position) -> bool:
    # Chunks contain whole timestamp groups: cuts with equal watermarks have equal sequences.
    return one.watermark_ms < other.watermark_ms


class Producer(Protocol):
    """A source or a replica: whatever produces a stream and keeps it in an output log.

    Attributes
    ----------
    stream
        Name of the stream.
    log
        The output that consumers may still need.
    epoch
        Fencing number: it grows with each takeover.
    generation
        Life of the state that numbers the output.
    """

    stream: str
    log: OutputLog
    epoch: int
    generation: int

    @property
    def accepts_subscribers(self) -> bool:
        """Whether the output log is complete, so that consumers may rely on it."""
        ...

    @property
    def feeds_subscribers(self) -> bool:
        """Whether it sends its output: of the replicas of a fragment, only the primary does."""
        ...


def subscribe(producer: Producer, sender: str, request: Subscribe) -> Subscribed:
    """Subscribe a consumer from its position on, or from the log's beginning if that is unknown."""
    known = request.generation == producer.generation
    start = producer.log.subscribe((sender, request.consumer), request.position if known else None)
    return Subscribed(
        stream=producer.stream,
        consumer=request.consumer,
        position=start,
        epoch=producer.epoch,
        generation=producer.generation,
    )


def acknowledge(producer: Producer, sender: str, ack: Ack) -> None:
    """Note the position before which a consumer needs nothing any more.

    A consumer may be unknown here: it subscribed before this replica had its state, or it started
    anew on the same node. It then counts as subscribed from the position that it acknowledges, or
    from the log's beginning if that position belongs to another generation.
    """
    consumer = (sender, ack.consumer)
    known = ack.generation == producer.generation
    if consumer not in producer.log.consumers:
        producer.log.subscribe(consumer, ack.position if known else None)
    elif known:
        producer.log.acknowledge(consumer, ack.position)


def feed_subscribers(producer: Producer) -> Iterator[tuple[str, Data]]:
    """Take the output that each subscriber has not been sent yet, with the subscriber's node."""
    if not producer.feeds_subscribers:
        return
    for node, consumer in producer.log.consumers:
        for chunk in producer.log.take_unsent((node, consumer)):
            yield (
                node,
                Data(
                    stream=producer.stream,
                    epoch=producer.epoch,
                    generation=producer.generation,
                    consumer=consumer,
                    chunk=chunk,
                ),
            )
