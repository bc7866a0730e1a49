"""What the sink finds in a topic whose end holds transactions that were given up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.edges.kafka import Topic
from orchestrator.edges.sinks import kafka
from orchestrator.edges.sinks.kafka import KafkaTopic
from orchestrator.records import SinkAssignment


@dataclass
class Message:
    """A message of the output, or what a consumer is told at the end of a partition."""

    at: int
    seq: int | None

    def error(self) -> Any:
        return None if self.seq is not None else SimpleNamespace(code=lambda: END)

    def offset(self) -> int:
        return self.at

    def headers(self) -> list[tuple[str, bytes]]:
        told = {"stream": "alerts", "generation": "1", "seq": str(self.seq)}
        return [(f"vivace-{name}", value.encode()) for name, value in told.items()]


END = -191


class Partition:
    """Of a topic: a consumer is given its committed messages only, and then its end."""

    def __init__(self, committed: dict[int, int], high: int) -> None:
        self._committed, self._high = committed, high
        self._at = 0

    def get_watermark_offsets(self, _partition: object, timeout: float) -> tuple[int, int]:
        return 0, self._high

    def assign(self, places: list[SimpleNamespace]) -> None:
        self._at = places[0].offset

    def read(self, *_arguments: object) -> list[Message]:
        found = [Message(at, seq) for at, seq in self._committed.items() if at >= self._at]
        return [*found, Message(self._high, None)]


def place(topic: str, _partition: int, offset: int = 0) -> SimpleNamespace:
    return SimpleNamespace(topic=topic, offset=offset)


@pytest.mark.parametrize("given_up", [0, 10, 2000, 50_000])
def test_the_last_tuple_is_found_behind_transactions_that_were_given_up(
    given_up: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = Partition({0: 0, 1: 1, 2: 2}, 4 + given_up)
    client = SimpleNamespace(
        TopicPartition=place,
        KafkaError=SimpleNamespace(_PARTITION_EOF=END),
    )
    monkeypatch.setattr(kafka, "library", lambda: client)
    monkeypatch.setattr(kafka, "come", partition.read)
    assigned = SinkAssignment(stream="alerts", columns={"number": "int"}, deadline_ms=100.0, life=1)
    sink = KafkaTopic(target=Topic(brokers="none:1", name="out")).open(assigned, tmp_path)
    assert sink._last(partition, 0) == (1, 2)  # pyright: ignore[reportPrivateUsage, reportArgumentType]
