"""The consumer's side of a stream: its cursor, and its subscription to the producers.

*Cursor.* A consumer receives each tuple exactly once. Two replicas of a fragment may both act as
primary for a while, and a secondary that takes over sends again what was not acknowledged. Both are
harmless, because replicas produce the same tuples with the same sequence numbers. The cursor keeps
the part of each chunk that lies after its position, drops and counts the rest, and notices a gap
between its position and the chunk.

*Subscription.* A consumer subscribes to every replica of the producing fragment and acknowledges to
every replica, so that each keeps the tuples that the consumer lacks; only the primary sends.
Requests are repeated until answered. A gap means that a broken link has lost chunks: the consumer
subscribes again from its position. Tuples are lost only if the producer has trimmed them meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ha.messages import Ack, Data, Subscribe, Subscribed
from streams.chunk import Chunk, Position


class Receipt(Enum):
    """How a cursor judged received data."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    GAP = "gap"
    STALE = "stale"
    """It belongs to an earlier generation of the fragment's state."""
    RESET = "reset"
    """It is the first chunk of a new generation: sequence numbers start over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A receipt and the part of the chunk that was new, if there is any."""

    receipt: Receipt
    chunk: Chunk | None = None
    moved: bool = False
    """Whether the chunk does not continue the tuples received before: reading began in the middle
    of the stream, tuples are missing, or sequence numbers start over."""


class StreamCursor:
    """The position of a consumer in one stream.

    Attributes
    ----------
    position
        The cut before which everything has been received. None until a producer has answered, if
        the consumer started without a position of its own.
    generation, epoch
        The newest that any producer has mentioned; 0 before the first.
    repeated_tuples
        Tuples dropped because they had been received before.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start over, without a position."""
        self.position: Position | None = None
        self.generation = 0
        self.epoch = 0
        self.repeated_tuples = 0
        self.provisional = False
        self._moved = False

    def start(self, position: Position, generation: int, *, provisional: bool = False) -> None:
        """Move to `position` of `generation`, as a snapshot or a producer's answer has it.

        A producer's answer is `provisional` until data arrives: another replica's log may begin
        later.
        """
        self.position = position
        self.provisional = provisional
        self.generation = generation
        self._moved = True

    def receive(self, data: Data) -> Received:
        """Receive the part of `data` that is new."""
        if data.generation < self.generation:
            return Received(receipt=Receipt.STALE)
        receipt = Receipt.ACCEPTED
        if data.generation > self.generation:
            if self.generation:
                receipt = Receipt.RESET
            self.start(self._renumbered(data.chunk), data.generation)
        self.epoch = max(self.epoch, data.epoch)
        position = self.position or Position()
        chunk = data.chunk.after(position)
        repeated = min(max(position.next_seq - data.chunk.first_seq, 0), data.chunk.rows.num_rows)
        self.repeated_tuples += repeated
        if chunk is None:
            return Received(receipt=Receipt.DUPLICATE)
        if chunk.first_seq != position.next_seq:
            return Received(receipt=Receipt.GAP)
        self.position = chunk.end
        moved, self._moved = self._moved, False
        self.provisional = False
        return Received(receipt=receipt, chunk=chunk, moved=moved)

    def _renumbered(self, chunk: Chunk) -> Position:
        # A new generation numbers its output from 0 again; timestamps tell which tuples are known.
        if self.position is None:
            return Position()
        known = int(np.searchsorted(chunk.timestamps, self.position.watermark_ms, side="right"))
        return Position(next_seq=chunk.first_seq + known, watermark_ms=self.position.watermark_ms)

    def skip_to(self, chunk: Chunk) -> int:
        """Move to just before `chunk`, and return the number of tuples skipped.

        For tuples that no producer keeps any more.
        """
        before = self.position or Position()
        self.position = Position(next_seq=chunk.first_seq, watermark_ms=before.watermark_ms)
        self._moved = True
        return chunk.first_seq - before.next_seq


