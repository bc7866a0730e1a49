"""How long Spark Structured Streaming is silent when one of its executors is killed.

Set up in Spark's favour wherever there is a choice:

- The driver, which holds the source, the sink and the checkpoint's bookkeeping, is not touched.
- The source is Spark's own socket source. It lives in the driver, so that no executor's death
  interrupts it and every tuple can be read again; it takes in tuples as they come, unlike the
  rate source, which hands them out once a second.
- No Python runs in the executors; checkpoints go to the local disk.

The query is comparable to a partition window: the newest tuple of each of the keys, kept as state
and given out when it changes (micro-batches, triggered every 100 ms, update mode). Output arrives
when the sink's function has a micro-batch's rows in the driver's memory. A task waits for no place
(`spark.locality.wait`); the other settings that decide how fast Spark notices and recovers are its
defaults.
"""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from bench.silence import KEYS, STEADY_S, TUPLES_PER_S, Measurement, longest_silence_ms
from orchestrator.errors import VivaceError

TRIGGER = "100 milliseconds"

FEED_INTERVAL_S = 0.01
"""Tuples are sent in bursts this far apart: well below the trigger interval."""

PATIENCE_S = 240.0
"""For executors to come back and output to flow. Several times what Spark takes at its worst."""

STEADY_OUTPUTS = 3
"""Micro-batches that show that output flows again."""


class NotRecovering(VivaceError):
    """Spark did not get back to normal in time."""


@contextmanager
def feed() -> Generator[int]:
    """Offer `TUPLES_PER_S` lines `key,sequence` on a port of the loopback interface.

    A single connection is served. A slow reader is caught up with: what is due is sent as soon as
    it is taken, so no tuple is skipped.
    """
    ended = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            start, sent = time.monotonic(), 0
            while not ended.wait(FEED_INTERVAL_S):
                due = int((time.monotonic() - start) * TUPLES_PER_S)
                lines = "".join(f"{number % KEYS},{number}\n" for number in range(sent, due))
                try:
                    connection.sendall(lines.encode())
                except OSError:
                    return
                sent = due

    thread = threading.Thread(target=serve, name="feed", daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        ended.set()
        # Closing alone would not end the wait for a reader.
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(timeout=5)


@dataclass(frozen=True, slots=True)
class Sink:
    """Takes each micro-batch's rows into the driver's memory and notes when it had them.

    Attributes
    ----------
    arrivals_s
        When rows arrived, monotonic clock.
    totals
        How many tuples Spark had taken in by then, as the query counts them.
    """

    arrivals_s: list[float] = field(default_factory=list[float])
    totals: list[int] = field(default_factory=list[int])
    _by_key: dict[int, int] = field(default_factory=dict[int, int])

    def __call__(self, batch: DataFrame, number: int) -> None:
        if rows := batch.collect():
            self.arrivals_s.append(time.monotonic())
            self._by_key.update((row["key"], row["tuples"]) for row in rows)
            self.totals.append(sum(self._by_key.values()))

    @property
    def tuples_s(self) -> float:
        """Tuples taken in per second, between the first micro-batch and the last."""
        duration_s = self.arrivals_s[-1] - self.arrivals_s[0]
        return (self.totals[-1] - self.totals[0]) / duration_s


def newest_by_key(session: SparkSession, port: int) -> DataFrame:
    """The continuous query: the newest sequence number of each key."""
    lines = (
        session.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
    )
    parts = sql.split(lines["value"], ",")
    tuples = lines.select(parts[0].cast("int").alias("key"), parts[1].cast("long").alias("number"))
    newest, count = sql.max("number").alias("newest"), sql.count("*").alias("tuples")
    return tuples.groupBy("key").agg(newest, count)


def executors(session: SparkSession) -> dict[str, int]:
    """Live executors and how many tasks each is running."""
    # PySpark has no interface to this; the JVM's is the one that Spark's own web page reads.
    store = cast("Any", session.sparkContext)._jsc.sc().statusStore()
    summaries = store.executorList(True)
    listed = [summaries.apply(index) for index in range(summaries.size())]
    return {one.id(): one.activeTasks() for one in listed if one.id() != "driver"}


def executor_process(executor: str) -> psutil.Process:
    """The process of an executor of a `local-cluster`, whose processes are all descendants."""
    for process in psutil.Process().children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if "--executor-id" in command and command[command.index("--executor-id") + 1] == executor:
            return process
    raise NotRecovering(f"no process of executor {executor} is to be found")


def measure_spark(
    session: SparkSession, count: int, runs: int, say: Callable[[str], None]
) -> Measurement:
    """Kill an executor that is running a task, `runs` times, and measure the silences.

    Parameters
    ----------
    session
        On a `local-cluster` with one core an executor.
    count
        Number of executors; each holds a part of the state.
    runs
        Number of kills.
    say
        Told what is being done.

    Raises
    ------
    NotRecovering
        If the query ends, or output or executors do not come back.
    """
    session.conf.set("spark.sql.shuffle.partitions", count)
    sink = Sink()
    gaps, undisturbed = list[float](), list[float]()
    with feed() as port:
        writer = newest_by_key(session, port).writeStream.outputMode("update")
        query = writer.trigger(processingTime=TRIGGER).foreachBatch(sink).start()
        try:
            for run in range(1, runs + 1):
                say(f"Spark: {run} of {runs}: all executors are to run")
                since = _wait_until_steady(session, query, count, sink)
                undisturbed.append(longest_silence_ms(sink.arrivals_s, since, time.monotonic()))
                killed = _kill_busy_executor(session)
                say(f"Spark: {run} of {runs}: an executor is killed")
                _wait_until_steady(session, query, count, sink)
                gaps.append(longest_silence_ms(sink.arrivals_s, killed, time.monotonic()))
        finally:
            query.stop()
    counts = {
        "undisturbed_ms_median": statistics.median(undisturbed),
        "tuples_s": sink.tuples_s,
    }
    return Measurement(gaps_ms=gaps, counts=counts)


def _wait_until_steady(
    session: SparkSession, query: StreamingQuery, count: int, sink: Sink
) -> float:
    """Wait until all executors are up, for `STEADY_S` and `STEADY_OUTPUTS`; since when they are.

    On a slow machine a micro-batch takes seconds.
    """
    deadline = time.monotonic() + PATIENCE_S
    since: float | None = None
    outputs = 0
    while time.monotonic() < deadline:
        if not query.isActive:
            raise NotRecovering(f"the streaming query ended: {query.exception()}")
        now = time.monotonic()
        if len(executors(session)) < count:
            since = None
        elif since is None:
            since, outputs = now, len(sink.arrivals_s)
        elif now - since >= STEADY_S and len(sink.arrivals_s) - outputs >= STEADY_OUTPUTS:
            return since
        time.sleep(0.1)
    up = len(executors(session))
    raise NotRecovering(f"{up} of {count} executors are up after {PATIENCE_S:.0f} s, or no output")


def _kill_busy_executor(session: SparkSession) -> float:
    """SIGKILL an executor in the middle of a task; when that was, s on the monotonic clock."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        busy = [executor for executor, tasks in executors(session).items() if tasks]
        if busy:
            process = executor_process(busy[0])
            killed = time.monotonic()
            process.kill()
            return killed
    raise NotRecovering(f"no executor ran a task within {PATIENCE_S:.0f} s")
