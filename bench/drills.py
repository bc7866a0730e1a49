"""Benchmark `drills`: the aircraft example under drills, for as long as an acceptance test takes.

`all` runs every drill that fits, three times. `drivers` kills Spark drivers of two applications ten
times. `busy` takes one processor with another process and kills executors fifty times: the bound
must be kept, or the plan must have said that it could not be. `leaders` kills the leading
coordinator five times while it carries out ten moves (`bench.leader_kills`).

The page of all drills of a kind (`vivace drill report --html`) is written beside the figures.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median

import msgspec
import psutil

from bench.cluster import running
from bench.leader_kills import leader_kills
from bench.registry import Settings, benchmark
from orchestrator.api import Cluster, DrillRun, drill_audit, drills, run_series
from orchestrator.cli.render.drill_page import drill_page
from orchestrator.deploy.context import ClusterContext, started_s
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.embedded.process_faults import busy_process
from orchestrator.manifest import load
from orchestrator.progress import Progress

EXAMPLE = Path(__file__).parents[1] / "examples" / "aircraft"

SERIES, QUICK_SERIES = 3, 1
DRIVER_KILLS, QUICK_DRIVER_KILLS = 10, 1
BUSY_KILLS, QUICK_BUSY_KILLS = 50, 3

SETTLED_S = 15.0
"""After this time hosts have measured themselves, and whatever takes processors beside them."""

KINDS = ("all", "drivers", "busy", "leaders")


@benchmark("drills", kinds=KINDS)
def drill_series(settings: Settings) -> Mapping[str, float]:
    """Drills of the aircraft example: all, of drivers, of leaders, and on a busy machine."""
    kinds = settings.only or KINDS
    quick, flat = settings.quick, dict[str, float]()
    names = [each.name for each in drills()]
    series = {
        "all": (1, names, QUICK_SERIES if quick else SERIES, nullcontext),
        "drivers": (2, ["kill-driver"], QUICK_DRIVER_KILLS if quick else DRIVER_KILLS, nullcontext),
        "busy": (1, ["kill-executor"], QUICK_BUSY_KILLS if quick else BUSY_KILLS, one_taken),
    }
    for kind in kinds:
        if kind == "leaders":
            with example(settings, coordinators=2) as cluster:
                time.sleep(SETTLED_S)
                flat |= leader_kills(reached(cluster), cluster.archive, telling(settings))
            continue
        applications, chosen, times, beside = series[kind]
        with example(settings, applications=applications) as cluster, beside():
            time.sleep(SETTLED_S)
            connected = reached(cluster)
            runs = run_series(connected, chosen, None, telling(settings), times=times)
            page = drill_page(drill_audit(connected), telling(settings))
            (settings.folder / f"{kind}.html").write_text(page, encoding="utf-8")
        flat |= figures(kind, runs)
    return flat


def figures(kind: str, runs: Sequence[DrillRun]) -> dict[str, float]:
    """Flat figures of a series: of each drill, and of all together."""
    reports = [run.report for run in runs if run.report is not None]
    fitting = [run for run in runs if run.inapplicable is None]
    broken = [each for each in reports if each.recovery_ms > each.bound_ms]
    flat: dict[str, float] = {
        f"{kind}.runs": len(fitting),
        f"{kind}.passed": sum(run.passed for run in fitting),
        f"{kind}.unfit": len(runs) - len(fitting),
        f"{kind}.without_figures": len(fitting) - len(reports),
        f"{kind}.bound_kept": len(reports) - len(broken),
        f"{kind}.bound_broken_as_planned": sum(each.foretold for each in broken),
        f"{kind}.lost": sum(each.lost for each in reports),
        f"{kind}.repeated": sum(each.repeated for each in reports),
        f"{kind}.differing": sum(each.differing for each in reports),
    }
    for name in dict.fromkeys(run.drill for run in fitting):
        ours = [each for each in reports if each.drill == name]
        planned_ms = [ms for each in ours if (ms := each.blast.planned_ms) is not None]
        flat[f"{kind}.{name}.runs"] = sum(run.drill == name for run in fitting)
        flat[f"{kind}.{name}.passed"] = sum(run.passed for run in fitting if run.drill == name)
        if ours:
            recoveries_ms = [each.recovery_ms for each in ours]
            flat[f"{kind}.{name}.recovery_ms_median"] = median(recoveries_ms)
            flat[f"{kind}.{name}.recovery_ms_max"] = max(recoveries_ms)
            flat[f"{kind}.{name}.bound_ms_min"] = min(each.bound_ms for each in ours)
            flat[f"{kind}.{name}.restored_s_max"] = max(each.redundancy_restored_s for each in ours)
        if planned_ms:
            flat[f"{kind}.{name}.planned_ms_max"] = max(planned_ms)
    return flat


@contextmanager
def example(
    settings: Settings, *, applications: int = 1, coordinators: int = 1
) -> Generator[LocalCluster]:
    """The aircraft example, in a cluster of its own.

    Raises
    ------
    InvalidInput
        Its input was not fetched (`make data`).
    """
    manifests = load([EXAMPLE])
    assert manifests.cluster is not None, "the example has a cluster"
    cluster = msgspec.structs.replace(
        manifests.cluster, applications=applications, coordinators=coordinators
    )
    manifests = msgspec.structs.replace(manifests, cluster=cluster)
    with (
        tempfile.TemporaryDirectory(prefix="vivace-bench-") as work,
        running(manifests, Path(work), telling(settings)) as started,
    ):
        yield started


def reached(cluster: LocalCluster) -> Cluster:
    """A cluster that this process runs, as commands reach it, with its archives."""
    context = ClusterContext(
        cluster=cluster.manifest.name,
        pid=os.getpid(),
        started_s=started_s(psutil.Process()),
        folder=str(cluster.folder),
        zookeeper=cluster.config.zookeeper,
        secret=cluster.config.secret,
    )
    return Cluster(context, cluster.store)


def telling(settings: Settings) -> Progress:
    """Tells of each step in a phrase."""
    return lambda step, detail: settings.say(f"{step}: {detail}")


@contextmanager
def one_taken() -> Generator[None]:
    """Another process takes one of this machine's processors."""
    rival = busy_process()
    try:
        os.sched_setaffinity(rival.pid, {min(os.sched_getaffinity(0))})
        yield
    finally:
        rival.kill()
        rival.wait()
