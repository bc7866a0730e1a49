"""How whoever produces a stream serves its subscribers: requests, acknowledgements, output, offers.

A producer is a source or a replica of a fragment. Its output lies in its output log
(`ha.output_log`). These functions turn what subscribers say into the log's terms, and what the log
holds into messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ha.messages import EVERY_TUPLE, Ack, Columns, Data, Offer, Subscribe, Subscribed
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
    departs_ms
        Where the output departs from what was sent before (`ha.messages.Data`).
    """

    stream: str
    log: OutputLog
    epoch: int
    generation: int

    @property
    def departs_ms(self) -> int | None:
        """As above."""
        ...

    @property
    def complete_ms(self) -> int:
        """Up to where the output is complete here, or, on a standby, at its primary."""
        ...

    @property
    def accepts_subscribers(self) -> bool:
        """Whether the output log is complete, so that consumers may rely on it."""
        ...

    @property
    def feeds_subscribers(self) -> bool:
        """Whether it sends its output: of the replicas of a fragment, only the primary does."""
        ...

    def differs_from(self, node: str) -> bool:
        """Whether a subscriber has other output than this, which this does not continue."""
        ...


def subscribe(producer: Producer, node: str, request: Subscribe, now_us: int) -> Subscribed | None:
    """Subscribe a host from its position on, or from the log's beginning if that is unknown.

    None if a reader begins before the log, and it has yet to be looked up where.
    """
    known = request.generation == producer.generation
    position = request.position if known else None
    begins, lost = request.begins if position is None else None, 0
    if begins is not None:
        if (position := producer.log.begin(begins)) is None:
            return None
        lost = producer.log.count_lost(begins, position)
    start = producer.log.subscribe(
        node,
        position,
        feed=request.feed,
        patient=request.patient,
        demands=request.demands,
        room_bytes=request.room_bytes,
        batch=request.batch,
        columns=request.columns,
        now_us=now_us,
        first=request.first,
        number=request.number,
        awaits=request.awaits,
        keeps=request.keeps,
    )
    if known:
        producer.log.subscribers[node].furthest = request.furthest
    return Subscribed(
        stream=producer.stream,
        position=start,
        epoch=producer.epoch,
        generation=producer.generation,
        lost=lost,
        request=request.number,
    )


def acknowledge(producer: Producer, node: str, ack: Ack, now_us: int) -> bool:
    """Note what a host needs no more and how much it takes; returns whether to feed subscribers.

    The host may be unknown here: it subscribed before this replica had its state, or it started
    anew under the same name. It then counts as subscribed from the position that it acknowledges.
    An acknowledgement of another generation says nothing about this generation's output.
    """
    known = ack.generation == producer.generation
    log = producer.log
    if node not in log.subscribers:
        log.subscribe(
            node,
            ack.position if known else None,
            patient=ack.patient,
            demands=ack.demanded is not None,
            room_bytes=ack.room_bytes,
            batch=ack.batch,
            now_us=now_us,
        )
        if known:
            log.subscribers[node].furthest = ack.furthest
        return True
    if known:
        if ack.position is not None:
            log.acknowledge(node, ack.position)
        log.grant(node, ack, now_us)
        log.subscribers[node].received_ms = ack.received_ms
        log.subscribers[node].furthest = ack.furthest
    return log.subscribers[node].sent.is_before(log.end)


def feed_subscribers(producer: Producer) -> Iterator[tuple[str, Data]]:
    """Take the output that each subscriber has not been sent yet, with the subscriber's node.

    A subscriber whose tuples differ is sent nothing, because it would mix two histories.
    Subscribers that are sent the same share the message, so that it is encoded only once.
    """
    shared: dict[tuple[int, Columns | None], Data] = {}
    for node, subscriber in producer.log.subscribers.items():
        if not (producer.feeds_subscribers or subscriber.feed) or producer.differs_from(node):
            continue
        for chunk in producer.log.take_unsent(node):
            key = id(chunk), subscriber.columns
            if (data := shared.get(key)) is None:
                data = shared[key] = Data(
                    stream=producer.stream,
                    epoch=producer.epoch,
                    generation=producer.generation,
                    chunk=chunk,
                    departs_ms=producer.departs_ms,
                    columns=subscriber.columns,
                    whole_bytes=chunk.size_bytes,
                )
            yield node, data


def overdue_offer(producer: Producer, node: str, *, at_once: bool = False) -> Offer | None:
    """Where the producer's output ends, for one subscriber; called every acknowledgement interval.

    None as long as the subscriber says in time that it has received the output. A subscriber that
    is sent batches is offered output that is kept back from it in two cases only: a consumer that
    demands this output does not receive it, or the log fills with it.

    Parameters
    ----------
    at_once
        Whether a standby offers output that others lack without waiting for its primary to send it.
    """
    subscriber = producer.log.subscribers[node]
    is_overdue = subscriber.end_interval() or at_once
    is_fed = producer.feeds_subscribers or subscriber.feed
    sent_ms = subscriber.sent.watermark_ms
    if subscriber.batch == EVERY_TUPLE:
        end_ms = producer.complete_ms
    elif _must_come_now(producer, node):
        end_ms, is_overdue = producer.complete_ms, True
    else:
        # At most it lacks what it was sent; a standby does not know what the primary sends.
        end_ms = sent_ms if is_fed else subscriber.acknowledged.watermark_ms
    subscriber.ends_ms.append(end_ms)
    subscriber.sents_ms.append(sent_ms)
    if subscriber.awaits or not is_overdue or subscriber.heard_ms >= end_ms:
        return None
    return Offer(
        generation=producer.generation,
        epoch=producer.epoch,
        watermark_ms=end_ms,
        sent=is_fed and sent_ms >= end_ms,
    )


def _must_come_now(producer: Producer, node: str) -> bool:
    """Whether output must not be kept back from a subscriber any longer."""
    if producer.feeds_subscribers and not producer.log.reaches_all:
        return True
    return producer.log.fills_for(node)
