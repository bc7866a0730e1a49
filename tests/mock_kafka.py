"""A mock cluster of Kafka in this process: librdkafka's own, which a producer hosts."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

PATIENCE_S = 60.0


PARTITIONS = 4
"""Of every topic there."""


class MockKafka:
    """Brokers for as long as the object lives.

    Attributes
    ----------
    brokers
        Addresses, which any client of this machine may use.
    """

    def __init__(self) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": "none:1",
                "test.mock.num.brokers": 1,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        found = self._producer.list_topics(timeout=PATIENCE_S).brokers.values()
        self.brokers = ",".join(f"{broker.host}:{broker.port}" for broker in found)
        self._own = Producer({"bootstrap.servers": self.brokers, "linger.ms": 0})

    def create(self, topic: str) -> None:
        """A topic: the mock cluster makes what a producer asks for."""
        while not self._own.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions:
            self._own.poll(0.01)

    def send(self, topic: str, partition: int, values: Sequence[bytes], stamp_ms: int = 0) -> None:
        """Messages of a partition."""
        for value in values:
            self._own.produce(topic, value, partition=partition, timestamp=stamp_ms)
        assert not self._own.flush(PATIENCE_S)

    def read(
        self, topic: str, partitions: int = PARTITIONS
    ) -> dict[int, list[tuple[bytes, dict[str, bytes]]]]:
        """All committed messages of a topic with their headers."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.brokers,
                "group.id": "reader",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        found: dict[int, list[tuple[bytes, dict[str, bytes]]]] = {p: [] for p in range(partitions)}
        left = set(found)
        while left:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            partition = message.partition()
            assert partition is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(partition)
                continue
            headers = {n: v for n, v in message.headers() or () if isinstance(v, bytes)}
            value = message.value()
            assert isinstance(value, bytes)
            found[partition].append((value, headers))
        consumer.close()
        return found
