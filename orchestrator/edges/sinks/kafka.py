"""The sink driver `kafka`: a topic with one message of JSON for each tuple.

Headers say which tuple a message is: `vivace-stream`, `vivace-generation` and `vivace-seq`, which
are the same whatever restarts, and `vivace-epoch`, the primary that sent it.

*Once.* Each flush is a transaction. A file in the site's folder says up to where the topic is
complete. A process may be killed between the two, so a sink that is opened again may be given what
the topic has. When it has something to write, it first ends the transactions of its predecessor,
which shuts that one out if it still lives (a stopped process that goes on). Then it looks up the
last message of each partition, and leaves out what the partition has: within a partition, tuples
stand in order. A tuple's partition follows from its key column, or is 0.

The topic belongs to the output alone: messages of other programs behind the last one of the output
would hide it. Brokers are spoken to in `flush` only, which is not on the host's loop.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import msgspec

from foundation.bounds import EventTime, Number
from orchestrator.documents.document import Field, Section
from orchestrator.edges.drivers import DriverError, Unusable
from orchestrator.edges.events import Deliver, Durable
from orchestrator.edges.kafka import (
    REACH_S,
    Topic,
    come,
    library,
    partitions_of,
    read_topic,
    settings_of,
)
from orchestrator.edges.sinks.driver import SinkDriver
from orchestrator.folders import PRIVATE, path_part
from orchestrator.records import SinkAssignment
from streams.vectors.chunk import NO_WATERMARK, Position
from streams.vectors.reserved import SEQUENCE

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, Producer

    from orchestrator.edges.site_check import SiteCheck

STREAM, GENERATION, SEQ, EPOCH = (
    f"vivace-{name}" for name in ("stream", "generation", "seq", "epoch")
)

LOOKED_AT = 1000
"""Messages at the end of a partition among which the last one of the output is looked for."""

FLUSH_S = 30.0
"""How long brokers may take to acknowledge a flush."""

WAITS_S = 0.1
"""How long a full producer is given until the next trial."""

Place = tuple[int, int]
"""Generation and sequence number of a tuple."""


class KafkaTopic(SinkDriver, frozen=True, kw_only=True):
    """Messages of a topic, a tuple each.

    Attributes
    ----------
    target
        The topic, which exists.
    key
        Column whose value is the message's key and chooses its partition; None: partition 0.
    """

    target: Topic
    key: str | None = None

    @classmethod
    def read(cls, section: Section) -> Self:
        """The manifest's `to: {kafka: …}`."""
        target = read_topic(section)
        return cls(target=target, **section.given({"key": ("key", Field.text)}))

    def check(self, assignment: SinkAssignment, site: SiteCheck) -> None:
        """Look for the key's column, and ask the brokers for the topic."""
        if self.key is not None and self.key not in assignment.columns:
            columns = ", ".join(assignment.columns)
            raise Unusable(
                "key", self.key, "is no column of the output", f"It has the columns {columns}."
            )
        partitions_of(self.target)

    def kept(self, assignment: SinkAssignment, folder: Path) -> Durable | None:
        """What the site's file says, or else the topic itself: another site may have written it."""
        opened = self.open(assignment, folder)
        if opened.durable is not None:
            return opened.durable
        try:
            newest = opened.newest()
        except library().KafkaException as error:
            raise DriverError(f"Kafka: {error.args[0].str()}") from None
        if newest is None:
            return None
        generation, seq = newest
        position = Position(next_seq=seq + 1, watermark_ms=NO_WATERMARK)
        return Durable(generation=generation, position=position)

    def open(self, assignment: SinkAssignment, folder: Path) -> OpenTopic:
        """Look up what the topic has."""
        return OpenTopic(self, assignment, folder)


