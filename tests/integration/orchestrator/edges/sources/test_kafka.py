"""A topic of librdkafka's mock cluster as a stream: each message once, in one order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import msgspec
import pytest

from orchestrator.documents.document import documents
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.kafka import Topic
from orchestrator.edges.sources import kafka as module
from orchestrator.edges.sources import read
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.formats.row_form import Format, Unknown
from orchestrator.edges.sources.kafka import Kafka
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.errors import InvalidInput
from orchestrator.records import Guarantee, SourceAssignment, SourceSpec
from tests.mock_brokers import MockBrokers
from tests.mock_kafka import PARTITIONS, PATIENCE_S, MockKafka

NOW_US = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def cluster() -> MockKafka:
    return MockKafka()


class Site:
    """Opens the source as a host would; `kill` and open again is a restart."""

    def __init__(self, folder: Path, brokers: str, topic: str) -> None:
        self._folder = folder
        self.options = Kafka(
            source=Topic(brokers=brokers, name=topic),
            time_column="at",
            time_format="ms",
            max_ahead_ms=None,
            idle_after_ms=100,
        )
        self.now_us = NOW_US
        self.tick_us = 20_000
        self._opened: LiveInput | None = None

    def open(self, *, buffer_bytes: int = 2**23, waiting_bytes: int = 2**28) -> LiveInput:
        assigned = SourceAssignment(
            stream="north",
            columns={"number": "int"},
            source=SourceSpec(driver="kafka", guarantee=Guarantee.JOURNALED),
            start_at_us=None,
        )
        # A clock that each look moves on.
        opened = self.options.open(
            assigned,
            SourceContext(
                folder=self._folder,
                clock_us=self._tick,
                buffer_bytes=buffer_bytes,
                waiting_bytes=waiting_bytes,
            ),
        )
        assert isinstance(opened, LiveInput)
        self._opened = opened
        return opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def look(self) -> None:
        """Wait until the source has looked a dozen times, and has what was sent before.

        Nothing says when librdkafka has it; two seconds are long.
        """
        end_us = self.now_us + 12 * self.tick_us
        time.sleep(2.0)
        until(lambda: self.now_us >= end_us)

    def _tick(self) -> int:
        self.now_us += self.tick_us
        return self.now_us


@pytest.fixture
def site(tmp_path: Path, cluster: MockKafka, request: pytest.FixtureRequest) -> Iterator[Site]:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    cluster.create(name)
    made = Site(tmp_path / "site", cluster.brokers, name)
    yield made
    made.close()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def entered(source: LiveInput, count: int) -> list[int]:
    found: list[int] = []

    def has() -> bool:
        while (emitted := source.emit(0, 2**60)) is not None:
            found.extend(emitted.rows.column("number").to_pylist())
        return len(found) >= count

    until(has)
    return found


def taken_in(source: LiveInput) -> int:
    return source._ingestion.end.next_seq  # pyright: ignore[reportPrivateUsage]


def message(number: int) -> bytes:
    """The timestamps are far apart: the clock, which advances idle streams, does not reach them."""
    return msgspec.json.encode({"at": 100_000 * number, "number": number})


def test_a_backlog_of_several_partitions_enters_in_order(cluster: MockKafka, site: Site) -> None:
    topic = site.options.source.name
    for partition in range(PARTITIONS):
        cluster.send(topic, partition, [message(n) for n in range(partition, 400, PARTITIONS)])
    source = site.open()
    assert entered(source, 400) == list(range(400))
    assert source.status.late == 0


def test_a_full_queue_of_the_library_does_not_rest_for_long(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default it rests for a second, again and again while there is a backlog."""
    given: list[dict[str, object]] = []
    consumer = confluent_kafka.Consumer

    def made(settings: dict[str, object]) -> confluent_kafka.Consumer:
        given.append(settings)
        return consumer(settings)

    monkeypatch.setattr(confluent_kafka, "Consumer", made)
    site.open()
    until(lambda: bool(given))
    assert given[0]["fetch.queue.backoff.ms"] == module.FULL_MS < 50


def test_a_site_that_restarts_goes_on_after_the_last_message(
    cluster: MockKafka, site: Site
) -> None:
    topic = site.options.source.name
    for round in range(3):
        for n in range(100):
            cluster.send(topic, n % PARTITIONS, [message(100 * round + n)])
        source = site.open()
        until(lambda source=source, count=100 * (round + 1): taken_in(source) >= count)
        site.close()
    source = site.open()
    found = entered(source, 300)
    assert found == list(range(300))
    assert source.status.late == 0


