"""Benchmark `aggregates`: aggregates pushed down against naive ones, and windows of any size.

Fig. 5 and 6 of *pushdown aggregates*: tuples of 40,008 bytes are projected to 10,000 bytes
(`fig5`) or to 40,004 (`fig6`) and aggregated over windows that are emptied at each emission, for
growing numbers of tuples. Naive aggregates keep the values of the projected tuples until then and
read them once for each aggregate; those that are pushed down are folded as the tuples pass
(`streams.plan.pushdown`). Both are evaluated in two ways, so that what is compared is pushing down
alone: by panes (`pushdown`, which the product chooses, and `naive_panes`), and stepwise
(`pushdown_stepwise` and `naive`). Times are those of a whole window, and of its emission alone:
from the watermark that ends the window to the result. Memory is what evaluation holds just before
it, as Python's allocator and Arrow's count it.

`sliding` measures windows of 10 to 1,000,000 tuples that slide by a tenth of their length
(`panes`), and by one tuple (`each`, and `each_sums` without the maximum, evaluated stepwise): the
cost of a tuple. `naive` is `each` with naive aggregates, which read the window for every tuple, in
windows of up to 1,000.

`partial`, `floats` and `union` compare the bytes over links with and without partial aggregation
at the producers (`bench.aggregates_partial`).

The results of both ways are compared with each other, and with DuckDB's if it is installed.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pyarrow as pa

from bench.aggregates_partial import float_partials, partials, unions
from bench.compiled import require_kernels
from bench.naive_panes import NaivePanes
from bench.registry import Figures, Settings, benchmark
from bench.throughput import DifferentResults
from foundation.arrays import IntArray
from streams.evaluate.engine import FragmentEngine
from streams.evaluate.panes.evaluation import Panes
from streams.evaluate.protocol import Evaluation, Pass
from streams.evaluate.stepwise.incremental import Incremental
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from streams.vectors.chunk import Chunk, stream_schema

COUNTS = (1_000, 2_000, 4_000, 8_000)
"""As many as in the paper's figures, which name 6,000."""
QUICK_COUNTS = (20, 40)
REPETITIONS = 7
"""Both ways take turns, and the best time of each counts: a neighbour may have the processor."""

columns: Mapping[str, str] = {"id": "int", "short": "string", "long": "string"}
SHORT, LONG = 10_000, 30_000
"""Lengths of the texts: with the number a tuple has 40,008 bytes."""

projections: Mapping[str, tuple[str, ...]] = {"fig5": ("short",), "fig6": ("short", "long")}
"""Figure → what its projection leaves of a tuple."""

SIZES = (10, 1_000, 100_000, 1_000_000)
QUICK_SIZES = (10, 1_000)
SLIDING_TUPLES, QUICK_SLIDING_TUPLES = 200_000, 5_000
"""Tuples that are timed, after those that fill the window."""

NAIVE_SIZES = (10, 100, 1_000)
"""Windows over which naive aggregates are timed, which read all of it for each tuple."""
NAIVE_TUPLES = 1_000

CHUNK_TUPLES = 5_000
"""Tuples that are evaluated at once, each with a watermark of its own."""

HOST_TUPLES, HOST_TIMED = 64, 20_000
"""The same where a host evaluates them: it takes `TIMESTAMPS_PER_DISPATCH` timestamps at most."""

