"""A consumer's subscription to the producers of one stream.

A consumer subscribes to every replica of the producing fragment and acknowledges to every replica,
so that each keeps the tuples that the consumer lacks; only the primary sends. Requests are repeated
until answered. A gap means that a broken link has lost chunks: the consumer subscribes again from
its position. Tuples are lost only if the producer has trimmed them meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from ha.cursor import StreamCursor
from ha.messages import Ack, Subscribe, Subscribed
from streams.chunk import Position

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
