"""Statements evaluated by the engine once more, from their whole input.

That is without replicas, moves, batches or failures, but with the operators that queries run with.
A statement that may be divided by values of a column (`streams.plan.partitioning`), or by
timestamps, is evaluated in parts, each a task of Spark; others in one piece, in the process of the
caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions

from foundation.arrays import IntArray
from orchestrator.spark.arrow_functions import map_in_arrow
from orchestrator.spark.verify.sql_expressions import column_sql, spark_name
from orchestrator.spark.verify.watching import OnRows, watched
from streams.evaluate.engine import FragmentEngine
from streams.plan.partitioning import Partitioning
from streams.plan.program import Program
from streams.vectors.chunk import TIMESTAMP, Chunk, stream_schema

ORDER = "_ord"
STREAM, PART = "_stream", "_part"

AT_ONCE = 1024
"""Watermarks that the engine evaluates in one step."""


def _silent(done: int, of: int) -> None:
    """Tell nobody."""


def evaluate(
    program: Program,
    inputs: Mapping[str, pa.RecordBatch],
    until_ms: int,
    on_rows: OnRows = _silent,
) -> Iterator[pa.RecordBatch]:
    """The output of a statement up to a timestamp, a part after the other.

    Parameters
    ----------
    inputs
        Stream → its tuples in order.
    on_rows
        Told how many of the inputs' tuples are done.
    """
    ends: list[IntArray] = []
    engine = FragmentEngine(program)
    for stream in program.inputs:
        batch = inputs[stream]
        timestamps: IntArray = batch.column(0).to_numpy(zero_copy_only=False)
        within = int(np.searchsorted(timestamps, until_ms, side="right"))
        ends.append(timestamps[:within])
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
    while (done := engine.advance(AT_ONCE)) is not None:
        at_ms = int(done.watermarks_ms[-1])
        passed = sum(int(np.searchsorted(each, at_ms, side="right")) for each in ends)
        on_rows(passed, sum(len(each) for each in ends))
        yield done.rows


def evaluate_whole(
    program: Program,
    frames: Mapping[str, DataFrame],
    until_ms: int,
    on_rows: OnRows = _silent,
) -> pa.Table:
    """The output of a statement, in one piece, in the engine's order.

    Parameters
    ----------
    frames
        Stream → its tuples, with their places among those of a timestamp in `ORDER`. Columns are
        called as `spark_name` says.
    """
    inputs: dict[str, pa.RecordBatch] = {}
    for stream in program.inputs:
        schema = stream_schema(program.input_columns[stream])
        rows = frames[stream].orderBy(TIMESTAMP, ORDER).drop(ORDER).toArrow()
        inputs[stream] = _one_batch(rows.rename_columns(schema.names), schema)
    rows = evaluate(program, inputs, until_ms, on_rows)
    return pa.Table.from_batches(rows, schema=stream_schema(program.columns))


def evaluate_parts(
    program: Program,
    frames: Mapping[str, DataFrame],
    by: Partitioning,
    until_ms: int,
    parts: int,
    rows: int,
    on_rows: OnRows = _silent,
) -> DataFrame:
    """The output of a statement, each part of its inputs evaluated alone; it is cached.

    Parameters
    ----------
    by
        Input → the column that divides it: of one of the program's partitionings, or the timestamp
        for stateless programs.
    parts
        How many there are.
    rows
        Tuples of all inputs.

    Returns
    -------
    DataFrame
        `_ts`, the columns of the output, and `ORDER`: the place among the rows of its part.
    """
    tagged = [
        _tagged(frames[stream], program, number, by[stream])
        for number, stream in enumerate(program.inputs)
    ]
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tagged)
    divided = (
        together.repartition(parts, PART)
        .sortWithinPartitions(STREAM, TIMESTAMP, ORDER)
        .drop(PART, ORDER)
    )
    fields = [(column_sql(field.name), field.type) for field in stream_schema(program.columns)]
    schema = ", ".join(
        f"{name} {_spark_types[str(kind)]}" for name, kind in [*fields, (ORDER, pa.int64())]
    )
    evaluated = map_in_arrow(divided, _part_of(program, until_ms), schema)
    made = evaluated.withColumn(ORDER, functions.array(ORDER)).cache()
    with watched(made.sparkSession.sparkContext, rows, on_rows):
        made.count()
    return made


_spark_types = {
    "int64": "bigint",
    "double": "double",
    "string": "string",
    "bool": "boolean",
}


def _tagged(frame: DataFrame, program: Program, number: int, column: str) -> DataFrame:
    """The tuples of an input beside those of others, whose columns have other names."""
    return frame.select(
        functions.lit(number).alias(STREAM),
        functions.col(column_sql(column)).alias(PART),
        TIMESTAMP,
        ORDER,
        *(
            functions.col(column_sql(name)).alias(_name(number, name))
            for name in program.input_columns[program.inputs[number]]
        ),
    )


def _name(number: int, column: str) -> str:
    return f"{number}_{column}"


def _part_of(
    program: Program, until_ms: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Evaluates a part: the tuples of all inputs, one input after the other."""

    def evaluated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Kernels and Arrow would each take all processors that the tasks share.
        pa.set_cpu_count(1)
        kept = list(batches)
        if not kept:
            return
        table = pa.Table.from_batches(kept)
        numbers: IntArray = table[STREAM].to_numpy()
        inputs: dict[str, pa.RecordBatch] = {}
        for number, stream in enumerate(program.inputs):
            first, end = np.searchsorted(numbers, [number, number + 1])
            schema = stream_schema(program.input_columns[stream])
            names = [TIMESTAMP, *(_name(number, name) for name in schema.names[1:])]
            own = table.slice(int(first), int(end - first)).select(names)
            inputs[stream] = _one_batch(own.rename_columns(schema.names), schema)
        place = 0
        names = [spark_name(name) for name in stream_schema(program.columns).names]
        for rows in evaluate(program, inputs, until_ms):
            places = pa.array(np.arange(place, place + rows.num_rows))
            place += rows.num_rows
            named = rows.rename_columns(names)
            yield from pa.Table.from_batches([named]).append_column(ORDER, places).to_batches()

    return evaluated


def _one_batch(rows: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    whole = rows.cast(schema).combine_chunks()
    (batch,) = whole.to_batches() or [pa.RecordBatch.from_pylist([], schema=schema)]
    return batch


def widest(frames: Mapping[str, DataFrame], choices: Sequence[Partitioning]) -> Partitioning:
    """The partitioning by the columns that have the most values: parts are most alike then."""
    if len(choices) == 1:
        return choices[0]
    counts: dict[tuple[str, str], int] = {}
    for stream in choices[0]:
        columns = sorted({choice[stream] for choice in choices})
        (row,) = (
            frames[stream]
            .agg(
                *(functions.approx_count_distinct(column_sql(name)).alias(name) for name in columns)
            )
            .collect()
        )
        counts |= {(stream, name): row[name] for name in columns}
    return max(choices, key=lambda choice: min(counts[pair] for pair in choice.items()))
