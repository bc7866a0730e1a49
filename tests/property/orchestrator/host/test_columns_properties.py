"""Readers that use different columns of a stream come and go on a host: each gets all its values.

Two producers with real output logs are at the ends of slow links, over which messages are encoded:
one feeds its subscribers, the other is its standby. Requests, and what was sent before them, are
under way at the same time, and the producers drop what nobody needs.
"""

from __future__ import annotations

from collections import deque

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from ha import producer
from ha.messages import Control, Message, Subscribe, Unsubscribe
from ha.output_log import OutputLog
from orchestrator.host.core.events import Send
from orchestrator.host.shell.wire import decode, encode
from orchestrator.records import FragmentAssignment
from streams.vectors.chunk import stream_schema
from tests.driven_host import SETTINGS, Driven, assigned, assignment_of

COLUMNS = {"a": "int", "b": "string", "c": "int", "d": "bool"}
SCHEMA = stream_schema(COLUMNS)

READERS = {
    "ra": "SELECT a FROM s [NOW] WHERE a >= 0",
    "rb": "SELECT CAST(b AS int) AS a FROM s [NOW]",
    "rc": "SELECT c - 1 AS a FROM s [NOW]",
    "rd": "SELECT CASE WHEN d THEN a ELSE a END AS a FROM s [NOW]",
    "rn": "SELECT count(*) AS n FROM s [NOW]",
}
"""Each but the last gives the number of each tuple."""

SCHEDULES_AT_ONCE = 6


class Site:
    """A producer, and the two directions of the link to it."""

    stream, epoch, generation = "s", 1, 1
    departs_ms: int | None = None
    accepts_subscribers = True

    def __init__(self, capacity_bytes: int, delay_us: int, *, feeds: bool) -> None:
        self.feeds_subscribers = feeds
        self.log = OutputLog(SCHEMA, capacity_bytes=capacity_bytes)
        self._delay_us = delay_us
        self._to_host: deque[tuple[int, list[bytes]]] = deque()
        self._to_site: deque[tuple[int, Message]] = deque()

    @property
    def complete_ms(self) -> int:
        return self.log.end.watermark_ms

    def differs_from(self, node: str) -> bool:
        return False

    def sent(self, message: Message, now_us: int) -> None:
        """The host has sent it a message."""
        self._to_site.append((now_us + self._delay_us, message))

    def _send(self, message: Message, now_us: int) -> None:
        self._to_host.append((now_us + self._delay_us, encode(message)))

    def feed(self, now_us: int) -> None:
        """Send what has not been sent."""
        for _, data in producer.feed_subscribers(self):
            self._send(data, now_us)

    def take(self, now_us: int) -> None:
        """Handle what has arrived here, and offer what lacks."""
        while self._to_site and self._to_site[0][0] <= now_us:
            match self._to_site.popleft()[1]:
                case Subscribe() as request:
                    answer = producer.subscribe(self, "one", request, now_us)
                    assert answer is not None, "its readers begin nowhere in particular"
                    self._send(answer, now_us)
                    self.feed(now_us)
                case Unsubscribe():
                    self.log.unsubscribe("one")
                case Control(acks=acks):
                    for ack in acks.values():
                        if producer.acknowledge(self, "one", ack, now_us):
                            self.feed(now_us)
                case _:
                    pass
        if "one" in self.log.subscribers:
            offer = producer.overdue_offer(self, "one")
            if offer is not None:
                self._send(Control(offers={"s": offer}), now_us)

    def arrived(self, now_us: int) -> list[Message]:
        """What has arrived at the host."""
        found: list[Message] = []
        while self._to_host and self._to_host[0][0] <= now_us:
            found.append(decode(self._to_host.popleft()[1], lambda _: SCHEMA))
        return found


def reader(name: str) -> FragmentAssignment:
    text = f"REGISTER QUERY {name} RSTREAM({READERS[name]});"
    made = assigned("primary", peer_replica=None)
    return msgspec.structs.replace(made, fragment=name, statement=text, inputs={"s": COLUMNS})


