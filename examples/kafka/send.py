"""Sends trades into topic `trades`, which it makes along with topic `large` if they are missing."""

from __future__ import annotations

import json
import os

from confluent_kafka import KafkaException, Producer

BROKERS = os.environ.get("BROKERS", "localhost:9092")
FIRST_MS = 1_700_000_000_000

producer = Producer(
    {"bootstrap.servers": BROKERS, "enable.idempotence": True, "log_level": 0},
)
try:
    for topic in ("trades", "large"):
        while not producer.list_topics(topic, timeout=10).topics[topic].partitions:
            producer.poll(0.1)
except KafkaException as error:
    raise SystemExit(f"no broker responds at {BROKERS} (variable BROKERS): {error}") from None
for number in range(1000):
    symbol = ("ABC", "XYZ")[number % 2]
    trade = {"at": FIRST_MS + 10 * number, "symbol": symbol, "price": number % 110}
    producer.produce("trades", json.dumps(trade), key=symbol)
if producer.flush(30):
    raise SystemExit("the brokers have not taken all trades")
