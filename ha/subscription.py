"""A consumer's dealings with the producers of one stream.

A consumer subscribes to every copy of the producer and acknowledges to every copy, so that each
keeps what the consumer lacks; whichever is primary sends. Requests are repeated until answered. A
gap means that chunks were lost with a broken link: the consumer asks again from where it stands,
and only if the producer has meanwhile trimmed that far is anything lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from ha.cursor import StreamCursor
from ha.messages import Ack, Subscribe, Subscribed
from streams.chunk import Position

RETRY_US = 300_000
"""Longer than a round trip anywhere, short beside the time a replacement executor takes."""


@dataclass(slots=True)
class Link:
    """What the consumer knows of its subscription at one producer."""

    asked_us: int | None = None
    start: Position | None = None
    """Where the producer said it begins; None until it has answered."""


class Subscription:
    """One consumer's subscriptions to the copies that produce a stream."""

    def __init__(self, stream: str, consumer: str) -> None:
        self.stream = stream
        self.consumer = consumer
        self._links: dict[str, Link] = {}

    @property
    def producers(self) -> tuple[str, ...]:
        """Nodes subscribed to, primary first as last planned."""
        return tuple(self._links)

    @property
    def confirmed(self) -> bool:
        """Whether every producer has answered."""
        return bool(self._links) and all(link.start is not None for link in self._links.values())

    def use(self, producers: tuple[str, ...], renewed: set[str]) -> list[str]:
        """Subscribe to these nodes; those `renewed` have new processes. Returns the nodes left."""
        left = [node for node in self._links if node not in producers]
        self._links = {
            node: Link() if node in renewed else self._links.get(node, Link()) for node in producers
        }
        return left

    def ask_again(self) -> None:
        """Count every producer as unasked: the consumer has lost its state."""
        self._links = {node: Link() for node in self._links}

    def requests(self, cursor: StreamCursor, now_us: int) -> list[tuple[str, Subscribe]]:
        """Subscriptions to ask for now, with the node to ask."""
        due: list[tuple[str, Subscribe]] = []
        for node, link in self._links.items():
            if link.start is not None:
                continue
            if link.asked_us is not None and now_us - link.asked_us < RETRY_US:
                continue
            link.asked_us = now_us
            due.append((node, self._subscribe(cursor)))
        return due

    def answered(self, node: str, answer: Subscribed, cursor: StreamCursor) -> None:
        """Note a producer's answer; for a consumer without a position it says where to begin.

        Copies trim at different times. Until data has come, the latest beginning counts: what an
        idle copy still keeps before it was never to be had from the one that sends.
        """
        link = self._links.get(node)
        if link is None:
            return
        link.start = answer.position
        begins = cursor.position
        if begins is None or (
            cursor.provisional
            and answer.generation == cursor.generation
            and answer.position.watermark_ms > begins.watermark_ms
        ):
            cursor.start(answer.position, answer.generation, provisional=True)
        cursor.epoch = max(cursor.epoch, answer.epoch)

    def missing(self, node: str, cursor: StreamCursor, now_us: int) -> Subscribe | None:
        """What to ask `node` after a gap; None while an answer is awaited, or if it has no more.

        `unrecoverable` tells the two apart.
        """
        link = self._links.get(node)
        if link is None or link.start is None or self.unrecoverable(node, cursor):
            return None
        link.start = None
        link.asked_us = now_us
        return self._subscribe(cursor)

    def unrecoverable(self, node: str, cursor: StreamCursor) -> bool:
        """Whether `node` has said that it no longer keeps what the consumer lacks."""
        link = self._links.get(node)
        if link is None or link.start is None or cursor.position is None:
            return False
        return link.start.next_seq > cursor.position.next_seq

    def acks(self, position: Position, cursor: StreamCursor) -> list[tuple[str, Ack]]:
        """Acknowledgements of everything before `position`, with the nodes to send them to."""
        ack = Ack(
            stream=self.stream,
            consumer=self.consumer,
            position=position,
            epoch=cursor.epoch,
            generation=cursor.generation,
        )
        return [(node, ack) for node, link in self._links.items() if link.start is not None]

    def _subscribe(self, cursor: StreamCursor) -> Subscribe:
        return Subscribe(
            stream=self.stream,
            consumer=self.consumer,
            position=cursor.position,
            generation=cursor.generation or None,
        )
