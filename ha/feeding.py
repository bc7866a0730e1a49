"""How a producer deals with its consumers, be it a source or a copy of a fragment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ha.messages import Ack, Data, Subscribe, Subscribed
from ha.output_log import OutputLog


class Producer(Protocol):
    """What makes a stream."""

    @property
    def log(self) -> OutputLog:
        """What it has produced and must keep."""
        ...

    @property
    def epoch(self) -> int:
        """Fencing number."""
        ...

    @property
    def generation(self) -> int:
        """Life of the state that numbers the output."""
        ...

    @property
    def stream(self) -> str:
        """Name of the stream."""
        ...

    @property
    def accepts_subscribers(self) -> bool:
        """Whether it has a log that consumers may rely on."""
        ...

    @property
    def feeds_subscribers(self) -> bool:
        """Whether it is the one copy that sends."""
        ...


def subscribe(producer: Producer, sender: str, request: Subscribe) -> Subscribed:
    """Serve a consumer from where it stands, or from the log's beginning if that is unknown."""
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
    """Note what a consumer does not need any more.

    A consumer that this copy has not heard of yet had subscribed before the copy was bootstrapped,
    or began anew on the same node: it is served from what it acknowledges, or, if that was of
    another generation, from the log's beginning.
    """
    consumer = (sender, ack.consumer)
    known = ack.generation == producer.generation
    if consumer not in producer.log.consumers:
        producer.log.subscribe(consumer, ack.position if known else None)
    elif known:
        producer.log.acknowledge(consumer, ack.position)


def feed_subscribers(producer: Producer) -> Iterator[tuple[str, Data]]:
    """What has yet to be sent, and to which node."""
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
