"""Benchmark `own_data`: is a query admitted and kept, or refused? And were the predictions right?

The workload is `bench.own_data_workload`. It is applied three times, each time to a new cluster:

1. `asked`: no cost is stated and admission is on. The query is refused, or admitted and kept.
2. `forced`: the same without admission. What is measured then are the costs of the fragments.
3. `stated`: with these costs stated, again without admission.

In each run the load of each place that was predicted before the query ran, and the one that is
predicted at the end, stand beside the measured one. Before it ran, a node's load is that of a dry
run: when the query is applied, it is tried anew, and equal nodes may be chosen otherwise.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench.own_data_workload import DEADLINE_MS, workload
from bench.registry import Settings, benchmark
from orchestrator.api import Cluster, StatusDocument, apply, status
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.errors import Refused
from orchestrator.manifest import Manifests

SETTLE_S = 10.0
"""Left out: statements are compiled, secondaries get warm."""

MEASURED_S = 25.0
QUICK_S = 12.0

OUTPUT = "deviations"

LEAST_CORES = 0.05
"""Loads below are not compared: hosts that run nothing take about as much."""


RUNS = ("asked", "forced", "stated")


@benchmark("own_data", kinds=RUNS)
def own_data(settings: Settings) -> Mapping[str, float]:
    """A query on data of one's own: refused with figures, or kept; predicted and measured load."""
    figures: dict[str, float] = {}
    costs_us: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:
        for run in settings.only or RUNS:
            cluster, query = workload(
                Path(folder), admission=run == "asked", costs_us=costs_us if run == "stated" else {}
            )
            settings.say(f"{run}")
            found, document = _run(cluster, query, settings, Path(folder) / run)
            figures |= {f"{run}.{key}": value for key, value in found.items()}
            if document is not None:
                costs_us = {
                    each.fragment: each.measured_cost_us
                    for each in document.costs
                    if each.measured_cost_us is not None
                }
                figures |= {f"{run}.{name}.cost_us": cost for name, cost in costs_us.items()}
    return figures


def _run(
    cluster: Manifests, query: Manifests, settings: Settings, work: Path
) -> tuple[dict[str, float], StatusDocument | None]:
    """Apply the query to a new cluster, and let it run for a while; its state at the end."""
    assert cluster.cluster is not None

    def progress(step: str, detail: str) -> None:
        settings.say(f"{step}: {detail[:80]}")

    figures: dict[str, float] = {}
    with LocalCluster(cluster.cluster, work, on_progress=progress) as local:
        client = Cluster(local.config, local.store)
        try:
            predicted = apply(client, query, dry_run=True).plan.loads
            apply(client, query, on_progress=progress)
        except Refused as refused:
            settings.say(str(refused))
            told = {k: v for k, v in refused.figures.items() if isinstance(v, float)}
            return {"admitted": 0.0, **told}, None
        time.sleep(SETTLE_S)
        time.sleep(QUICK_S if settings.quick else MEASURED_S)
        document = status(client)
        (output,) = (each for each in document.outputs if each.stream == OUTPUT)
    figures |= {
        "admitted": 1.0,
        "p50_ms": output.latency_ms_p50 or float("nan"),
        "p99_ms": output.latency_ms_p99 or float("nan"),
        "late_pct": output.recent_miss_pct or 0.0,
        "deadline_ms": float(DEADLINE_MS),
    }
    now = {load.name: load for load in document.loads}
    worst = 0.0
    for load in predicted:
        measured = now[load.name].measured_cores
        if measured is None:
            continue
        name = "machine" if load.is_machine else load.name
        figures[f"{name}.predicted_cores"] = load.predicted_cores
        figures[f"{name}.measured_cores"] = measured
        figures[f"{name}.predicted_now_cores"] = now[load.name].predicted_cores
        if load.is_machine:
            figures["machine_off_pct"] = 100.0 * (load.predicted_cores / measured - 1.0)
        if measured > LEAST_CORES:
            worst = max(worst, abs(now[load.name].predicted_cores / measured - 1.0))
    figures["worst_off_now_pct"] = 100.0 * worst
    return figures, document
