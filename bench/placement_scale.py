"""Benchmark `placement_scale`: placing up to 10,000 queries on up to 10,000 nodes, on one core.

Queries and networks are those of `bench.scale_workload`, placed by `placement.bulk`; on Spark, the
same job by two executors must give the same placements, or the benchmark fails. `--size` is a
number of nodes.

`seconds` is the time of `plan_in_rounds` on the view of a network that has coordinates already.
`cpu_seconds` is what the process computed in that time: less, if others took the core from it.

Distances from the optimum are measured on queries drawn from those placed. For each, the load is
that of all the others, and prices are those of that load. The cost of a query's primaries is the
network usage of all links and the load price of each replica on its node, in bytes. This is the
objective of the placer (`placement.exact_tree`) without the terms of secondaries. The least cost is
that of all choices among all hosts (`bench.least_cost`).
Both ratios are of two sums over the queries:

- `placed_to_exact`: the primaries where the planner has put them, over the least cost. The planner
  has weighed secondaries as well, and has met the load of that time.
- `candidates_to_exact`: the best choice among the candidates near the query's points, over the
  least cost. No placement that was made is looked at: it is the loss by the choice of candidates.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from bench.least_cost import Task, least_costs
from bench.placement_methods import OURS
from bench.placement_plots import plot_scale
from bench.placement_workload import NETWORK, Workload
from bench.registry import Settings, benchmark
from bench.scale_workload import scale_workload
from foundation.arrays import FloatArray, IntArray
from orchestrator.errors import InvalidInput, VivaceError
from placement.bulk import BulkPlan, BulkSettings, plan_in_rounds
from placement.evaluation.load import Load
from placement.evaluation.single import primary_usage
from placement.exact import place_exactly
from placement.exact_tree import ExactTask
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.planner import free_points
from placement.primaries import candidates
from placement.records import Pairs

NODES, QUERIES = (100, 1_000, 10_000), (100, 1_000, 10_000)
QUICK_NODES, QUICK_QUERIES = (100, 1_000), (20, 100)

BULK = BulkSettings(round_size=32)
"""In larger rounds more queries are put back, in smaller ones Spark's own time for each counts."""

SAMPLED, QUICK_SAMPLED = 50, 10
"""Queries that distances from the optimum are measured on."""

ON_SPARK, QUICK_ON_SPARK = (1_000, 1_000), (100, 100)
"""Nodes and queries of the job that Spark does too."""

EXECUTORS = 2


class PlacementsDiffer(VivaceError):
    """Spark's executors have placed queries otherwise than a single process."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(
            f"placement_scale: on Spark, {what} of {name} comes out otherwise than in one "
            "process. Rounds must not depend on how they are divided: see placement/bulk.py."
        )


class Distance(NamedTuple):
    """How far placements are from the optimum; the module says how each is taken."""

    placed_to_exact: float
    candidates_to_exact: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One job, done.

    Attributes
    ----------
    operators
        Replicas of operators by node, shape (n,).
    """

    found: BulkPlan
    seconds: float
    cpu_seconds: float
    distance: Distance
    operators: IntArray


@benchmark("placement_scale", takes_sizes=True)
def placement_scale(settings: Settings) -> Mapping[str, float]:
    """Time and distance from the optimum of 100 to 10,000 queries on 100 to 10,000 nodes.

    Raises
    ------
    InvalidInput
        A size is no multiple of 100 nodes.
    """
    for nodes in settings.sizes:
        if nodes % NETWORK.nodes:
            remedy = f"Networks are made of parts of {NETWORK.nodes} nodes: give a multiple."
            raise InvalidInput("bench", "--size", str(nodes), "is no size of a network", remedy)
    sizes = settings.sizes or (QUICK_NODES if settings.quick else NODES)
    counts = QUICK_QUERIES if settings.quick else QUERIES
    spark_job = QUICK_ON_SPARK if settings.quick else ON_SPARK
    runs: dict[tuple[int, int], Run] = {}
    on_spark: dict[str, float] = {}
    for nodes in sizes:
        settings.say(f"coordinates of {nodes:,} nodes")
        workload = scale_workload(nodes, max(counts))
        for count in counts:
            some = Workload(view=workload.view, requests=workload.requests[:count])
            with threadpool_limits(limits=1):
                runs[nodes, count] = _run(some, settings)
            if (nodes, count) == spark_job:
                on_spark = _on_spark(some, runs[nodes, count].found, settings)
    plot_scale({job: run.seconds for job, run in runs.items()}, settings.folder / "seconds.png")
    return figures(runs) | on_spark


def _run(workload: Workload, settings: Settings) -> Run:
    name = _name(workload)
    start, cpu_start = time.perf_counter(), time.process_time()
    found = plan_in_rounds(
        workload.requests,
        workload.view,
        bulk=BULK,
        settings=OURS,
        rng=np.random.default_rng(1),
        say=lambda phrase: settings.say(f"{name}: {phrase}"),
    )
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    settings.say(f"{name}: the exact optimum of some of the queries")
    sampled = QUICK_SAMPLED if settings.quick else SAMPLED
    return Run(
        found=found,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        distance=distance(workload, found, sampled),
        operators=_loaded(workload, found).replicas,
    )


