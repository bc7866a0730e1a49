"""Spark's half of benchmark `latency`: from when a tuple is due until its result is collected.

Set up in Spark's favour: the socket source lives in the driver and has enough tasks for the rate,
no Python runs in the executors, which have Java's optimising compiler, and the next micro-batch
starts as soon as the last one has ended. The first micro-batches take seconds: tuples that warm up
come before those that have a time.

The question is that of our half, with one group for each key and interval of event time: a filter,
and counts by key and burst in the rows of a micro-batch, which one shuffle computes (a burst is
hardly ever divided, and counts that it divides are added again here). No state is kept, so none has
to be written to disk.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from bench.failover import SPARK_SETTINGS
from foundation.arrays import FloatArray, IntArray
from orchestrator.errors import VivaceError
from orchestrator.spark.hosts.session import SessionSettings, start_session, stop_session

BURST_MS = 5
EXECUTORS = 2

TASK_RATE = 1_250
"""Lines a second for each task of the source. The time that Spark's socket source takes grows with
the square of a task's lines, which it looks up in a linked list; each task takes some time, too."""

WARM_UPS, WARM_UP_S = 12, 0.2
"""So many times, tuples of so much time are sent together before bursts are due."""

WARM_UP = -1
"""The burst that these tuples name."""

PATIENCE_S = 60.0
"""For what warms up, and for what still comes after the last tuple was due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """What is sent: so many tuples a second of so many keys, and what is left out at first."""

    rate: int
    seconds: int
    settle_s: int
    keys: int


def source_tasks(rate: int) -> int:
    """In how many tasks a micro-batch of the socket source is read."""
    return max(EXECUTORS, rate // TASK_RATE)


@contextmanager
def feed(
    given: SparkSettings, warmed_up: threading.Semaphore
) -> Generator[tuple[int, list[float]]]:
    """Offer lines `key,number,burst` on a port of the loopback interface.

    Yields the port, and a list whose only element becomes the time of the first burst, s. Tuples
    that warm up come first; the reader releases the semaphore once for each. A burst is sent when
    it is due, or as soon as a slow reader takes it.
    """
    ended = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))
    begin_s = [0.0]
    each = given.rate * BURST_MS // 1000

    def serve() -> None:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            warm_ups = int(given.rate * WARM_UP_S)
            lines = "".join(f"{number % given.keys},1,{WARM_UP}\n" for number in range(warm_ups))
            for _ in range(WARM_UPS):
                try:
                    connection.sendall(lines.encode())
                except OSError:
                    return
                for _ in range(warm_ups):
                    while not warmed_up.acquire(timeout=0.1):
                        if ended.is_set():
                            return
            begin_s[0] = time.monotonic()
            for burst in range(given.seconds * 1000 // BURST_MS):
                wait_s = begin_s[0] + burst * BURST_MS / 1000 - time.monotonic()
                if wait_s > 0 and ended.wait(wait_s):
                    return
                numbers = range(burst * each, (burst + 1) * each)
                lines = "".join(f"{number % given.keys},{number},{burst}\n" for number in numbers)
                try:
                    connection.sendall(lines.encode())
                except OSError:
                    return
            # Spark stops reading at the end of the connection; results are still to come.
            ended.wait()

    thread = threading.Thread(target=serve, name="feed", daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1], begin_s
    finally:
        ended.set()
        # Closing alone would not end the wait for a reader.
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(timeout=5)


def counted(session: SparkSession, port: int) -> DataFrame:
    """The rows that pass the filter; a micro-batch counts them by key and burst."""
    lines = (
        session.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
    )
    parts = sql.split(lines["value"], ",")
    tuples = lines.select(
        parts[0].cast("int").alias("key"),
        parts[1].cast("long").alias("number"),
        parts[2].cast("long").alias("burst"),
    )
    return tuples.where(sql.col("number") % 10 != 0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What came out.

    Attributes
    ----------
    latencies_ms
        Of all tuples after the first seconds. Those that had not come out in the end have waited
        until then: they take longer in truth.
    arrived_share
        The share of all tuples that came out.
    """

    latencies_ms: FloatArray
    arrived_share: float


