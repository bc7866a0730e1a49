"""Benchmark `density_simulated`: what many small queries cost, counted in the simulated world.

The workload is that of `density`, without Spark, sockets and other processes. Messages and turns of
the hosts are counted, and are the same in every run. The processor time is that of the one process
which runs all hosts, their links and the coordinator; what the same cluster costs without queries
is subtracted. It leaves out encoding, encryption and system calls.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bench.density_workload import (
    BUSY_S,
    QUICK_SIZES,
    QUIET_S,
    REPLICAS_PER_QUERY,
    workload,
)
from bench.registry import Settings, benchmark
from orchestrator.simulation.scenario import SETTLE_S, Scenario

SIZES = (10, 40, 100)
"""Numbers of queries; nothing is refused here."""

SEED = 1
EDGE_S = 1.0
"""Left out at the beginning of a stretch: what the one before has left is still under way."""


@benchmark("density_simulated", takes_sizes=True)
def density_simulated(settings: Settings) -> Mapping[str, float]:
    """Messages, evaluations and processor time that many small queries cost, simulated."""
    figures: dict[str, float] = {}
    empty_us_s = _empty_us_s(settings.folder)
    for queries in settings.sizes or (QUICK_SIZES if settings.quick else SIZES):
        settings.say(f"{queries} queries")
        for key, value in _measure(settings.folder, queries, empty_us_s).items():
            figures[f"{queries}.{key}"] = value
    return figures


def _empty_us_s(folder: Path) -> float:
    """Processor time of the same cluster without queries, µs a second."""
    scenario = Scenario(workload(folder, 0), seed=SEED)
    scenario.run_for(SETTLE_S)
    began = time.process_time()
    scenario.run_for(QUIET_S)
    return (time.process_time() - began) * 1e6 / QUIET_S


def _measure(folder: Path, queries: int, empty_us_s: float) -> dict[str, float]:
    scenario = Scenario(workload(folder, queries), seed=SEED)
    scenario.begin()
    figures: dict[str, float] = {}
    for name, lasts_s in (("idle", QUIET_S), ("busy", BUSY_S)):
        scenario.run_for(EDGE_S)
        before, began = _counters(scenario), time.process_time()
        scenario.run_for(lasts_s - EDGE_S)
        took_us = (time.process_time() - began) * 1e6
        counted, seconds = _counters(scenario) - before, lasts_s - EDGE_S
        for counter, key in (
            ("messages_sent", "messages_s"),
            ("turns", "turns_s"),
            ("dispatches", "evaluations_s"),
        ):
            figures[f"{name}_{key}"] = counted[counter] / seconds
        figures[f"{name}_fragment_us_s"] = (took_us / seconds - empty_us_s) / (
            queries * REPLICAS_PER_QUERY
        )
    total = _counters(scenario)
    return figures | {name: float(total[name]) for name in ("suspicions", "takeovers")}


def _counters(scenario: Scenario) -> Counter[str]:
    """Everything that the hosts have counted."""
    total: Counter[str] = Counter()
    for host in scenario.world.hosts.values():
        total.update(host.core.counters)
        total.update(host.counters)
    return total
