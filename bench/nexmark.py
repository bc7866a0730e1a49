"""Benchmark `nexmark`: the queries of NEXMark on one processor, compared with DuckDB.

The queries are the manifests in `examples/nexmark`; beside each lies the same question in SQL. All
rows are compared. Of three queries that tell of changes, that SQL gives what holds in the end: it
is compared with the newest rows, and all rows with the SQL of `bench/nexmark_changes.py`.
Events (`bench/nexmark_events.py`) lie in memory as Arrow record batches. Each query has a process
of its own, bound to one processor. It gets the events of some seconds of event time at once, then
those of 100 ms, its fragments one after the other, and the best of some repetitions counts. Rates
count all events of the auction house, also those of streams that a query does not read, as is usual
with NEXMark.

q6, q10 and q13 are left out: q6 is one that Flink's SQL lacks too, q10 writes files, and q13 reads
a table of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.compiled import require_kernels
from bench.nexmark_changes import changes
from bench.nexmark_cluster import QUERIES, clustered
from bench.nexmark_events import EVENTS, EVENTS_MS, Events
from bench.nexmark_results import FOLDER, STREAMS, answer, compare, connected, newest
from bench.registry import Figures, Settings, benchmark
from bench.report import ROOT
from orchestrator.api.validation import check
from orchestrator.manifest import load
from streams.evaluate.chain import FragmentChain
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from streams.vectors.chunk import Chunk, stream_schema

QUICK_EVENTS = 50_000
REPEATS = 3

SLICES_MS = {"events_s_core": 5_000, "events_s_core_100ms": 100}
"""Key → event time of the chunks: the latter is the interval of the manifests."""

AFTER_MS = 2 * 86_400_000
"""How long event time goes on after the last event, so that all windows end."""

queries = tuple(
    sorted((path.stem for path in FOLDER.glob("q*.yaml")), key=lambda name: int(name[1:]))
)


@benchmark("nexmark", kinds=(*queries, "cluster"))
def nexmark(settings: Settings) -> Figures:
    """Events a second for the queries of NEXMark, on one processor and on executors of Spark."""
    flat: dict[str, float] = {}
    events = QUICK_EVENTS if settings.quick else EVENTS
    if find_spec("duckdb") is None:
        settings.say("results are not compared: `uv sync --inexact --group rivals` brings DuckDB")
    with tempfile.TemporaryDirectory() as folder:
        for stream, table in Events(events).tables().items():
            parquet.write_table(table, Path(folder, f"{stream}.parquet"))
        kinds = settings.only or (*queries, "cluster")
        for name in queries:
            if name in kinds:
                settings.say(name)
                flat |= _measured(name, Path(folder), events, 1 if settings.quick else REPEATS)
        for name in QUERIES if "cluster" in kinds else ():
            flat |= clustered(settings, name, Path(folder), events)
    return flat


def _measured(name: str, folder: Path, events: int, repeats: int) -> dict[str, float]:
    flat: dict[str, float] = {}
    for key, slice_ms in SLICES_MS.items():
        flat[f"{name}.{key}"] = events / min(_run(name, folder, repeats, slice_ms))
        if find_spec("duckdb") is not None:
            ours = parquet.read_table(str(folder / f"{name}.result"))
            connection = connected(folder)
            compare(newest(name, ours), answer(name, connection))
            if name in changes:
                compare(ours, connection.sql(changes[name]).to_arrow_table())
            flat[f"{name}.correct"] = 1
    return flat


def _run(name: str, folder: Path, repeats: int, slice_ms: int) -> list[float]:
    """Seconds of each repetition."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "ARROW_IO_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", "bench.nexmark", name, str(folder), str(repeats), str(slice_ms)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **one},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-2000:]}")
    return [float(each) for each in json.loads(done.stdout.splitlines()[-1])]


def programs(name: str) -> Mapping[str, Program]:
    """The programs of a query's fragments, each after those that it reads."""
    flow = check(load([FOLDER / "streams.yaml", FOLDER / f"{name}.yaml"]))
    return {
        fragment.name: compile_statement(parse(fragment.statement)[0], fragment.inputs)
        for fragment in flow.of(name)
    }


def evaluate(
    name: str, compiled: Mapping[str, Program], slices: Mapping[str, Sequence[Chunk]]
) -> pa.Table:
    """The output of a query.

    Parameters
    ----------
    name, compiled
        The query and its programs.
    slices
        Stream → its chunks; those of all streams end with the same watermarks.
    """
    chain = FragmentChain(compiled)
    found: list[pa.RecordBatch] = []
    for number in range(len(next(iter(slices.values())))):
        for stream, chunks in slices.items():
            chain.offer(stream, chunks[number])
        found += [made.rows for fragment, made in chain.advance() if fragment == name]
    return pa.Table.from_batches(found)


def sliced(
    table: pa.Table, columns: Mapping[str, str], begin_ms: int, end_ms: int, slice_ms: int
) -> list[Chunk]:
    """A stream as chunks, the last of which says that time has passed."""
    rows = table.rename_columns(["_ts", *table.column_names[1:]]).cast(stream_schema(columns))
    (batch,) = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
    times_ms = batch.column(0).to_numpy()
    ends_ms = [*range(begin_ms + slice_ms, end_ms + slice_ms, slice_ms), end_ms + AFTER_MS]
    places = [0, *times_ms.searchsorted(ends_ms, side="right").tolist()]
    return [
        Chunk(
            first_seq=begin,
            rows=batch.slice(begin, end - begin),
            watermarks_ms=np.array([watermark_ms]),
            ingestion_times_us=np.array([watermark_ms]),
        )
        for begin, end, watermark_ms in zip(places, places[1:], ends_ms, strict=False)
    ]


def main() -> None:
    """Evaluate a query some times."""
    name, folder, repeats, slice_ms = sys.argv[1:]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    require_kernels()
    tables = {
        stream: parquet.read_table(str(Path(folder, f"{stream}.parquet"))) for stream in STREAMS
    }
    begin_ms = int(tables["bids"].column(0)[0].as_py())
    events = sum(table.num_rows for table in tables.values())
    end_ms = begin_ms + events // EVENTS_MS
    base = load([FOLDER / "streams.yaml"]).streams
    compiled = programs(name)
    read = {stream for program in compiled.values() for stream in program.inputs}
    slices = {
        each.record.name: sliced(
            tables[each.record.name], each.record.columns, begin_ms, end_ms, int(slice_ms)
        )
        for each in base
        if each.record.name in read
    }
    seconds: list[float] = []
    for _ in range(int(repeats)):
        # A chunk remembers that it was checked. Hosts check each.
        fresh = {stream: [replace(chunk) for chunk in chunks] for stream, chunks in slices.items()}
        begun = time.perf_counter()
        result = evaluate(name, compiled, fresh)
        seconds.append(time.perf_counter() - begun)
        if len(seconds) == 1:
            parquet.write_table(result, str(Path(folder, f"{name}.result")))
    sys.stdout.write(json.dumps(seconds) + "\n")


if __name__ == "__main__":
    main()
