"""Spark in benchmark `ingest`, on one processor: into a site, out of files, from a socket."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.ingest_workload import COLUMNS, STREAM
from orchestrator.deploy.embedded.java import find_java
from vivace.spark import VivaceDataSource

SCHEMA = ", ".join(
    f"{name} {'double' if kind == 'float' else 'long'}" for name, kind in COLUMNS.items()
)

LOOK_S = 0.5
"""How often a query that does not end by itself is asked how far it has come."""


def write(session: SparkSession, folder: Path, address: str) -> None:
    """The files into a site, as one streaming query."""
    session.dataSource.register(VivaceDataSource)
    rows = session.readStream.schema(SCHEMA).csv(str(folder / "files"))
    query = (
        rows.writeStream.format("vivace")
        .options(address=address, stream=STREAM)
        .option("checkpointLocation", str(folder / "into"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def files(session: SparkSession, folder: Path, _: str) -> None:
    """Spark's source of files, a filter, and a sink that does nothing."""
    rows = session.readStream.schema(SCHEMA).csv(str(folder / "files")).where("value > 20")
    _noop(rows, folder, "files").trigger(availableNow=True).start().awaitTermination()


def socket(session: SparkSession, folder: Path, port: str) -> None:
    """Spark's source of lines, parsed, a filter, and a sink that does nothing."""
    lines = session.readStream.format("socket").options(host="127.0.0.1", port=port).load()
    rows = lines.selectExpr(f"from_csv(value, '{SCHEMA}') AS row").where("row.value > 20")
    expected = sum(file.read_bytes().count(b"\n") for file in (folder / "lines").iterdir())
    query = _noop(rows, folder, "socket").start()
    while sum(progress.numInputRows for progress in query.recentProgress) < expected:
        if (error := query.exception()) is not None:
            raise error
        # Asking takes time of the one processor: all progress so far is read each time.
        time.sleep(LOOK_S)
    query.stop()


def _noop(rows: DataFrame, folder: Path, name: str) -> Any:
    # The state of a query of files is in its checkpoint.
    where = str(folder / f"{name}-checkpoint")
    return rows.writeStream.format("noop").option("checkpointLocation", where)


def main() -> None:
    """Do one of them; prints the seconds that it took."""
    what, folder, address = sys.argv[1:]
    # Spark would take whichever `python3` comes first.
    os.environ.update(find_java().environment(), PYSPARK_PYTHON=sys.executable)
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    # What starts once is no part of it.
    session.range(10).write.format("noop").mode("overwrite").save()
    begun = time.perf_counter()
    {"write": write, "files": files, "socket": socket}[what](session, Path(folder), address)
    sys.stdout.write(f"{time.perf_counter() - begun}\n")


if __name__ == "__main__":
    main()