class Schedule:
    """A host whose readers come and go at random."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        memory_bytes = int(self.rng.choice([64, 512, 65_536])) * 1024
        self.host = Driven("one", msgspec.structs.replace(SETTINGS, memory_bytes=memory_bytes))
        capacity_bytes = int(self.rng.choice([6_000, 2**26]))
        self.sites = {
            name: Site(capacity_bytes, int(self.rng.choice([1, 40, 300])) * 1000, feeds=feeds)
            for name, feeds in (("site", True), ("two", False))
        }
        self.readers = ["ra"]
        self.at_ms = self.next_seq = 0
        self.assign()

    def assign(self) -> None:
        made = assignment_of(*map(reader, self.readers))
        consumers = dict.fromkeys(self.readers, ("exit",))
        producers = {"s": tuple(self.sites)}
        self.host.assign(msgspec.structs.replace(made, consumers=consumers, producers=producers))

    def change(self) -> None:
        """Have a reader come or go; one always stays."""
        name = str(self.rng.choice([*READERS]))
        if name not in self.readers:
            self.readers.append(name)
        elif len(self.readers) > 1:
            self.readers.remove(name)
        self.assign()

    def emit(self) -> None:
        """Both producers make the same, often a watermark only."""
        self.at_ms += int(self.rng.choice([1, 10, 30]))
        count = int(self.rng.choice([0, 0, 1, 3]))
        numbers = range(self.next_seq, self.next_seq + count)
        columns = {
            "_ts": [self.at_ms] * count,
            "a": [*numbers],
            "b": [str(number) for number in numbers],
            "c": [number + 1 for number in numbers],
            "d": [number % 2 == 0 for number in numbers],
        }
        self.next_seq += count
        now_us = self.host.now_us
        for site in self.sites.values():
            rows = pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
            site.log.append(rows, np.array([self.at_ms]), np.array([now_us]))
            site.feed(now_us)

    def step(self) -> None:
        host = self.host
        host.wait(int(self.rng.choice([1, 3, 10])), hearing="site")
        self._send()
        for name, site in self.sites.items():
            site.take(host.now_us)
            for message in site.arrived(host.now_us):
                host.hear(name, message)
        if self.rng.random() < 0.7:
            while (due_us := host.core.next_work_us) is not None and due_us <= host.now_us:
                host.commands += host.core.work(host.now_us).commands
        self._send()

    def _send(self) -> None:
        for command in self.host.commands:
            if isinstance(command, Send) and (site := self.sites.get(command.to)) is not None:
                site.sent(command.message, self.host.now_us)
        self.host.commands.clear()

    def is_complete(self) -> bool:
        replicas = self.host.core.replica_manager.replicas
        return all(
            replicas[name].replica.log.end.watermark_ms == self.at_ms for name in self.readers
        )

    def results(self, name: str) -> list[int | None]:
        log = self.host.core.replica_manager.replicas[name].replica.log
        return [value for chunk in log.chunks() for value in chunk.rows.column("a").to_pylist()]


@pytest.mark.parametrize("block", range(4))
def test_each_reader_gets_its_columns_of_every_tuple_from_where_it_began(block: int) -> None:
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    first = block * SCHEDULES_AT_ONCE
    for seed in (*range(first, first + SCHEDULES_AT_ONCE - 1), fresh):
        schedule = Schedule(seed)
        for _ in range(int(schedule.rng.integers(100, 300))):
            if schedule.rng.random() < 0.5:
                schedule.emit()
            if schedule.rng.random() < 0.03:
                schedule.change()
            schedule.step()
        for _ in range(3_000):
            if schedule.is_complete():
                break
            schedule.step()
        assert schedule.is_complete(), f"seed {seed}: a reader is not fed"
        for name in {*schedule.readers} - {"rn"}:
            numbers = schedule.results(name)
            begins = numbers[0] if numbers else schedule.next_seq
            assert numbers == [*range(begins or 0, schedule.next_seq)], f"seed {seed}: {name}"
