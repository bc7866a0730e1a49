"""Benchmark `ingest`: tuples a second and latency from a client into a fragment that filters.

A client on one processor sends tuples of five columns to a site on another one, which parses,
orders, numbers and journals them (the disk has them before they are acknowledged), and evaluates a
filter. Beside it, in the same run, Spark Structured Streaming reads the same lines, out of files
and from a socket, and filters, on one processor too.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import pyarrow as pa

from bench import ingest_workload as workload
from bench.ingest_site import Order, Passed, Passing, clock_us
from bench.registry import Figures, Settings, benchmark
from bench.report import ROOT

RATE_ROWS_S, TICK_S = 5_000, 0.01
"""Of the measurement of latency: so many tuples a second, in a batch each tick."""

FILE_ROWS = 524_288
"""Of each file that Spark reads."""

FETCH_MS = 5
"""How long a fetch from the mock cluster waits for messages."""

ENDS_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A way in.

    Attributes
    ----------
    driver, options
        Of the site.
    encode
        A batch as the client holds it before it sends it.
    connect
        Makes what sends, from an address and the encoded batches.
    rows, quick_rows
        Number of tuples.
    batch_rows
        So many are sent at once.
    ahead_rows
        So many at most have been sent but have not passed, if what lies between drops what it
        has no room for.
    """

    driver: str
    options: dict[str, Any]
    encode: Callable[[pa.RecordBatch], Any]
    connect: Callable[[str, Any], workload.Send]
    rows: int
    quick_rows: int
    batch_rows: int = 65_536
    ahead_rows: int | None = None


SOURCES = {
    "csv-tcp": Source(
        driver="tcp",
        options={},
        encode=workload.as_csv,
        connect=workload.tcp,
        rows=5_000_000,
        quick_rows=500_000,
    ),
    "http-arrow": Source(
        driver="http",
        options={},
        encode=workload.as_arrow,
        connect=workload.arrow,
        rows=20_000_000,
        quick_rows=2_000_000,
    ),
    "python": Source(
        driver="http",
        options={},
        encode=lambda _: b"",
        connect=workload.python,
        rows=20_000_000,
        quick_rows=2_000_000,
    ),
    "kafka": Source(
        driver="kafka",
        options={},
        encode=workload.as_json,
        connect=workload.kafka,
        rows=500_000,
        quick_rows=50_000,
        batch_rows=8_192,
        # The mock cluster keeps 5 MiB of a partition.
        ahead_rows=32_768,
    ),
}
KINDS = (*SOURCES, "spark")

PROCESSORS = sorted(os.sched_getaffinity(0))
"""Clients run on the first one, sites on the last one."""


@benchmark("ingest", kinds=KINDS)
def ingest(settings: Settings) -> Figures:
    """Tuples a second and latency from a client into a fragment, beside Spark's own sources."""
    flat: dict[str, float] = {}
    os.sched_setaffinity(0, PROCESSORS[:1])
    for name in settings.only or KINDS:
        if name == "spark":
            flat |= _spark(settings)
            continue
        source = SOURCES[name]
        settings.say(f"{name}: as fast as it goes")
        rows = source.quick_rows if settings.quick else source.rows
        flat[f"{name}.rows_s"] = measured_rate(source, rows)
        settings.say(f"{name}: {RATE_ROWS_S} tuples a second")
        latencies_ms = _latencies_ms(source, 2 if settings.quick else 10)
        for percent in (50, 99):
            flat[f"{name}.latency_ms_p{percent}"] = float(np.percentile(latencies_ms, percent))
    return flat | _ratios(flat)


def _ratios(flat: dict[str, float]) -> dict[str, float]:
    """The rates, divided by those of Spark's own sources, where both were measured."""
    return {
        f"{name}.rows_to_{own}": flat[f"{name}.rows_s"] / flat[f"{own}.rows_s"]
        for name in KINDS
        for own in ("spark_files", "spark_socket")
        if f"{name}.rows_s" in flat and f"{own}.rows_s" in flat
    }


@contextmanager
def running_site(source: Source, rows: int) -> Generator[tuple[str, IO[str]]]:
    """A site's process: its address, and what it prints."""
    options = source.options
    brokers = None
    if source.driver == "kafka":
        from tests.mock_kafka import MockKafka

        brokers = MockKafka()
        brokers.create(workload.TOPIC)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        if brokers is not None:
            # The mock cluster responds to a fetch that found nothing when its time is over, not
            # when something comes, as brokers do.
            properties = Path(folder) / "properties"
            properties.write_text(f"fetch.wait.max.ms={FETCH_MS}\n")
            topic = {"brokers": brokers.brokers, "name": workload.TOPIC}
            options = {"source": {**topic, "properties_file": str(properties)}}
        order = Order(
            driver=source.driver,
            options=options,
            rows=rows,
            folder=folder,
            processor=PROCESSORS[-1],
        )
        command = [sys.executable, "-m", "bench.ingest_site", msgspec.json.encode(order).decode()]
        site = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        try:
            assert site.stdout is not None
            address = site.stdout.readline().strip()
            if not address:
                raise RuntimeError(f"the site has ended with {site.wait()}")
            yield brokers.brokers if brokers is not None else address, site.stdout
        finally:
            site.kill()
            site.wait()


