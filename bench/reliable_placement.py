"""Benchmark `reliable_placement`: §5 of the paper of that name, and our planner beside it.

Random, round robin, upstream, the paper's method and ours place the same 100 queries, one by one,
on the same transit-stub networks of 100 nodes; each placement is assessed with secondaries fed by
Active Standby (AS) and by adaptive Semi-Active Standby (A-SAS). Reported are means over the
networks; `_std` is their standard deviation.

The methods know the round trips of all pairs of nodes. `coordinates.*` are figures of the paper's
method and of ours when they know coordinates alone; their placements are assessed as the others.

Recovery time is the paper's (1), R = max K + ΣQ·p without detection, upstream primaries taken to
live. Where a secondary stands on its primary's node, both die: the query does not keep its bound,
whatever the recovery time that (1) gives it.
`ours_as.recovery_together_ms_max` also reckons with operators that die on one node together.

The yardstick of `*_vs_exact` is the least network usage of all primaries, load and secondaries
left out of account (`bench.least_cost`). Placements as they are, which weigh both, are above it.
`ours_vs_exact.candidates_ratio` is what the choice of a few candidates for each operator costs: the
best choice among these, load and secondaries left out as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.least_cost import Task, least_costs
from bench.placement_assessment import Assessment, Scheme, assess
from bench.placement_methods import METHODS, OURS, Pairs
from bench.placement_plots import Assessments, plot
from bench.placement_workload import BOUND_MS, Workload, paper_workload
from bench.registry import Settings, benchmark
from placement.equilibrium import least_usage
from placement.evaluation.load import Load
from placement.evaluation.single import primary_usage
from placement.exact import place_exactly
from placement.exact_tree import ExactTask
from placement.primaries import candidates
from topology.cpu import Linear

SEEDS = 10
QUICK_SEEDS = 2

SCHEMES = {"as": Scheme.ACTIVE, "asas": Scheme.ADAPTIVE}
"""Second part of the figures' keys."""

STEP_QUERIES = 10
"""Between two points of the curves of Fig. 10 and 11."""

CANDIDATE_QUERIES = 20
"""Queries of each network that the loss by the choice of candidates is measured on."""

BY_COORDINATES = ("paper", "ours")
"""Methods that are tried with coordinates alone as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One network.

    Attributes
    ----------
    assessments, by_coordinates
        By method and scheme; the latter of methods that know coordinates alone.
    least_usage
        Least network usage of the primaries of all queries, load left out of account, bytes.
    together_ms
        Longest recovery of ours if operators on one node die together.
    candidates_ratio
        Loss of ours by the choice of candidates.
    """

    assessments: Assessments
    by_coordinates: Assessments
    least_usage: float
    together_ms: float
    candidates_ratio: float


@benchmark("reliable_placement")
def reliable_placement(settings: Settings) -> Mapping[str, float]:
    """Network usage, recovery and balance of five placement methods on 100 nodes, 100 queries."""
    trials: list[Trial] = []
    seeds = QUICK_SEEDS if settings.quick else SEEDS
    for seed in range(seeds):
        settings.say(f"network {seed + 1} of {seeds}")
        trials.append(_trial(seed))
    plot([trial.assessments for trial in trials], BOUND_MS, settings.folder)
    return figures(trials)


def _trial(seed: int) -> Trial:
    workload = paper_workload(seed)
    view = workload.view
    unmeasured = replace(workload, view=replace(view, rtt_ms={}))
    assessments: dict[tuple[str, str], Assessment] = {}
    by_coordinates: dict[tuple[str, str], Assessment] = {}
    together_ms = 0.0
    for method, place in METHODS.items():
        pairs = place(workload, np.random.default_rng(seed))
        assessments |= _assessed(method, pairs, workload)
        if method == "ours":
            together_ms = float(assess(workload.requests, pairs, view).recovery_ms.max())
        if method in BY_COORDINATES:
            pairs = place(unmeasured, np.random.default_rng(seed))
            by_coordinates |= _assessed(method, pairs, workload)
    unloaded = [Task(request.graph, np.zeros(len(view.nodes))) for request in workload.requests]
    return Trial(
        assessments=assessments,
        by_coordinates=by_coordinates,
        least_usage=float(least_costs(unloaded, view).sum()),
        together_ms=together_ms,
        candidates_ratio=_candidates_ratio(workload),
    )


def _assessed(method: str, pairs: Pairs, workload: Workload) -> dict[tuple[str, str], Assessment]:
    return {
        (method, key): assess(
            workload.requests, pairs, workload.view, scheme=scheme, dying_together=False
        )
        for key, scheme in SCHEMES.items()
    }


