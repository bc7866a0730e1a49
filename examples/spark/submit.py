"""A batch of readings into a stream, and the query's results out of it, by `spark-submit`.

docs/spark.md has the commands.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession

import vivace
from vivace.spark import VivaceDataSource

ADDRESS = os.environ.get("VIVACE_ADDRESS", "http://127.0.0.1:8642")
RESULTS = 499
"""Half of the readings have 30 °C or more. The last one's timestamp is yet to be complete."""

spark = SparkSession.builder.appName("submit").getOrCreate()
spark.dataSource.register(VivaceDataSource)

# A thousand readings of 20 to 39 °C, a millisecond apart.
readings = spark.range(1000).selectExpr(
    "timestamp_millis(unix_millis(now()) + id) AS at",
    "'submit' AS sensor",
    "double(20 + id % 20) AS celsius",
)
readings.write.format("vivace").options(address=ADDRESS, stream="rates").mode("append").save()

# What is there of the results, until all are.
results = spark.read.format("vivace").options(address=ADDRESS, stream="warm").load()
while results.where("sensor = 'submit'").count() < RESULTS:
    time.sleep(0.5)

# The same as a stream, into Parquet files.
folder = Path(mkdtemp(prefix="vivace-submit-"))
reading = (
    spark.readStream.format("vivace")
    .options(address=ADDRESS, stream="warm")
    .load()
    .where("sensor = 'submit'")
    .writeStream.format("parquet")
    .option("path", str(folder / "warm"))
    .option("checkpointLocation", str(folder / "reading"))
    .start()
)
reading.processAllAvailable()
reading.stop()
found = spark.read.parquet(str(folder / "warm")).count()
package = Path(vivace.__file__).parents[1].name
print(f"{found} results of 30 °C or more, with the package in {package}")  # noqa: T201
