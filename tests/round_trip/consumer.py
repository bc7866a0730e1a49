"""A consumer of topics: `consumer.py BROKERS DATABASE TOPIC...`.

Messages and the offsets to continue with enter its database together, so it may be killed at any
moment and started again.
"""

from __future__ import annotations

import os
import sqlite3
import sys

from confluent_kafka import Consumer, TopicPartition

WAIT_S = 0.2
MOST = 1000


def main(brokers: str, database: str, *topics: str) -> None:
    """Read until the process that has started this one ends."""
    parent = os.getppid()
    kept = sqlite3.connect(database)
    kept.execute("CREATE TABLE IF NOT EXISTS messages (topic TEXT, partition INT, value BLOB)")
    kept.execute(
        "CREATE TABLE IF NOT EXISTS places "
        "(topic TEXT, partition INT, next INT, PRIMARY KEY (topic, partition))"
    )
    kept.commit()
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "round trip",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    places = {(t, p): n for t, p, n in kept.execute("SELECT topic, partition, next FROM places")}
    consumer.assign(
        [
            TopicPartition(topic, partition, places.get((topic, partition), 0))
            for topic in topics
            for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ]
    )
    while os.getppid() == parent:
        found = consumer.consume(MOST, WAIT_S)
        with kept:
            for message in found:
                error = message.error()
                if error is None:
                    place = message.topic(), message.partition()
                    row = (*place, message.value())
                    kept.execute("INSERT INTO messages VALUES (?, ?, ?)", row)
                    following = (*place, (message.offset() or 0) + 1)
                    kept.execute("INSERT OR REPLACE INTO places VALUES (?, ?, ?)", following)
                elif not error.retriable():
                    raise SystemExit(error.str())


if __name__ == "__main__":
    main(*sys.argv[1:])
