"""Input and clients of benchmark `ingest`."""

from __future__ import annotations

import http.client
import io
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import ipc

import vivace

STREAM = "readings"
COLUMNS = {"number": "int", "key": "int", "value": "float", "other": "float", "count": "int"}
RESULTS = "passing"
LEAST_VALUE = 20.0
"""Tuples with a greater value pass the filter."""

STATEMENT = (
    f"REGISTER QUERY {RESULTS} RSTREAM(SELECT * FROM {STREAM} [NOW] WHERE value > {LEAST_VALUE:g});"
)

TOPIC = "readings"

Send = Callable[[pa.RecordBatch], None]
"""Sends a batch; returns when it is on its way, or in."""


def batch(first: int, rows: int) -> pa.RecordBatch:
    """Tuples with rising numbers."""
    numbers = np.arange(first, first + rows)
    return pa.RecordBatch.from_pydict(
        {
            "number": numbers,
            "key": numbers % 1000,
            "value": (numbers % 997) / 10.0,
            "other": numbers / 4.0,
            "count": numbers % 7,
        }
    )


def passing(rows: pa.RecordBatch) -> int:
    """How many of the tuples pass the filter."""
    return int((rows.column("value").to_numpy() > LEAST_VALUE).sum())


def as_csv(rows: pa.RecordBatch) -> bytes:
    """Lines without one that names the columns."""
    columns = [column.to_pylist() for column in rows.columns]
    return b"".join(b"%d,%d,%r,%r,%d\n" % row for row in zip(*columns, strict=True))


def as_arrow(rows: pa.RecordBatch) -> bytes:
    """A stream of Arrow's IPC format."""
    sink = io.BytesIO()
    writer = ipc.new_stream(sink, rows.schema)
    writer.write_batch(rows)
    writer.close()
    return sink.getvalue()


def tcp(address: str, encoded: dict[int, bytes]) -> Send:
    """Lines over one connection; `encoded` holds batches by their first number."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host.removeprefix("tcp://"), int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return lambda rows: connection.sendall(encoded[_first(rows)])


def arrow(address: str, encoded: dict[int, bytes]) -> Send:
    """Bodies of Arrow over one connection, each answered before the next."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc)
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}

    def send(rows: pa.RecordBatch) -> None:
        while True:
            connection.request("POST", parts.path, encoded[_first(rows)], headers)
            response = connection.getresponse()
            told = response.read()
            if response.status == http.client.OK:
                return
            if response.status != http.client.TOO_MANY_REQUESTS:
                raise RuntimeError(told.decode())

    return send


def python(address: str, _: dict[int, bytes]) -> Send:
    """The client for Python, which encodes and numbers."""
    stream = vivace.site(address).stream(STREAM)

    def send(rows: pa.RecordBatch) -> None:
        stream.send(rows)

    return send


def kafka(brokers: str, encoded: dict[int, list[bytes]]) -> Send:
    """Messages of JSON."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0})

    def send(rows: pa.RecordBatch) -> None:
        for value in encoded[_first(rows)]:
            while True:
                try:
                    producer.produce(TOPIC, value, partition=0)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)

    return send


def as_json(rows: pa.RecordBatch) -> list[bytes]:
    """A document for each tuple."""
    return [msgspec.json.encode(row) for row in rows.to_pylist()]


def _first(rows: pa.RecordBatch) -> int:
    return int(rows.column(0)[0].as_py())
