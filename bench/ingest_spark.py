"""Spark in benchmark `ingest`, on one processor: into a site, out of files, from a socket.

    python -m bench.ingest_spark WHAT FOLDER [ADDRESS …]

It prints a line when Spark has started. Then `write`, `files` and `socket` print the seconds that
it took to read all there is. `write_socket`, `follow_files` and `follow_socket` go on until their
standard input ends; the latter two print, for each micro-batch, the number of its last tuple that
passes the filter, and when all were collected: the machine's monotonic clock, µs.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from pyarrow import compute
from pyspark.sql import DataFrame, SparkSession

from bench.ingest_site import clock_us
from bench.ingest_workload import COLUMNS, LEAST_VALUE, STREAM
from bench.lifeline import end_with_input
from orchestrator.embedded.java import find_java
from vivace.spark import VivaceDataSource

SCHEMA = ", ".join(
    f"{name} {'double' if kind == 'float' else 'long'}" for name, kind in COLUMNS.items()
)

PASSES = f"value > {LEAST_VALUE:g}"

LINE_TASKS = {"socket": 32, "write_socket": 4, "follow_socket": 4}
"""Tasks of a micro-batch of lines. The time that Spark's source of a socket takes grows with the
square of a task's lines, which it looks up in a linked list; each task takes some time, too."""

LOOK_S = 0.5
"""How often a query that does not end by itself is asked how far it has come."""


def write(session: SparkSession, folder: Path, address: str) -> None:
    """The files into a site, as one streaming query."""
    query = _into_site(session, _file_rows(session, folder), folder, address)
    query.trigger(availableNow=True).start().awaitTermination()


def files(session: SparkSession, folder: Path, _: str, name: str = "files") -> None:
    """Spark's source of files, a filter, and a sink that does nothing."""
    rows = _file_rows(session, folder).where(PASSES)
    _noop(rows, folder, name).trigger(availableNow=True).start().awaitTermination()


def socket(session: SparkSession, folder: Path, port: str) -> None:
    """Spark's source of lines, parsed, a filter, and a sink that does nothing."""
    rows = _socket_rows(session, port).where(PASSES)
    expected = sum(file.read_bytes().count(b"\n") for file in (folder / "lines").iterdir())
    query = _noop(rows, folder, "socket").start()
    while sum(progress.numInputRows for progress in query.recentProgress) < expected:
        if (error := query.exception()) is not None:
            raise error
        # Asking takes time of the one processor: all progress so far is read each time.
        time.sleep(LOOK_S)
    query.stop()


def write_socket(session: SparkSession, folder: Path, address: str, port: str) -> None:
    """Lines from a socket into a site, for as long as they come."""
    rows = _socket_rows(session, port)
    _into_site(session, rows, folder, address).start().awaitTermination()


def follow_files(session: SparkSession, folder: Path) -> None:
    """Files, a filter, and each micro-batch collected, for as long as they come."""
    _collected(_file_rows(session, folder).where(PASSES), folder)


def follow_socket(session: SparkSession, folder: Path, port: str) -> None:
    """Lines from a socket, a filter, and each micro-batch collected, for as long as they come."""
    _collected(_socket_rows(session, port).where(PASSES), folder)


def _file_rows(session: SparkSession, folder: Path) -> DataFrame:
    return session.readStream.schema(SCHEMA).csv(str(folder / "files"))


def _socket_rows(session: SparkSession, port: str) -> DataFrame:
    lines = session.readStream.format("socket").options(host="127.0.0.1", port=port).load()
    return lines.selectExpr(f"from_csv(value, '{SCHEMA}') AS row").select("row.*")


def _into_site(session: SparkSession, rows: DataFrame, folder: Path, address: str) -> Any:
    session.dataSource.register(VivaceDataSource)
    return (
        rows.writeStream.format("vivace")
        .options(address=address, stream=STREAM)
        .option("checkpointLocation", str(folder / "into"))
    )


def _noop(rows: DataFrame, folder: Path, name: str) -> Any:
    # The state of a query of files is in its checkpoint.
    where = str(folder / f"{name}-checkpoint")
    return rows.writeStream.format("noop").option("checkpointLocation", where)


def _collected(rows: DataFrame, folder: Path) -> None:
    def collect(batch: DataFrame, _: int) -> None:
        found = batch.toArrow()
        if found.num_rows:
            newest = compute.max(found["number"]).as_py()
            sys.stdout.write(f"{newest} {clock_us()}\n")
            sys.stdout.flush()

    where = str(folder / "collected")
    query = rows.writeStream.option("checkpointLocation", where).foreachBatch(collect).start()
    query.awaitTermination()


RATES = {"write": write, "files": files, "socket": socket}
LATENCIES = {
    "write_socket": write_socket,
    "follow_files": follow_files,
    "follow_socket": follow_socket,
}


def main() -> None:
    """Do one of them."""
    what, folder, *addresses = sys.argv[1:]
    end_with_input(Path(folder))
    # Spark would take whichever `python3` comes first.
    os.environ.update(find_java().environment(), PYSPARK_PYTHON=sys.executable)
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.default.parallelism", LINE_TASKS.get(what, 1))
        .config("spark.driver.memory", "2g")
        .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    # What starts once is no part of it.
    session.range(10).write.format("noop").mode("overwrite").save()
    if what == "files":
        # Nor is the time that Java takes to compile the query.
        files(session, Path(folder), "", "warm-up")
    sys.stdout.write("Spark has started.\n")
    sys.stdout.flush()
    begun = time.perf_counter()
    {**RATES, **LATENCIES}[what](session, Path(folder), *addresses)
    sys.stdout.write(f"{time.perf_counter() - begun}\n")


if __name__ == "__main__":
    main()
