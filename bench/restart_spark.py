"""Spark Structured Streaming as benchmark `restart` kills it: a process of its own.

    python -m bench.restart_spark FOLDER KEYS TUPLES_PER_S

It reads Spark's own source of numbers, which counts on from its checkpoint. One query forwards the
numbers, the other one counts them by key in windows. Both write files, exactly once, and keep their
checkpoints below the folder, where a process that is started again goes on.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import functions as sql

from bench.failover import SPARK_SETTINGS
from bench.lifeline import end_with_input
from orchestrator.spark.hosts.session import SessionSettings, start_session

NUMBERS, COUNTS = "numbers", "counts"
"""Folders of what the queries have written."""


def main(folder: Path, keys: int, tuples_per_s: int) -> None:
    """Run both queries until the process is killed."""
    work = Path(tempfile.mkdtemp(prefix="vivace-bench-"))
    end_with_input(work)
    session = start_session(
        SessionSettings(
            name="bench-restart",
            work_dir=work,
            executors=1,
            executor_memory_mb=1024,
            extra={**SPARK_SETTINGS, "spark.sql.shuffle.partitions": "1"},
        )
    )
    source = session.readStream.format("rate").option("rowsPerSecond", tuples_per_s).load()
    key = (sql.col("value") % keys).alias("key")
    windows = source.withWatermark("timestamp", "0 seconds").groupBy(
        sql.window("timestamp", "1 second"), key
    )
    for name, made in {
        NUMBERS: source.select("value"),
        COUNTS: windows.agg(sql.count("*").alias("tuples")),
    }.items():
        made.writeStream.format("parquet").outputMode("append").option(
            "checkpointLocation", str(folder / f"{name}.checkpoint")
        ).start(str(folder / name))
    session.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
