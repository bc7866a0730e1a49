"""The systems that benchmark `throughput` compares, each in a process of its own on one processor.

`python -m bench.throughput_systems SYSTEM QUESTION INPUT FOLDER REPEATS` evaluates a question over
the files of a folder, prints the seconds that each repetition took, and writes the result beside
them.

Windows of one second are (0 s, 1 s], as Vivace's are, and named by their end. Those of Spark and
bytewax are [0 s, 1 s): the timestamps that these two get are a millisecond earlier.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from bench.compiled import require_kernels
from bench.throughput_workload import Question, columns, questions
from orchestrator.api import AskedTry, try_query
from streams.evaluate.engine import FragmentEngine
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import TIMESTAMP, Chunk, stream_schema

CHUNK_ROWS = 1 << 18
BATCH_ROWS = 1_000
"""Tuples of 10 ms, which is how much hosts evaluate at once by default."""

BLOCK_BYTES = 1 << 23

LAST_MS = 60_000
"""Event time goes on for so long after the last tuple, so that all windows end."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a system evaluates a question.

    Attributes
    ----------
    run
        Evaluates the question once; this is timed.
    table
        Takes what `run` returned, and gives the result as a table; this is not timed.
    """

    run: Callable[[], Any]
    table: Callable[[Any], pa.Table]


def _as_it_is(result: pa.Table) -> pa.Table:
    return result


def ours_1000(question: Question, kind: str, folder: Path) -> Answer | None:
    """Our engine with small chunks, as hosts have that follow a stream of some speed."""
    return ours(question, kind, folder, BATCH_ROWS) if kind == "arrow" else None


def ours(question: Question, kind: str, folder: Path, rows: int | None = None) -> Answer:
    """The engine of a fragment, with chunks of many timestamps, or of as many tuples as said."""
    require_kernels()
    types = {**columns, "key": "string" if kind == "strings" else "int"}
    schema = stream_schema(types)
    catalogue = dict.fromkeys(question.streams, types)
    (statement,) = parse(f"REGISTER QUERY q {question.statement};")
    program = compile_statement(statement, catalogue)
    held = {
        stream: [] if kind == "csv" else _batches(folder / f"{stream}.{kind}.parquet", schema, rows)
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

    return Answer(answer, _as_it_is)


def tried(question: Question, kind: str, folder: Path) -> Answer | None:
    """`vivace try` from a file of text into one, without the start of its process."""
    if kind != "csv":
        return None
    require_kernels()
    names = [TIMESTAMP, *columns]
    for stream in question.streams:
        with (folder / f"{stream}.csv").open("rb") as text, _named(folder, stream).open("wb") as to:
            to.write(f"{','.join(names)}\n".encode())
            shutil.copyfileobj(text, to)
    result = folder / "tried.csv"
    asked = AskedTry(
        query=f"REGISTER QUERY q {question.statement};",
        inputs=[f"{stream}={_named(folder, stream)}" for stream in question.streams],
        outputs=[str(result)],
    )

    def answer() -> Path:
        try_query(asked, sys.stdin.buffer, sys.stdout.buffer)
        return result

    return Answer(answer, csv.read_csv)


def _named(folder: Path, stream: str) -> Path:
    """A stream's file of text with a line that names its columns."""
    return folder / f"{stream}.named.csv"


def _batches(path: Path, schema: pa.Schema, rows: int | None) -> list[pa.RecordBatch]:
    table = parquet.read_table(str(path)).cast(schema).combine_chunks()
    return table.to_batches(max_chunksize=rows or CHUNK_ROWS)


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
    yield _chunk(rest, int(rest.column(0)[0].as_py()) + LAST_MS, seq)


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
    return Answer(lambda: connection.sql(question.sql).to_arrow_table(), _as_it_is)


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

    def answer() -> Any:
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
        return panes.collect()

    # Text of an older layout, which Arrow can sort.
    return Answer(answer, lambda frame: frame.to_arrow(compat_level=pl.CompatLevel.oldest()))


def _never(_: datetime) -> None:
    """When to look for windows that have ended though nothing comes."""


