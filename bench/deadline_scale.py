"""Benchmark `deadline_scale`: how large a deadline placement can be, by three ways of solving it.

*paper_model* is the program of deadline placement as printed, *solver* is the solver in use,
*decomposed* is the same without a program of the whole. The smallest problem is that paper's
collision warning. (Its chains are contracted; at operator level it has no solution.) The others are
random queries (`bench.deadline_workload`), a little tighter than proportional sub-deadlines allow,
so the objective is not 0. Two families are solved by the solver only: `wan`, with latencies up to
20 ms one way, and at the largest size `even0` … `even4`, with sources and sinks spread over all
nodes, so that only nearly perfect packing attains the bound.

The benchmark reports seconds, objective (3) and the proven gap as a share of the objective. A way
that finds no placement within its limit has seconds only. The paper's model is left out once it has
hit its limit, because it takes longer the larger the problem, and above `PAPER_MODEL_OPERATORS`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from bench.collision_warning import collision_warning
from bench.deadline_workload import random_queries
from bench.registry import Settings, benchmark
from placement.deadline.contraction import contract
from placement.deadline.decomposed import place_in_parts
from placement.deadline.errors import DeadlinesUnattainable
from placement.deadline.paper_model import place_by_paper_model
from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import DeadlinePlacement
from placement.deadline.solver import place_by_deadline
from placement.deadline.solver_model import SolverSettings
from placement.errors import SolverStopped
from placement.program import MilpSettings

PAPER_SIZE = (2, 21)
SIZES = ((4, 33), (6, 55), (10, 88), (20, 180), (50, 500), (100, 1000))
QUICK_SIZES = ((4, 33), (10, 88), (100, 1000))
"""Nodes and operators."""

V2V_TUPLES = 15.0
"""What §6 plans for."""

PAPER_MODEL_LIMIT_S = 60.0
QUICK_PAPER_MODEL_LIMIT_S = 5.0
PAPER_MODEL_OPERATORS = 180
"""Up to so many the paper's model is tried. It has x for every pair of nodes and every stream: at
100 nodes and 1,000 operators more than 15 GB."""

LIMIT_S = 50.0

SMALL_OPERATORS, SMALL_GAP, GAP = 100, 1e-4, 0.05
"""Up to so many operators the best is asked for, beyond a placement within 5 % of it."""

WAN_MS, WAN_TIGHTNESS = 20.0, 0.4
"""Largest one-way latency; and a tightness that leaves time for it."""

EVEN_SEEDS = 5

Place = Callable[[DeadlineProblem], DeadlinePlacement]


@benchmark("deadline_scale")
def deadline_scale(settings: Settings) -> Mapping[str, float]:
    """Deadline placement from 2 nodes × 21 operators to 100 × 1,000: seconds, objective, gap."""
    flat: dict[str, float] = {}
    limit_s = QUICK_PAPER_MODEL_LIMIT_S if settings.quick else PAPER_MODEL_LIMIT_S
    paper_model = True
    sizes = QUICK_SIZES if settings.quick else SIZES
    for nodes, operators in (PAPER_SIZE, *sizes):
        size = f"{nodes}x{operators}"
        problem = _problem(nodes, operators)
        if paper_model and operators <= PAPER_MODEL_OPERATORS:
            settings.say(f"{size}, paper_model")
            milp = MilpSettings(gap=SMALL_GAP, time_limit_s=limit_s)
            found = _measured(flat, f"{size}.paper_model", problem, _by_paper_model(milp))
            paper_model = found is not None and found.optimal
        for name, place in _ways(operators).items():
            settings.say(f"{size}, {name}")
            _measured(flat, f"{size}.{name}", problem, place)
        if operators > SMALL_OPERATORS:
            settings.say(f"{size}, with latencies")
            problem = random_queries(nodes, operators, farthest_ms=WAN_MS, tightness=WAN_TIGHTNESS)
            _measured(flat, f"{size}.wan.solver", problem, _ways(operators)["solver"])
    for seed in range(1 if settings.quick else EVEN_SEEDS):
        nodes, operators = sizes[-1]
        settings.say(f"{nodes}x{operators}, evenly spread, {seed + 1}")
        problem = random_queries(nodes, operators, gateways=1.0, seed=seed)
        place = _ways(operators)["solver"]
        _measured(flat, f"{nodes}x{operators}.even{seed}.solver", problem, place)
    plot(flat, settings.folder / "seconds_by_size.png")
    return flat


def _problem(nodes: int, operators: int) -> DeadlineProblem:
    if (nodes, operators) == PAPER_SIZE:
        return contract(collision_warning(V2V_TUPLES)).problem
    return random_queries(nodes, operators)


def _by_paper_model(milp: MilpSettings) -> Place:
    return lambda problem: place_by_paper_model(problem, milp)


def _ways(operators: int) -> dict[str, Place]:
    gap = SMALL_GAP if operators <= SMALL_OPERATORS else GAP
    how = SolverSettings(milp=MilpSettings(gap=gap, time_limit_s=LIMIT_S))
    return {
        "solver": lambda problem: place_by_deadline(problem, how),
        "decomposed": lambda problem: place_in_parts(problem, how),
    }


def _measured(
    flat: dict[str, float], key: str, problem: DeadlineProblem, place: Place
) -> DeadlinePlacement | None:
    """Seconds, and what was found in them if anything was."""
    found = None
    begin_s = time.perf_counter()
    with contextlib.suppress(DeadlinesUnattainable, SolverStopped):
        found = place(problem)
    flat[f"{key}.seconds"] = time.perf_counter() - begin_s
    if found is not None:
        flat[f"{key}.objective"] = found.objective
        flat[f"{key}.gap"] = found.gap
    return found


def plot(flat: Mapping[str, float], path: Path) -> None:
    """Seconds by number of operators, both logarithmic."""
    from matplotlib.figure import Figure

    # Through Any, for matplotlib's annotations leave keyword arguments open.
    figure = cast("Any", Figure(figsize=(7, 4), layout="constrained"))
    axis = figure.subplots()
    lines: dict[str, list[tuple[int, float]]] = {}
    for key, seconds in flat.items():
        size, _, rest = key.partition(".")
        way, _, figure_name = rest.rpartition(".")
        if figure_name == "seconds" and "even" not in way:
            lines.setdefault(way, []).append((int(size.partition("x")[2]), seconds))
    for way, points in lines.items():
        sizes, seconds_s = zip(*sorted(points), strict=True)
        axis.loglog(sizes, seconds_s, marker="o", label=way)
    axis.set_title("Deadline placement")
    axis.set_xlabel("operators")
    axis.set_ylabel("seconds")
    axis.grid(visible=True, alpha=0.3)
    axis.legend()
    figure.savefig(path, dpi=150)
