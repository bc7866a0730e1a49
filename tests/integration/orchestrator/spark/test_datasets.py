"""Spark reads a dataset of Parquet with the columns of the query and those of its folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.parquet import HOUR_MS, ParquetFiles
from orchestrator.records import SinkAssignment
from streams.vectors.chunk import Chunk, stream_schema

pytestmark = pytest.mark.spark

NOON_MS = 1_782_993_600_000
"""2026-07-02T12:00:00Z."""


def test_columns_called_as_parts_of_a_time_are_those_of_the_query(
    session: SparkSession, tmp_path: Path
) -> None:
    columns = {"date": "string", "hour": "int", "version": "float"}
    assigned = SinkAssignment(stream="s", columns=columns, deadline_ms=5.0, life=7)
    sink = ParquetFiles(path=str(tmp_path / "dataset")).open(assigned, tmp_path)
    row = {"_ts": NOON_MS, "date": "1999", "hour": 77, "version": 0.5}
    later_ms = np.array([NOON_MS + HOUR_MS])
    part = Chunk(
        first_seq=0,
        rows=pa.RecordBatch.from_pylist([row], schema=stream_schema(columns)),
        watermarks_ms=later_ms,
        ingestion_times_us=later_ms * 0,
    )
    sink.keep(Deliver(stream="s", epoch=1, generation=1, chunk=part, lost=0, arrived_us=0))
    sink.flush()
    sink.close()
    dataset = session.read.parquet(str(tmp_path / "dataset" / "s"))
    (found,) = dataset.where("vivace_date = '2026-07-02' AND vivace_hour = 12").collect()
    assert {name: found[name] for name in row} == row
    assert found["vivace_version"] == 7
