"""Benchmark `recursion`: what evaluating loops costs, after *Recursive streams* (Fig. 7, 8, 10).

`fig8` and `fig10` compare methods, with the same operators and the same state, each statement
evaluated stepwise:

- *DTS*, delay-based time-splitting: every statement once at an instant (`StepwiseLoop`);
- *HB*, heartbeats (`bench.heartbeat_method`), with run limits of 10 to 1,000, on the *open query*,
  without recursion, since it deadlocks on the query itself;
- *hybrid*: the open query's statements as the fragments that they are in the product, in bulk.

`loop` is the query as the product evaluates it, by the compiled core; `vs_stepwise` and `vs_filter`
are its throughput over that of the stepwise core, and of a statement that only filters the same
chunks. All are ratios of processor time within one run, but `input_tuples_s`. `joined` is another
loop, which joins its input with a long relation.

`equal` is 1 if all agree: the multisets of each instant for k = 1, 2, 4, and between DTS, HB,
hybrid and the recursion; and between both cores every tuple in its order.

Fig. 9 of the paper, misses of the first-level cache, needs counters of the processor that
containers seldom give, and is left out.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from bench.compiled import require_kernels
from bench.heartbeat_method import HeartbeatMethod
from bench.recursion_workload import (
    COLUMNS,
    IDS,
    SPREAD,
    batch,
    dummies_of,
    input_tuples,
    joined,
    open_fragments,
    open_query,
    recursive,
)
from bench.registry import Settings, benchmark
from foundation.arrays import IntArray
from streams.evaluate.engine import FragmentEngine
from streams.evaluate.loops.compiled import CompiledLoop
from streams.evaluate.loops.stepwise import StepwiseLoop
from streams.evaluate.protocol import Pass
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.plan.program import STEP_BITS, Program
from streams.vectors.chunk import Chunk, stream_schema

PARTS = (1, 2, 4)
TOGETHER = {"a": 1, "b": 4}
"""Tuples of a timestamp."""

RUN_LIMITS = (10, 20, 100, 1000)

TUPLES, QUICK_TUPLES = 1_000, 400
"""For methods that evaluate stepwise."""

LOOP_TUPLES, QUICK_LOOP_TUPLES = 200_000, 20_000
"""For the compiled core."""

ROUNDS, QUICK_ROUNDS = 2, 1
"""Of each measurement, of which the least time counts."""

JOINED_ROWS, QUICK_JOINED_ROWS = (1, 1_000, 10_000), (1, 1_000)
"""Of the relation that a loop joins."""

WATERMARKS = 64
"""Timestamps of a pass, as in the host's dispatcher."""

CHUNK_TUPLES = 4096

FILTER = "REGISTER QUERY filtered RSTREAM(SELECT id, val FROM input [NOW] WHERE id % 2 = 0)"

Core = Callable[[Program, pa.Schema], Any]
Instants = Mapping[int, Counter[tuple[Any, ...]]]
"""Timestamp → the tuples of it."""


@benchmark("recursion")
def recursion(settings: Settings) -> Mapping[str, float]:
    """What loops cost: DTS, heartbeats and hybrid on an open query, and the compiled core."""
    require_kernels()
    rounds = QUICK_ROUNDS if settings.quick else ROUNDS
    count = QUICK_TUPLES if settings.quick else TUPLES
    flat: dict[str, float] = {}
    equal = True
    for pattern, together in TOGETHER.items():
        results: list[Instants] = []
        base_s = 0.0
        for parts in PARTS:
            settings.say(f"{pattern}, {parts}")
            compared = _Compared(parts, count, together, rounds)
            base_s = base_s or compared.dts_s
            results.append(compared.result)
            equal = equal and compared.equal
            at = f"fig8.{pattern}.{parts}"
            flat[f"{at}.dts.relative"] = compared.dts_s / base_s
            for limit, hb_s in compared.hb_s.items():
                flat[f"{at}.hb_{limit}.relative"] = hb_s / base_s
            flat[f"fig10.{pattern}.{parts}.recursive_vs_open"] = (
                compared.recursive_s / compared.dts_s
            )
            if pattern == "a":
                flat[f"open.{parts}.hybrid_vs_dts"] = compared.dts_s / compared.hybrid_s
        equal = equal and all(one == other for one, other in pairwise(results))
    figures, same = _loops(settings, count, rounds)
    joins, alike = _joins(settings, count, rounds)
    return flat | figures | joins | {"equal": float(equal and same and alike)}


