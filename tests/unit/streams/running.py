"""Run a statement on a few tuples written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streams.evaluate.engine import FragmentEngine
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from streams.vectors.chunk import Chunk, stream_schema

Columns = Mapping[str, str]
Row = tuple[Any, ...]
"""Timestamp, then the values in the order of the columns."""

sensor = {"k": "string", "i": "int", "x": "float", "b": "bool"}
"""Columns of the streams `s` and `t` that most tests read."""

catalogue: Mapping[str, Columns] = {"s": sensor, "t": sensor}


def program(query: str, known: Mapping[str, Columns] = catalogue) -> Program:
    """The program of `REGISTER QUERY q` of a stream expression."""
    (statement,) = parse(f"REGISTER QUERY q {query};")
    return compile_statement(statement, known)


def chunk(
    columns: Columns, rows: Sequence[Row], watermarks_ms: Sequence[int], first_seq: int = 0
) -> Chunk:
    """Rows under watermarks; the ingestion time of a watermark is its timestamp in µs."""
    named = [dict(zip(["_ts", *columns], row, strict=True)) for row in rows]
    closed = np.array(watermarks_ms, dtype=np.int64)
    return Chunk(
        first_seq=first_seq,
        rows=pa.RecordBatch.from_pylist(named, schema=stream_schema(columns)),
        watermarks_ms=closed,
        ingestion_times_us=closed * 1000,
    )


def output(
    compiled: Program, inputs: Mapping[str, Sequence[Row]], until_ms: int | None = None
) -> list[Row]:
    """All rows emitted: timestamp, then values."""
    engine = FragmentEngine(compiled)
    last = max((rows[-1][0] for rows in inputs.values() if rows), default=0)
    end_ms = last if until_ms is None else until_ms
    for stream in compiled.inputs:
        rows = inputs[stream]
        watermarks_ms = sorted({row[0] for row in rows} | {end_ms})
        engine.offer(stream, chunk(compiled.input_columns[stream], rows, watermarks_ms))
    emitted: list[Row] = []
    while (evaluated := engine.advance(3)) is not None:
        emitted += [tuple(row.values()) for row in evaluated.rows.to_pylist()]
    return emitted


def run(
    query: str, s: Sequence[Row], t: Sequence[Row] = (), until_ms: int | None = None
) -> list[Row]:
    """Rows that a query over the streams `s` and `t` emits."""
    return output(program(query), {"s": s, "t": t}, until_ms)
