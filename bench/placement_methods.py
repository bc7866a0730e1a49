"""The methods that benchmark `reliable_placement` compares, each placing queries one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from bench.placement_baselines import place_round_robin, place_upstream
from bench.placement_workload import Workload, random_replicas
from placement.evaluation.load import Load
from placement.planner import plan
from placement.secondaries import SecondarySearch
from placement.settings import Placer, Settings
from topology.cpu import Linear

Pairs = dict[str, tuple[str, str]]

OPERATOR_MS = 10.0
"""What one more operator on a node counts for on the CPU axis, ms. With this the paper's method
spreads operators about as evenly as in its Table 2; ours is given the same."""

PAPER = Settings(
    placer=Placer.NEAREST,
    secondary_search=SecondarySearch.OUTWARDS,
    cpu=Linear(OPERATOR_MS),
    operator_load=1.0,
)
OURS = Settings(cpu=Linear(OPERATOR_MS), operator_load=1.0)


def by_planner(settings: Settings) -> Callable[[Workload, np.random.Generator], Pairs]:
    """A method that is the planner with the given settings."""

    def place(workload: Workload, rng: np.random.Generator) -> Pairs:
        found = plan(workload.requests, workload.view, settings=settings, rng=rng)
        return {placed.operator: (placed.primary, placed.secondary) for placed in found.placements}

    return place


def at_random(workload: Workload, rng: np.random.Generator) -> Pairs:
    """Baseline: primaries and secondaries anywhere."""
    return random_replicas(workload.requests, workload.view, rng)


def round_robin(workload: Workload, rng: np.random.Generator) -> Pairs:
    """Baseline: the least loaded node first."""
    load = Load(workload.view, operator_load=1.0, cpu=Linear(0.0))
    pairs: Pairs = {}
    for request in workload.requests:
        replicas = place_round_robin(request.graph, workload.view, load, rng)
        for name, secondary in replicas.secondaries.items():
            pairs[name] = (replicas.primaries[name], secondary)
            load = load.with_replicas(pairs[name])
    return pairs


def upstream(workload: Workload, rng: np.random.Generator) -> Pairs:
    """Baseline: the paper's primaries, each secondary exactly on its start point."""
    found = plan(workload.requests, workload.view, settings=PAPER, rng=rng)
    chosen = {placed.operator: placed.primary for placed in found.placements}
    pairs: Pairs = {}
    for request in workload.requests:
        graph = request.graph
        primaries = graph.pinned
        primaries |= {name: chosen[name] for name in graph.to_place}
        replicas = place_upstream(graph, workload.view, primaries)
        pairs |= {n: (primaries[n], secondary) for n, secondary in replicas.secondaries.items()}
    return pairs


METHODS: Mapping[str, Callable[[Workload, np.random.Generator], Pairs]] = {
    "random": at_random,
    "round_robin": round_robin,
    "upstream": upstream,
    "paper": by_planner(PAPER),
    "ours": by_planner(OURS),
}
"""First part of the figures' keys → how to place."""
