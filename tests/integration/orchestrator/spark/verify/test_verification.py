"""Recomputing results on a real Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from orchestrator.errors import InvalidInput
from orchestrator.spark.verify.verification import OutputCheck, verify

pytestmark = pytest.mark.spark

DOUBLED = """
-- Everything twice as large; the `;` here ends nothing.
CREATE OR REPLACE TEMPORARY VIEW doubled AS
SELECT timestamp AS _ts, name, 2 * value AS value FROM readings;
"""


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    path = tmp_path / "readings.parquet"
    rows = {
        "timestamp": [1, 2, 2, 3],
        "name": ["a", "b", "b", None],
        "value": [0.1, 1.0, 1.0, None],
    }
    pq.write_table(pa.Table.from_pydict(rows), path)
    return path


def doubled(*rows: tuple[int, str | None, float | None]) -> pa.Table:
    _ts, name, value = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"_ts": _ts, "name": name, "value": value}
    schema = pa.schema([("_ts", pa.int64()), ("name", pa.string()), ("value", pa.float64())])
    return pa.Table.from_pydict(columns, schema=schema)


def check(
    session: SparkSession, readings: Path, delivered: pa.Table, **options: int
) -> OutputCheck:
    (output,) = verify(
        session, DOUBLED, {"readings": readings}, {"doubled": delivered}, through_ms=options
    )
    return output


def test_equal_as_multisets_whatever_the_order(session: SparkSession, readings: Path) -> None:
    delivered = doubled((3, None, None), (2, "b", 2.0), (1, "a", 0.2), (2, "b", 2.0))
    output = check(session, readings, delivered)
    assert output.equal
    assert (output.expected, output.delivered) == (4, 4)


def test_one_lost_one_altered_one_repeated(session: SparkSession, readings: Path) -> None:
    delivered = doubled((1, "a", 0.2), (1, "a", 0.2), (2, "b", 2.0), (3, None, 7.0))
    output = check(session, readings, delivered)
    assert not output.equal
    assert (output.missing, output.unexpected) == (2, 2)
    assert output.first_missing == (
        {"_ts": 2, "name": "b", "value": 2.0},
        {"_ts": 3, "name": None, "value": None},
    )
    assert output.first_unexpected == (
        {"_ts": 1, "name": "a", "value": 0.2},
        {"_ts": 3, "name": None, "value": 7.0},
    )


def test_rows_past_the_last_closed_timestamp_do_not_count(
    session: SparkSession, readings: Path
) -> None:
    assert check(session, readings, doubled((1, "a", 0.2), (9, "z", 0.0)), doubled=1).equal


def test_delivered_rows_come_in_chunks_some_of_them_empty(
    session: SparkSession, readings: Path
) -> None:
    chunks = [doubled(), doubled((1, "a", 0.2)), doubled(), doubled((2, "b", 2.0))]
    output = check(session, readings, pa.concat_tables(chunks))
    assert (output.delivered, output.missing) == (2, 2)


def test_nothing_delivered_is_everything_missing(session: SparkSession, readings: Path) -> None:
    output = check(session, readings, doubled())
    assert (output.expected, output.delivered, output.missing) == (4, 0, 4)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1; SELEKT 2", "a statement fails: .*It is: SELEKT 2"),
        ("SELECT 1", "'doubled' is an output without a view"),
        (DOUBLED.replace("2 * value", "name"), "value string' has other columns"),
        (DOUBLED.replace("name,", ""), "The output has _ts bigint, name string, value double"),
    ],
)
def test_unusable_sql_is_refused(
    session: SparkSession, readings: Path, sql: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=f"(?s){message}"):
        verify(session, sql, {"readings": readings}, {"doubled": doubled()})


def test_views_do_not_outlive_a_verification(session: SparkSession, readings: Path) -> None:
    check(session, readings, doubled())
    assert not session.catalog.tableExists("doubled")
    assert not session.catalog.tableExists("readings")


@pytest.mark.parametrize(
    ("spans", "begin_ms", "expected"),
    [
        ([[1, 2, 2]], None, (2, 2, 2, True)),
        ([[1, 2, 1]], None, (2, 1, 2, False)),
        ([[1, 2, 3]], None, (2, 3, 2, False)),
        # It reaches back to before what is compared: nobody knows how many rows lie there.
        ([[0, 2, 3]], 2, (1, 0, 0, True)),
    ],
)
def test_rows_that_were_dropped_because_they_were_late_are_counted_not_compared(
    session: SparkSession,
    readings: Path,
    spans: list[list[int]],
    begin_ms: int | None,
    expected: tuple[int, int, int, bool],
) -> None:
    delivered = doubled((1, "a", 0.2), (3, None, None))
    (output,) = verify(
        session,
        DOUBLED,
        {"readings": readings},
        {"doubled": delivered},
        begin_ms=begin_ms,
        late_spans_ms={"doubled": np.array(spans)},
    )
    found = output.expected, output.late, output.late_expected, output.equal
    assert found == expected
