"""Benchmark `reliable_placement`: §5 of the paper of that name, and our planner beside it.

Random, round robin, upstream, the paper's method and ours place the same 100 queries, one by one,
on the same transit-stub networks of 100 nodes; each placement is assessed with secondaries fed by
Active Standby (AS) and by adaptive Semi-Active Standby (A-SAS). Reported are means over the
networks; `_std` is their standard deviation.

Recovery time is the paper's (1), R = max K + ΣQ·p without detection, upstream primaries taken to
live. `ours_as.recovery_together_ms_max` also reckons with operators that die on one node together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.placement_assessment import Assessment, Scheme, assess
from bench.placement_methods import METHODS, OURS
from bench.placement_plots import plot
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

EXACT_QUERIES = 20
"""Queries of each network that the yardstick, every node a candidate, is computed for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One network: assessments by method and scheme, and three figures of ours."""

    assessments: Mapping[tuple[str, str], Assessment]
    together_ms: float
    primary_ratio: float


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
    assessments: dict[tuple[str, str], Assessment] = {}
    together_ms = 0.0
    for method, place in METHODS.items():
        pairs = place(workload, np.random.default_rng(seed))
        for key, scheme in SCHEMES.items():
            assessments[method, key] = assess(
                workload.requests, pairs, workload.view, scheme=scheme, dying_together=False
            )
        if method == "ours":
            dying_together = assess(workload.requests, pairs, workload.view)
            together_ms = float(dying_together.recovery_ms.max())
    return Trial(
        assessments=assessments, together_ms=together_ms, primary_ratio=_primary_ratio(workload)
    )


def _primary_ratio(workload: Workload) -> float:
    """Network usage of our primaries over the least possible, load left out of account."""
    view = workload.view
    graphs = [request.graph for request in workload.requests[:EXACT_QUERIES]]
    unloaded = Load(view, operator_load=1.0, cpu=Linear(0.0))
    ours = best = 0.0
    pinned_ms = [
        {o.name: view.node(o.pinned).position_ms for o in graph.operators if o.pinned is not None}
        for graph in graphs
    ]
    for graph, found in zip(graphs, least_usage(graphs, pinned_ms, OURS.usage), strict=True):
        near = candidates(graph, found.points_ms, view, unloaded, {}, OURS.candidates)
        task = ExactTask(graph=graph, view=view, candidates=near, price_ms=unloaded.price_ms())
        ours += primary_usage(graph, place_exactly(task, unloaded).primaries, view)
        anywhere = replace(task, candidates=dict.fromkeys(near, view.host_indices))
        best += primary_usage(graph, place_exactly(anywhere, unloaded).primaries, view)
    return ours / best


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
            flat[f"{key}.recovery_ms_max"] = _mean(a.recovery_ms.max() for a in seen)
            flat[f"{key}.recovery_ms_mean"] = _mean(a.recovery_ms.mean() for a in seen)
            flat[f"{key}.recovery_ms_std"] = float(np.std([a.recovery_ms.mean() for a in seen]))
            flat[f"{key}.bound_kept_pct"] = 100 * _mean(a.bound_kept.mean() for a in seen)
            flat[f"{key}.bound_kept_pct_min"] = 100 * min(float(a.bound_kept.mean()) for a in seen)
            flat[f"{key}.operators_max"] = _mean(a.operators.max() for a in seen)
            variances = [float(a.operators.var()) for a in seen]
            flat[f"{key}.operators_variance"] = _mean(variances)
            flat[f"{key}.operators_variance_max"] = max(variances)
    for scheme in SCHEMES:
        ratio = [_usage(t, "ours", scheme) / _usage(t, "paper", scheme) for t in trials]
        suffix = "" if scheme == "as" else f"_{scheme}"
        flat[f"ours_vs_paper.network_ratio{suffix}"] = _mean(ratio)
        flat[f"ours_vs_paper.network_ratio{suffix}_max"] = max(ratio)
    flat["ours_vs_exact.primary_ratio"] = _mean(trial.primary_ratio for trial in trials)
    flat["ours_as.recovery_together_ms_max"] = max(trial.together_ms for trial in trials)
    return flat


def _usage(trial: Trial, method: str, scheme: str) -> float:
    return float(trial.assessments[method, scheme].network_usage.sum())


def _mean(values: Iterable[float | np.floating[Any] | np.integer[Any]]) -> float:
    return float(np.mean([float(value) for value in values]))
