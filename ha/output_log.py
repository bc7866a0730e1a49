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
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from ha.errors import InvariantViolation
from ha.messages import Ack, Data, Offer, Subscribe, Subscribed
from streams.chunk import Chunk, Position
from topology.arrays import IntArray

DEFAULT_CAPACITY_BYTES = 256 * 1024 * 1024
"""Room for minutes of a fast stream, and small beside an executor's memory."""

DEFAULT_LINGER_US = 2_000_000
"""Output is kept for at least this long, even if all known consumers have acknowledged it. The
secondary does not know a consumer that has just subscribed to the primary until an assignment or
an acknowledgement arrives. If the primary dies before that, the consumer still finds the output it
lacks at the secondary."""

OVERDUE_AFTER = 3
"""Acknowledgement intervals after which output that is not acknowledged is offered: an
acknowledgement takes one, and the way there and back less than two."""


@dataclass(slots=True)
class Subscriber:
    """A host that reads the stream.

    Attributes
    ----------
    acknowledged, sent
        The cuts up to which it has acknowledged output, and has been sent output.
    feed
        Whether it is sent output even by a standby.
    patient
        Whether output is kept for it while it is away.
    reread_from
        Where the piece began that was last read again for it.
    ends_ms
        Output watermarks at the last acknowledgement intervals.
    """

    acknowledged: Position
    sent: Position
    feed: bool = False
    patient: bool = False
    reread_from: Position | None = None
    ends_ms: deque[int] = field(default_factory=lambda: deque(maxlen=OVERDUE_AFTER))


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
    rereadable
        Whether output before the log's beginning can be had again. A host may then subscribe from
        there. It is sent nothing from the log until `reread` has brought it to the log's beginning.

    Attributes
    ----------
    base
        The cut before which all output has been trimmed.
    end
        The cut after the newest tuple.
    subscribers
        Node → what it has acknowledged and has been sent, in the order of subscription.
    overflowed_tuples
        Tuples dropped because the log was full.
    """

    def __init__(
        self,
        schema: pa.Schema,
        base: Position | None = None,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        linger_us: int = DEFAULT_LINGER_US,
        *,
        rereadable: bool = False,
    ) -> None:
        self.schema = schema
        self.base = self.end = base or Position()
        self._chunks: deque[Chunk] = deque()
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self._capacity_bytes = capacity_bytes
        self._linger_us = linger_us
        self._rereadable = rereadable
        self.subscribers: dict[str, Subscriber] = {}
        self.overflowed_tuples = 0
        self._checked: Chunk | None = None

    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks kept, oldest first."""
        return tuple(self._chunks)

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
        # Most chunks have no rows, and Arrow takes long to say that these take no bytes.
        size = chunk.rows.nbytes if chunk.rows.num_rows else 0
        self._chunks.append(chunk)
        self._sizes.append(size)
        self.end = chunk.end
        self._bytes += size
        while self._bytes > self._capacity_bytes and len(self._chunks) > 1:
            self.overflowed_tuples += self._chunks[0].rows.num_rows
            self._drop_oldest()

    def subscribe(
        self, node: str, position: Position | None, *, feed: bool = False, patient: bool = False
    ) -> Position:
        """Subscribe a host from `position` on, or from the log's beginning if that is later.

        A host that subscribes again is sent everything from there on again.
        """
        start = self.base if position is None else position
        if _before(start, self.base) and not self._rereadable:
            start = self.base
        # What a host has received, and asks no more for, it has not acknowledged yet.
        known = self.subscribers.get(node)
        behind = known is not None and _before(known.acknowledged, start)
        acknowledged = known.acknowledged if known is not None and behind else start
        self.subscribers[node] = Subscriber(
            acknowledged=acknowledged, sent=start, feed=feed, patient=patient
        )
        return start

    def unsubscribe(self, node: str) -> None:
        """Keep nothing for a host any more."""
        self.subscribers.pop(node, None)
        self._trim()

    def acknowledge(self, node: str, position: Position) -> None:
        """Note that a subscriber needs nothing before `position`."""
        subscriber = self.subscribers[node]
        if _before(subscriber.acknowledged, position):
            subscriber.acknowledged = position
        self._trim()

    def take_unsent(self, node: str) -> list[Chunk]:
        """The chunks a subscriber has not been sent yet; they count as sent from now on."""
        subscriber = self.subscribers[node]
        if self._rereadable and _before(subscriber.sent, self.base):
            return []
        if subscriber.sent == self.end:
            return []
        fresh = list(self._after(subscriber.sent))
        subscriber.sent = self.end
        return fresh

    def wanted(self) -> Iterator[tuple[str, Position]]:
        """Hosts that lack output from before the log's beginning, and where each one stands.

        A host that has two pieces to acknowledge is left out, so that no more than two are under
        way however much it lacks.
        """
        if not self._rereadable:
            return
        for node, subscriber in self.subscribers.items():
            if _before(subscriber.sent, subscriber.acknowledged):
                subscriber.sent = subscriber.acknowledged
            before = subscriber.reread_from
            if _before(subscriber.sent, self.base) and (
                before is None or not _before(subscriber.acknowledged, before)
            ):
                yield node, subscriber.sent

    def reread(self, node: str, after: Position, chunk: Chunk) -> bool:
        """Count output as sent that was read again; False if the host stands elsewhere now."""
        subscriber = self.subscribers.get(node)
        if subscriber is None or subscriber.sent != after:
            return False
        subscriber.reread_from, subscriber.sent = after, chunk.end
        return True

    def rewind(self) -> None:
        """Count only acknowledged output as sent, so that a new primary sends the rest again."""
        for subscriber in self.subscribers.values():
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
        if not self.subscribers:
            return
        needed_ms = min(s.acknowledged.watermark_ms for s in self.subscribers.values())
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
        next_seq, watermark_ms = self.base.next_seq, self.base.watermark_ms
        for chunk in self._chunks:
            if chunk.first_seq != next_seq:
                raise InvariantViolation(f"sequence jumps from {next_seq} to {chunk.first_seq}")
            if chunk.watermarks_ms[0] <= watermark_ms:
                raise InvariantViolation(f"watermark {chunk.watermarks_ms[0]} after {watermark_ms}")
            next_seq, watermark_ms = chunk.next_seq, chunk.watermarks_ms[-1]
        if self._chunks and self._chunks[-1] is not self._checked:
            # The other chunks were checked when they were the newest, and do not change.
            self._checked = self._chunks[-1]
            self._checked.check(self.schema)
        cut = Position(next_seq=next_seq, watermark_ms=int(watermark_ms))
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


