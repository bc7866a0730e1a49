"""Benchmark `ingest`: tuples a second into a fragment that filters, and latency to its results.

A client on one processor sends tuples of five columns to a site on another one, which parses,
orders, numbers and journals them (the disk has them before they are acknowledged), and evaluates a
filter. Beside it, in the same run, Spark Structured Streaming reads the same lines, out of files
and from a socket, and filters, on one processor too. Latencies are those of
`bench.ingest_latency`: from a client that sends to a client that gets the results.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
import numpy as np

from bench import ingest_workload as workload
from bench.ingest_latency import RATE_ROWS_S, latencies_ms
from bench.ingest_site import Passed, Passing, clock_us
from bench.ingest_sources import PROCESSORS, SOURCES, Source, running_site
from bench.registry import Figures, Settings, benchmark
from bench.report import ROOT
from topology.arrays import FloatArray

FILE_ROWS = 524_288
"""Of each file that Spark reads."""

ENDS_S = 600.0

KINDS = (*SOURCES, "spark")


@benchmark("ingest", kinds=KINDS)
def ingest(settings: Settings) -> Figures:
    """Tuples a second into a fragment and latency to its results, beside Spark's own sources."""
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
        flat |= _percentiles(name, latencies_ms(source, 2 if settings.quick else 10))
    return flat | _ratios(flat)


def _percentiles(name: str, found_ms: FloatArray) -> Figures:
    p50, p99 = np.percentile(found_ms, [50, 99]).tolist()
    return {f"{name}.latency_ms_p50": p50, f"{name}.latency_ms_p99": p99}


def _ratios(flat: dict[str, float]) -> dict[str, float]:
    """The rates, divided by those of Spark's own sources, where both were measured."""
    return {
        f"{name}.rows_to_{own}": flat[f"{name}.rows_s"] / flat[f"{own}.rows_s"]
        for name in KINDS
        for own in ("spark_files", "spark_socket")
        if f"{name}.rows_s" in flat and f"{own}.rows_s" in flat
    }


def measured_rate(source: Source, rows: int) -> float:
    """Tuples a second, from the first send until the last one has passed the filter."""
    size = source.batch_rows
    batches = [workload.batch(n, min(size, rows - n)) for n in range(0, rows, size)]
    # Few different bodies: their numbers come again, which no source looks at.
    few = {n * size: source.encode(batches[n]) for n in range(min(8, len(batches)))}
    with running_site(source, rows) as site:
        send = source.connect(site.address, few)
        begun_us = clock_us()
        whole, rest = divmod(rows, size)
        passed_rows = 0
        for number in range(whole):
            if source.ahead_rows is not None:
                while number * size - passed_rows > source.ahead_rows - size:
                    told = _told(site.said)
                    assert isinstance(told, Passing)
                    passed_rows = told.rows
            send(batches[number % len(few)])
        if rest:
            # Kept to the end: a client may still hold what it was told to send.
            send_rest = source.connect(site.address, {whole * size: source.encode(batches[-1])})
            send_rest(batches[-1])
        passed = _all_passed(site.said)
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
        with running_site(SOURCES["http-arrow"], rows) as site:
            settings.say("spark: into a site")
            flat["spark.rows_s"] = rows / _spark_seconds("write", folder, site.address)
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
