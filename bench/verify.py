"""Benchmark `verify`: statements that Spark SQL cannot express, in one piece and in parts by key.

Both ways begin and end with tables of Spark, on all processors. Rows that differ end the benchmark.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.registry import Figures, Settings, benchmark
from orchestrator.errors import VivaceError

COLUMNS = {"s": {"k": "int", "x": "float"}, "t": {"k": "int", "x": "float"}}
KEYS = 1000

STATEMENTS = {
    "range": "ISTREAM(SELECT k, sum(x) AS x FROM s [RANGE 5 SECONDS] GROUP BY k)",
    "session": (
        "RSTREAM(SELECT k, sum(x) AS x FROM s [SESSION 500 MILLISECONDS PARTITION BY k] GROUP BY k)"
    ),
    "join": (
        "ISTREAM(SELECT s.k AS k, sin(s.x - t.x) AS x FROM s [RANGE 5 SECONDS], "
        "t [PARTITION BY k ROWS 1] WHERE s.k = t.k)"
    ),
}


@benchmark("verify", kinds=tuple(STATEMENTS))
def verify(settings: Settings) -> Figures:
    """Seconds that `vivace verify` takes for what SQL cannot express, in one piece and in parts."""
    from orchestrator.spark.hosts.session import SessionSettings, start_session, stop_session
    from orchestrator.spark.verify.evaluation import ORDER, evaluate_parts, evaluate_whole
    from orchestrator.spark.verify.recomputation import numbered
    from orchestrator.spark.verify.verification import PARTS_PER_CORE
    from streams.language import parse
    from streams.plan.compiler import compile_statement
    from streams.plan.partitioning import partitionings

    inputs = _inputs(50_000 if settings.quick else 200_000)
    until_ms = max(int(each["_ts"][-1].as_py()) for each in inputs.values())
    flat: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as work:
        session = start_session(
            SessionSettings(
                name="bench-verify",
                work_dir=Path(work),
                executors=1,
                driver_memory_mb=1536,
                master="local[*]",
            )
        )
        parts = PARTS_PER_CORE * session.sparkContext.defaultParallelism
        flat["parts"] = parts
        frames = {name: numbered(session, table).cache() for name, table in inputs.items()}
        for frame in frames.values():
            frame.count()
        for name in settings.only or STATEMENTS:
            (statement,) = parse(f"REGISTER QUERY q {STATEMENTS[name]};")
            program = compile_statement(statement, COLUMNS)
            (by,) = partitionings(program)
            settings.say(f"{name}: in one piece")
            begun_s = time.perf_counter()
            whole = evaluate_whole(program, frames, until_ms)
            kept = numbered(session, whole).cache()
            kept.count()
            flat[f"{name}.whole_s"] = time.perf_counter() - begun_s
            settings.say(f"{name}: in parts")
            begun_s = time.perf_counter()
            rows = sum(inputs[stream].num_rows for stream in program.inputs)
            made = evaluate_parts(program, frames, by, until_ms, parts, rows)
            flat[f"{name}.parts_s"] = time.perf_counter() - begun_s
            flat[f"{name}.ratio"] = flat[f"{name}.parts_s"] / flat[f"{name}.whole_s"]
            one, other = kept.drop(ORDER), made.drop(ORDER)
            if differing := one.exceptAll(other).count() + other.exceptAll(one).count():
                raise VivaceError(f"{name}: {differing} rows differ between one piece and parts")
            flat[f"{name}.rows"] = whole.num_rows
            kept.unpersist()
            made.unpersist()
        stop_session(session)
    return flat


def _inputs(rows: int) -> dict[str, pa.Table]:
    """A thousand tuples a second of each stream."""
    random = np.random.default_rng(15)
    return {
        stream: pa.Table.from_pydict(
            {
                "_ts": np.arange(rows),
                "k": random.integers(0, KEYS, rows),
                "x": random.normal(size=rows),
            }
        )
        for stream in COLUMNS
    }
