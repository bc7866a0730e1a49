"""Benchmark `worked_examples`: the examples that the papers work out in numbers, by Vivace's parts.

- Deadline placement, §4.1 with Fig. 3 and 4: one moment on two processors (`collision_moment`).
- Deadline placement, §5.4 with Fig. 6: three operators under EDF and under FIFO (`figure_6`).
- Recursive streams, §2 and 3: stocks are bought as long as the money lasts (`trading`).
- Pushdown aggregates, §4: of m aggregates, l of which are equal, m − l + 1 values are kept.

Nothing here depends on the machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.collision_moment import car
from bench.registry import Figures, Settings, benchmark
from streams.evaluate.engine import FragmentEngine
from streams.language import parse
from streams.language.loops import with_loops
from streams.language.views import with_relations
from streams.plan.compiler import compile_statement
from streams.plan.pushdown import pushdowns
from streams.scheduling.run_queue import Instance, Policy, RunQueue
from streams.scheduling.tasks import Task, TaskOperator, extract_tasks
from streams.vectors.chunk import Chunk, stream_schema

TRADING = """
REGISTER QUERY buy_event ISTREAM(
  SELECT stock.id, 1000 AS num, market.price FROM stock, resource, market [NOW]
  WHERE stock.id = market.stock_id AND stock.num = 0
    AND market.price < 500 AND resource.val > market.price * 1000);
REGISTER QUERY resource SELECT * FROM resource_stream [ROWS 1];
REGISTER QUERY resource_stream ISTREAM(
  SELECT * FROM initial_resource [NOW] UNION ALL
  SELECT resource.val - buy_event.price * buy_event.num AS val FROM resource, buy_event [NOW])<NOW>;
REGISTER QUERY stock SELECT * FROM stock_stream [PARTITION BY stock_stream.id ROWS 1];
"""
"""As printed, but for `resource.val`, which its Fig. 1 calls `resource.value`."""

streams: Mapping[str, Mapping[str, str]] = {
    "market": {"stock_id": "string", "price": "float"},
    "initial_resource": {"val": "float"},
    "stock_stream": {"id": "string", "num": "int", "price": "float"},
}
tuples: Mapping[str, tuple[Any, ...]] = {
    "initial_resource": (0, 3e6),
    "stock_stream": (0, "a", 0, 500.0),
    "market": (1000, "a", 480.0),
}
"""t₀ is 0 ms, t₁ 1000 ms."""
UNTIL_MS = 2000

EQUAL = "SELECT max(x) AS a, max(x) + 1 AS b, -max(x) AS c, sum(x) AS d, count(x) AS e"
"""m = 5 aggregates, of which l = 3 are equal."""


@benchmark("worked_examples")
def worked_examples(settings: Settings) -> Figures:
    """Figures of the examples that the papers work out by hand; no clock decides any of them."""
    settings.say("deadline placement, §4.1")
    flat = moment()
    for policy in (Policy.EDF, Policy.FIFO):
        for (name, task), done in figure_6(policy).items():
            flat[f"fig6.{policy.value}.{name}.{task}"] = float(done)
    settings.say("recursive streams, §2")
    flat |= trading()
    (parsed,) = parse(f"REGISTER QUERY q RSTREAM({EQUAL} FROM s [NOW]);")
    (pushdown,) = pushdowns(compile_statement(parsed, {"s": {"x": "int"}}))
    flat["pushdown.written"] = float(pushdown.written)
    flat["pushdown.kept"] = float(pushdown.kept)
    return flat


def moment() -> dict[str, float]:
    """Latencies of vehicle control (p1) and of the collision warning (p2)."""
    flat: dict[str, float] = {}
    for alloc in ("deadline", "existing"):
        for policy in (Policy.EDF, Policy.FIFO):
            with tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:
                made = car(Path(folder), alloc, policy)
                flat[f"moment.{alloc}_{policy.value}.p1_ms"] = made.latency_ms("o1")
                flat[f"moment.{alloc}_{policy.value}.p2_ms"] = made.latency_ms("o21")
    return flat


def figure_6(policy: Policy) -> dict[tuple[str, str], int]:
    """Completion times of (tuple, task) in Fig. 6: each operator takes 1, tuples come at 1 and 3.

    O1 feeds O2 and O3, and O2's output is the more urgent one. T1 is O1 and O2, T2 is O3.
    """
    t1, t2 = extract_tasks(
        [
            TaskOperator(name="o1", inputs=("s",), sub_deadline_ms=1, deadline_ms=2),
            TaskOperator(
                name="o2", inputs=("o1",), sub_deadline_ms=1, deadline_ms=2, elsewhere_ms=2
            ),
            TaskOperator(
                name="o3", inputs=("o1",), sub_deadline_ms=5, deadline_ms=6, elsewhere_ms=6
            ),
        ]
    )
    arrivals = {1: [("p1", t1)], 3: [("p2", t1)]}
    backlog: dict[str, list[tuple[str, Instance]]] = {t1.name: [], t2.name: []}
    queue, done, free_at = RunQueue(policy), dict[tuple[str, str], int](), 1
    for now in range(1, 20):
        for name, task in arrivals.get(now, []):
            one = _instance(task, now)
            if not backlog[task.name]:
                queue.put(one)
            backlog[task.name].append((name, one))
        if now < free_at or (running := queue.pop(now)) is None:
            continue
        name, one = backlog[running.task].pop(0)
        if backlog[running.task]:
            queue.put(backlog[running.task][0][1])
        free_at = now + round(one.cost_us)
        done[name, "t1" if one.task == t1.name else "t2"] = free_at
        if one.task == t1.name:
            # O1 is the first of T1, so O3 has its input when half of T1 is done.
            arrivals.setdefault(now + 1, []).append((name, t2))
    return done


def _instance(task: Task, now: int) -> Instance:
    return Instance(
        task=task.name,
        released_us=now,
        deadline_us=now + round(task.sub_deadline_ms),
        standby=False,
        cost_us=len(task.operators),
    )


def trading() -> dict[str, float]:
    """What is bought at t₁, what money is left then, and how many instants t₁ has."""
    outputs = ("buy_event", "resource_stream")
    statements = with_loops(with_relations(parse(TRADING)), outputs)
    (loop,) = (each for each in statements if each.loop is not None)
    program = compile_statement(loop, streams)
    engine = FragmentEngine(program)
    for stream in program.inputs:
        columns = program.input_columns[stream]
        row = dict(zip(["_ts", *columns], tuples[stream], strict=True))
        rows = pa.RecordBatch.from_pylist([row], schema=stream_schema(columns))
        times_ms = np.array([row["_ts"], UNTIL_MS])
        engine.offer(
            stream,
            Chunk(first_seq=0, rows=rows, watermarks_ms=times_ms, ingestion_times_us=times_ms),
        )
    evaluated = engine.advance(1 << 20)
    assert evaluated is not None
    at_ms = tuples["market"][0]
    # A row has its timestamp, its stream's number, and then the columns of both streams.
    bought, left = (list(row.values()) for row in evaluated.rows.to_pylist() if row["_ts"] == at_ms)
    return {
        "trading.bought": float(bought[3]),
        "trading.price": float(bought[4]),
        "trading.resource": float(left[5]),
    }
