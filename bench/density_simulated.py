"""Benchmark `density_simulated`: what many small queries cost, counted in the simulated world.

The workload is that of `density`, without Spark, sockets and other processes. Messages are encoded
and decoded, and hosts let them gather. Messages and turns of the hosts are counted, and are the
same in every run. So are calls of functions, but for a few: whatever else the machine does, they
tell what a change of the code saves. The processor time is that of the one process which runs all
hosts, their links and the coordinator; what the same cluster costs without queries is subtracted
from time and calls. It leaves out encryption and system calls.
"""

from __future__ import annotations

import cProfile
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
from orchestrator.simulation.world.scenario import SETTLE_S, Scenario

SIZES = (10, 40, 100)
"""Numbers of queries; nothing is refused here."""

SEED = 1
EDGE_S = 1.0
"""Left out at the beginning of a stretch: what the one before has left is still under way."""

COUNTED_S = 3.0
"""How long calls are counted, at the end of a stretch. Counting takes longer than what it counts,
so the time is taken before."""


@benchmark("density_simulated", takes_sizes=True)
def density_simulated(settings: Settings) -> Mapping[str, float]:
    """Messages, evaluations and processor time that many small queries cost, simulated."""
    figures: dict[str, float] = {}
    empty = _empty(settings.folder)
    for queries in settings.sizes or (QUICK_SIZES if settings.quick else SIZES):
        settings.say(f"{queries} queries")
        for key, value in _measure(settings.folder, queries, empty).items():
            figures[f"{queries}.{key}"] = value
    return figures


def _empty(folder: Path) -> tuple[float, float]:
    """Processor time of the same cluster without queries, µs a second; calls a second."""
    scenario = _scenario(folder, 0)
    scenario.run_for(SETTLE_S)
    began = time.process_time()
    scenario.run_for(QUIET_S)
    return (time.process_time() - began) * 1e6 / QUIET_S, _calls_s(scenario)


def _scenario(folder: Path, queries: int) -> Scenario:
    scenario = Scenario(workload(folder, queries), seed=SEED)
    scenario.world.frames = scenario.world.gathers = True
    return scenario


def _calls_s(scenario: Scenario) -> float:
    """Calls of functions a second, in the seconds that follow."""
    with cProfile.Profile() as profile:
        scenario.run_for(COUNTED_S)
    return sum(entry.callcount for entry in profile.getstats()) / COUNTED_S


def _measure(folder: Path, queries: int, empty: tuple[float, float]) -> dict[str, float]:
    empty_us_s, empty_calls_s = empty
    scenario = _scenario(folder, queries)
    scenario.begin()
    figures: dict[str, float] = {}
    for name, lasts_s in (("idle", QUIET_S), ("busy", BUSY_S)):
        scenario.run_for(EDGE_S)
        before, began = _counters(scenario), time.process_time()
        seconds = lasts_s - EDGE_S - COUNTED_S
        scenario.run_for(seconds)
        took_us = (time.process_time() - began) * 1e6
        counted = _counters(scenario) - before
        for counter, key in (
            ("messages_sent", "messages_s"),
            ("turns", "turns_s"),
            ("dispatches", "evaluations_s"),
        ):
            figures[f"{name}_{key}"] = counted[counter] / seconds
        figures[f"{name}_fragment_us_s"] = (took_us / seconds - empty_us_s) / (
            queries * REPLICAS_PER_QUERY
        )
        figures[f"{name}_fragment_calls_s"] = (_calls_s(scenario) - empty_calls_s) / (
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