def subscribe(producer: Producer, node: str, request: Subscribe) -> Subscribed:
    """Subscribe a host from its position on, or from the log's beginning if that is unknown."""
    known = request.generation == producer.generation
    position = request.position if known else None
    start = producer.log.subscribe(node, position, feed=request.feed, patient=request.patient)
    return Subscribed(
        stream=producer.stream,
        position=start,
        epoch=producer.epoch,
        generation=producer.generation,
    )


def acknowledge(producer: Producer, node: str, ack: Ack) -> bool:
    """Note the position before which a host needs nothing any more; returns whether it is new here.

    The host may be unknown here: it subscribed before this replica had its state, or it started
    anew under the same name. It then counts as subscribed from the position that it acknowledges.
    An acknowledgement of another generation says nothing about this one's output.
    """
    known = ack.generation == producer.generation
    if node not in producer.log.subscribers:
        producer.log.subscribe(node, ack.position if known else None, patient=ack.patient)
        return True
    if known:
        producer.log.acknowledge(node, ack.position)
    return False


def feed_subscribers(producer: Producer) -> Iterator[tuple[str, Data]]:
    """Take the output that each subscriber has not been sent yet, with the subscriber's node."""
    for node, subscriber in producer.log.subscribers.items():
        if not (producer.feeds_subscribers or subscriber.feed):
            continue
        for chunk in producer.log.take_unsent(node):
            yield (
                node,
                Data(
                    stream=producer.stream,
                    epoch=producer.epoch,
                    generation=producer.generation,
                    chunk=chunk,
                ),
            )


def overdue_offer(producer: Producer, node: str) -> Offer | None:
    """Where the producer's output ends, for one subscriber; called every acknowledgement interval.

    None as long as the subscriber acknowledges in time: then nothing that it was sent is lost.
    """
    log, subscriber = producer.log, producer.log.subscribers[node]
    ends_ms = subscriber.ends_ms
    overdue = len(ends_ms) == OVERDUE_AFTER and subscriber.acknowledged.watermark_ms < ends_ms[0]
    ends_ms.append(log.end.watermark_ms)
    if not overdue:
        return None
    feeds = producer.feeds_subscribers or subscriber.feed
    return Offer(
        generation=producer.generation,
        epoch=producer.epoch,
        watermark_ms=log.end.watermark_ms,
        sent=feeds and not _before(subscriber.sent, log.end),
    )
