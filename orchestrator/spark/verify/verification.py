"""Verification: an output is compared with a recomputation of it in Spark SQL.

Continuous evaluation keeps state, moves it between nodes and loses machines. The recomputation has
the whole input before it and does none of that, so results on which both agree are right. The
author of the query writes the SQL, as independently of the query as possible. The SQL leaves one
temporary view per output: `_ts`, then the output's columns. Views and delivered rows are compared
as multisets, exactly: only the order within a timestamp may differ.

A recording ends, and timestamps after its last one are never completed. Rows that the definition
yields there (a window drops a tuple 60 s later) are no part of the comparison; `through_ms`
cuts them off on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from foundation.arrays import IntArray
from orchestrator.errors import InvalidInput
from orchestrator.spark.verify.watching import OnRows, watched
from streams.vectors.chunk import FOREVER_MS, NO_WATERMARK, TIMESTAMP

SHOWN_DIFFERENCES = 10
"""Differing rows kept per output and side: enough to show a pattern."""

PARTS_PER_CORE = 2
"""Parts of a shuffle per core: enough to even out parts of unequal size."""

_token = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?\*/ )
  | (?P<end> ; )
  | (?P<text> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` | . )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """One output's rows, delivered and recomputed.

    Attributes
    ----------
    expected, delivered
        Number of rows recomputed and delivered, up to where the recording allows to compare.
    missing, unexpected
        Number of rows only recomputed and only delivered; a row delivered twice but due once
        is unexpected once.
    first_missing, first_unexpected
        The first of them in the order of time.
    late, late_expected
        Rows that the sink says it has dropped because they were late, and rows recomputed of the
        same timestamps. Neither are among `expected`.
    """

    output: str
    expected: int
    delivered: int
    missing: int
    unexpected: int
    first_missing: tuple[dict[str, Any], ...]
    first_unexpected: tuple[dict[str, Any], ...]
    late: int = 0
    late_expected: int = 0

    @property
    def equal(self) -> bool:
        """Whether exactly the expected rows were delivered, or dropped because they were late."""
        return not self.missing and not self.unexpected and self.late == self.late_expected


def verify(
    session: SparkSession,
    sql: str,
    inputs: Mapping[str, Path],
    outputs: Mapping[str, pa.Table],
    *,
    through_ms: Mapping[str, int] | None = None,
    begin_ms: int | None = None,
    file: str = "answer.sql",
    late_spans_ms: Mapping[str, IntArray] | None = None,
    on_rows: Callable[[str, int, int], None] = lambda output, done, of: None,
) -> tuple[OutputCheck, ...]:
    """Recompute outputs from recorded inputs, and compare them with the delivered rows.

    Parameters
    ----------
    session
        Any session; the views are made in a new one beside it.
    sql
        Statements, each ended by `;`, that leave a temporary view named after each output.
    inputs
        Stream → Parquet file or folder, given to the SQL as a temporary view of that name.
    outputs
        Stream → delivered rows with `stream_schema`'s columns.
    through_ms
        Output → its last completed timestamp, where the definition goes on after it.
    begin_ms
        The first timestamp that is compared; None: from the beginning.
    file
        Where `sql` comes from, for messages.
    late_spans_ms
        Output → spans of timestamps whose rows were dropped because they were late, as in `check`.
    on_rows
        Told of each output how many rows are compared, of how many.

    Raises
    ------
    InvalidInput
        If a statement fails, or leaves an output out or with other columns.
    """
    scratch = session.newSession()
    # A recording of hours is too small for Spark's 200 parts a shuffle to pay off.
    parts = PARTS_PER_CORE * session.sparkContext.defaultParallelism
    scratch.conf.set("spark.sql.shuffle.partitions", parts)
    for stream, path in inputs.items():
        scratch.read.parquet(str(path)).createOrReplaceTempView(stream)
    for statement in statements(sql):
        try:
            scratch.sql(statement)
        except PySparkException as error:
            raise InvalidInput(
                file, "", None, f"a statement fails: {error}", f"It is: {statement}"
            ) from error
    delivered = {stream: frame(scratch, table) for stream, table in outputs.items()}
    expected = {
        stream: _recomputed(scratch, stream, rows, file) for stream, rows in delivered.items()
    }
    # Outputs are often defined by each other; the cache has each recomputed once.
    for each in expected.values():
        each.cache()
    try:
        return tuple(
            check(
                stream,
                expected[stream],
                rows,
                begin_ms,
                (through_ms or {}).get(stream),
                partial(on_rows, stream),
                (late_spans_ms or {}).get(stream),
            )
            for stream, rows in delivered.items()
        )
    finally:
        for each in expected.values():
            each.unpersist()


def statements(sql: str) -> Iterator[str]:
    """Single statements of a script, without comments.

    >>> list(statements("SELECT ';'; -- that was one;\\nSELECT 2"))
    ["SELECT ';'", 'SELECT 2']
    """
    kept: list[str] = []
    for token in _token.finditer(f"{sql};"):
        if token.lastgroup == "comment":
            kept.append(" ")
        elif token.lastgroup == "text":
            kept.append(token[0])
        else:
            statement = "".join(kept).strip()
            kept.clear()
            if statement:
                yield statement


def frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """A table of Arrow as one of Spark."""
    # Spark 4.3 takes an empty chunk for the table's end, and silently drops the rows after it.
    return session.createDataFrame(table.combine_chunks())


def _recomputed(session: SparkSession, stream: str, delivered: DataFrame, file: str) -> DataFrame:
    """The view of an output with the delivered rows' columns and types, in their order."""
    if not session.catalog.tableExists(stream):
        raise InvalidInput(
            file,
            "",
            stream,
            "is an output without a view",
            f"Add CREATE OR REPLACE TEMPORARY VIEW {stream} AS SELECT … .",
        )
    view = session.table(stream)
    wanted = {field.name: field.dataType for field in delivered.schema.fields}
    found = {field.name: field.dataType for field in view.schema.fields}
    if wanted != found:
        raise InvalidInput(
            file,
            f"view {stream}",
            _columns(found),
            "has other columns than the output",
            f"The output has {_columns(wanted)}.",
        )
    return view.select(*wanted)