SUMS = "count(*) AS n, sum(x) AS total"
AGGREGATES = f"{SUMS}, max(x) AS most"
readings: Mapping[str, str] = {"x": "float"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One way to aggregate the tuples of a window.

    Attributes
    ----------
    whole_ms, emission_ms
        Time of the whole window, and of its emission.
    held_bytes
        What evaluation holds before the emission.
    rows
        The result.
    """

    whole_ms: float
    emission_ms: float
    held_bytes: int
    rows: list[dict[str, object]]


@benchmark("aggregates", kinds=("fig5", "fig6", "sliding", "naive", "partial", "floats", "union"))
def aggregates(settings: Settings) -> Figures:
    """Aggregates pushed down against naive ones; cost of a tuple in windows of any size."""
    require_kernels()
    flat: dict[str, float] = {}
    for figure, texts in projections.items():
        if settings.only and figure not in settings.only:
            continue
        for count in QUICK_COUNTS if settings.quick else COUNTS:
            settings.say(f"{figure}: {count} tuples")
            flat |= _compared(figure, texts, count)
    if not settings.only or "sliding" in settings.only:
        flat |= _sliding(settings)
    if not settings.only or "naive" in settings.only:
        for size in NAIVE_SIZES:
            settings.say(f"naive: {size} tuples")
            flat = _naive(size) | flat
    if not settings.only or "partial" in settings.only:
        flat |= partials(settings)
    if not settings.only or "floats" in settings.only:
        flat |= float_partials(settings)
    if not settings.only or "union" in settings.only:
        flat |= unions(settings)
    return flat


def statement(texts: Sequence[str], count: int) -> str:
    """Aggregates of a projection over a window that is emptied at each emission.

    A tuple comes each millisecond, so a window of so many milliseconds has so many tuples.
    """
    listed: list[str] = []
    for text in texts:
        listed += [f"count({text}) AS {text}_n", f"sum(length({text})) AS {text}_sum"]
        listed += [f"max(length({text})) AS {text}_max", f"avg(length({text})) AS {text}_avg"]
    window = f"[RANGE {count} MILLISECONDS SLIDE {count} MILLISECONDS]"
    return f"REGISTER QUERY q RSTREAM(SELECT {', '.join(listed)} FROM s {window});"


def _compared(figure: str, texts: Sequence[str], count: int) -> dict[str, float]:
    found = windows(evaluations(statement(texts, count)), tuples(count))
    different = {str(one.rows) for one in found.values()}
    if len(different) > 1:
        raise DifferentResults(" and ".join(f"{way}: {one.rows}" for way, one in found.items()))
    flat: dict[str, float] = {}
    for way, one in found.items():
        flat[f"{figure}.{count}.{way}.whole_ms"] = one.whole_ms
        flat[f"{figure}.{count}.{way}.emission_ms"] = one.emission_ms
        flat[f"{figure}.{count}.{way}.held_bytes"] = one.held_bytes
    return flat


def evaluations(text: str) -> Mapping[str, Callable[[], Evaluation]]:
    """The ways to evaluate a statement, each of which makes an evaluation."""
    (parsed,) = parse(text)
    program = compile_statement(parsed, {"s": columns})
    schema = stream_schema(program.columns)
    return {
        "pushdown": lambda: Panes(program, schema),
        "naive_panes": lambda: NaivePanes(program, schema),
        "pushdown_stepwise": lambda: Incremental(program, schema),
        "naive": lambda: Incremental(replace(program, naive=True), schema),
    }


def tuples(count: int, seed: int = 1) -> pa.RecordBatch:
    """Tuples of 40,008 bytes, one each millisecond from 1 on."""
    rng = np.random.default_rng(seed)

    def texts(length: int) -> pa.Array:
        letters = rng.integers(97, 123, (count, length), dtype=np.uint8)
        return pa.array([row.tobytes().decode("ascii") for row in letters])

    numbers = np.arange(count, dtype=np.int64)
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers + 1), pa.array(numbers), texts(SHORT), texts(LONG)],
        schema=stream_schema(columns),
    )


def windows(
    ways: Mapping[str, Callable[[], Evaluation]], batch: pa.RecordBatch
) -> dict[str, Window]:
    """Evaluate a window in several ways: some times for the time, once for memory."""
    times = {way: list[tuple[float, float, list[dict[str, object]]]]() for way in ways}
    for _ in range(REPETITIONS):
        for way, make in ways.items():
            times[way].append(_timed(make(), batch))
    return {
        way: Window(
            whole_ms=min(one[0] for one in times[way]) * 1e3,
            emission_ms=min(one[1] for one in times[way]) * 1e3,
            held_bytes=_held_bytes(make, batch),
            rows=times[way][0][2],
        )
        for way, make in ways.items()
    }


def _held_bytes(make: Callable[[], Evaluation], batch: pa.RecordBatch) -> int:
    arrow_bytes = pa.total_allocated_bytes()
    tracemalloc.start()
    evaluation = make()
    _fill(evaluation, batch)
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held_bytes + pa.total_allocated_bytes() - arrow_bytes


def _timed(
    evaluation: Evaluation, batch: pa.RecordBatch
) -> tuple[float, float, list[dict[str, object]]]:
    begun = time.perf_counter()
    _fill(evaluation, batch)
    ending = time.perf_counter()
    last, end = batch.slice(batch.num_rows - 1), batch.num_rows
    emitted = evaluation.run(Pass({"s": last}, {"s": end - 1}, end))
    ended = time.perf_counter()
    return ended - begun, ended - ending, emitted.to_pylist()


def _fill(evaluation: Evaluation, batch: pa.RecordBatch) -> None:
    """Evaluate all tuples but the last one, which ends the window."""
    filled = batch.num_rows - 1
    evaluation.run(Pass({"s": batch.slice(0, filled)}, {"s": 0}, filled))


def chunk(rows: pa.RecordBatch, first_seq: int) -> Chunk:
    """Rows under a watermark at each timestamp."""
    times_ms: IntArray = np.unique(rows.column(0).to_numpy())
    return Chunk(
        first_seq=first_seq, rows=rows, watermarks_ms=times_ms, ingestion_times_us=times_ms
    )


def _sliding(settings: Settings) -> dict[str, float]:
    flat: dict[str, float] = {}
    timed = QUICK_SLIDING_TUPLES if settings.quick else SLIDING_TUPLES
    for size in QUICK_SIZES if settings.quick else SIZES:
        slides = {
            "panes": f"RSTREAM(SELECT {AGGREGATES} FROM s [RANGE {size} MILLISECONDS "
            f"SLIDE {size // 10} MILLISECONDS])",
            "each": f"ISTREAM(SELECT {AGGREGATES} FROM s [RANGE {size} MILLISECONDS])",
            "each_sums": f"ISTREAM(SELECT {SUMS} FROM s [RANGE {size} MILLISECONDS])",
        }
        for way, body in slides.items():
            settings.say(f"sliding: {way}, {size} tuples")
            program = _over_readings(body)
            passes = {way: (timed, CHUNK_TUPLES)}
            if way != "panes":
                passes[f"{way}_64"] = min(timed, HOST_TIMED), HOST_TUPLES
            for key, (count, at_once) in passes.items():
                flat |= _slid(program, f"sliding.{size}.{key}", size, count, at_once)
    return flat


def _naive(size: int) -> dict[str, float]:
    """A result for every tuple, with naive aggregates and with others."""
    each = _over_readings(f"ISTREAM(SELECT {AGGREGATES} FROM s [RANGE {size} MILLISECONDS])")
    naive = replace(each, naive=True)
    return _slid(naive, f"sliding.{size}.naive", size, NAIVE_TUPLES, CHUNK_TUPLES) | _slid(
        each, f"sliding.{size}.each", size, NAIVE_TUPLES, CHUNK_TUPLES
    )


def _over_readings(body: str) -> Program:
    (parsed,) = parse(f"REGISTER QUERY q {body};")
    return compile_statement(parsed, {"s": readings})


def _slid(program: Program, key: str, size: int, count: int, at_once: int) -> dict[str, float]:
    seconds, last = slide(program, size, count, at_once)
    flat = {f"{key}.us_tuple": seconds / count * 1e6}
    if find_spec("duckdb") is not None:
        check(last, size, size + count)
        flat[f"{key}.correct"] = 1
    return flat


def values(begin: int, end: int) -> pa.RecordBatch:
    """The tuples [begin, end): tuple n has timestamp n + 1."""
    numbers = np.arange(begin, end, dtype=np.int64)
    # Values rise and fall within each window, whatever its length.
    found = np.sin(numbers * 0.7) * 100.0 + (numbers * 7919 % 10_007) / 16.0
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers + 1), pa.array(found)], schema=stream_schema(readings)
    )


def slide(
    program: Program, size: int, timed: int, at_once: int = CHUNK_TUPLES
) -> tuple[float, dict[str, object]]:
    """Fill a window, then time further tuples; returns seconds and the last row."""
    engine = FragmentEngine(program)
    chunks = [
        chunk(values(begin, min(begin + tuples, stop)), begin)
        for first, stop, tuples in ((0, size, CHUNK_TUPLES), (size, size + timed, at_once))
        for begin in range(first, stop, tuples)
    ]
    seconds, last = 0.0, dict[str, object]()
    for each in chunks:
        begun = time.process_time()
        engine.offer("s", each)
        while (evaluated := engine.advance(1 << 20)) is not None:
            if evaluated.rows.num_rows:
                last = evaluated.rows.slice(evaluated.rows.num_rows - 1).to_pylist()[0]
        if each.first_seq >= size:
            seconds += time.process_time() - begun
    return seconds, last


def check(last: Mapping[str, object], size: int, end: int) -> None:
    """Compare the last row with what DuckDB gives for the tuples of its window.

    Parameters
    ----------
    end
        The last timestamp, at which each of the ways gives a row.

    Raises
    ------
    DifferentResults
        It differs. Sums may differ by what DuckDB rounds on the way.
    """
    if last["_ts"] != end:
        raise DifferentResults(f"the last row is of {last['_ts']} ms, not of {end} ms")
    table = pa.Table.from_batches([values(max(end - size, 0), end)])
    connection = import_module("duckdb").connect(config={"threads": 1})
    connection.register("s", table)
    aggregates = {"n": "count(*)", "total": "fsum(x)", "most": "max(x)"}
    asked = [name for name in aggregates if name in last]
    (theirs,) = connection.sql(
        f"SELECT {', '.join(aggregates[name] for name in asked)} FROM s"
    ).fetchall()
    ours = tuple(last[name] for name in asked)
    if not np.allclose(np.array(ours, float), np.array(theirs, float), rtol=1e-12, atol=0):
        raise DifferentResults(f"{ours}, DuckDB {theirs}")