def measure_spark(folder: Path, given: SparkSettings, say: Callable[[str], None]) -> Measured:
    """Latencies of tuples, by a session of its own.

    Raises
    ------
    VivaceError
        The query has ended, or what warms up has not come out in time.
    """
    say(f"{given.rate} tuples/s: Spark: starting executors")
    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as work:
        session = start_session(
            SessionSettings(
                name="bench-latency",
                work_dir=Path(work),
                executors=EXECUTORS,
                executor_memory_mb=768,
                extra={
                    **SPARK_SETTINGS,
                    "spark.sql.shuffle.partitions": str(EXECUTORS),
                    "spark.default.parallelism": str(source_tasks(given.rate)),
                },
            )
        )
        try:
            return _measure(session, folder, given, say)
        finally:
            stop_session(session)


def _measure(
    session: SparkSession, folder: Path, given: SparkSettings, say: Callable[[str], None]
) -> Measured:
    arrived: list[tuple[float, IntArray, IntArray]] = []
    warmed_up = threading.Semaphore(0)

    def keep(batch: DataFrame, number: int) -> None:
        rows = batch.groupBy("key", "burst").agg(
            sql.count("*").alias("tuples"), sql.max("number").alias("newest")
        )
        found = rows.toArrow()
        at_s = time.monotonic()
        bursts, tuples = found["burst"].to_numpy(), found["tuples"].to_numpy()
        timed = bursts != WARM_UP
        arrived.append((at_s, bursts[timed], tuples[timed]))
        if warm_ups := int(tuples[~timed].sum()):
            warmed_up.release(warm_ups)

    each, bursts = given.rate * BURST_MS // 1000, given.seconds * 1000 // BURST_MS
    passes = np.arange(each * bursts) % 10 != 0
    wanted: IntArray = passes.reshape(bursts, each).sum(axis=1)
    expected = int(wanted.sum())
    with feed(given, warmed_up) as (port, begin_s):
        query = (
            counted(session, port)
            .writeStream.option("checkpointLocation", str(folder / f"spark-{given.rate}"))
            .foreachBatch(keep)
            .start()
        )
        try:
            give_up_s = time.monotonic() + given.seconds + 2 * PATIENCE_S
            while (come := sum(int(tuples.sum()) for _, _, tuples in arrived)) < expected:
                if not query.isActive:
                    raise VivaceError(f"Spark: {come} of {expected} tuples: {query.exception()}")
                if time.monotonic() > give_up_s:
                    break
                if begin_s[0] and time.monotonic() > begin_s[0] + given.seconds + PATIENCE_S:
                    break
                say(f"{given.rate} tuples/s: Spark: {come} of {expected} tuples")
                time.sleep(0.5)
        finally:
            query.stop()
    if not begin_s[0]:
        raise VivaceError(f"Spark has not warmed up within {given.seconds + 2 * PATIENCE_S:g} s")
    share = sum(int(tuples.sum()) for _, _, tuples in arrived) / expected
    arrived.append((time.monotonic(), np.arange(bursts), missing(wanted, arrived)))
    return Measured(latencies_ms(arrived, begin_s[0], given.settle_s), share)


def missing(wanted: IntArray, arrived: Sequence[tuple[float, IntArray, IntArray]]) -> IntArray:
    """How many tuples of each burst have not come out."""
    missing = wanted.copy()
    for _, bursts, tuples in arrived:
        np.subtract.at(missing, bursts, tuples)
    return missing


def latencies_ms(
    arrived: Sequence[tuple[float, IntArray, IntArray]], begin_s: float, settle_s: float
) -> FloatArray:
    """The latency of each tuple: since its burst was due.

    Parameters
    ----------
    arrived
        When the rows of each micro-batch were collected, and their bursts and numbers of tuples.
    begin_s, settle_s
        When the first burst was due, and how long bursts are left out from then on.
    """
    found: list[FloatArray] = []
    for at_s, bursts, tuples in arrived:
        counted = np.repeat(bursts, tuples)
        counted = counted[counted * BURST_MS >= settle_s * 1000]
        since_begin_ms = (at_s - begin_s) * 1000
        found.append(since_begin_ms - (counted * BURST_MS).astype(np.float64))
    return np.concatenate(found)