def test_nobody_is_silent_before_everything_has_been_read(
    cluster: MockKafka, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site that starts again needs a while to reach its brokers, and then reads a backlog."""
    topic = site.options.source.name
    for partition in range(PARTITIONS):
        cluster.send(topic, partition, [message(partition)])
    source = site.open()
    until(lambda: taken_in(source) >= PARTITIONS - 1)
    site.close()
    for n in range(PARTITIONS, 100):
        cluster.send(topic, n % PARTITIONS, [message(n)])
    come = module.come

    def slow(consumer: confluent_kafka.Consumer, most: int, wait_s: float) -> object:
        time.sleep(0.2)
        site.now_us += 300_000_000
        return come(consumer, 10, wait_s)

    monkeypatch.setattr(module, "come", slow)
    source = site.open()
    assert entered(source, 99) == list(range(99))
    assert source.status.late == 0


def test_what_cannot_be_read_is_counted_and_passed(cluster: MockKafka, site: Site) -> None:
    topic = site.options.source.name
    cluster.send(topic, 0, [message(1), b"{", b"", message(2), message(3) + b"\n" + message(4)])
    cluster.send(topic, 0, [message(5)])
    source = site.open()
    assert entered(source, 3) == [1, 2, 5]
    assert source.status.malformed == 3
    site.close()
    cluster.send(topic, 0, [message(6)])
    again = site.open()
    assert entered(again, 4) == [1, 2, 5, 6]
    assert again.status.malformed == 0


def test_a_schema_that_changes_and_times_beyond_all_calendars_spare_the_others(
    cluster: MockKafka, site: Site
) -> None:
    topic = site.options.source.name
    changed = [msgspec.json.encode({"at": 100_000 * n, "count": n}) for n in (2, 3)]
    far = [msgspec.json.encode({"at": at, "number": 8}) for at in (2**63 - 1, 2**63 - 1)]
    broken = [b'{"at": 1, "number": 1e400}', b'{"at": NaN, "number": 1}', b"\xff\xfe", b"\0"]
    cluster.send(topic, 0, [message(1), *changed, far[0], *broken, message(5), message(7)])
    cluster.send(topic, 1, [message(4), far[1], message(6), message(8)])
    site.options = msgspec.structs.replace(site.options, unknown=Unknown.REJECT)
    source = site.open()
    assert entered(source, 5) == [1, 4, 5, 6, 7]
    until(lambda: source.status.ahead == 2)
    assert source.status.malformed == len(changed) + len(broken)
    assert source.status.late == 0


def test_a_new_field_in_messages_is_counted_and_left_out(cluster: MockKafka, site: Site) -> None:
    topic = site.options.source.name
    newer = [msgspec.json.encode({"at": 100_000 * n, "number": n, "more": n}) for n in (2, 3)]
    cluster.send(topic, 0, [message(1), *newer])
    source = site.open()
    assert entered(source, 3) == [1, 2, 3]
    until(lambda: source.status.ignored == 2)
    assert source.status.last_ignored == "more"
    assert source.status.malformed == 0


def test_a_message_that_cannot_be_read_is_named_by_its_offset(
    cluster: MockKafka, site: Site
) -> None:
    cluster.send(site.options.source.name, 1, [message(1), b'{"at": 1, "number": "x"}', message(2)])
    source = site.open()
    assert entered(source, 2) == [1, 2]
    reason = "partition 1, offset 1: column number: string instead of number"
    assert source.status.last_rejected == reason


def test_what_a_message_is_does_not_depend_on_its_neighbours(
    cluster: MockKafka, site: Site
) -> None:
    """Read together, they would be as many rows as messages, and enter."""
    topic = site.options.source.name
    two = message(1) + message(2)
    cluster.send(topic, 0, [two, b" ", b'{"at": 1,', b'"number": 1}', two, message(3)])
    assert entered(site.open(), 1) == [3]
    site.close()


def test_what_a_line_of_csv_is_does_not_depend_on_its_neighbours(
    cluster: MockKafka, site: Site
) -> None:
    topic = site.options.source.name
    site.options = msgspec.structs.replace(site.options, format=Format.CSV)
    cluster.send(topic, 0, [b"100000,1\r200000,2", b"\r", b"300000,3"])
    assert entered(site.open(), 1) == [3]


def test_time_may_be_the_messages_and_lines_csv(cluster: MockKafka, site: Site) -> None:
    topic = site.options.source.name
    site.options = msgspec.structs.replace(
        site.options, time_column=None, message_time=True, format=Format.CSV
    )
    cluster.send(topic, 1, [b"7"], stamp_ms=20_000_000)
    cluster.send(topic, 0, [b"8"], stamp_ms=10_000_000)
    source = site.open()
    assert entered(source, 2) == [8, 7]


def test_a_stream_may_begin_with_what_comes_next(cluster: MockKafka, site: Site) -> None:
    topic = site.options.source.name
    site.options = msgspec.structs.replace(site.options, earliest=False)
    cluster.send(topic, 0, [message(1)])
    source = site.open()
    until(lambda: source.last(f"partition {PARTITIONS - 1}") is not None)
    assert source.last("partition 0") == 1
    cluster.send(topic, 0, [message(2)])
    cluster.send(topic, 2, [message(3)])
    assert entered(source, 2) == [2, 3]


def test_an_offset_that_is_gone_is_said(
    cluster: MockKafka, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = site.options.source.name
    cluster.send(topic, 0, [message(1)])
    source = site.open()
    entered(source, 1)
    site.close()
    with monkeypatch.context() as patch:
        # The mock cluster retains everything: the journal is made to know less than it does.
        patch.setattr(LiveInput, "last", _less)
        source = site.open()
        until(lambda: source._error is not None)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(DriverError, match="partition 0 begins at offset 0, and -1 is needed"):
        source.emit(0, 2**60)


def test_a_partition_far_ahead_is_paused(
    cluster: MockKafka, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AHEAD_BYTES", 1000)
    monkeypatch.setattr(module, "MESSAGES_AT_ONCE", 10)
    topic = site.options.source.name
    site.options = msgspec.structs.replace(site.options, idle_after_ms=None)
    cluster.send(topic, 0, [message(n) for n in range(1000)])
    source = site.open()
    until(lambda: (source.last("partition 0") or 0) == 0 and _paused(source))
    for partition in range(1, PARTITIONS):
        cluster.send(topic, partition, [message(10_000 + partition)])
    # The newest timestamp of the stream stays open.
    assert entered(source, 999) == list(range(999))


def test_a_partition_is_not_silent_while_consumers_hold_the_stream_up(
    cluster: MockKafka, site: Site
) -> None:
    site.options = msgspec.structs.replace(site.options, idle_after_ms=10_000)
    # Ten seconds are so many looks that a busy machine brings message 70 before they are over.
    site.tick_us = 100
    topic = site.options.source.name
    for partition in range(3, PARTITIONS):
        cluster.send(topic, partition, [message(1000)])
    cluster.send(topic, 0, [message(n) for n in range(50, 400) if n not in (60, 70, 80)])
    cluster.send(topic, 1, [message(n) for n in (*range(30), *range(31, 50), 60)])
    cluster.send(topic, 2, [message(30)])
    source = site.open(buffer_bytes=1)
    until(lambda: not source.has_room)
    site.look()
    # Its end has been read. The reader waits with what comes before its newest message ...
    cluster.send(topic, 2, [message(80)])
    site.look()
    # ... for a minute, in which it goes on.
    site.now_us += 60_000_000
    cluster.send(topic, 1, [message(70)])
    found = entered(source, 59)
    for partition in range(3):
        cluster.send(topic, partition, [message(1000)])
    found += entered(source, 399 - len(found))
    assert found[:399] == list(range(399))
    assert source.status.late == 0


@pytest.mark.parametrize("idle_after_ms", [None, 1000])
def test_much_of_one_timestamp_does_not_pause_a_partition_for_ever(
    cluster: MockKafka, site: Site, monkeypatch: pytest.MonkeyPatch, idle_after_ms: int | None
) -> None:
    """All partitions go on, and none is ahead of the others."""
    # 8 MiB, as it is written, takes the test longer.
    monkeypatch.setattr(module, "AHEAD_BYTES", 1000)
    monkeypatch.setattr(module, "MESSAGES_AT_ONCE", 50)
    topic = site.options.source.name
    site.options = msgspec.structs.replace(site.options, idle_after_ms=idle_after_ms)
    day = [msgspec.json.encode({"at": 100_000, "number": n}) for n in range(400)]
    for partition in range(PARTITIONS):
        cluster.send(topic, partition, day)
        cluster.send(topic, partition, [message(2), message(3)])
    source = site.open()
    entered(source, PARTITIONS * 400)


def test_however_much_waits_what_ends_that_is_read(
    cluster: MockKafka, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the topic behind, and nobody else can bring it in."""
    monkeypatch.setattr(module, "MESSAGES_AT_ONCE", 50)
    topic = site.options.source.name
    site.options = msgspec.structs.replace(site.options, idle_after_ms=100, slack_ms=1000)
    same = [msgspec.json.encode({"at": 100_000 + n // 50, "number": n}) for n in range(2000)]
    cluster.send(topic, 0, [*same, *(message(n) for n in range(2, 5))])
    assert entered(site.open(waiting_bytes=8000), 2000)[:2000] == list(range(2000))


def _less(_: LiveInput, name: str) -> int:
    return -1


def _paused(source: LiveInput) -> bool:
    (end,) = source._on_close  # pyright: ignore[reportPrivateUsage]
    return bool(end.__self__._paused)  # pyright: ignore


def test_a_topic_that_cannot_be_reached_is_said(site: Site, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("# a comment\nno.such.setting = 1\n")
    broken = Topic(brokers="127.0.0.1:1", name="x", properties_file=str(properties))
    site.options = msgspec.structs.replace(site.options, source=broken)
    source = site.open()
    until(lambda: source._error is not None)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(DriverError, match=r"no\.such\.setting"):
        source.emit(0, 0)


def test_manifests(tmp_path: Path) -> None:
    file = tmp_path / "stream.yaml"

    def source(text: str) -> object:
        file.write_text(text)
        return read(documents(file)[0]).options

    found = source("kafka: {brokers: 'a:1', topic: t, timestamp: message, format: csv}")
    assert isinstance(found, dict)
    assert found["source"] == {"brokers": "a:1", "name": "t", "properties_file": None}
    assert (found["message_time"], found["format"], found["earliest"]) == (True, "csv", True)
    with pytest.raises(InvalidInput, match="topic"):
        source("kafka: {brokers: 'a:1'}")
    with pytest.raises(InvalidInput, match="startingOffsets"):
        source("kafka: {brokers: 'a:1', topic: t, startingOffsets: first}")


def test_two_sites_number_a_topic_alike(cluster: MockKafka, site: Site, tmp_path: Path) -> None:
    """One reads messages as they come, the other one all at once, and one is restarted."""
    topic = site.options.source.name
    other = Site(tmp_path / "other", cluster.brokers, topic)
    for each in (site, other):
        each.options = msgspec.structs.replace(
            each.options, idle_after_ms=None, slack_ms=150_000, partitions=PARTITIONS
        )
    assert site.options.unlike is None
    order = [n + (-3 if n % 7 == 0 else 0) for n in range(200)]
    source = site.open()
    for n in order[:100]:
        cluster.send(topic, n % PARTITIONS, [message(n)])
    until(lambda: taken_in(source) > 50)
    site.close()
    source = site.open()
    for n in [*order[100:], *range(200, 200 + PARTITIONS)]:
        cluster.send(topic, n % PARTITIONS, [message(n)])
    late = other.open()
    until(lambda: taken_in(source) == taken_in(late) > 150)
    count = taken_in(late)
    assert entered(source, count) == entered(late, count)
    other.close()


def test_two_sites_need_the_whole_topic_and_know_its_partitions(
    cluster: MockKafka, site: Site
) -> None:
    site.options = msgspec.structs.replace(
        site.options, idle_after_ms=None, partitions=PARTITIONS + 1
    )
    source = site.open()
    with pytest.raises(DriverError, match=f"{PARTITIONS} partitions, not {PARTITIONS + 1}"):
        until(lambda: source.next_due_us(0) == NOW_US)


def test_two_sites_of_one_machine_may_share_a_folder(
    cluster: MockKafka, site: Site, tmp_path: Path
) -> None:
    assigned = SourceAssignment(
        stream="north",
        columns={"number": "int"},
        source=SourceSpec(driver="kafka", guarantee=Guarantee.JOURNALED),
        start_at_us=None,
    )
    folder = tmp_path / "shared"
    opened = [
        site.options.open(
            msgspec.structs.replace(assigned, peer_site=other),
            SourceContext(folder=folder, site=name),
        )
        for name, other in (("a", "b"), ("b", "a"))
    ]
    for each in opened:
        each.close()


def test_brokers_that_go_away_are_named_and_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENT_S", 0.05)
    monkeypatch.setattr(module, "RESPONDS_S", 0.5)
    brokers = MockBrokers()
    site.options = msgspec.structs.replace(
        site.options, source=Topic(brokers=brokers.brokers, name="t"), idle_after_ms=None
    )
    producer = confluent_kafka.Producer({"bootstrap.servers": brokers.brokers})
    assert producer.list_topics("t", timeout=PATIENCE_S)

    def send(numbers: range) -> None:
        for number in numbers:
            producer.produce("t", message(number), partition=number % PARTITIONS)
        assert not producer.flush(PATIENCE_S)

    send(range(20))
    source = site.open()
    first = entered(source, 10)
    assert source.waits_for is None
    brokers.go_away()
    until(lambda: source.waits_for is not None)
    assert "no broker tells of the topic" in (source.waits_for or "")
    # It has not failed: it goes on by itself when they are back.
    assert source.next_due_us(0) is None
    brokers.come_back()
    until(lambda: source.waits_for is None)
    send(range(20, 40))
    found = first + entered(source, 10)
    assert found == list(range(len(found)))
    site.close()
    brokers.close()
