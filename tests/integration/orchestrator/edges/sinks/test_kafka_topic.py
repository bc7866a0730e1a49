"""Results in a topic of librdkafka's mock cluster: each tuple once, whenever the site dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.kafka import Topic
from orchestrator.edges.sinks.kafka import KafkaTopic, OpenTopic
from orchestrator.records import SinkAssignment
from tests.integration.orchestrator.edges.sinks.test_http_results import delivery
from tests.mock_kafka import MockKafka


@pytest.fixture(scope="module")
def cluster() -> MockKafka:
    return MockKafka()


class Site:
    def __init__(self, folder: Path, cluster: MockKafka, topic: str) -> None:
        self.folder, self.cluster, self.topic = folder, cluster, topic
        folder.mkdir()
        cluster.create(topic)
        self.key: str | None = "number"
        self._opened: list[OpenTopic] = []

    def open(self, life: int = 1) -> OpenTopic:
        assigned = SinkAssignment(
            stream="alerts", columns={"number": "int"}, deadline_ms=100.0, life=life
        )
        target = Topic(brokers=self.cluster.brokers, name=self.topic)
        self._opened.append(KafkaTopic(target=target, key=self.key).open(assigned, self.folder))
        return self._opened[-1]

    def found(self) -> list[tuple[int, int, int]]:
        """Generation, number and value of every message, by generation and number."""
        found: list[tuple[int, int, int]] = []
        for messages in self.cluster.read(self.topic).values():
            own: list[tuple[int, int, int]] = []
            for value, headers in messages:
                assert headers["vivace-stream"] == b"alerts"
                assert headers["vivace-epoch"] == b"1"
                row = msgspec.json.decode(value)
                place = int(headers["vivace-generation"]), int(headers["vivace-seq"])
                assert row == {"_seq": place[1], "_ts": row["number"], "number": row["number"]}
                own.append((*place, row["number"]))
            assert own == sorted(own)
            found += own
        return sorted(found)

    def close(self) -> None:
        for each in self._opened:
            each.close()


@pytest.fixture
def site(tmp_path: Path, cluster: MockKafka, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(tmp_path / "site", cluster, request.node.name.replace("_", "-"))
    yield made
    made.close()


def numbers(generation: int, *seqs: int) -> list[tuple[int, int, int]]:
    return [(generation, seq, seq + 1000 * generation) for seq in seqs]


def write(sink: OpenTopic, generation: int, first_seq: int, count: int) -> None:
    sink.keep(delivery(generation, first_seq, count))
    sink.flush()


def test_a_site_that_is_killed_before_it_notes_a_flush_writes_nothing_twice(site: Site) -> None:
    first = site.open()
    write(first, 1, 0, 20)
    (file,) = site.folder.glob("*.kafka.json")
    noted = file.read_bytes()
    write(first, 1, 20, 20)
    file.write_bytes(noted)
    again = site.open()
    assert again.durable is not None
    assert again.durable.position.next_seq == 20
    write(again, 1, 20, 20)
    write(again, 1, 40, 5)
    write(again, 3, 0, 2)
    assert site.found() == [*numbers(1, *range(45)), *numbers(3, 0, 1)]


def test_a_site_that_lost_its_folder_leaves_out_what_the_topic_has(site: Site) -> None:
    write(site.open(), 1, 0, 20)
    for file in site.folder.iterdir():
        file.unlink()
    again = site.open()
    assert again.durable is None
    write(again, 1, 0, 25)
    assert site.found() == numbers(1, *range(25))


def test_another_query_of_the_name_goes_on_in_the_topic(site: Site) -> None:
    site.key = None
    write(site.open(), 1, 0, 5)
    other = site.open(life=2)
    assert other.durable is None
    write(other, 4, 0, 5)
    assert site.found() == [*numbers(1, *range(5)), *numbers(4, *range(5))]


def test_messages_of_others_may_not_hide_the_last_one(
    site: Site, cluster: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.key = None
    write(site.open(), 1, 0, 5)
    monkeypatch.setattr("orchestrator.edges.sinks.kafka.LOOKED_AT", 5)
    cluster.send(site.topic, 0, [b"x"] * 20)
    with pytest.raises(DriverError, match="topic of its own"):
        write(site.open(), 1, 5, 5)


def test_a_key_is_a_column(site: Site) -> None:
    site.key = "nothing"
    with pytest.raises(DriverError, match="no column nothing"):
        site.open()