def bytewax(question: Question, kind: str, folder: Path) -> Answer | None:
    """Bytewax's own windows, fed row by row."""
    if question not in (questions["tumbling"], questions["sliding"]) or kind == "strings":
        return None
    op, windows, flows, testing = (
        import_module(f"bytewax.{name}")
        for name in ("operators", "operators.windowing", "dataflow", "testing")
    )
    begin = datetime(1970, 1, 1, tzinfo=UTC)
    length_ms = 10_000 if question is questions["sliding"] else 1_000
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
        return begin + timedelta(milliseconds=row[0] - 1)

    def stopped() -> datetime:
        return begin

    def fold(state: tuple[int, float, float], row: Any) -> tuple[int, float, float]:
        return state[0] + 1, state[1] + row[2], max(state[2], row[2])

    def merge(one: Any, other: Any) -> Any:
        return one[0] + other[0], one[1] + other[1], max(one[2], other[2])

    def answer() -> list[Any]:
        found: list[Any] = []
        flow = flows.Dataflow("throughput")
        rows = op.input("in", flow, testing.TestingSource(read() if kind == "csv" else held, 1000))
        wanted = op.filter("where", rows, is_wanted)
        keyed = op.key_on("key", wanted, key_of)
        # Watermarks follow the timestamps alone. By default they also advance with the machine's
        # clock, so that most tuples would be late.
        clock = windows.EventClock(
            ts_getter=time_of,
            wait_for_system_duration=timedelta(0),
            now_getter=stopped,
            to_system_utc=_never,
        )
        slider = windows.SlidingWindower(
            length=timedelta(milliseconds=length_ms), offset=timedelta(seconds=1), align_to=begin
        )
        # Tuples come in order, and need not be sorted again.
        folded = windows.fold_window(
            "fold", keyed, clock, slider, lambda: (0, 0.0, -1e300), fold, merge, ordered=False
        )
        op.output("out", folded.down, testing.TestingSink(found))
        testing.run_main(flow)
        return found

    def table_of(found: list[Any]) -> pa.Table:
        # Windows are numbered by where they begin.
        rows = [(1_000 * window + length_ms, int(key), *sums) for key, (window, sums) in found]
        names = ("_ts", "key", "n", "total", "top")
        return pa.Table.from_pydict(dict(zip(names, zip(*rows, strict=True), strict=True)))

    return Answer(answer, table_of)


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
        write_parts(folder / "readings.csv", parts)
    length_s = 10 if question is questions["sliding"] else 1

    def started(sink: str) -> Any:
        rows = session.readStream.schema("_ts BIGINT, key BIGINT, value DOUBLE, number BIGINT").csv(
            str(parts)
        )
        results = (
            rows.where("value > 20")
            .withColumn("at", functions.timestamp_millis(rows["_ts"] - 1))
            .withWatermark("at", "0 seconds")
            .groupBy(functions.window("at", f"{length_s} seconds", "1 second"), "key")
            .agg(
                functions.count("*").alias("n"),
                functions.sum("value").alias("total"),
                functions.max("value").alias("top"),
            )
            .select(functions.unix_millis("window.end").alias("_ts"), "key", "n", "total", "top")
        )
        checkpoint = str(folder / f"checkpoint-{time.monotonic_ns()}")
        return (
            results.writeStream.format(sink)
            .queryName("results")
            .outputMode("append")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )

    def table(_: Any) -> pa.Table:
        # The sink of runs that are timed keeps nothing.
        started("memory").awaitTermination()
        return session.table("results").toArrow()

    return Answer(lambda: started("noop").awaitTermination(), table)


def write_parts(text: Path, parts: Path) -> None:
    """A file of text as several, and one with a late tuple that ends all windows but its own."""
    parts.mkdir()
    last = ""
    with text.open() as lines:
        for number, start in enumerate(iter(lambda: lines.readlines(BLOCK_BYTES * 4), [])):
            (parts / f"{number:04}.csv").write_text("".join(start))
            last = start[-1]
    last_ms = int(last.split(",", 1)[0])
    (parts / "last.csv").write_text(f"{last_ms + LAST_MS},0,100.0,0\n")


systems: dict[str, Callable[[Question, str, Path], Answer | None]] = {
    "ours": ours,
    "ours_1000": ours_1000,
    "try": tried,
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
    if answer is not None:
        result = None
        for _ in range(int(repeats)):
            begun = time.perf_counter()
            result = answer.run()
            seconds.append(time.perf_counter() - begun)
        table = answer.table(result)
        parquet.write_table(table, Path(folder) / f"{question}.{kind}.{system}.result")
    sys.stdout.write(json.dumps(seconds) + "\n")


if __name__ == "__main__":
    main()
