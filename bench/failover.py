"""Benchmark `failover`: what users of a stream see of the death of a machine.

Each system runs a keyed, stateful query under the same load on executors of this machine; an
executor that is working on it is killed (SIGKILL), again and again; of ours, also the site where
the stream enters. Measured is the longest time
in which nothing arrives at the sink, from the last output before the kill on; in `undisturbed`,
the same over a stretch without a kill.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from bench.registry import Settings, benchmark
from bench.silence import Measurement
from orchestrator.errors import VivaceError

RUNS = 10
QUICK_RUNS = 2

EXECUTORS = 3
"""Of each system: a primary, a secondary and one more; and as many parts of Spark's state."""

SPARK_SETTINGS = {
    # A task whose executor has died would wait for 3 s for another one on the same place.
    "spark.locality.wait": "0s",
    # What the session for Vivace's hosts sets otherwise; else the peer runs as it comes.
    "spark.task.maxFailures": "4",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
}


def measure_structured_streaming(runs: int, settings: Settings) -> Measurement:
    """The Spark half, on a session of its own; see `bench.spark_failover`."""
    from bench.spark_failover import measure_spark
    from orchestrator.spark.hosts.session import SessionSettings, start_session, stop_session

    settings.say("Spark: starting executors")
    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:
        session = start_session(
            SessionSettings(
                name="bench-failover",
                work_dir=Path(folder),
                executors=EXECUTORS,
                executor_memory_mb=768,
                extra=SPARK_SETTINGS,
            )
        )
        try:
            return measure_spark(session, EXECUTORS, runs, settings.say)
        finally:
            stop_session(session)


def measure_ours(runs: int, settings: Settings) -> Measurement:
    """Our half, on a cluster of its own; see `bench.ours_failover`."""
    from bench.ours_failover import measure_vivace

    return measure_vivace(settings.folder, EXECUTORS, runs, settings.say)


def measure_checkpoints(runs: int, settings: Settings) -> Measurement:
    """Our half, while the fragment writes checkpoints."""
    from bench.ours_failover import measure_vivace

    return measure_vivace(settings.folder, EXECUTORS, runs, settings.say, checkpoints=True)


def measure_site(runs: int, settings: Settings) -> Measurement:
    """A site of ours, on clusters of its own; see `bench.site_failover`."""
    from bench.site_failover import measure_sites

    return measure_sites(settings.folder, max(runs // 2, 1), settings.say)


SYSTEMS: Mapping[str, Callable[[int, Settings], Measurement]] = {
    "ours": measure_ours,
    "checkpoints": measure_checkpoints,
    "spark": measure_structured_streaming,
    "site": measure_site,
}
"""What is compared, in the order it is run in: first part of the figures' keys → how to measure."""


@benchmark("failover", kinds=tuple(SYSTEMS))
def failover(settings: Settings) -> Mapping[str, float]:
    """Longest silence at the sink when a working executor is killed under 5,000 tuples/s."""
    runs = QUICK_RUNS if settings.quick else RUNS
    chosen = settings.only or SYSTEMS
    measurements: dict[str, Measurement] = {}
    failures: dict[str, VivaceError] = {}
    for system, measure in SYSTEMS.items():
        if system not in chosen:
            continue
        try:
            measurements[system] = measure(runs, settings)
        except VivaceError as error:
            # What the others have shown is worth no less.
            settings.say(f"{system}: {error}")
            failures[system] = error
    if not measurements:
        raise next(iter(failures.values()))
    plot(measurements, settings.folder / "gaps.png")
    return figures(measurements) | {f"{system}.failed": 1.0 for system in failures}


def figures(measurements: Mapping[str, Measurement]) -> dict[str, float]:
    """Flat figures of each system."""
    flat: dict[str, float] = {}
    for system, measurement in measurements.items():
        gaps = measurement.gaps_ms
        flat[f"{system}.gap_ms_median"] = statistics.median(gaps)
        flat[f"{system}.gap_ms_min"] = min(gaps)
        flat[f"{system}.gap_ms_max"] = max(gaps)
        flat[f"{system}.kills"] = len(gaps)
        flat |= {f"{system}.{name}": count for name, count in measurement.counts.items()}
    return flat


def plot(measurements: Mapping[str, Measurement], path: Path) -> None:
    """Every silence of every system, and their medians, on a logarithmic axis."""
    from matplotlib.figure import Figure

    # Through Any, for matplotlib's annotations leave keyword arguments open.
    figure = cast("Any", Figure(figsize=(6, 1.2 + 0.7 * len(measurements)), layout="constrained"))
    axes = figure.subplots()
    for row, measurement in enumerate(measurements.values()):
        gaps = sorted(measurement.gaps_ms)
        # Spread a little, in a fixed order, so that equal silences do not hide each other.
        heights = [row + 0.12 * (index % 3 - 1) for index in range(len(gaps))]
        axes.scatter(gaps, heights, s=24, alpha=0.7)
        median = statistics.median(gaps)
        axes.plot([median, median], [row - 0.3, row + 0.3], color="black", linewidth=1.5)
        axes.annotate(f"{median:,.0f} ms", (median, row + 0.32), ha="center", va="bottom")
    gaps = [gap for measurement in measurements.values() for gap in measurement.gaps_ms]
    axes.set_xscale("log")
    axes.set_xlim(10 ** math.floor(math.log10(min(gaps))), 10 ** math.ceil(math.log10(max(gaps))))
    axes.set_yticks(range(len(measurements)), list(measurements))
    axes.set_ylim(-0.6, len(measurements) - 0.3)
    axes.set_xlabel("longest silence at the sink after a kill, ms (bar: median)")
    axes.grid(visible=True, axis="x", which="both", alpha=0.3)
    figure.savefig(path, dpi=150)