RETRY_US = 300_000
"""Longer than any round trip, and short compared with the start of a replacement executor."""


@dataclass(slots=True)
class Link:
    """State of a subscription at one producer."""

    asked_us: int | None = None
    start: Position | None = None
    """Position from which the producer sends; None until it has answered."""


class Subscription:
    """One consumer's subscriptions to all producers of a stream.

    Parameters
    ----------
    stream
        Name of the stream.
    consumer
        Name under which the consumer subscribes.
    cursor
        The consumer's position in the stream.
    """

    def __init__(self, stream: str, consumer: str, cursor: StreamCursor) -> None:
        self.stream = stream
        self.consumer = consumer
        self.cursor = cursor
        self._links: dict[str, Link] = {}

    @property
    def producers(self) -> tuple[str, ...]:
        """Nodes subscribed to, in the order of the assignment: the primary first."""
        return tuple(self._links)

    @property
    def confirmed(self) -> bool:
        """Whether every producer has answered."""
        return bool(self._links) and all(link.start is not None for link in self._links.values())

    def use(self, producers: tuple[str, ...], renewed: set[str]) -> list[str]:
        """Subscribe to exactly these nodes; returns the nodes unsubscribed from.

        Nodes in `renewed` have new processes, which know of no subscription.
        """
        left = [node for node in self._links if node not in producers]
        self._links = {
            node: Link() if node in renewed else self._links.get(node, Link()) for node in producers
        }
        return left

    def ask_again(self) -> None:
        """Subscribe to every producer again: the consumer has lost its state."""
        self._links = {node: Link() for node in self._links}

    def requests(self, now_us: int) -> list[tuple[str, Subscribe]]:
        """Requests that are due, each with the node to send it to."""
        due: list[tuple[str, Subscribe]] = []
        for node, link in self._links.items():
            if link.start is not None:
                continue
            if link.asked_us is not None and now_us - link.asked_us < RETRY_US:
                continue
            link.asked_us = now_us
            due.append((node, self._subscribe()))
        return due

    def answered(self, node: str, answer: Subscribed) -> None:
        """Note a producer's answer. A consumer without a position starts at the position in it.

        Replicas trim at different times. Until data arrives, start at the latest offered position:
        the replica that sends may have trimmed older output.
        """
        link = self._links.get(node)
        if link is None:
            return
        link.start = answer.position
        cursor = self.cursor
        begins = cursor.position
        if begins is None or (
            cursor.provisional
            and answer.generation == cursor.generation
            and answer.position.watermark_ms > begins.watermark_ms
        ):
            cursor.start(answer.position, answer.generation, provisional=True)
        cursor.epoch = max(cursor.epoch, answer.epoch)

    def missing(self, node: str, now_us: int) -> Subscribe | None:
        """The request to send to `node` after a gap.

        None while an answer is awaited, or if the producer no longer keeps the missing tuples;
        `unrecoverable` tells the two apart.
        """
        link = self._links.get(node)
        if link is None or link.start is None or self.unrecoverable(node):
            return None
        link.start = None
        link.asked_us = now_us
        return self._subscribe()

    def unrecoverable(self, node: str) -> bool:
        """Whether `node` has answered that it no longer keeps the tuples the consumer lacks."""
        link = self._links.get(node)
        if link is None or link.start is None or self.cursor.position is None:
            return False
        return link.start.next_seq > self.cursor.position.next_seq

    def acks(self, position: Position) -> list[tuple[str, Ack]]:
        """Acknowledgements of everything before `position`, with the nodes to send them to."""
        ack = Ack(
            stream=self.stream,
            consumer=self.consumer,
            position=position,
            epoch=self.cursor.epoch,
            generation=self.cursor.generation,
        )
        return [(node, ack) for node, link in self._links.items() if link.start is not None]

    def _subscribe(self) -> Subscribe:
        return Subscribe(
            stream=self.stream,
            consumer=self.consumer,
            position=self.cursor.position,
            generation=self.cursor.generation or None,
        )
