"""Hostile values from a DataFrame into a stream, and from results into a DataFrame, unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orchestrator.edges.sinks.http import HttpResults
from orchestrator.edges.sources.http import Http
from tests.conftest import WaitUntil
from tests.integration.orchestrator.test_hostile_edges import (
    ASSIGNED,
    OPTIONS,
    Site,
    check,
    keep,
    rows,
    table_of,
    unnumbered,
)
from vivace.spark import VivaceDataSource

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark(session: SparkSession) -> SparkSession:
    session.dataSource.register(VivaceDataSource)
    return session


def test_hostile_values_of_a_data_frame_enter_as_they_are(
    spark: SparkSession, tmp_path: Path, wait_until: WaitUntil
) -> None:
    here = Site(tmp_path / "site", Http(**OPTIONS), "http")
    sent = rows()
    frame = spark.createDataFrame(table_of(sent))
    address = (here.opened.address or "").partition("/streams")[0]
    options = {"address": address, "stream": "s"}
    frame.write.format("vivace").options(**options).mode("append").save()
    wait_until(lambda: here.look() >= len(sent))
    here.opened.close()
    check(here.rows, sent)
    assert len(here.rows) == len(sent)


def test_hostile_values_of_results_are_in_a_data_frame_as_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = HttpResults().open(ASSIGNED, tmp_path)
    keep(sink)
    options = {"address": sink.address.partition("/streams")[0], "stream": "s"}
    frame = spark.read.format("vivace").options(**options).load().orderBy("_seq")
    found = unnumbered(frame.toArrow().to_pylist())
    sink.close()
    check(found, rows())
    assert len(found) == len(rows())
