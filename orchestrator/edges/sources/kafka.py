"""The source driver `kafka`: a topic, whose partitions become one stream.

A thread reads all partitions; nobody else needs to read for this site, so there is no consumer
group. Offsets are kept with the tuples, in the site's journal, and never committed to the brokers:
a site that is killed goes on after the last message that its journal has. Partitions are merged by
(timestamp, partition, offset); see `orchestrator.edges.sources.live.partitions`.

Two sites that read a topic number its messages alike if nothing depends on when they do: no
partition becomes idle, no timestamp is too far ahead, and they begin with the first message of the
same partitions (`Kafka.unlike`).

A partition that is far ahead of others is paused until they follow. While consumers do not follow,
the thread waits, and librdkafka fetches no more than `queued.max.messages.kbytes`.

librdkafka waits for brokers that go away, and does not say so if they only fall silent. So the
thread asks for the topic when nothing has come for a while. A topic that nobody tells of is a
problem of the stream, and of two sites the other one takes over if it can read on.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from orchestrator.documents.document import Field, Options, Section
from orchestrator.edges.drivers import DriverError, Unusable
from orchestrator.edges.kafka import (
    REACH_S,
    Topic,
    come,
    library,
    partitions_of,
    read_topic,
    settings_of,
)
from orchestrator.edges.sources.driver import OpenSource, SourceContext
from orchestrator.edges.sources.formats.form_options import read_timestamp
from orchestrator.edges.sources.formats.formats import is_closed, parse
from orchestrator.edges.sources.formats.row_form import Format, RowForm, Unreadable
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.edges.sources.live.live_source import LiveSource
from orchestrator.edges.sources.live.partitions import PartitionMerge
from orchestrator.records import SourceAssignment

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from orchestrator.edges.site_check import SiteCheck

MESSAGE = "message"
"""The timestamp of a tuple is that of its message."""

MESSAGES_AT_ONCE = 10_000

WAITS_S = 0.1
"""How long the thread waits for messages until it looks whether partitions have become idle."""

AHEAD_BYTES = 8 * 2**20
"""What one partition may hold while it waits for others."""

FETCHED_KB = 16_384
"""What librdkafka may hold."""

FULL_MS = 20
"""How long librdkafka rests while it holds that much. Its default is a second, in which the thread
soon has nothing left to read: a site that catches up would stop for most of each."""

SILENT_S = 1.0
"""Time without messages after which the thread asks whether the brokers are there."""

RESPONDS_S = 2.0
"""How long they may take to respond."""


class Kafka(LiveSource, frozen=True, kw_only=True):
    """Messages of a topic, a row each.

    Attributes
    ----------
    source
        The topic.
    format
        `json` or `csv`.
    message_time
        Whether the timestamp is the message's.
    earliest
        Whether a stream that begins takes what the topic has; else, only what comes.
    partitions
        How many partitions the topic must have, which two sites need to know; None: any number.
    """

    source: Topic
    format: Format = Format.JSON
    message_time: bool = False
    earliest: bool = True
    partitions: int | None = None

    own_options: ClassVar[Options] = {
        "format": (
            "format",
            lambda field: Format(field.choice([Format.JSON.value, Format.CSV.value])),
        ),
        "timestamp": ("timestamp", lambda field: _timestamp(field)),
        "earliest": (
            "startingOffsets",
            lambda field: field.choice(["earliest", "latest"]) == "earliest",
        ),
        "partitions": ("partitions", Field.count),
    }

    @classmethod
    def read(cls, section: Section) -> Self:
        """The manifest's `from: {kafka: …}`."""
        topic = read_topic(section)
        given = cls.given(section)
        return cls(source=topic, **given)

    @property
    def by_arrival(self) -> bool:
        """Whether neither a column nor the message has the timestamp."""
        return super().by_arrival and not self.message_time

    @property
    def unlike(self) -> str | None:
        """What of its options depends on when a site reads."""
        return self.lacks(
            {
                "`partitions`, the number of the topic's": self.partitions is not None,
                "`startingOffsets: earliest`": self.earliest,
            }
        )

    def check(self, assignment: SourceAssignment, site: SiteCheck) -> None:
        """Ask the brokers for the topic."""
        super().check(assignment, site)
        has = partitions_of(self.source)
        if self.partitions not in (None, has):
            raise Unusable(
                "partitions",
                self.partitions,
                f"is not the number of the topic's, which is {has}",
                f"Write {has}.",
            )

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenSource:
        """Begin to read; brokers are spoken to by the reader's thread alone."""
        library()
        opened = self.input(assignment, context)
        opened.address = f"{self.source.brokers} {self.source.name}"
        reader = PartitionReader(self, self.form(assignment), opened, context)
        opened.on_close(reader.close)
        opened.start()
        reader.start()
        return opened