class _Compared:
    """The methods on one variant of the query.

    Attributes
    ----------
    dts_s, hb_s, hybrid_s, recursive_s
        Processor time, s, HB's by run limit.
    result
        What `all_avg_delay` has at each timestamp of the spread query.
    equal
        Whether all methods give that.
    """

    def __init__(self, parts: int, count: int, together: int, rounds: int) -> None:
        spread = recursive(parts, spread=True)
        rows = input_tuples(count, together, spread=True)
        until_ms = int(rows.column(0)[-1].as_py()) + SPREAD
        _, given = _run(StepwiseLoop, spread, {"input": rows}, until_ms)
        dummies = dummies_of(spread, given)
        # Delays of a millisecond: what the open query gives comes that much earlier.
        self.result = _instants(dummies["dummy_all_avg_delay"], shift_ms=1)
        inputs = {"input": rows, **dummies}
        program = open_query(parts)
        self.dts_s, given = _best(rounds, partial(_run, StepwiseLoop, program, inputs, until_ms))
        found = [_instants(dummies_of(program, given)["dummy_all_avg_delay"])]
        self.hb_s: dict[int, float] = {}
        for limit in RUN_LIMITS:
            self.hb_s[limit], method = _best(
                rounds, partial(_heartbeats, program, limit, inputs, until_ms)
            )
            found.append(_given_instants(method.given["all_avg_delay"]))
        self.hybrid_s, given = _best(rounds, partial(_hybrid, parts, inputs, until_ms))
        found.append(_instants(given))
        plain = input_tuples(count, together)
        self.recursive_s, given = _best(
            rounds, partial(_run, StepwiseLoop, recursive(parts), {"input": plain}, until_ms)
        )
        by_timestamp = _by_timestamp(self.result)
        self.equal = all(each == self.result for each in found) and (
            _instants(given) == by_timestamp
        )


def _best(rounds: int, run: Callable[[], tuple[float, Any]]) -> tuple[float, Any]:
    """The least time of some runs, and what the last one gave."""
    made = [run() for _ in range(rounds)]
    return min(seconds for seconds, _ in made), made[-1][1]


def _run(
    core: Core, program: Program, inputs: Mapping[str, pa.RecordBatch], until_ms: int
) -> tuple[float, pa.Table]:
    """Evaluate a loop on a core, `WATERMARKS` timestamps a pass: processor time, and its rows."""
    loop = core(program, stream_schema(program.columns))
    given: list[pa.RecordBatch] = []
    taken = dict.fromkeys(program.inputs, 0)
    begin_s = time.process_time()
    for end_ms in _ends(inputs, until_ms):
        rows: dict[str, pa.RecordBatch | None] = {}
        first_ids = dict(taken)
        for stream in program.inputs:
            times_ms = inputs[stream].column(0).to_numpy()
            end = int(times_ms.searchsorted(end_ms, side="right"))
            some = inputs[stream].slice(taken[stream], end - taken[stream])
            rows[stream] = some if some.num_rows else None
            taken[stream] = end
        one = Pass(rows, first_ids, end_ms)
        while (made := loop.work(one, 1 << 30)) is None:
            pass
        given.append(made)
    return time.process_time() - begin_s, pa.Table.from_batches(given)


def _ends(inputs: Mapping[str, pa.RecordBatch], until_ms: int) -> list[int]:
    times: list[IntArray] = [rows.column(0).to_numpy() for rows in inputs.values()]
    times_ms = np.unique(np.concatenate(times))
    return [*times_ms[WATERMARKS - 1 :: WATERMARKS].tolist(), until_ms]


def _heartbeats(
    program: Program, limit: int, inputs: Mapping[str, pa.RecordBatch], until_ms: int
) -> tuple[float, HeartbeatMethod]:
    begin_s = time.process_time()
    method = HeartbeatMethod(program, limit)
    method.run(inputs, until_ms)
    return time.process_time() - begin_s, method


def _hybrid(
    parts: int, inputs: Mapping[str, pa.RecordBatch], until_ms: int
) -> tuple[float, pa.Table]:
    """The open query's statements, each in bulk passes; the rows of the last one."""
    seconds, given = 0.0, pa.table({})
    for program in open_fragments(parts):
        engine = FragmentEngine(program)
        chunks = {stream: _chunks(inputs[stream], until_ms) for stream in program.inputs}
        begin_s = time.process_time()
        for stream, some in chunks.items():
            for chunk in some:
                engine.offer(stream, chunk)
        given = pa.Table.from_batches(_advanced(engine), schema=engine.schema)
        seconds += time.process_time() - begin_s
    return seconds, given


def _advanced(engine: FragmentEngine) -> list[pa.RecordBatch]:
    found: list[pa.RecordBatch] = []
    while (made := engine.advance(WATERMARKS)) is not None:
        found.append(made.rows)
    return found


