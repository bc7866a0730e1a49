"""A stream out of Spark, through a query, back into Spark and into Parquet files.

The cells run one after another in a notebook, or all as a script.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession

from vivace.spark import VivaceDataSource

ADDRESS = os.environ.get("VIVACE_ADDRESS", "http://127.0.0.1:8642")
RESULTS = 20
folder = Path(mkdtemp(prefix="vivace-notebook-"))

# %% A session that runs already is used as it is.
spark = SparkSession.builder.appName("notebook").getOrCreate()
spark.dataSource.register(VivaceDataSource)

# %% Spark makes readings of 20 to 39 °C, and writes them into the stream `rates`.
readings = (
    spark.readStream.format("rate")
    .option("rowsPerSecond", 20)
    .load()
    .selectExpr("timestamp AS at", "'rate' AS sensor", "double(20 + value % 20) AS celsius")
)
writing = (
    readings.writeStream.format("vivace")
    .options(address=ADDRESS, stream="rates")
    .option("checkpointLocation", str(folder / "writing"))
    .start()
)

# %% The results of the query, those of 30 °C or more, become Parquet files.
warm = spark.readStream.format("vivace").options(address=ADDRESS, stream="warm").load()
reading = (
    warm.writeStream.format("parquet")
    .option("path", str(folder / "warm"))
    .option("checkpointLocation", str(folder / "reading"))
    .start()
)

# %% After a while, some are there.
while sum(progress.numInputRows for progress in reading.recentProgress) < RESULTS:
    for query in (writing, reading):
        if (error := query.exception()) is not None:
            raise error
    time.sleep(0.1)
for query in (writing, reading):
    query.stop()
found = spark.read.parquet(str(folder / "warm"))
found.groupBy("sensor").agg({"celsius": "min", "_seq": "count"}).show()