class _Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the site's file says: up to where the topic is complete.

    Attributes
    ----------
    partitions
        How many the topic had when the output began: more that are added later are not used, so
        that a key keeps its partition.
    """

    life: Number
    partitions: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    generation: Number | None = None
    next_seq: Number = 0
    watermark_ms: EventTime = 0


_decoder = msgspec.json.Decoder(_Kept)


class OpenTopic:
    """The output of one stream into a topic.

    Attributes
    ----------
    durable
        Up to where the topic is complete.
    """

    def __init__(self, options: KafkaTopic, assignment: SinkAssignment, folder: Path) -> None:
        library()
        if options.key is not None and options.key not in assignment.columns:
            raise DriverError(f"the output has no column {options.key} for the key of a message")
        self._options = options
        self._stream, self._life = assignment.stream, assignment.life
        self._file = folder / f"{path_part(assignment.stream)}.kafka.json"
        self._kept: list[Deliver] = []
        self._producer: Producer | None = None
        self._lasts: dict[int, Place] = {}
        self._partitions: int | None = None
        self.durable: Durable | None = None
        self._continue()

    def newest(self) -> Place | None:
        """The last tuple that the topic has, whoever wrote it; None: it has none."""
        return max(self._looked_up(self._count()).values(), default=None)

    def keep(self, delivery: Deliver) -> None:
        """Take a delivery in."""
        self._kept.append(delivery)

    def flush(self) -> None:
        """Have the brokers take all deliveries; then note it in the site's file.

        Raises
        ------
        DriverError
            They have not. The sink must be opened anew.
        """
        if not self._kept:
            return
        kafka = library()
        try:
            if self._producer is None:
                self._producer = self._begun()
            self._producer.begin_transaction()
            for delivery in self._kept:
                self._produce(self._producer, delivery)
            self._producer.commit_transaction(FLUSH_S)
        except kafka.KafkaException as error:
            raise DriverError(f"Kafka: {error.args[0].str()}") from None
        self.durable = self._kept[-1].end
        self._kept.clear()
        self._note()

    def close(self) -> None:
        """Drop what was not flushed; it comes again."""
        self._kept.clear()
        if self._producer is not None:
            self._producer.purge()

    def _begun(self) -> Producer:
        """A producer that has shut its predecessor out, and knows what that one has written."""
        topic = self._options.target
        producer: Producer = library().Producer(
            settings_of(topic, transactional_id=f"vivace {topic.name} {self._stream}", linger_ms=5)
        )
        producer.init_transactions(FLUSH_S)
        if self._partitions is None:
            self._partitions = self._count()
            self._note()
        self._lasts = self._looked_up(self._partitions)
        return producer

    def _produce(self, producer: Producer, delivery: Deliver) -> None:
        assert self._partitions is not None
        chunk = delivery.chunk
        for seq, row in enumerate(chunk.rows.to_pylist(), chunk.first_seq):
            key = None
            if self._options.key is not None:
                key = msgspec.json.encode(row[self._options.key])
            partition = 0 if key is None else zlib.crc32(key) % self._partitions
            place = (delivery.generation, seq)
            last = self._lasts.get(partition)
            if last is not None and place <= last:
                continue
            self._lasts[partition] = place
            self._send(
                producer,
                partition,
                key,
                msgspec.json.encode({SEQUENCE: seq, **row}),
                {
                    STREAM: self._stream,
                    GENERATION: str(delivery.generation),
                    SEQ: str(seq),
                    EPOCH: str(delivery.epoch),
                },
            )

    def _send(
        self,
        producer: Producer,
        partition: int,
        key: bytes | None,
        value: bytes,
        headers: Mapping[str, str],
    ) -> None:
        name = self._options.target.name
        while True:
            try:
                producer.produce(name, value, key, partition, headers=dict(headers))
                return
            except BufferError:
                # librdkafka holds so many already.
                producer.poll(WAITS_S)

    def _continue(self) -> None:
        """Read the site's file."""
        try:
            kept = _decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return
        except msgspec.DecodeError as error:
            raise DriverError(f"{self._file} cannot be read: {error}") from None
        if kept.life != self._life:
            return
        self._partitions = kept.partitions
        if kept.generation is not None:
            position = Position(next_seq=kept.next_seq, watermark_ms=kept.watermark_ms)
            self.durable = Durable(generation=kept.generation, position=position)

    def _note(self) -> None:
        assert self._partitions is not None
        kept = _Kept(life=self._life, partitions=self._partitions)
        if self.durable is not None:
            position = self.durable.position
            kept = msgspec.structs.replace(
                kept,
                generation=self.durable.generation,
                next_seq=position.next_seq,
                watermark_ms=position.watermark_ms,
            )
        # Its folder may have been removed since. The topic has all the same.
        self._file.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        written = self._file.with_suffix(".new")
        with written.open("wb") as file:
            file.write(msgspec.json.encode(kept))
            file.flush()
            os.fsync(file.fileno())
        written.replace(self._file)

    def _count(self) -> int:
        consumer = self._consumer()
        try:
            name = self._options.target.name
            known = consumer.list_topics(name, timeout=REACH_S).topics[name]
        finally:
            consumer.close()
        if known.error is not None or not known.partitions:
            raise DriverError(f"topic {name}: {known.error or 'it has no partitions'}")
        return len(known.partitions)

    def _looked_up(self, partitions: int) -> dict[int, Place]:
        """The last tuple in each partition that has one."""
        consumer = self._consumer()
        try:
            found = {p: self._last(consumer, p) for p in range(partitions)}
        finally:
            consumer.close()
        return {partition: place for partition, place in found.items() if place is not None}

    def _last(self, consumer: Consumer, partition: int) -> Place | None:
        topic = library().TopicPartition(self._options.target.name, partition)
        low, high = consumer.get_watermark_offsets(topic, timeout=REACH_S)
        looked_at = LOOKED_AT
        while True:
            begin = max(low, high - looked_at)
            found, others = self._found(consumer, partition, begin, high)
            if found is not None or begin == low:
                return found
            if others:
                raise DriverError(
                    f"topic {topic.topic}: the last {looked_at} messages of partition {partition} "
                    "are of other programs: give the output a topic of its own"
                )
            # Transactions that were given up have offsets too, and hold as much as a flush may.
            looked_at *= 10

    def _found(
        self, consumer: Consumer, partition: int, begin: int, end: int
    ) -> tuple[Place | None, bool]:
        """The last tuple among some messages of a partition, and whether others are among them."""
        kafka = library()
        name = self._options.target.name
        consumer.assign([kafka.TopicPartition(name, partition, begin)])
        found: Place | None = None
        others = False
        at = begin
        while at < end:
            messages = come(consumer, LOOKED_AT, REACH_S)
            if not messages:
                raise DriverError(f"topic {name}: partition {partition} cannot be read")
            for message in messages:
                error, offset = message.error(), message.offset()
                if error is not None:
                    if error.code() == kafka.KafkaError._PARTITION_EOF:
                        at = end
                        continue
                    raise DriverError(f"topic {name}: {error.str()}")
                at = (offset or 0) + 1
                told = _told(message, self._stream)
                others = others or told is None
                if told is not None:
                    found = told if found is None else max(found, told)
        return found, others

    def _consumer(self) -> Consumer:
        return library().Consumer(
            settings_of(
                self._options.target,
                group_id=f"vivace {self._stream}",
                enable_auto_commit=False,
                enable_partition_eof=True,
                auto_offset_reset="error",
            )
        )


def _told(message: Message, stream: str) -> Place | None:
    """The tuple that a message is; None if it is none of the stream."""
    headers = {name: value for name, value in message.headers() or () if isinstance(value, bytes)}
    if headers.get(STREAM) != stream.encode():
        return None
    try:
        return int(headers[GENERATION]), int(headers[SEQ])
    except (KeyError, ValueError):
        return None
