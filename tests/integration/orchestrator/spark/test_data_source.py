"""Spark writes into a real site and reads its results: each tuple once, whatever is repeated."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from orchestrator.edges.listening import Endpoint
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.folder import Folder
from orchestrator.edges.sources.formats.row_form import ISO
from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.records import Guarantee, SourceAssignment, SourceSpec
from tests.conftest import WaitUntil
from tests.integration.orchestrator.edges.sinks.test_http_results import Site as Exit
from tests.integration.orchestrator.edges.sources.test_http import Site
from vivace.spark import VivaceDataSource
from vivace.spark.options import Options
from vivace.spark.reading import ResultsStreamReader

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BY_COLUMN = Http(time_column="at", time_format=ISO, idle_after_ms=None, max_ahead_ms=None)


@pytest.fixture(scope="module")
def spark(session: SparkSession) -> SparkSession:
    session.dataSource.register(VivaceDataSource)
    return session


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.close()


@pytest.fixture
def results(tmp_path: Path) -> Iterator[Exit]:
    made = Exit(tmp_path / "exit")
    yield made
    made.sink.close()


def port_of(opened: LiveInput) -> int:
    assert opened.address is not None
    return urlsplit(opened.address).port or 0


BEGAN_S = int(time.time()) - 1000
"""Before anything is written."""


def entered(opened: LiveInput, found: list[int] | None = None) -> list[int]:
    """The numbers that have entered, after those found; the last timestamp stays open."""
    found = [] if found is None else found
    while (emitted := opened.emit(0, 2**60)) is not None:
        found += emitted.rows.column("number").to_pylist()
    return found


def write_file(folder: Path, name: str, numbers: range) -> None:
    """Numbers with as many seconds, in an order that falls.

    Spark reads files in the order of their times of modification, whatever their names.
    """
    falling = list(reversed(numbers))
    table = pa.Table.from_pydict(
        {"at": pa.array([n * 1_000_000 for n in falling], pa.timestamp("us", "UTC")),
         "number": falling, "name": [str(n) for n in falling]}
    )  # fmt: skip
    parquet.write_table(table, str(folder / f".{name}"))
    modified_s = BEGAN_S + ord(name[0])
    os.utime(folder / f".{name}", (modified_s, modified_s))
    (folder / f".{name}").rename(folder / name)


class Writing:
    """A streaming query from files into a stream."""

    def __init__(self, spark: SparkSession, tmp_path: Path, address: str) -> None:
        self.files, self.checkpoint = tmp_path / "files", tmp_path / "checkpoint"
        self.files.mkdir()
        self._spark = spark
        self.options = {"address": address, "stream": "north"}

    def run(self) -> None:
        """Until all files are written."""
        rows = (
            self._spark.readStream.schema("at timestamp, number long, name string")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.files))
            .repartition(3)
        )
        query = (
            rows.writeStream.format("vivace")
            .options(**self.options)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def undo_last_commit(self) -> None:
        """Let Spark believe that it was killed before it noted its last batch as done."""
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
        for file in (commits / str(last), commits / f".{last}.crc"):
            file.unlink()


def test_a_query_that_is_repeated_and_a_site_that_restarts_let_each_tuple_enter_once(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    opened = site.open(BY_COLUMN)
    assert opened.address is not None
    writing = Writing(spark, tmp_path, opened.address)
    write_file(writing.files, "a.parquet", range(100))
    write_file(writing.files, "b.parquet", range(100, 200))
    writing.run()
    assert entered(opened) == list(range(199))
    writing.undo_last_commit()
    port = port_of(opened)
    opened.close()
    again = site.open(msgspec.structs.replace(BY_COLUMN, listen=Endpoint(port=port)))
    write_file(writing.files, "c.parquet", range(200, 300))
    writing.run()
    assert entered(again)[-100:] == list(range(199, 299))
    assert again.status.late == 0
    assert not list((site.folder / "batches").rglob("*.arrow"))


def test_batches_in_a_folder_are_numbered_files_that_two_sites_read_alike(
    spark: SparkSession, tmp_path: Path, wait_until: WaitUntil
) -> None:
    folder = tmp_path / "shared"
    writing = Writing(spark, tmp_path, "")
    writing.options = {"path": str(folder), "timestamp": "at", "names": "n-###.arrow"}
    write_file(writing.files, "a.parquet", range(100))
    write_file(writing.files, "b.parquet", range(100, 200))
    writing.run()
    first = (folder / "n-000.arrow").stat().st_ino
    writing.undo_last_commit()
    write_file(writing.files, "c.parquet", range(200, 200))
    write_file(writing.files, "d.parquet", range(200, 300))
    writing.run()
    assert (folder / "n-000.arrow").stat().st_ino == first
    names = sorted(each.name for each in folder.iterdir() if each.is_file())
    assert names == [f"n-{number:03}.arrow" for number in range(4)]
    assert not list(folder.rglob("*-*-*/*.arrow"))
    source = Folder(
        path=str(folder), names="n-###.arrow", every_ms=5, time_column="at", time_format=ISO,
        idle_after_ms=None, max_ahead_ms=None,
    )  # fmt: skip
    assert source.unlike is None
    for name in ("here", "there"):
        opened = source.open(
            SourceAssignment(
                stream="s",
                columns={"number": "int", "name": "string"},
                source=SourceSpec(driver="folder", guarantee=Guarantee.JOURNALED),
                start_at_us=None,
                peer_site="other",
            ),
            SourceContext(folder=tmp_path, site=name, clock_us=lambda: 10**12),
        )
        assert isinstance(opened, LiveInput)
        found: list[int] = []
        wait_until(lambda o=opened, f=found: len(entered(o, f)) >= 299)
        assert found == list(range(299))
        assert opened.status.late == 0
        opened.close()
    shutil.rmtree(writing.checkpoint)
    with pytest.raises(Exception, match="written by another query"):
        writing.run()
    writing.options |= {"timestamp": "when"}
    with pytest.raises(Exception, match='option "timestamp" is'):
        writing.run()


def test_a_frame_enters_once_under_its_name(spark: SparkSession, site: Site) -> None:
    opened = site.open(BY_COLUMN)
    rows = spark.range(0, 1000).selectExpr(
        "timestamp_seconds(999 - id) AS at", "999 - id AS number", "string(id) AS name"
    )

    def write(frame: DataFrame, name: str | None = None) -> None:
        writer = frame.repartition(4).write.format("vivace").option("stream", "north")
        named = writer if name is None else writer.option("id", name)
        named.option("address", str(opened.address)).mode("append").save()

    write(rows, "monday")
    write(rows, "monday")
    assert entered(opened) == list(range(999))
    assert opened.status.late == 0
    with pytest.raises(Exception, match="column number is missing"):
        write(rows.drop("number"))


def results_of(spark: SparkSession, results: Exit, **options: str) -> DataFrame:
    reader = spark.read.format("vivace").option("stream", "alerts")
    return reader.options(address=results.sink.address, **options).load()


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row["number"] for row in frame.select("number").collect())


def test_results_are_read_in_parts_ranges_columns_and_conditions(
    spark: SparkSession, results: Exit
) -> None:
    for first in range(0, 1000, 50):
        results.deliver(1, first, 50)
    results.deliver(3, 0, 10)
    every = results_of(spark, results)
    assert every.columns == ["_generation", "_seq", "_ts", "number"]
    assert numbers(every) == [*range(1000, 2000), *range(3000, 3010)]
    times = results_of(spark, results, startingTimestamp="1100", endingTimestamp="1109")
    assert numbers(times) == list(range(1100, 1110))
    pruned = (
        spark.read.format("vivace").schema("number long")
        .options(address=results.sink.address, stream="alerts").load()
    )  # fmt: skip
    assert pruned.columns == ["number"]
    assert numbers(pruned) == numbers(every)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert numbers(results_of(spark, results).where("number >= 3004 OR number = 7")) == [
            *range(3004, 3010)
        ]
        assert numbers(results_of(spark, results).where("_generation = 3 AND number < 3002")) == [
            3000,
            3001,
        ]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_query_that_restarts_reads_no_result_twice(
    spark: SparkSession, results: Exit, tmp_path: Path
) -> None:
    def run() -> None:
        address = results.sink.address
        rows = spark.readStream.format("vivace").option("maxRowsPerBatch", 40)
        query = (
            rows.options(address=address, stream="alerts").load()
            .writeStream.format("parquet").option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    results.deliver(1, 0, 100)
    run()
    results.deliver(1, 100, 5)
    results.deliver(3, 0, 3)
    port = urlsplit(results.sink.address).port
    results.sink.close()
    results.open(port or 0)
    run()
    found = spark.read.parquet(str(tmp_path / "out"))
    assert numbers(found) == [*range(1000, 1105), *range(3000, 3003)]


def test_limits_of_a_batch_are_rows_or_bytes(results: Exit) -> None:
    results.deliver(1, 0, 100)
    results.deliver(3, 0, 50)

    def ends(**options: str) -> list[dict[str, int]]:
        """The offsets of a query's batches."""
        given = {"address": results.sink.address, "stream": "alerts", **options}
        reader = ResultsStreamReader(Options.read(given), StructType())
        limit, at = reader.getDefaultReadLimit(), reader.initialOffset()
        found: list[dict[str, int]] = []
        while (end := reader.latestOffset(at, limit)) != at:
            found.append(end)
            at = end
        return found

    generations = {1: 100, 3: 50}
    assert ends() == [{"generation": 3, "seq": 50}]
    by_rows = ends(maxRowsPerBatch="40")
    assert len(by_rows) == 4
    # Four columns of eight bytes, and what Arrow has besides.
    by_bytes = ends(maxBytesPerBatch=str(40 * 36))
    assert 4 <= len(by_bytes) <= 6
    assert all(each["seq"] <= generations[each["generation"]] for each in by_bytes)
    assert len(ends(maxBytesPerBatch="1")) == 150
    with pytest.raises(ValueError, match="not both"):
        ends(maxBytesPerBatch="1", maxRowsPerBatch="1")
    options = Options.read({"address": results.sink.address, "stream": "alerts"})
    lag = ResultsStreamReader(options, StructType())
    assert lag.reportLatestOffset() == {"generation": 3, "seq": 50}


def test_wrong_options_say_which(spark: SparkSession) -> None:
    with pytest.raises(Exception, match='option "stream" is missing'):
        spark.read.format("vivace").option("address", "http://127.0.0.1:1").load()