def _columns(types: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {kind.simpleString()}" for name, kind in types.items())


def check(
    stream: str,
    expected: DataFrame,
    delivered: DataFrame,
    begin_ms: int | None,
    through_ms: int | None,
    on_rows: OnRows = lambda done, of: None,
    late_spans_ms: IntArray | None = None,
) -> OutputCheck:
    """Compare two tables of one session as multisets, within a span of timestamps.

    Parameters
    ----------
    late_spans_ms
        Spans of timestamps whose rows were dropped because they were late: after which timestamp,
        until which one, and how many, shape (k, 3), rising.
    """
    if begin_ms is not None:
        expected = expected.where(expected[TIMESTAMP] >= begin_ms)
        delivered = delivered.where(delivered[TIMESTAMP] >= begin_ms)
    if through_ms is not None:
        expected = expected.where(expected[TIMESTAMP] <= through_ms)
        delivered = delivered.where(delivered[TIMESTAMP] <= through_ms)
    late = late_expected = 0
    if late_spans_ms is not None and len(late_spans_ms):
        first_ms = NO_WATERMARK if begin_ms is None else begin_ms
        last_ms = FOREVER_MS if through_ms is None else through_ms
        is_whole = (late_spans_ms[:, 0] >= first_ms - 1) & (late_spans_ms[:, 1] <= last_ms)
        late, everything = int(late_spans_ms[is_whole, 2].sum()), expected.count()
        expected = _outside(expected, late_spans_ms[is_whole])
        late_expected = everything - expected.count()
        # Of those that lie there in part, nobody knows how many rows do.
        expected = _outside(expected, late_spans_ms[~is_whole])
    missing = expected.exceptAll(delivered)
    unexpected = delivered.exceptAll(expected)
    delivered_count = delivered.count()
    with watched(delivered.sparkSession.sparkContext, delivered_count, on_rows):
        missing_count, unexpected_count = missing.count(), unexpected.count()
    return OutputCheck(
        output=stream,
        expected=expected.count(),
        delivered=delivered_count,
        missing=missing_count,
        unexpected=unexpected_count,
        first_missing=_first(missing) if missing_count else (),
        first_unexpected=_first(unexpected) if unexpected_count else (),
        late=late,
        late_expected=late_expected,
    )


def _outside(rows: DataFrame, spans_ms: IntArray) -> DataFrame:
    """The rows whose timestamps lie in no span."""
    if not len(spans_ms):
        return rows
    spans = frame(
        rows.sparkSession,
        pa.table({"_after_ms": spans_ms[:, 0], "_until_ms": spans_ms[:, 1]}),
    )
    within = (rows[TIMESTAMP] > spans["_after_ms"]) & (rows[TIMESTAMP] <= spans["_until_ms"])
    return rows.join(broadcast(spans), within, "left_anti")


def _first(rows: DataFrame) -> tuple[dict[str, Any], ...]:
    ordered = rows.orderBy(*rows.columns).limit(SHOWN_DIFFERENCES)
    return tuple(row.asDict() for row in ordered.collect())
