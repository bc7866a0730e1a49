"""Spark Connect: a client on one side of a server, a site on the other one.

The client needs packages that are not among ours, because pyarrow imports pandas in every process
where it is there. Without them the test is skipped:

    .venv/bin/uv pip install --target build/connect \\
        grpcio grpcio-status googleapis-common-protos pandas zstandard
    PYTHONPATH=build/connect .venv/bin/pytest tests/integration/orchestrator/spark/test_connect.py
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.embedded.java import Java
from orchestrator.embedded.ports import free_port
from orchestrator.spark.hosts.session import pyspark_folder
from tests.conftest import WaitUntil
from tests.integration.orchestrator.edges.sinks.test_http_results import Site as Exit
from tests.integration.orchestrator.edges.sources.test_http import Site
from tests.integration.orchestrator.spark.test_data_source import BY_COLUMN, entered

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STARTS_S = 120.0

CLIENT = """
import sys
from pyspark import cloudpickle
from pyspark.sql import SparkSession
import vivace
from vivace.spark import VivaceDataSource

server, entry, out, folder = sys.argv[1:]
spark = SparkSession.builder.remote(server).getOrCreate()
# As if the server had no package `vivace`.
cloudpickle.register_pickle_by_value(vivace)
spark.dataSource.register(VivaceDataSource)


def rows(first, end):
    return spark.range(first, end).selectExpr(
        "timestamp_seconds(id) AS at", "id AS number", "CAST(id AS string) AS name"
    )


def stream_write():
    query = (
        spark.readStream.schema("at timestamp, number long, name string")
        .option("maxFilesPerTrigger", 1)
        .parquet(folder + "/files")
        .writeStream.format("vivace")
        .options(address=entry, stream="north")
        .option("checkpointLocation", folder + "/writing")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


for _ in range(2):
    one = rows(0, 10).write.format("vivace").options(address=entry, stream="north", id="one")
    one.mode("append").save()
for first in (10, 20):
    rows(first, first + 10).coalesce(1).write.mode("append").parquet(folder + "/files")
stream_write()
rows(30, 40).coalesce(1).write.mode("append").parquet(folder + "/files")
stream_write()
reader = spark.read.format("vivace").options(address=out, stream="alerts")
found = [reader.load().where("number < 1010").count()]
reading = (
    spark.readStream.format("vivace").options(address=out, stream="alerts").load()
    .writeStream.format("parquet").option("path", folder + "/read")
    .option("checkpointLocation", folder + "/reading").trigger(availableNow=True).start()
)
reading.awaitTermination()
found.append(spark.read.parquet(folder + "/read").count())
try:
    reader.option("tokenFile", "/nowhere/token").load().count()
except Exception as error:
    found.append("with Spark Connect, those of the server" in str(error))
print("found", found)
"""


@pytest.fixture
def server(java: Java, tmp_path: Path, wait_until: WaitUntil) -> Iterator[str]:
    """The address of a server of Spark Connect in a process of its own."""
    for name in ("grpc", "grpc_status", "google.rpc", "pandas", "zstandard"):
        pytest.importorskip(name)
    port = free_port()
    (jar,) = (pyspark_folder() / "jars").glob("spark-connect_*.jar")
    command = [
        str(pyspark_folder() / "bin" / "spark-submit"),
        *("--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--conf", "spark.ui.enabled=false"),
        f"local:{jar}",
    ]  # fmt: skip
    environment = {**os.environ, **java.environment(), "PYSPARK_PYTHON": sys.executable}
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_until(lambda: process.poll() is not None or _listens(port), timeout_s=STARTS_S)
        assert process.poll() is None, (tmp_path / "server.log").read_text()[-2000:]
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def test_streams_and_results_pass_through_a_server_of_spark_connect(
    server: str, tmp_path: Path
) -> None:
    site, out = Site(tmp_path / "site"), Exit(tmp_path / "exit")
    opened = site.open(BY_COLUMN)
    assert opened.address is not None
    out.deliver(1, 0, 100)
    try:
        command = [sys.executable, "-c", CLIENT]
        arguments = [server, opened.address, out.sink.address, str(tmp_path)]
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=250, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert done.stdout.splitlines()[-1] == "found [10, 100, True]"
        # The last timestamp stays open.
        assert entered(opened) == list(range(39))
    finally:
        site.close()
        out.sink.close()
