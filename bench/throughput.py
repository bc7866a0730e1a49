"""Benchmark `throughput`: tuples a second on one processor, beside other engines.

Four questions are asked: a filter with count, sum and maximum by key and second; the same over ten
seconds, every second; the newest tuple of each key; the join of two streams' seconds. Input lies in
memory as Arrow record batches, or in a file of text. Each system has a process of its own, bound to
one processor, and the best of some repetitions counts. Results are compared with DuckDB's: keys,
counts and maxima exactly, sums to one part in 10⁹, since DuckDB rounds on the way.

Streaming engines (ours, Spark Structured Streaming, bytewax) read the input once, in order, and
give results as time goes on. DuckDB and Polars see the whole table at once: they are the bar for
the loops over tuples.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.registry import Figures, Settings, benchmark
from bench.report import ROOT
from bench.throughput_workload import generate, questions

SYSTEMS = ("ours", "duckdb", "polars", "bytewax", "spark")
STREAMING = ("bytewax", "spark")
REPEATS = {"ours": 5, "duckdb": 3, "polars": 3, "bytewax": 1, "spark": 2}

SLOW_ROWS = 300_000
"""Most tuples for a system that takes several microseconds for each."""

SUM_TOLERANCE = 1e-9


class DifferentResults(AssertionError):
    """Two systems gave different rows."""


@benchmark("throughput", kinds=questions)
def throughput(settings: Settings) -> Figures:
    """Tuples a second on one processor, beside Spark, DuckDB, Polars and bytewax."""
    flat: dict[str, float] = {}
    for name in settings.only or questions:
        question = questions[name]
        rows = question.quick_rows if settings.quick else question.rows
        with tempfile.TemporaryDirectory() as folder:
            settings.say(f"{name}: writing the input")
            generate(question, rows, Path(folder))
            fewer = Path(folder, "fewer")
            fewer.mkdir()
            generate(question, min(rows, SLOW_ROWS), fewer)
            for kind in question.inputs:
                flat |= _rates(settings, name, kind, rows, Path(folder))
    return flat


def _rates(settings: Settings, name: str, kind: str, rows: int, folder: Path) -> Figures:
    """The rates of all systems on one input."""
    flat: dict[str, float] = {}
    for system in SYSTEMS:
        if system != "ours" and system != "spark" and find_spec(system) is None:
            settings.say(f"{system} is not installed: `uv sync --group rivals`")
            continue
        settings.say(f"{name} on {kind}: {system}")
        few = system == "bytewax"
        seconds = _run(system, name, kind, folder / "fewer" if few else folder, settings.quick)
        if seconds:
            streams = len(questions[name].streams)
            count = (min(rows, SLOW_ROWS) if few else rows) * streams
            flat[f"{name}.{kind}.{system}.rows_s"] = count / min(seconds)
    results = {system: folder / f"{name}.{kind}.{system}.result" for system in ("ours", "duckdb")}
    if results["duckdb"].exists():
        compare(*(parquet.read_table(str(path)) for path in results.values()))
        flat[f"{name}.{kind}.correct"] = 1
    best = [flat[key] for other in STREAMING if (key := f"{name}.{kind}.{other}.rows_s") in flat]
    if best:
        flat[f"{name}.{kind}.ours_vs_streaming"] = flat[f"{name}.{kind}.ours.rows_s"] / max(best)
    shutil.rmtree(folder / "parts", ignore_errors=True)
    return flat


def _run(system: str, name: str, kind: str, folder: Path, quick: bool) -> list[float]:
    """Seconds of each repetition; none if the system does not answer that question."""
    repeats = 1 if quick else REPEATS[system]
    one = dict.fromkeys(("OMP_NUM_THREADS", "POLARS_MAX_THREADS", "ARROW_IO_THREADS"), "1")
    command = [sys.executable, "-m", "bench.throughput_systems", system, name, kind]
    done = subprocess.run(
        [*command, str(folder), str(repeats)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **one},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{system} failed on {name}.{kind}:\n{done.stderr[-2000:]}")
    return [float(each) for each in json.loads(done.stdout.splitlines()[-1])]


def compare(ours: pa.Table, theirs: pa.Table) -> None:
    """Check that two results have the same rows, in any order.

    Raises
    ------
    DifferentResults
        They do not; the message says where.
    """
    same_names = set(ours.column_names) == set(theirs.column_names)
    if ours.num_rows != theirs.num_rows or not same_names:
        raise DifferentResults(
            f"{ours.num_rows} rows of {ours.column_names}, "
            f"{theirs.num_rows} of {theirs.column_names}"
        )
    order = [(name, "ascending") for name in ours.column_names if name != "total"]
    one, other = ours.sort_by(order), theirs.select(ours.column_names).sort_by(order)
    for name in ours.column_names:
        mine, yours = one.column(name).to_numpy(), other.column(name).to_numpy()
        same = (
            np.allclose(mine, yours, rtol=SUM_TOLERANCE, atol=0)
            if name == "total"
            else np.array_equal(mine, yours)
        )
        if not same:
            raise DifferentResults(f"column {name} differs")
