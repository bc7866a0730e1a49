"""Benchmark `switchover`: switchovers and drains under load, and what consumers see of them.

The workload is that of `failover`, with the output at a site of its own. Primary and secondary of
the query's fragment change roles, again and again; then the node of one of them is drained and used
again, again and again. Each of these is compared with the quiet second before it. Lost and repeated
tuples are counted from the content of the archive, whose tuples carry the number that they entered
with.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.cluster import running
from bench.ours_failover import FRAGMENT, faults, write_input
from bench.registry import Settings, benchmark
from bench.silence import STEADY_S, longest_silence_ms
from orchestrator.api import Cluster, drain, switch, uncordon
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import read_view
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.errors import Refused, VivaceError
from orchestrator.manifest import load
from orchestrator.records import FragmentRecord
from orchestrator.store.protocol import Store

EXECUTORS = 4
EXIT = "exit"
SWITCHOVERS, DRAINS = 20, 10
QUICK = 2
DEADLINE_MS = 300.0
"""As the manifest has it."""

QUIET_S = 1.2
"""Time between two operations: a quiet second, and a little for the end of the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operated:
    """An operation, and when it was carried out, cluster clock."""

    kind: str
    began_us: int
    ended_us: int
    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What consumers saw in a stretch of time.

    Attributes
    ----------
    misses_s
        Completed timestamps that were late, a second.
    """

    misses_s: float
    latency_ms_max: float
    silence_ms: float


@benchmark("switchover")
def switchover(settings: Settings) -> Mapping[str, float]:
    """Lost, repeated and late tuples by planned switchovers and drains under 5,000 tuples/s."""
    manifests = load([write_input(settings.folder, EXECUTORS, EXIT)])
    times = {"switchover": SWITCHOVERS, "drain": DRAINS}

    def progress(step: str, detail: str) -> None:
        settings.say(f"{step}: {detail}")

    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as work:
        with running(manifests, Path(work), progress) as cluster:
            connected = Cluster(cluster.config, cluster.store)
            time.sleep(STEADY_S)
            operated: list[Operated] = []
            for kind, most in times.items():
                count = QUICK if settings.quick else most
                for number in range(count):
                    settings.say(f"{kind} {number + 1} of {count}")
                    operated.append(_operate(connected, kind, number))
            time.sleep(STEADY_S)
        delivered = read_back(cluster.archive, FRAGMENT)
    return figures(delivered, operated)


def figures(delivered: Delivered, operated: Sequence[Operated]) -> dict[str, float]:
    """Flat figures: what was lost and repeated in all, and each kind beside its quiet seconds.

    Raises
    ------
    VivaceError
        Nothing has come since the last operation.
    """
    found = faults(delivered)
    last_us = int(delivered.completed_column("ingestion_time_us").max(initial=0))
    if last_us < max(each.ended_us for each in operated):
        raise VivaceError("the output has ended before the operations: nobody would be late")
    flat: dict[str, float] = {
        "lost": found.lost,
        "repeated": found.repeated,
        "tuples": delivered.rows.num_rows,
    }
    for kind in dict.fromkeys(each.kind for each in operated):
        ours = [each for each in operated if each.kind == kind]
        # Each is seen for a second at least.
        during = [
            seen(delivered, each.began_us, max(each.ended_us, each.began_us + 1_000_000))
            for each in ours
        ]
        quiet = [seen(delivered, each.began_us - 1_000_000, each.began_us) for each in ours]
        took_ms = [(each.ended_us - each.began_us) / 1000 for each in ours]
        flat[f"{kind}.times"] = len(ours)
        flat[f"{kind}.done"] = sum(each.done for each in ours)
        flat[f"{kind}.took_ms_median"] = float(np.median(took_ms))
        flat[f"{kind}.took_ms_max"] = max(took_ms)
        for name, stretches in (("", during), ("quiet_", quiet)):
            flat[f"{kind}.{name}misses_s_max"] = max(each.misses_s for each in stretches)
            flat[f"{kind}.{name}misses_s_mean"] = float(
                np.mean([each.misses_s for each in stretches])
            )
            flat[f"{kind}.{name}latency_ms_max"] = max(each.latency_ms_max for each in stretches)
            flat[f"{kind}.{name}silence_ms_max"] = max(each.silence_ms for each in stretches)
    return flat


def seen(delivered: Delivered, since_us: int, until_us: int) -> Seen:
    """What arrived of the timestamps that entered in a stretch of time."""
    entered_us = delivered.completed_column("ingestion_time_us")
    arrived_s = np.sort(delivered.completed_column("arrived_us")) / 1e6
    within = (entered_us >= since_us) & (entered_us < until_us)
    latencies_ms = delivered.latencies_ms[within]
    return Seen(
        misses_s=float((latencies_ms > DEADLINE_MS).sum()) / ((until_us - since_us) / 1e6),
        latency_ms_max=float(latencies_ms.max(initial=0.0)),
        silence_ms=longest_silence_ms(arrived_s, since_us / 1e6, until_us / 1e6),
    )


def _operate(cluster: Cluster, kind: str, number: int) -> Operated:
    """A quiet time, and then one switchover, or one drain whose node is used again."""
    store = cluster.store
    _await_protected(store)
    time.sleep(QUIET_S)
    record = _record(store)
    began_us = _now_us(store)
    try:
        if kind == "switchover":
            done = switch(cluster, FRAGMENT).done
        else:
            # The primary and the secondary in turn.
            replica = record.secondary if number % 2 else record.primary
            assert replica is not None, "a protected fragment has a secondary"
            done = drain(cluster, replica.node).done
            uncordon(cluster, replica.node)
    except Refused:
        # On a busy machine latencies are such that it would break a promise.
        done = False
    return Operated(kind=kind, began_us=began_us, ended_us=_now_us(store), done=done)


def _await_protected(store: Store) -> None:
    while not read_view(store).protected(_record(store)):
        time.sleep(0.1)


def _record(store: Store) -> FragmentRecord:
    """The record of the only fragment."""
    (found,) = read_view(store).fragments.values()
    return found.record


def _now_us(store: Store) -> int:
    return cluster_now_us(read_view(store).cluster_clocks)