def distance(workload: Workload, found: BulkPlan, count: int) -> Distance:
    """Cost of primaries over the least possible, on so many of the queries that were placed.

    Parameters
    ----------
    found
        Where all queries of the workload are: what is judged, and the load.
    """
    view = workload.view
    full = _loaded(workload, found)
    pairs = _pairs(found)
    able = [request for request in workload.requests if request.graph.name not in found.refused]
    at: list[int] = np.random.default_rng(1).permutation(len(able))[:count].tolist()
    requests = [able[i] for i in at]
    # The exact placer's points are not drawn.
    points_ms = free_points(requests, view, OURS, ())
    tasks: list[Task] = []
    placed = among_candidates = 0.0
    for request, points in zip(requests, points_ms, strict=True):
        graph, load = request.graph, full.with_operators(request.graph, pairs, count=-1)
        near = candidates(graph, points, view, load, {}, OURS.candidates)
        price_bytes = load.price_bytes(graph.mean_input_rate)
        task = ExactTask(graph=graph, view=view, candidates=near, price_bytes=price_bytes)
        among_candidates += place_exactly(task, load).cost
        primaries = graph.pinned | {name: pairs[name][0] for name in graph.to_place}
        placed += primaries_cost(graph, primaries, view, price_bytes)
        tasks.append(Task(graph, price_bytes))
    least = float(least_costs(tasks, view).sum())
    return Distance(placed_to_exact=placed / least, candidates_to_exact=among_candidates / least)


def primaries_cost(
    graph: QueryGraph, primaries: Mapping[str, str], view: NetworkView, price_bytes: FloatArray
) -> float:
    """Cost of a query's primaries where they are, bytes.

    Parameters
    ----------
    primaries
        Node of every operator.
    price_bytes
        The load price of a replica by node, shape (n,).
    """
    load = sum(float(price_bytes[view.index[primaries[name]]]) for name in graph.to_place)
    return primary_usage(graph, primaries, view) + load


def _on_spark(workload: Workload, alone: BulkPlan, settings: Settings) -> dict[str, float]:
    """The same job by two executors: seconds, and whether it comes to the same.

    Raises
    ------
    PlacementsDiffer
        If it does not.
    """
    from orchestrator.spark.bulk.bulk_placement import place_on_spark
    from orchestrator.spark.hosts.session import SessionSettings, start_session, stop_session

    name = _name(workload)
    with tempfile.TemporaryDirectory(prefix="placement-scale-") as folder:
        settings.say(f"{name}: starting Spark")
        session = start_session(
            SessionSettings(
                name="placement scale",
                work_dir=Path(folder),
                executors=EXECUTORS,
                extra={"spark.python.worker.reuse": "true"},
            )
        )
        try:
            start = time.perf_counter()
            found = place_on_spark(
                session,
                workload.requests,
                workload.view,
                bulk=BULK,
                settings=OURS,
                rng=np.random.default_rng(1),
                say=lambda phrase: settings.say(f"{name} on Spark: {phrase}"),
            )
            seconds = time.perf_counter() - start
        finally:
            stop_session(session)
    check_identical(name, alone, found)
    return {f"spark.{name}.seconds": seconds, f"spark.{name}.identical": 1.0}


def check_identical(name: str, alone: BulkPlan, found: BulkPlan) -> None:
    """See that two plans are the same to the last bit.

    Raises
    ------
    PlacementsDiffer
        Naming the first query that differs.
    """
    if alone == found:
        return
    for one, other in zip(alone.plan.placements, found.plan.placements, strict=False):
        if one != other:
            raise PlacementsDiffer(name, f"query {one.query}")
    refused = sorted({*alone.refused} ^ {*found.refused})
    raise PlacementsDiffer(name, f"query {refused[0]}" if refused else "the number of rounds")


def figures(runs: Mapping[tuple[int, int], Run]) -> dict[str, float]:
    """By job, and how the time of a query grows with their number, and with that of nodes."""
    flat: dict[str, float] = {}
    for (nodes, count), run in runs.items():
        name = f"{nodes}x{count}"
        flat[f"{name}.seconds"] = run.seconds
        flat[f"{name}.cpu_seconds"] = run.cpu_seconds
        flat[f"{name}.ms_per_query"] = 1e3 * run.seconds / count
        flat[f"{name}.placed_to_exact"] = run.distance.placed_to_exact
        flat[f"{name}.candidates_to_exact"] = run.distance.candidates_to_exact
        flat[f"{name}.operators_max"] = float(run.operators.max())
        flat[f"{name}.operators_variance"] = float(run.operators.var())
        flat[f"{name}.placings_per_query"] = run.found.placings / count
        flat[f"{name}.refused"] = float(len(run.found.refused))
    for nodes in dict.fromkeys(nodes for nodes, _ in runs):
        counts = [count for each, count in runs if each == nodes]
        few, many = (flat[f"{nodes}x{count}.ms_per_query"] for count in (min(counts), max(counts)))
        flat[f"{nodes}.ms_per_query_growth"] = many / few
    for count in dict.fromkeys(count for _, count in runs):
        sizes = sorted(nodes for nodes, each in runs if each == count)
        for small, large in pairwise(sizes):
            growth = flat[f"{large}x{count}.ms_per_query"] / flat[f"{small}x{count}.ms_per_query"]
            flat[f"{small}to{large}x{count}.ms_per_query_growth"] = growth
    return flat


def _name(workload: Workload) -> str:
    return f"{len(workload.view.nodes)}x{len(workload.requests)}"


def _loaded(workload: Workload, found: BulkPlan) -> Load:
    load, pairs = Load(workload.view, operator_load=OURS.operator_load, cpu=OURS.cpu), _pairs(found)
    for request in workload.requests:
        load = load.with_operators(request.graph, pairs)
    return load


def _pairs(found: BulkPlan) -> Pairs:
    return {each.operator: (each.primary, each.secondary) for each in found.plan.placements}
