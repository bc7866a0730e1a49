"""Benchmark `bulk`: `vivace bulk place` on tables of up to 10,000 nodes and 10,000 queries.

The tables are those of `bench.scale_workload`. The same job runs on `local[*]` and on a standalone
master with two workers of one core, and must come to the same placements. Some of the
queries, drawn at random, are compared with what the sequential planner makes of them
(`placement.bulk_check`). `--size` is a number of nodes, with as many queries.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from bench.placement_workload import NETWORK, Workload
from bench.registry import Settings, benchmark
from bench.scale_workload import scale_workload
from orchestrator.errors import InvalidInput, VivaceError
from placement.records import Request

SIZE, QUICK_SIZE = 10_000, 200
SAMPLED, QUICK_SAMPLED = 1_000, 50

EXECUTORS, MEMORY_MB = 2, 1024


class PlansDiffer(VivaceError):
    """Two masters' executors have placed queries differently."""

    def __init__(self) -> None:
        super().__init__(
            "bulk: on a standalone master the placements are others than on this machine's own. "
            "Rounds must not depend on how they are divided: see placement/bulk.py."
        )


@benchmark("bulk", takes_sizes=True)
def bulk(settings: Settings) -> Mapping[str, float]:
    """Seconds, memory, and cost beside the sequential planner, of placing tables of queries.

    Raises
    ------
    InvalidInput
        A size is no multiple of 100 nodes.
    PlansDiffer
        The placements depend on the master.
    """
    flat: dict[str, float] = {}
    for size in settings.sizes or (QUICK_SIZE if settings.quick else SIZE,):
        if size % NETWORK.nodes:
            remedy = f"Networks are made of parts of {NETWORK.nodes} nodes: give a multiple."
            raise InvalidInput("bench", "--size", str(size), "is no size of a network", remedy)
        with tempfile.TemporaryDirectory(prefix="bulk-") as folder:
            flat |= _measure(Path(folder), size, settings)
    return flat


def _measure(folder: Path, size: int, settings: Settings) -> dict[str, float]:
    from bench.standalone_spark import standalone_spark
    from orchestrator import api
    from orchestrator.embedded.java import find_java

    settings.say(f"tables of {size:,} nodes and queries")
    nodes, queries = write_tables(scale_workload(size, size), folder)
    sample = QUICK_SAMPLED if settings.quick else SAMPLED

    def place(name: str, spark: api.SparkChoice, sample: int) -> api.BulkPlacement:
        return api.bulk_place(
            nodes,
            queries,
            folder / name,
            sample=sample,
            spark=spark,
            on_progress=lambda step, detail: settings.say(f"{name}: {step}: {detail}"),
        )

    runs = {"local": place("local", api.SparkChoice(memory_mb=MEMORY_MB), sample)}
    java = find_java(folder)
    with standalone_spark(folder, java, workers=EXECUTORS, memory_mb=MEMORY_MB) as master:
        remote = api.SparkChoice(master=master, executors=EXECUTORS, memory_mb=MEMORY_MB)
        runs["standalone"] = place("standalone", remote, 0)
    tables = [parquet.read_table(folder / name / "placements.parquet") for name in runs]
    if not tables[0].equals(tables[1]):
        raise PlansDiffer
    flat: dict[str, float] = {}
    for name, run in runs.items():
        key = f"{size}.{name}"
        flat[f"{key}.seconds"] = run.seconds
        flat[f"{key}.ms_per_query"] = 1e3 * run.seconds / run.queries
        flat[f"{key}.driver_peak_mb"] = run.driver_peak_mb
        flat[f"{key}.executor_peak_mb"] = run.executor_peak_mb
        flat[f"{key}.placings_per_query"] = run.placings / run.queries
        flat[f"{key}.refused"] = float(run.refused)
        if run.check is not None:
            flat[f"{key}.compared"] = float(run.check.queries)
            flat[f"{key}.difference_pct"] = 100 * run.check.difference
    return flat


def write_tables(workload: Workload, folder: Path) -> tuple[Path, Path]:
    """Write the tables of nodes and queries of a workload, into files of the folder."""
    view = workload.view
    axes = {f"x{axis}": column for axis, column in enumerate(view.positions_ms.T.copy())}
    nodes, queries = folder / "nodes.parquet", folder / "queries.parquet"
    parquet.write_table(
        pa.Table.from_pydict({"node": [node.name for node in view.nodes], **axes}), nodes
    )
    parquet.write_table(pa.Table.from_pylist([_row(each) for each in workload.requests]), queries)
    return nodes, queries


def _row(request: Request) -> dict[str, Any]:
    graph = request.graph
    prefix = f"{graph.name}."
    return {
        "query": graph.name,
        "deadline_ms": request.deadline_ms,
        "recovery_bound_ms": request.recovery_bound_ms,
        "detection_ms": request.detection_ms,
        "operators": [
            {
                "operator": each.name.removeprefix(prefix),
                "node": each.pinned,
                "cost_us": each.cost_us,
            }
            for each in graph.operators
        ],
        "links": [
            {
                "source": each.source.removeprefix(prefix),
                "target": each.target.removeprefix(prefix),
                "rate_bytes_s": each.rate_bytes_s,
                "tuples_s": each.tuples_s,
            }
            for each in graph.links
        ],
    }
