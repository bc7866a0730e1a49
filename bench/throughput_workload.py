"""Input, statements and expected results of benchmark `throughput`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

KEYS = 1_000
ROWS_BY_MS = 100
"""Tuples of each timestamp."""

INPUTS = ("arrow", "strings", "csv")
"""Record batches in memory with integers as keys; with strings; a file of text with integers."""

columns = {"key": "int", "value": "float", "number": "int"}

_tumbling = "[RANGE 1 SECOND SLIDE 1 SECOND]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of every system.

    Attributes
    ----------
    statement
        In Vivace's language, over `readings` and `others`.
    sql
        The same over the whole table `readings`, in DuckDB's SQL; `{w}` is the end of a second.
    rows, quick_rows
        Number of tuples.
    inputs
        The kinds of input that it is asked on.
    rows_by_ms
        Tuples of each timestamp and stream.
    """

    statement: str
    sql: str
    rows: int
    quick_rows: int
    inputs: tuple[str, ...] = INPUTS
    rows_by_ms: int = ROWS_BY_MS

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that it reads."""
        return tuple(name for name in ("readings", "others") if f"{name} [" in self.statement)


_SECOND = "(_ts + 999) // 1000 * 1000"

questions: Mapping[str, Question] = {
    "tumbling": Question(
        statement=(
            "RSTREAM(SELECT key, count(*) AS n, sum(value) AS total, max(value) AS top "
            f"FROM readings {_tumbling} WHERE value > 20 GROUP BY key)"
        ),
        sql=(
            f"SELECT {_SECOND} AS _ts, key, count(*) AS n, sum(value) AS total, max(value) AS top "
            "FROM readings WHERE value > 20 GROUP BY ALL"
        ),
        rows=10_000_000,
        quick_rows=300_000,
    ),
    "sliding": Question(
        statement=(
            "RSTREAM(SELECT key, count(*) AS n, sum(value) AS total, max(value) AS top "
            "FROM readings [RANGE 10 SECONDS SLIDE 1 SECOND] WHERE value > 20 GROUP BY key)"
        ),
        sql=(
            f"WITH panes AS (SELECT {_SECOND} AS second, key, count(*) AS n, sum(value) AS total, "
            "max(value) AS top FROM readings WHERE value > 20 GROUP BY ALL) "
            "SELECT second + 1000 * after AS _ts, key, sum(n)::BIGINT AS n, sum(total) AS total, "
            "max(top) AS top FROM panes, range(10) AS later(after) GROUP BY ALL"
        ),
        rows=10_000_000,
        quick_rows=300_000,
    ),
    "newest": Question(
        statement="ISTREAM(SELECT * FROM readings [PARTITION BY key ROWS 1])",
        sql=(
            "SELECT _ts, key, arg_max(value, number) AS value, max(number) AS number "
            "FROM readings GROUP BY _ts, key"
        ),
        rows=5_000_000,
        quick_rows=300_000,
    ),
    "join": Question(
        statement=(
            "RSTREAM(SELECT r.key AS key, r.number AS number, o.number AS other "
            f"FROM readings {_tumbling} AS r, others {_tumbling} AS o WHERE r.key = o.key)"
        ),
        sql=(
            f"SELECT {_SECOND.replace('_ts', 'r._ts')} AS _ts, r.key AS key, r.number AS number, "
            "o.number AS other FROM readings r JOIN others o ON r.key = o.key "
            f"AND {_SECOND.replace('_ts', 'r._ts')} = {_SECOND.replace('_ts', 'o._ts')}"
        ),
        rows=2_000_000,
        quick_rows=100_000,
        rows_by_ms=2,
    ),
}


def generate(question: Question, rows: int, folder: Path) -> None:
    """Write the streams: Arrow files with either keys, and text."""
    for seed, stream in enumerate(question.streams):
        rng = np.random.default_rng(seed)
        keys = rng.integers(KEYS, size=rows)
        table = pa.Table.from_pydict(
            {
                "_ts": np.arange(rows, dtype=np.int64) // question.rows_by_ms + 1,
                "key": keys,
                # As a file of text holds them.
                "value": np.round(rng.normal(25, 5, rows), 2),
                "number": np.arange(rows, dtype=np.int64),
            }
        )
        names = pa.array([f"k{key}" for key in range(KEYS)])
        texts = names.take(pa.array(keys))
        parquet.write_table(table, folder / f"{stream}.arrow.parquet")
        parquet.write_table(table.set_column(1, "key", texts), folder / f"{stream}.strings.parquet")
        with (folder / f"{stream}.csv").open("w") as file:
            for batch in table.to_batches(max_chunksize=1 << 16):
                file.writelines(_lines(batch))


def _lines(batch: pa.RecordBatch) -> Iterator[str]:
    columns = (batch.column(place).to_pylist() for place in range(4))
    return (
        f"{at},{key},{value},{number}\n" for at, key, value, number in zip(*columns, strict=True)
    )
