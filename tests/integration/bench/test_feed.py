"""The load that Spark is measured under, over a real socket."""

from __future__ import annotations

import socket
import threading

from bench.silence import KEYS
from bench.spark_failover import feed


def test_feed_sends_every_tuple_once_and_in_order() -> None:
    with feed() as port, socket.create_connection(("127.0.0.1", port)) as connection:
        lines = connection.makefile()
        tuples = [lines.readline() for _ in range(500)]
    assert tuples == [f"{number % KEYS},{number}\n" for number in range(500)]


def test_feed_ends_without_a_reader() -> None:
    with feed():
        assert "feed" in {thread.name for thread in threading.enumerate()}
    assert "feed" not in {thread.name for thread in threading.enumerate()}
