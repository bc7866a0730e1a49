"""Queries computed again from the whole of their input, and compared with what was delivered.

Each statement is computed in Spark SQL (`orchestrator.spark.jobs.translation`). What SQL cannot
express is evaluated once more, in one piece and one process: no replicas, moves, batches or
failures, but the same operators. Whoever wants none of them writes the SQL of an output by hand
(`orchestrator.spark.jobs.verification`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

from orchestrator.spark.jobs.translation import (
    Catalogue,
    Inexpressible,
    keeps_order,
    translate,
    view_name,
)
from orchestrator.spark.jobs.verification import PARTS_PER_CORE
from streams.chunk import TIMESTAMP, Chunk, stream_schema
from streams.compiler import compile_statement
from streams.engine import FragmentEngine
from streams.language import parse
from streams.language.ast import Statement
from streams.program import Program
from topology.arrays import IntArray

ORDER = "_ord"

AT_ONCE = 1024
"""Watermarks that the engine evaluates in one step."""


class Unordered(Exception):
    """A statement counts rows of a stream whose order within a timestamp is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """Streams computed again.

    Attributes
    ----------
    session
        Where they are.
    frames
        Stream → rows, `_ts` first.
    not_in_sql
        Statement → why it was not computed in Spark SQL.
    """

    session: SparkSession
    frames: Mapping[str, DataFrame]
    not_in_sql: Mapping[str, str]


def recompute(
    session: SparkSession,
    statements: Sequence[str],
    columns: Mapping[str, Mapping[str, str]],
    inputs: Mapping[str, pa.Table],
    until_ms: int,
    on_statement: Callable[[str], None] = lambda name: None,
) -> Recomputed:
    """Compute statements from their whole input, up to a timestamp.

    Parameters
    ----------
    session
        Any session; the views of the streams are made in a new one beside it.
    statements
        Producers before consumers.
    columns
        Of the inputs.
    inputs
        Stream → its tuples in order, with `stream_schema`'s columns, from its beginning.
    until_ms
        The last timestamp of interest; every input is complete up to it.
    on_statement
        Told the name of each statement before it is computed.

    Raises
    ------
    Unordered
        Neither way gives certain rows.
    """
    session = session.newSession()
    # Overflow and division by zero are no errors.
    session.conf.set("spark.sql.ansi.enabled", "false")
    parts = PARTS_PER_CORE * session.sparkContext.defaultParallelism
    session.conf.set("spark.sql.shuffle.partitions", parts)
    known = {name: dict(own) for name, own in columns.items()}
    ordered = set(inputs)
    frames: dict[str, DataFrame] = {}
    not_in_sql: dict[str, str] = {}
    for stream, table in inputs.items():
        frames[stream] = _published(session, stream, _numbered(session, table))
    for text in statements:
        (statement,) = parse(text)
        on_statement(statement.name)
        program = compile_statement(statement, known)
        catalogue = Catalogue(columns=known, ordered=frozenset(ordered), until_ms=until_ms)
        name = statement.name
        try:
            made = session.sql(translate(statement, program.columns, catalogue))
            if keeps_order(statement, catalogue):
                ordered.add(name)
        except Inexpressible as error:
            not_in_sql[name] = str(error)
            rows = _evaluated(statement, program, frames, frozenset(ordered), until_ms)
            made = _numbered(session, rows)
            ordered.add(name)
        known[name] = dict(program.columns)
        frames[name] = _published(session, name, made)
    return Recomputed(
        session=session,
        frames={name: frame.drop(ORDER) for name, frame in frames.items()},
        not_in_sql=not_in_sql,
    )


def _published(session: SparkSession, stream: str, frame: DataFrame) -> DataFrame:
    # Each is read by several others, and twice by ISTREAM.
    frame = frame.cache()
    frame.createOrReplaceTempView(view_name(stream))
    return frame


def _numbered(session: SparkSession, table: pa.Table) -> DataFrame:
    """Tuples with their places, in one chunk: Spark takes an empty one for the table's end."""
    places = pa.array(np.arange(table.num_rows))
    whole = table.append_column(ORDER, places).combine_chunks()
    numbered = session.createDataFrame(whole)
    return numbered.withColumn(ORDER, functions.array(ORDER))


def _evaluated(
    statement: Statement,
    program: Program,
    frames: Mapping[str, DataFrame],
    ordered: frozenset[str],
    until_ms: int,
) -> pa.Table:
    """The output of a statement, evaluated once from its whole input."""
    for window in program.windows:
        if window.rows is not None and window.stream not in ordered:
            raise Unordered(
                f"{statement.name} counts the rows of {window.stream}, whose order within a "
                "timestamp is not known"
            )
    engine = FragmentEngine(program)
    for stream in program.inputs:
        schema = stream_schema(program.input_columns[stream])
        rows = frames[stream].orderBy(TIMESTAMP, ORDER).toArrow()
        rows = rows.select(schema.names).cast(schema).combine_chunks()
        (batch,) = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=schema)]
        timestamps: IntArray = batch.column(0).to_numpy(zero_copy_only=False)
        within = int(np.searchsorted(timestamps, until_ms, side="right"))
        watermarks_ms = np.union1d(timestamps[:within], np.array([until_ms], dtype=np.int64))
        engine.offer(
            stream,
            Chunk(
                first_seq=0,
                rows=batch.slice(0, within),
                watermarks_ms=watermarks_ms,
                ingestion_times_us=watermarks_ms * 0,
            ),
        )
    parts: list[pa.RecordBatch] = []
    while (done := engine.advance(AT_ONCE)) is not None:
        parts.append(done.rows)
    return pa.Table.from_batches(parts, schema=stream_schema(program.columns))