def _candidates_ratio(workload: Workload) -> float:
    """Least network usage of primaries among our candidates over that among all nodes.

    Load and secondaries are left out of account: no placement that was made is looked at.
    """
    view = workload.view
    graphs = [request.graph for request in workload.requests[:CANDIDATE_QUERIES]]
    unloaded, free = Load(view, operator_load=1.0, cpu=Linear(0.0)), np.zeros(len(view.nodes))
    pinned_ms = [
        {o.name: view.node(o.pinned).position_ms for o in graph.operators if o.pinned is not None}
        for graph in graphs
    ]
    ours = 0.0
    for graph, found in zip(graphs, least_usage(graphs, pinned_ms, OURS.usage), strict=True):
        near = candidates(graph, found.points_ms, view, unloaded, {}, OURS.candidates)
        task = ExactTask(graph=graph, view=view, candidates=near, price_bytes=free)
        ours += primary_usage(graph, place_exactly(task, unloaded).primaries, view)
    least = least_costs([Task(graph, free) for graph in graphs], view)
    return ours / float(least.sum())


def figures(trials: list[Trial]) -> dict[str, float]:
    """Means over the networks, and the ratios of our figures to those compared with."""
    flat: dict[str, float] = {}
    for method in METHODS:
        for scheme in SCHEMES:
            seen = [trial.assessments[method, scheme] for trial in trials]
            key = f"{method}_{scheme}"
            usage = np.array([a.network_usage.sum() for a in seen])
            flat[f"{key}.network_usage"] = float(usage.mean())
            flat[f"{key}.network_usage_std"] = float(usage.std())
            for count in range(STEP_QUERIES, len(seen[0].network_usage) + 1, STEP_QUERIES):
                after = _mean(a.network_usage[:count].sum() for a in seen)
                flat[f"{key}.network_usage_after.{count}"] = after
            flat[f"{key}.recovery_ms_max"] = _mean(a.recovery_ms.max() for a in seen)
            flat[f"{key}.recovery_ms_mean"] = _mean(a.recovery_ms.mean() for a in seen)
            flat[f"{key}.recovery_ms_std"] = float(np.std([a.recovery_ms.mean() for a in seen]))
            flat[f"{key}.bound_kept_pct"] = 100 * _mean(a.bound_kept.mean() for a in seen)
            flat[f"{key}.bound_kept_pct_min"] = 100 * min(float(a.bound_kept.mean()) for a in seen)
            flat[f"{key}.unprotected_operators"] = _mean(a.unprotected.sum() for a in seen)
            flat[f"{key}.unprotected_queries_pct"] = 100 * _mean(
                (a.unprotected > 0).mean() for a in seen
            )
            flat[f"{key}.operators_max"] = _mean(a.operators.max() for a in seen)
            variances = [float(a.operators.var()) for a in seen]
            flat[f"{key}.operators_variance"] = _mean(variances)
            flat[f"{key}.operators_variance_max"] = max(variances)
    for scheme in SCHEMES:
        ratio = [_ratio(t.assessments, scheme) for t in trials]
        suffix = "" if scheme == "as" else f"_{scheme}"
        flat[f"ours_vs_paper.network_ratio{suffix}"] = _mean(ratio)
        flat[f"ours_vs_paper.network_ratio{suffix}_max"] = max(ratio)
    flat["coordinates.ours_vs_paper.network_ratio"] = _mean(
        _ratio(t.by_coordinates, "as") for t in trials
    )
    for method in BY_COORDINATES:
        flat[f"coordinates.{method}_as.bound_kept_pct"] = 100 * _mean(
            t.by_coordinates[method, "as"].bound_kept.mean() for t in trials
        )
    for method in METHODS:
        flat[f"{method}_vs_exact.placed_ratio"] = _mean(
            t.assessments[method, "as"].primary_usage.sum() / t.least_usage for t in trials
        )
    flat["ours_vs_exact.candidates_ratio"] = _mean(t.candidates_ratio for t in trials)
    flat["ours_as.recovery_together_ms_max"] = max(trial.together_ms for trial in trials)
    return flat


def _ratio(found: Assessments, scheme: str) -> float:
    """Network usage of ours over that of the paper's method."""
    ours, papers = (found[method, scheme].network_usage.sum() for method in ("ours", "paper"))
    return float(ours / papers)


def _mean(values: Iterable[float | np.floating[Any] | np.integer[Any]]) -> float:
    return float(np.mean([float(value) for value in values]))
