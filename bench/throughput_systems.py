"""The systems that benchmark `throughput` compares, each in a process of its own on one processor.

`python -m bench.throughput_systems SYSTEM QUESTION INPUT FOLDER REPEATS` evaluates a question over
the files of a folder, prints the seconds that each repetition took, and writes the result beside
them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from bench.throughput_workload import Question, columns, questions
from streams.chunk import Chunk, stream_schema
from streams.compiler import compile_statement
from streams.engine import FragmentEngine
from streams.language import parse
from streams.panes import kernels

CHUNK_ROWS = 1 << 18
BLOCK_BYTES = 1 << 23

Answer = Callable[[], pa.Table | None]
"""Evaluates the question once; the result, if it is to be compared."""


def ours(question: Question, kind: str, folder: Path) -> Answer:
    """The engine of a fragment, with chunks of many timestamps."""
    kernels.load()
    types = {**columns, "key": "string" if kind == "strings" else "int"}
    schema = stream_schema(types)
    catalogue = dict.fromkeys(question.streams, types)
    (statement,) = parse(f"REGISTER QUERY q {question.statement};")
    program = compile_statement(statement, catalogue)
    held = {
        stream: [] if kind == "csv" else _batches(folder / f"{stream}.{kind}.parquet", schema)
        for stream in question.streams
    }

    def answer() -> pa.Table:
        engine = FragmentEngine(program)
        inputs = [
            _chunks(_text(folder / f"{stream}.csv", schema) if kind == "csv" else held[stream])
            for stream in question.streams
        ]
        found: list[pa.RecordBatch] = []
        for chunks in zip_longest(*inputs):
            for stream, chunk in zip(question.streams, chunks, strict=True):
                if chunk is not None:
                    engine.offer(stream, chunk)
            while (evaluated := engine.advance(1 << 20)) is not None:
                found.append(evaluated.rows)
        return pa.Table.from_batches(found)

    return answer


def _batches(path: Path, schema: pa.Schema) -> list[pa.RecordBatch]:
    table = parquet.read_table(str(path)).cast(schema).combine_chunks()
    return table.to_batches(max_chunksize=CHUNK_ROWS)


def _text(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Record batches of a file of text, read as we go."""
    reader = csv.open_csv(
        path,
        read_options=csv.ReadOptions(
            use_threads=False, block_size=BLOCK_BYTES, column_names=schema.names
        ),
        convert_options=csv.ConvertOptions(
            column_types={name: schema.field(name).type for name in schema.names}
        ),
    )
    for batch in reader:
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _chunks(batches: Any) -> Iterator[Chunk]:
    """Batches as chunks: each holds whole timestamp groups, and ends with a watermark."""
    rest: pa.RecordBatch | None = None
    seq = 0
    for batch in batches:
        timestamps = batch.column(0).to_numpy()
        last_ms = int(timestamps[-1])
        end = int(timestamps.searchsorted(last_ms))
        begin = 0
        if rest is not None:
            # The timestamp that the last batch ended with may go on in this one.
            held_ms = int(rest.column(0)[0].as_py())
            begin = int(timestamps.searchsorted(held_ms, side="right"))
            if begin == batch.num_rows:
                rest = pa.concat_batches([rest, batch])
                continue
            whole = pa.concat_batches([rest, batch.slice(0, begin)])
            yield _chunk(whole, held_ms, seq)
            seq += whole.num_rows
        if end > begin:
            yield _chunk(batch.slice(begin, end - begin), last_ms - 1, seq)
            seq += end - begin
        rest = batch.slice(end)
    assert rest is not None
    # Time goes on after the last tuple, so that all windows end.
    yield _chunk(rest, int(rest.column(0)[0].as_py()) + 60_000, seq)


def _chunk(rows: pa.RecordBatch, watermark_ms: int, seq: int) -> Chunk:
    watermarks_ms = np.array([watermark_ms])
    return Chunk(
        first_seq=seq, rows=rows, watermarks_ms=watermarks_ms, ingestion_times_us=watermarks_ms
    )


def duckdb(question: Question, kind: str, folder: Path) -> Answer:
    """DuckDB over the whole table."""
    connection = import_module("duckdb").connect(config={"threads": 1})
    types = "{'_ts': 'BIGINT', 'key': 'BIGINT', 'value': 'DOUBLE', 'number': 'BIGINT'}"
    for stream in question.streams:
        if kind == "csv":
            connection.execute(
                f"CREATE VIEW {stream} AS SELECT * FROM "
                f"read_csv('{folder / stream}.csv', header=false, columns={types})"
            )
        else:
            connection.register(
                stream, parquet.read_table(str(folder / f"{stream}.{kind}.parquet"))
            )
    return lambda: connection.execute(question.sql).to_arrow_table()