def _chunks(rows: pa.RecordBatch, until_ms: int) -> list[Chunk]:
    chunks: list[Chunk] = []
    times_ms: IntArray = rows.column(0).to_numpy()
    begin = 0
    while begin < len(times_ms):
        end = min(begin + CHUNK_TUPLES, len(times_ms))
        end = int(np.searchsorted(times_ms, int(times_ms[end - 1]), side="right"))
        watermarks_ms = np.unique(times_ms[begin:end])
        if end == len(times_ms):
            watermarks_ms = np.unique([*watermarks_ms, until_ms])
        chunks.append(
            Chunk(
                first_seq=begin,
                rows=rows.slice(begin, end - begin),
                watermarks_ms=watermarks_ms,
                ingestion_times_us=watermarks_ms,
            )
        )
        begin = end
    return chunks


def _counted(rows: Iterable[tuple[int, Any, Any]]) -> Instants:
    found: dict[int, Counter[tuple[Any, ...]]] = {}
    for at_ms, *values in rows:
        found.setdefault(at_ms, Counter())[tuple(values)] += 1
    return found


def _instants(rows: pa.RecordBatch | pa.Table, shift_ms: int = 0) -> Instants:
    """The tuples of each timestamp, so much earlier."""
    columns: list[list[Any]] = [rows.column(place).to_pylist() for place in range(3)]
    return _counted((at - shift_ms, one, other) for at, one, other in zip(*columns, strict=True))


def _given_instants(given: Sequence[tuple[int, Any]]) -> Instants:
    return _counted((at >> STEP_BITS, *values) for at, rows in given for values in rows.tuples())


def _by_timestamp(spread: Instants) -> Instants:
    """The tuples of all instants of each timestamp of the query that is not spread."""
    found: dict[int, Counter[tuple[Any, ...]]] = {}
    for at_ms, counted in spread.items():
        found.setdefault(at_ms // SPREAD, Counter()).update(counted)
    return found


def _loops(settings: Settings, count: int, rounds: int) -> tuple[dict[str, float], bool]:
    """The compiled core: its figures, and whether it gives what the stepwise one does."""
    flat: dict[str, float] = {}
    same = True
    many = QUICK_LOOP_TUPLES if settings.quick else LOOP_TUPLES
    few, rows = input_tuples(count, 1), input_tuples(many, 1)
    for parts in PARTS:
        settings.say(f"compiled, {parts}")
        program = recursive(parts)
        stepwise_s, one = _best(rounds, partial(_run, StepwiseLoop, program, {"input": few}, count))
        _, other = _run(CompiledLoop, program, {"input": few}, count)
        same = same and one.combine_chunks().equals(other.combine_chunks())
        seconds, _ = _best(rounds, partial(_offered, program, rows, many))
        flat[f"loop.{parts}.input_tuples_s"] = many / seconds
        flat[f"loop.{parts}.vs_stepwise"] = (many / seconds) / (count / stepwise_s)
        if parts == 1:
            filtering = compile_statement(parse(FILTER)[0], {"input": COLUMNS})
            filter_s, _ = _best(rounds, partial(_offered, filtering, rows, many))
            flat["loop.1.vs_filter"] = filter_s / seconds
            core = CompiledLoop(program, stream_schema(program.columns))
            core.work(Pass({"input": few}, {"input": 0}, count), 1 << 30)
            flat["instants_per_timestamp"] = core.instants / count
    return flat, same


def _joins(settings: Settings, count: int, rounds: int) -> tuple[dict[str, float], bool]:
    """Both cores where a loop joins a long relation, from the first tuple until it is full."""
    flat: dict[str, float] = {}
    same = True
    for length in QUICK_JOINED_ROWS if settings.quick else JOINED_ROWS:
        settings.say(f"joined, {length:,} rows")
        program, places = joined(length), np.arange(length + count)
        inputs = {"input": batch(places, places % IDS, places)}
        (stepwise_s, one), (seconds, other) = (
            _best(rounds, partial(_run, core, program, inputs, length + count))
            for core in (StepwiseLoop, CompiledLoop)
        )
        same = same and one.combine_chunks().equals(other.combine_chunks())
        flat[f"joined.{length}.vs_stepwise"] = stepwise_s / seconds
    return flat, same


def _offered(program: Program, rows: pa.RecordBatch, until_ms: int) -> tuple[float, None]:
    """Evaluate a program by an engine, as a host does."""
    engine = FragmentEngine(program)
    chunks = _chunks(rows, until_ms)
    begin_s = time.process_time()
    for chunk in chunks:
        engine.offer("input", chunk)
        while engine.advance(WATERMARKS) is not None:
            pass
    return time.process_time() - begin_s, None
