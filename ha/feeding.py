"""How a producer, a source or a replica of a fragment, feeds its subscribers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ha.messages import Ack, Data, Subscribe, Subscribed
from ha.output_log import OutputLog


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
