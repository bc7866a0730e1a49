"""Spark in benchmark `ingest`: into a site, and its own sources of files and of a socket.

Rates count from the start of a query to its end. Latencies are taken as those of sites are
(`bench.ingest_latency`): a client sends 5,000 tuples a second, and a tick counts from when it was
due until its last tuple that passes the filter has come to a client. Three ways:

- `spark`: lines over a socket into Spark, from there into a site, which filters and delivers.
- `spark_socket`: lines over a socket into Spark, which filters and collects each micro-batch.
- `spark_files`: files into a folder, which Spark reads, filters and collects.

Set up in Spark's favour: the next micro-batch starts as soon as the last one has ended; its own
sources keep no state and write no results; files are read once before that is timed; files come ten
times a second, because it lists the folder for each micro-batch; no tuple waits for its file to be
filled; and before ticks are due, some are sent one by one, each when the last one has come: the
first micro-batches take seconds.

Its own sources have a processor to themselves, as a site has. On the way into a site, Spark is the
client, and shares the other processor with whoever sends and receives.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil
import pyarrow as pa

from bench import ingest_workload as workload
from bench.ingest_latency import (
    SETTLE_S,
    TICK_S,
    Arrivals,
    last_passing,
    results_of,
    sent_when_due,
    settled_ms,
    ticks,
)
from bench.ingest_sources import PROCESSORS, SOURCES, running_site
from bench.registry import Figures, Settings
from bench.report import ROOT
from foundation.arrays import FloatArray

FILE_ROWS = 524_288
"""Of each file that Spark reads as fast as it can."""

ENDS_S = 600.0
"""A query of which the rate is measured has ended by then."""

CONNECTS_S = 120.0
"""Spark has started a query by then, which makes it connect to a socket."""

WARM_UPS = 12
"""So many ticks are sent one by one."""

FILE_TICK_S = 0.1
"""How often a file comes whose latency is measured."""


def spark_rates(settings: Settings) -> Figures:
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
            flat["spark.rows_s"] = rows / _seconds("write", folder, site.address)
        settings.say("spark_files: Spark's own source")
        flat["spark_files.rows_s"] = rows / _seconds("files", folder, "")
        settings.say("spark_socket: Spark's own source")
        # Spark's source of a socket makes one micro-batch of what has come: fewer lines than files.
        lines = rows // 20
        (folder / "lines").mkdir()
        (folder / "lines" / "all.csv").write_bytes(workload.as_csv(workload.batch(0, lines)))
        with _lines(folder / "lines") as port:
            flat["spark_socket.rows_s"] = lines / _seconds("socket", folder, str(port))
    return flat


def spark_latencies_ms(settings: Settings) -> Iterator[tuple[str, FloatArray]]:
    """Of each tick, by the name of the way that it took."""
    for name, measured in (
        ("spark", through_a_site_ms),
        ("spark_socket", from_a_socket_ms),
        ("spark_files", from_files_ms),
    ):
        settings.say(f"{name}: latency")
        with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
            yield name, measured(Path(folder), 2 if settings.quick else 10)


def through_a_site_ms(folder: Path, seconds: int) -> FloatArray:
    """Of each tick over a socket, into a site, to a client of its results."""
    batches = _ticks(seconds, TICK_S)
    rows = sum(each.num_rows for each in batches)
    with (
        running_site(SOURCES["http-arrow"], rows, delivers=True) as site,
        socket.create_server(("127.0.0.1", 0)) as server,
        _spark("write_socket", folder, site.address, _port(server)),
    ):
        return _over_a_socket_ms(server, Arrivals(results_of(site.results)), batches)


def from_a_socket_ms(folder: Path, seconds: int) -> FloatArray:
    """Of each tick over a socket, to the driver's memory."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        _spark("follow_socket", folder, _port(server)) as said,
    ):
        return _over_a_socket_ms(server, Arrivals(_told(said)), _ticks(seconds, TICK_S))


def _over_a_socket_ms(
    server: socket.socket, arrivals: Arrivals, batches: list[pa.RecordBatch]
) -> FloatArray:
    lines = iter([workload.as_csv(each) for each in batches])
    server.settimeout(CONNECTS_S)
    connection, _ = server.accept()
    # Spark's source ends its reader with the connection.
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _sent_ms(batches, lambda _: connection.sendall(next(lines)), arrivals, TICK_S)


def from_files_ms(folder: Path, seconds: int) -> FloatArray:
    """Of each tick as a file, to the driver's memory."""
    batches = _ticks(seconds, FILE_TICK_S)
    files = enumerate([workload.as_csv(each) for each in batches])
    (folder / "files").mkdir()

    def send(_: pa.RecordBatch) -> None:
        number, lines = next(files)
        written = folder / "files" / f".{number:06}.csv"
        written.write_bytes(lines)
        written.rename(written.with_name(f"{number:06}.csv"))

    with _spark("follow_files", folder) as said:
        return _sent_ms(batches, send, Arrivals(_told(said)), FILE_TICK_S)


def _ticks(seconds: int, tick_s: float) -> list[pa.RecordBatch]:
    """Those that warm up, then those that have a time."""
    return ticks(round(WARM_UPS * tick_s + SETTLE_S) + seconds, tick_s)


def _sent_ms(
    batches: list[pa.RecordBatch], send: workload.Send, arrivals: Arrivals, tick_s: float
) -> FloatArray:
    """Send what there is; the latencies of the ticks that had a time."""
    for each in batches[:WARM_UPS]:
        send(each)
        if last_passing([each])[0] >= 0:
            arrivals.until([each])
    timed = batches[WARM_UPS:]
    due_us = sent_when_due(timed, send, tick_s)
    return settled_ms(arrivals.until(timed), due_us, timed, SETTLE_S)


def _told(said: Iterable[str]) -> Iterator[tuple[int, int]]:
    """What a query that collects tells: a number, and when its tuple and all before had come."""
    for line in said:
        number, at_us = line.split()
        yield int(number), int(at_us)


def _seconds(what: str, folder: Path, address: str) -> float:
    """How long a query took."""
    with _spark(what, folder, address) as said:
        return float(said.readline())


@contextmanager
def _spark(what: str, folder: Path, *addresses: str) -> Generator[IO[str]]:
    """A process that does one of `bench.ingest_spark`, which has begun; yields what it prints.

    Raises
    ------
    RuntimeError
        Something failed while it ran; with its last words.
    """
    command = [sys.executable, "-m", "bench.ingest_spark", what, str(folder), *addresses]
    with tempfile.TemporaryFile("w+", dir=folder) as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
        )
        os.sched_setaffinity(process.pid, PROCESSORS[:1] if "write" in what else PROCESSORS[-1:])
        patience = threading.Timer(ENDS_S, process.kill)
        patience.start()
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("Spark has not started")
            yield process.stdout
        except Exception as error:
            errors.seek(0)
            raise RuntimeError(f"Spark, {what}: {error}\n{errors.read()[-2000:]}") from error
        finally:
            patience.cancel()
            below = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.wait()
            # Java ends with the process that started it; what is measured next has the processor.
            for each in psutil.wait_procs(below, CONNECTS_S)[1]:
                each.kill()


def _port(server: socket.socket) -> str:
    return str(server.getsockname()[1])


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