class PartitionReader:
    """Reads the partitions of one topic on a thread of its own."""

    def __init__(
        self, options: Kafka, form: RowForm, opened: LiveInput, context: SourceContext
    ) -> None:
        self._options = options
        self._form = form
        self._input = opened
        self._clock_us = context.clock_us
        idle_after_ms = options.idle_after_ms
        self._merge = PartitionMerge(
            form.schema,
            waits=not options.by_arrival,
            idle_after_us=None if idle_after_ms is None else idle_after_ms * 1000,
            by_key=options.unlike is None,
        )
        self._paused: set[int] = set()
        self._asks_at_s = 0.0
        self._ends = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"kafka {options.source.name}", daemon=True
        )

    def start(self) -> None:
        """Begin to read."""
        self._input.hears = False
        self._thread.start()

    def close(self) -> None:
        """End after what is being read."""
        self._ends.set()

    def _run(self) -> None:
        consumer: Consumer | None = None
        try:
            consumer = self._consumer()
            self._assign(consumer)
            while not self._ends.is_set():
                messages = come(consumer, MESSAGES_AT_ONCE, WAITS_S)
                self._look_for_brokers(consumer, heard=any(m.error() is None for m in messages))
                self._gather(messages)
                read_us = self._clock_us()
                while (merged := self._merge.take(read_us)) is not None:
                    places = [(_name(p), offset) for p, offset in merged.places.items()]
                    self._input.push(merged.rows, places=places, in_order=True)
                # It may have waited for consumers.
                self._merge.looked_away(self._clock_us() - read_us)
                self._input.hears = self._merge.is_at_end
                self._pause(consumer)
        except Exception as error:  # noqa: BLE001  Whatever it is, the host opens the source again.
            if not self._ends.is_set():
                self._input.fail(_told(error))
        finally:
            if consumer is not None:
                consumer.close()

    def _consumer(self) -> Consumer:
        kafka = library()
        return kafka.Consumer(
            settings_of(
                self._options.source,
                group_id=f"vivace {self._input.stream}",
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                auto_offset_reset="error",
                enable_partition_eof=True,
                queued_max_messages_kbytes=FETCHED_KB,
                fetch_queue_backoff_ms=FULL_MS,
                max_poll_interval_ms=86_400_000,
            )
        )

    def _assign(self, consumer: Consumer) -> None:
        """Continue each partition where the journal is, or begin it."""
        kafka = library()
        topic = self._options.source.name
        known = consumer.list_topics(topic, timeout=REACH_S).topics[topic]
        if known.error is not None or not known.partitions:
            raise DriverError(f"topic {topic}: {known.error or 'it has no partitions'}")
        wanted = self._options.partitions
        if wanted not in (None, len(known.partitions)):
            raise DriverError(f"topic {topic} has {len(known.partitions)} partitions, not {wanted}")
        places = {p: self._input.last(_name(p)) for p in sorted(known.partitions)}
        # Once a stream has begun, it takes in all of a partition that is added.
        earliest = self._options.earliest or any(place is not None for place in places.values())
        begins: dict[int, int] = {}
        for partition, place in places.items():
            low, high = consumer.get_watermark_offsets(
                kafka.TopicPartition(topic, partition), timeout=REACH_S
            )
            if place is None:
                if low > 0 and self._options.unlike is None:
                    raise DriverError(
                        f"topic {topic}: partition {partition} begins at offset {low}: two sites "
                        "number it alike only from its first message on. Name one site"
                    )
                place = low if earliest else high
            elif place < low:
                raise DriverError(
                    f"topic {topic}: partition {partition} begins at offset {low}, and {place} is "
                    "needed: it is no longer retained. Delete the stream and apply it again"
                )
            begins[partition] = place
            self._merge.begin(partition, self._clock_us())
        # At once: a site that is killed here has begun all partitions, or none.
        self._input.push(self._nothing(), places=[(_name(p), begin) for p, begin in begins.items()])
        consumer.assign([kafka.TopicPartition(topic, p, begin) for p, begin in begins.items()])

    def _look_for_brokers(self, consumer: Consumer, *, heard: bool) -> None:
        """Ask for the topic when nothing has come for a while."""
        if not heard:
            if time.monotonic() < self._asks_at_s:
                return
            try:
                consumer.list_topics(self._options.source.name, timeout=RESPONDS_S)
            except library().KafkaException as error:
                self._input.wait_for(f"no broker tells of the topic ({_told(error)}); waiting")
                return
        self._input.wait_for(None)
        self._asks_at_s = time.monotonic() + SILENT_S

    def _gather(self, messages: Sequence[Message]) -> None:
        """Parse what has come, partition by partition."""
        kafka = library()
        found: dict[int, list[Message]] = defaultdict(list)
        ended: list[int] = []
        for message in messages:
            error, partition = message.error(), message.partition()
            if error is None:
                found[partition or 0].append(message)
            elif error.code() == kafka.KafkaError._PARTITION_EOF:
                ended.append(partition or 0)
            elif not _passes(error):
                raise DriverError(f"topic {self._options.source.name}: {error.str()}")
        now_us = self._clock_us()
        for partition, own in found.items():
            rows, offsets = self._rows(own)
            last = own[-1].offset()
            assert last is not None
            self._merge.add(
                partition,
                rows,
                offsets,
                last + 1,
                now_us,
                most_ms=self._options.event_time.most_ms(now_us),
            )
        for partition in ended:
            self._merge.at_end(partition)

    def _rows(self, messages: Sequence[Message]) -> tuple[pa.RecordBatch, IntArray]:
        """The rows in messages of one partition, with their offsets."""
        try:
            return self._parsed(messages)
        except Unreadable:
            pass
        batches: list[pa.RecordBatch] = [self._nothing()]
        offsets: list[IntArray] = [np.empty(0, dtype=np.int64)]
        for message in messages:
            try:
                rows, own = self._parsed([message])
            except Unreadable as error:
                place = f"partition {message.partition()}, offset {message.offset()}"
                self._input.rejections.malformed(_value(message), f"{place}: {error.problem}")
                continue
            batches.append(rows)
            offsets.append(own)
        return pa.concat_batches(batches), np.concatenate(offsets)

    def _parsed(self, messages: Sequence[Message]) -> tuple[pa.RecordBatch, IntArray]:
        values = [_value(message) for message in messages]
        if any(not value.strip() or b"\n" in value for value in values):
            raise Unreadable("a message is one line, and not empty")
        written = self._options.format
        if len(values) > 1 and not all(is_closed(value, written) for value in values):
            raise Unreadable("a message is read alone that could change what its neighbours are")
        rows = parse(
            self._form,
            written,
            b"\n".join(values),
            header=False,
            lines=len(messages),
            note=self._input.rejections.ignored,
        )
        if self._options.message_time:
            stamps = np.array([message.timestamp()[1] for message in messages], dtype=np.int64)
            columns = [pa.array(stamps), *rows.columns[1:]]
            rows = pa.RecordBatch.from_arrays(columns, schema=rows.schema)
        return rows, np.array([message.offset() for message in messages], dtype=np.int64)

    def _pause(self, consumer: Consumer) -> None:
        """Pause partitions that are far ahead of others, until those have followed."""
        kafka = library()
        topic = self._options.source.name
        for partition in {p.partition for p in consumer.assignment()}:
            ahead = self._merge.held_bytes(partition) > AHEAD_BYTES
            place = [kafka.TopicPartition(topic, partition)]
            if ahead and partition not in self._paused:
                consumer.pause(place)
                self._paused.add(partition)
            elif not ahead and partition in self._paused:
                consumer.resume(place)
                self._paused.discard(partition)

    def _nothing(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=self._form.schema)


def _name(partition: int) -> str:
    """A partition as the journal knows it; its number is the offset to continue with."""
    return f"partition {partition}"


def _value(message: Message) -> bytes:
    value = message.value()
    return value.encode() if isinstance(value, str) else value or b""


def _passes(error: Any) -> bool:
    """Whether librdkafka tries again by itself, such as while a broker is away."""
    kafka = library()
    away = (kafka.KafkaError._TRANSPORT, kafka.KafkaError._ALL_BROKERS_DOWN)
    return not error.fatal() and (error.retriable() or error.code() in away)


def _told(error: Exception) -> Exception:
    kafka = library()
    if isinstance(error, kafka.KafkaException):
        return DriverError(f"Kafka: {error.args[0].str()}")
    return error


def _timestamp(field: Field) -> Mapping[str, object]:
    """The field `timestamp`: the message, a column and its format, or the arrival."""
    if not field.is_mapping() and field.node.value == MESSAGE:
        return {"message_time": True}
    return read_timestamp(field)