def measured_rate(source: Source, rows: int) -> float:
    """Tuples a second, from the first send until the last one has passed the filter."""
    size = source.batch_rows
    batches = [workload.batch(n, min(size, rows - n)) for n in range(0, rows, size)]
    # Few different bodies: their numbers come again, which no source looks at.
    few = {n * size: source.encode(batches[n]) for n in range(min(8, len(batches)))}
    with running_site(source, rows) as (address, said):
        send = source.connect(address, few)
        begun_us = clock_us()
        whole, rest = divmod(rows, size)
        passed_rows = 0
        for number in range(whole):
            if source.ahead_rows is not None:
                while number * size - passed_rows > source.ahead_rows - size:
                    told = _told(said)
                    assert isinstance(told, Passing)
                    passed_rows = told.rows
            send(batches[number % len(few)])
        if rest:
            # Kept to the end: a client may still hold what it was told to send.
            send_rest = source.connect(address, {whole * size: source.encode(batches[-1])})
            send_rest(batches[-1])
        passed = _all_passed(said)
    return rows / ((passed.times[-1][1] - begun_us) / 1e6)


def _all_passed(said: IO[str]) -> Passed:
    """What a site says at the end."""
    while isinstance(told := _told(said), Passing):
        pass
    return told


def _told(said: IO[str]) -> Passing | Passed:
    """What a site says next."""
    line = said.readline()
    if not line:
        raise RuntimeError("the site has ended; its own error stands above")
    return msgspec.json.decode(line, type=Passing | Passed)


def _latencies_ms(source: Source, seconds: int) -> list[float]:
    """Of every batch, from the client's send until its last tuple has passed the filter."""
    at_once = round(RATE_ROWS_S * TICK_S)
    count = round(seconds / TICK_S)
    batches = [workload.batch(n * at_once, at_once) for n in range(count)]
    encoded = {n * at_once: source.encode(each) for n, each in enumerate(batches)}
    sent_us: list[int] = []
    with running_site(source, count * at_once) as (address, said):
        send = source.connect(address, encoded)
        begun_s = time.monotonic()
        for number, each in enumerate(batches):
            # A batch that is due while the last one is still being sent counts from when it was.
            due_s = begun_s + number * TICK_S
            time.sleep(max(due_s - time.monotonic(), 0.0))
            sent_us.append(round(due_s * 1e6))
            send(each)
        passed = _all_passed(said)
    numbers = np.array([number for number, _ in passed.times])
    times_us = np.array([time_us for _, time_us in passed.times])
    lasts = np.arange(1, count + 1) * at_once - 1
    arrived_us = times_us[np.searchsorted(numbers, lasts)]
    return [float(each) for each in (arrived_us - np.array(sent_us)) / 1000]


def _spark(settings: Settings) -> Figures:
    """Spark into a site, and Spark's own sources of files and of a socket."""
    rows = 500_000 if settings.quick else 2_000_000
    flat: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as made:
        folder = Path(made)
        (folder / "files").mkdir()
        for first in range(0, rows, FILE_ROWS):
            lines = workload.as_csv(workload.batch(first, min(FILE_ROWS, rows - first)))
            (folder / "files" / f"{first:012}.csv").write_bytes(lines)
        with running_site(SOURCES["http-arrow"], rows) as (address, _):
            settings.say("spark: into a site")
            flat["spark.rows_s"] = rows / _spark_seconds("write", folder, address)
        settings.say("spark_files: Spark's own source")
        flat["spark_files.rows_s"] = rows / _spark_seconds("files", folder, "")
        settings.say("spark_socket: Spark's own source")
        # Spark's source of a socket takes some hundred lines a second.
        lines = rows // 40
        (folder / "lines").mkdir()
        (folder / "lines" / "all.csv").write_bytes(workload.as_csv(workload.batch(0, lines)))
        with _lines(folder / "lines") as port:
            flat["spark_socket.rows_s"] = lines / _spark_seconds("socket", folder, str(port))
    return flat


def _spark_seconds(what: str, folder: Path, address: str) -> float:
    command = [sys.executable, "-m", "bench.ingest_spark", what, str(folder), address]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=ENDS_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"Spark failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.splitlines()[-1])


@contextmanager
def _lines(folder: Path) -> Generator[int]:
    """A server that sends the lines of a folder's files to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                for file in sorted(folder.iterdir()):
                    connection.sendall(file.read_bytes())
                # Spark's source ends its reader with the connection.
                connection.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
