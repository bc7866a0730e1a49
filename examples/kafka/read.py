"""Reads the results out of topic `large`, and says how many there are of each symbol."""

from __future__ import annotations

import json
import os
from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

BROKERS = os.environ.get("BROKERS", "localhost:9092")
RESULTS = 90

consumer = Consumer(
    {
        "bootstrap.servers": BROKERS,
        "group.id": "example",
        # A flush that did not end is no result.
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "log_level": 0,
    }
)
try:
    partitions = consumer.list_topics("large", timeout=10).topics["large"].partitions
except KafkaException as error:
    raise SystemExit(f"no broker responds at {BROKERS} (variable BROKERS): {error}") from None
consumer.assign([TopicPartition("large", p, OFFSET_BEGINNING) for p in partitions])
found: Counter[str] = Counter()
while found.total() < RESULTS:
    message = consumer.poll(60)
    if message is None:
        raise SystemExit(f"only {found.total()} of {RESULTS} results have come")
    if message.error() is None:
        found[json.loads(message.value() or b"{}")["symbol"]] += 1
consumer.close()
print(dict(sorted(found.items())))  # noqa: T201
