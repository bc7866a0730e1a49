"""Benchmark `throughput`: tuples a second on one processor, beside other engines.

Four questions are asked: a filter with count, sum and maximum by key and second; the same over ten
seconds, every second; the newest tuple of each key; the join of two streams' seconds. Input lies in
memory as Arrow record batches, or in a file of text. Each system has a process of its own, bound to
one processor, and the best of three repetitions counts. The result of every system is compared with
DuckDB's over the same input before its rate counts: keys, counts and maxima exactly, sums to one
part in 10⁹, since DuckDB rounds on the way. A difference ends the benchmark.

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
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.registry import Figures, Settings, benchmark
from bench.report import ROOT
from bench.throughput_workload import generate, questions

SYSTEMS = ("duckdb", "ours", "ours_1000", "try", "polars", "bytewax", "spark")
"""In the order in which they run: the results of the first are the others' standard."""

INSTALLED = ("ours", "ours_1000", "try", "spark")
"""Those that every environment has."""

STREAMING = ("bytewax", "spark")
REPEATS = 3

SLOW_ROWS = 300_000
"""Most tuples for a system that takes several microseconds for each."""

SUM_TOLERANCE = 1e-9


class DifferentResults(AssertionError):
    """Two systems gave different rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What a system is given.

    Attributes
    ----------
    name, kind
        The question, and the kind of its input.
    folder
        Where the input lies, and results are written.
    rows
        Tuples of each stream.
    """

    name: str
    kind: str
    folder: Path
    rows: int

    def result(self, system: str) -> pa.Table:
        """What a system has answered."""
        return parquet.read_table(str(self.folder / f"{self.name}.{self.kind}.{system}.result"))


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
                whole = Input(name=name, kind=kind, folder=Path(folder), rows=rows)
                slow = replace(whole, folder=fewer, rows=min(rows, SLOW_ROWS))
                flat |= rates(settings, whole, slow)
    return flat


def rates(settings: Settings, whole: Input, slow: Input) -> Figures:
    """The rates of all systems on one kind of input; bytewax gets the slow one."""
    name, kind = whole.name, whole.kind
    repeats = 1 if settings.quick else REPEATS
    flat: dict[str, float] = {}
    for system in SYSTEMS:
        if system not in INSTALLED and find_spec(system) is None:
            settings.say(f"{system} is not installed: `uv sync --inexact --group rivals`")
            continue
        settings.say(f"{name} on {kind}: {system}")
        given = slow if system == "bytewax" else whole
        seconds = _run(system, given, repeats)
        if seconds:
            if find_spec("duckdb") is not None and system != "duckdb":
                if given is slow:
                    _run("duckdb", slow, 1)
                check(system, given.result(system), given.result("duckdb"))
            count = given.rows * len(questions[name].streams)
            flat[f"{name}.{kind}.{system}.rows_s"] = count / min(seconds)
    if find_spec("duckdb") is not None:
        flat[f"{name}.{kind}.correct"] = 1
    best = [flat[key] for other in STREAMING if (key := f"{name}.{kind}.{other}.rows_s") in flat]
    if best:
        flat[f"{name}.{kind}.ours_vs_streaming"] = flat[f"{name}.{kind}.ours.rows_s"] / max(best)
    if (tried := flat.get(f"{name}.{kind}.try.rows_s")) is not None:
        flat[f"{name}.{kind}.try_vs_ours"] = tried / flat[f"{name}.{kind}.ours.rows_s"]
    shutil.rmtree(whole.folder / "parts", ignore_errors=True)
    return flat


def _run(system: str, given: Input, repeats: int) -> list[float]:
    """Seconds of each repetition; none if the system does not answer that question."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "POLARS_MAX_THREADS", "ARROW_IO_THREADS"), "1")
    command = [sys.executable, "-m", "bench.throughput_systems", system, given.name, given.kind]
    done = subprocess.run(
        [*command, str(given.folder), str(repeats)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **one},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{system} failed on {given.name}.{given.kind}:\n{done.stderr[-2000:]}")
    return [float(each) for each in json.loads(done.stdout.splitlines()[-1])]


def check(system: str, result: pa.Table, standard: pa.Table) -> None:
    """Compare the result of a system with the one that it must have.

    Raises
    ------
    DifferentResults
        They differ; the message names the system, and says where.
    """
    try:
        compare(result, standard)
    except DifferentResults as error:
        raise DifferentResults(f"{system}: {error}") from error


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