def polars(question: Question, kind: str, folder: Path) -> Answer | None:
    """Polars over the whole table."""
    if question not in (questions["tumbling"], questions["sliding"]):
        return None
    pl = import_module("polars")
    held = None if kind == "csv" else pl.read_parquet(folder / f"readings.{kind}.parquet")
    second = (pl.col("_ts") + 999) // 1000 * 1000
    sums = [
        pl.len().alias("n"),
        pl.col("value").sum().alias("total"),
        pl.col("value").max().alias("top"),
    ]

    def answer() -> pa.Table:
        names = ["_ts", *columns]
        table = (
            pl.scan_csv(folder / "readings.csv", has_header=False, new_columns=names)
            if held is None
            else held.lazy()
        )
        panes = table.filter(pl.col("value") > 20).group_by(second.alias("_ts"), "key").agg(sums)
        if question is questions["sliding"]:
            later = pl.LazyFrame({"after": list(range(10))})
            panes = (
                panes.join(later, how="cross")
                .group_by((pl.col("_ts") + 1000 * pl.col("after")).alias("_ts"), "key")
                .agg(pl.col("n").sum(), pl.col("total").sum(), pl.col("top").max())
            )
        return panes.collect().to_arrow()

    return answer


def bytewax(question: Question, kind: str, folder: Path) -> Answer | None:
    """Bytewax's own windows, fed row by row."""
    if question not in (questions["tumbling"], questions["sliding"]) or kind == "strings":
        return None
    op, windows, flows, testing = (
        import_module(f"bytewax.{name}")
        for name in ("operators", "operators.windowing", "dataflow", "testing")
    )
    begin = datetime(1970, 1, 1, tzinfo=UTC)
    length = timedelta(seconds=10 if question is questions["sliding"] else 1)
    table = parquet.read_table(str(folder / "readings.arrow.parquet"))
    held = list(zip(*(table.column(place).to_pylist() for place in range(3)), strict=True))

    def read() -> Iterator[tuple[int, int, float]]:
        with (folder / "readings.csv").open() as lines:
            for line in lines:
                at, key, value, _ = line.split(",")
                yield int(at), int(key), float(value)

    def is_wanted(row: Any) -> bool:
        return row[2] > 20

    def key_of(row: Any) -> str:
        return str(row[1])

    def time_of(row: Any) -> datetime:
        return begin + timedelta(milliseconds=row[0])

    def fold(state: tuple[int, float, float], row: Any) -> tuple[int, float, float]:
        return state[0] + 1, state[1] + row[2], max(state[2], row[2])

    def merge(one: Any, other: Any) -> Any:
        return one[0] + other[0], one[1] + other[1], max(one[2], other[2])

    def answer() -> None:
        found: list[Any] = []
        flow = flows.Dataflow("throughput")
        rows = op.input("in", flow, testing.TestingSource(read() if kind == "csv" else held, 1000))
        wanted = op.filter("where", rows, is_wanted)
        keyed = op.key_on("key", wanted, key_of)
        clock = windows.EventClock(
            ts_getter=time_of,
            wait_for_system_duration=timedelta(0),
        )
        slider = windows.SlidingWindower(length=length, offset=timedelta(seconds=1), align_to=begin)
        folded = windows.fold_window(
            "fold", keyed, clock, slider, lambda: (0, 0.0, -1e300), fold, merge
        )
        op.output("out", folded.down, testing.TestingSink(found))
        testing.run_main(flow)
        assert found

    return answer


def spark(question: Question, kind: str, folder: Path) -> Answer | None:
    """Spark Structured Streaming, which reads a file of text in one run over what there is."""
    if question not in (questions["tumbling"], questions["sliding"]) or kind != "csv":
        return None
    sql = import_module("pyspark.sql")
    functions = import_module("pyspark.sql.functions")
    session = (
        sql.SparkSession.builder.master("local[1]")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    parts = folder / "parts"
    if not parts.exists():
        parts.mkdir()
        with (folder / "readings.csv").open() as lines:
            for number, start in enumerate(iter(lambda: lines.readlines(BLOCK_BYTES * 4), [])):
                (parts / f"{number:04}.csv").write_text("".join(start))

    def answer() -> None:
        rows = session.readStream.schema("_ts BIGINT, key BIGINT, value DOUBLE, number BIGINT").csv(
            str(parts)
        )
        at = functions.timestamp_millis(rows["_ts"])
        length = ("10 seconds", "1 second") if question is questions["sliding"] else ("1 second",)
        results = (
            rows.where("value > 20")
            .withColumn("at", at)
            .withWatermark("at", "0 seconds")
            .groupBy(functions.window("at", *length), "key")
            .agg(
                functions.count("*").alias("n"),
                functions.sum("value").alias("total"),
                functions.max("value").alias("top"),
            )
        )
        query = (
            results.writeStream.format("noop")
            .outputMode("append")
            .option("checkpointLocation", str(folder / f"checkpoint-{time.monotonic_ns()}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    return answer


systems: dict[str, Callable[[Question, str, Path], Answer | None]] = {
    "ours": ours,
    "duckdb": duckdb,
    "polars": polars,
    "bytewax": bytewax,
    "spark": spark,
}


def main() -> None:
    """Answer a question some times."""
    system, question, kind, folder, repeats = sys.argv[1:]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    answer = systems[system](questions[question], kind, Path(folder))
    seconds: list[float] = []
    for _ in range(int(repeats) if answer is not None else 0):
        assert answer is not None
        begun = time.perf_counter()
        result = answer()
        seconds.append(time.perf_counter() - begun)
        if result is not None and len(seconds) == 1:
            parquet.write_table(result, Path(folder) / f"{question}.{kind}.{system}.result")
    sys.stdout.write(json.dumps(seconds) + "\n")


if __name__ == "__main__":
    main()
