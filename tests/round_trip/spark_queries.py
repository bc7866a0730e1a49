"""Spark's part of the round trip: `spark_queries.py write|read|check FOLDER ADDRESS ADDRESS`.

`write` streams the files of trades and quotes into Vivace, `read` streams its results into Parquet
files, both for ever and with checkpoints. `check` computes the results in Spark SQL over the files,
and compares them row for row; its exit status is 1 if they differ.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from vivace.spark import VivaceDataSource

LOOK_S = 2

SCHEMAS = {
    "trades": "at long, symbol string, number long, price double",
    "quotes": "at long, symbol string, bid double",
}

RESULTS = {
    "spreads": """
        SELECT at AS _ts, symbol, number, price - newest AS spread FROM (
            SELECT *, last_value(bid, true) OVER (
                PARTITION BY symbol ORDER BY at, number NULLS FIRST
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS newest
            FROM (SELECT at, symbol, null AS number, null AS price, bid FROM quotes
                UNION ALL SELECT at, symbol, number, price, null FROM trades))
        WHERE number IS NOT NULL AND newest IS NOT NULL""",
    "seconds": """
        SELECT ceil(_ts / 1000) * 1000 AS _ts, symbol, count(*) AS n, sum(spread) AS total
        FROM spreads GROUP BY 1, 2""",
}


def write(spark: SparkSession, folder: Path, address: str) -> None:
    """Files into streams."""
    for stream, schema in SCHEMAS.items():
        (
            spark.readStream.schema(schema)
            .json(str(folder / stream))
            .writeStream.format("vivace")
            .options(address=address, stream=stream)
            .option("checkpointLocation", str(folder / f"{stream}.checkpoint"))
            .start()
        )


def read(spark: SparkSession, folder: Path, address: str) -> None:
    """Results into files."""
    for output in RESULTS:
        (
            spark.readStream.format("vivace")
            .options(address=address, stream=output)
            .load()
            .writeStream.format("parquet")
            .option("path", str(folder / output))
            .option("checkpointLocation", str(folder / f"{output}.checkpoint"))
            .start()
        )


def check(spark: SparkSession, folder: Path, end_ms: int) -> bool:
    """Whether the results are those of Spark SQL for the input before a time; says what is not."""
    for stream, schema in SCHEMAS.items():
        found = spark.read.schema(schema).json(str(folder / stream)).where(f"at < {end_ms}")
        found.createOrReplaceTempView(stream)
    agrees = True
    for output, query in RESULTS.items():
        wanted = spark.sql(query)
        wanted.cache().createOrReplaceTempView(output)
        found = spark.read.parquet(str(folder / output)).select(wanted.columns)
        lacks, besides = wanted.exceptAll(found).collect(), found.exceptAll(wanted).collect()
        print(output, wanted.count(), "rows; lacks", lacks[:3], "besides", besides[:3])  # noqa: T201
        agrees = agrees and not lacks and not besides and wanted.count() > 0
    return agrees


def main(verb: str, folder: Path, argument: str) -> int:
    """Run a verb."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        # Without it, stopping a query waits as long as its batch waits for a site.
        .config("spark.sql.streaming.stopTimeout", "20s")
        .getOrCreate()
    )
    spark.dataSource.register(VivaceDataSource)
    if verb == "check":
        return 0 if check(spark, folder, int(argument)) else 1
    {"write": write, "read": read}[verb](spark, folder, argument)
    # The test may be ended, too.
    parent = os.getppid()
    cause: Exception | None = None
    try:
        while os.getppid() == parent:
            spark.streams.awaitAnyTermination(LOOK_S)
    except StreamingQueryException as error:
        cause = error
    stop(spark)
    # Last, for the test shows the end of what is written here.
    traceback.print_exception(cause)
    return 2


def stop(spark: SparkSession) -> None:
    """Stop the queries, then the session.

    A query whose session ends in the midst of a batch ends with Spark's NullPointerException in
    `cleanupQueryJobs`, which hides why another one ended.
    """
    for query in spark.streams.active:
        with contextlib.suppress(PySparkException):
            query.stop()
    spark.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
