"""Benchmark `state_memory`: what a host's state takes beside the columns of the tuples it keeps.

`vivace size` knows how many tuples the windows of a statement hold, and how wide they are taken to
be (`streams.vectors.widths`). This benchmark says what each tuple takes beyond its width, for each
way to evaluate a statement, and for stepwise evaluation also by what a statement asks for. A
process of its own fills the window of one statement, with tuples of which each has another key, so
that nothing is summed up: a state takes no more than that. The growth of the process counts.

The figures belong into `orchestrator/api/memory_sizes.json`.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from multiprocessing.connection import Connection

import numpy as np
import psutil
import pyarrow as pa

from bench.registry import Figures, Settings, benchmark
from orchestrator.errors import VivaceError
from streams.evaluate.engine import FragmentEngine
from streams.kernels import kernels
from streams.language import parse
from streams.plan.choice import way_of
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import Chunk, stream_schema
from streams.vectors.widths import row_bytes

STATEMENTS: Mapping[str, str] = {
    "panes": (
        "RSTREAM(SELECT k, count(*) AS n, sum(x) AS total, max(x) AS top "
        "FROM s [RANGE 1 HOUR SLIDE 1 HOUR] GROUP BY k)"
    ),
    "sessions": (
        "RSTREAM(SELECT k, count(*) AS n, sum(x) AS total "
        "FROM s [SESSION 1 HOUR PARTITION BY k] GROUP BY k)"
    ),
    "newest": "ISTREAM(SELECT * FROM s [PARTITION BY k ROWS 1])",
    "join": (
        "RSTREAM(SELECT a.k, a.x, b.x AS y FROM s [RANGE 1 HOUR SLIDE 1 HOUR] AS a, "
        "t [RANGE 1 HOUR SLIDE 1 HOUR] AS b WHERE a.k = b.k)"
    ),
    "lookup": (
        "RSTREAM(SELECT a.k, a.x, b.x AS y FROM s [UNBOUNDED] AS b, t [NOW] AS a WHERE a.k = b.k)"
    ),
    "stepwise": (
        "ISTREAM(SELECT a.k, a.x, b.x AS y FROM s [RANGE 1 HOUR] AS a, s [RANGE 1 HOUR] AS b "
        "WHERE a.k = b.k AND a.x < b.x)"
    ),
    "stepwise partitions": "ISTREAM(SELECT k, x FROM s [PARTITION BY k ROWS 1 RANGE 1 HOUR])",
    "stepwise groups": (
        "ISTREAM(SELECT k, count(*) AS n, sum(x) AS total, max(x) AS top "
        "FROM s [RANGE 1 HOUR] GROUP BY k)"
    ),
    "stepwise distinct": (
        "ISTREAM(SELECT k, count(DISTINCT x) AS n, sum(x) AS total, max(x) AS top "
        "FROM s [RANGE 1 HOUR] GROUP BY k)"
    ),
}
"""Way, and what stepwise evaluation keeps beside tuples → a statement. Without state there is
nothing to measure."""

COLUMNS = {"k": "int", "x": "float", "i": "int", "name": "string"}

TUPLES, QUICK_TUPLES = 400_000, 50_000

CHUNK_TUPLES = 2_000

MOST_WATERMARKS = 4_096

WARM_TUPLES = 4_000
"""Before the first size is read: what is loaded for the first tuples is no state."""

TIMEOUT_S = 300.0


@benchmark("state_memory", kinds=STATEMENTS)
def state_memory(settings: Settings) -> Figures:
    """Memory that each tuple of a state takes beyond its width, by the way of evaluation."""
    count = QUICK_TUPLES if settings.quick else TUPLES
    figures: dict[str, float] = {}
    context = multiprocessing.get_context("spawn")
    for way in settings.only or STATEMENTS:
        settings.say(way)
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_measure, args=(way, count, theirs))
        process.start()
        theirs.close()
        try:
            if not ours.poll(TIMEOUT_S):
                raise VivaceError(f"state_memory: {way} takes longer than {TIMEOUT_S:g} s")
            figures[f"{way.replace(' ', '_')}.tuple_bytes"] = ours.recv()
        except EOFError:
            raise VivaceError(f"state_memory: the process of {way} has failed") from None
        finally:
            process.kill()
            process.join()
    return figures


def _measure(way: str, count: int, result: Connection) -> None:
    """Fill the window of a statement, and send by how much the process grew for each tuple."""
    (statement,) = parse(f"REGISTER QUERY q {STATEMENTS[way]};")
    program = compile_statement(statement, {"s": COLUMNS, "t": COLUMNS})
    found = way_of(program).value
    if found != way.partition(" ")[0]:
        raise VivaceError(f"the statement of {way} is evaluated in the way {found}")
    kernels.load()
    engine = FragmentEngine(program)
    process, before, at = psutil.Process(), 0, 0
    while at < WARM_TUPLES + count:
        if at == WARM_TUPLES:
            before = process.memory_info().rss
        chunk = _chunk(at)
        for stream in program.inputs:
            engine.offer(stream, chunk if stream == "s" else _empty(at))
        while engine.advance(MOST_WATERMARKS) is not None:
            pass
        at += CHUNK_TUPLES
    width = row_bytes({name: COLUMNS[name] for name in program.reads["s"] if name in COLUMNS})
    result.send(max((process.memory_info().rss - before) / count - width, 0.0))


def _chunk(at: int) -> Chunk:
    """Tuples, each a timestamp and a key of its own."""
    numbers = np.arange(at, at + CHUNK_TUPLES)
    columns = [
        pa.array(numbers + 1),
        pa.array(numbers),
        pa.array(numbers * 0.5),
        pa.array(numbers),
        pa.array([f"{number:016d}" for number in numbers.tolist()]),
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=stream_schema(COLUMNS))
    return Chunk(rows=rows, first_seq=at, watermarks_ms=numbers + 1, ingestion_times_us=numbers)


def _empty(at: int) -> Chunk:
    """No tuples, and the same watermarks."""
    rows = pa.RecordBatch.from_pylist([], schema=stream_schema(COLUMNS))
    numbers = np.arange(at, at + CHUNK_TUPLES)
    return Chunk(rows=rows, first_seq=0, watermarks_ms=numbers + 1, ingestion_times_us=numbers)
