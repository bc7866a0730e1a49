"""Waiting until a cluster that was started is ready for queries.

Plans rest on coordinates and measured latencies. A cluster is therefore ready when every host has
registered and probed all others, and the coordinates have settled.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec

from orchestrator.errors import Unreachable
from orchestrator.progress import Progress
from orchestrator.records import NodeRecord
from orchestrator.store.protocol import NODES, Store

SETTLED_ERROR = 0.4
"""A coordinate has settled when its host estimates its relative error below this. Estimates start
at 1. Cloud latencies violate the triangle inequality, so they rarely fall below 0.1."""

NEGLIGIBLE_MS = 2.0
"""A coordinate that is off by no more than this has settled, whatever its relative error: on links
within one machine or region a relative error means nothing."""

SETTLE_TIMEOUT_S = 20.0
"""Time for coordinates to settle once every pair has been probed. Planning prefers measured
latencies, so uncertain coordinates are reported and are no failure."""

PROBE_TIMEOUT_S = 60.0
"""Time until every pair has been probed; a host sends several probes a second."""

REGISTER_TIMEOUT_S = 240.0
"""Time for a host to register on a busy machine, including the start of Spark and its executor."""

LOOK_EVERY_S = 0.1


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts and measurements that are still missing.

    Attributes
    ----------
    absent
        Hosts that have not registered.
    unprobed
        Host → peers whose latency it has not measured.
    uncertain
        Host → relative error of its coordinate, where it has not settled.
    """

    absent: tuple[str, ...]
    unprobed: dict[str, tuple[str, ...]]
    uncertain: dict[str, float]


def readiness(expected: Sequence[str], nodes: Mapping[str, NodeRecord]) -> Readiness:
    """Compare the registered hosts with the expected ones."""
    present = [name for name in expected if name in nodes]
    unprobed: dict[str, tuple[str, ...]] = {}
    uncertain: dict[str, float] = {}
    for name in present:
        node = nodes[name]
        missing = tuple(p for p in present if p != name and p not in node.latencies_ms)
        if missing:
            unprobed[name] = missing
        error = 1.0 if node.coordinate is None else node.coordinate.error
        if error >= SETTLED_ERROR and len(expected) > 1 and _off_by_ms(node, nodes) > NEGLIGIBLE_MS:
            uncertain[name] = error
    return Readiness(
        absent=tuple(name for name in expected if name not in nodes),
        unprobed=unprobed,
        uncertain=uncertain,
    )


def _off_by_ms(node: NodeRecord, nodes: Mapping[str, NodeRecord]) -> float:
    """Median difference between a host's distances in coordinates and its measured round trips."""
    mine = node.coordinate
    if mine is None:
        return math.inf
    differences = [
        abs(math.dist(mine.position_ms, theirs.position_ms) - node.latencies_ms[peer])
        for peer in node.latencies_ms
        if peer in nodes and (theirs := nodes[peer].coordinate) is not None
    ]
    return median(differences) if differences else math.inf


def await_ready(
    store: Store,
    expected: Sequence[str],
    logs: Path,
    on_progress: Progress,
    check: Callable[[], None],
) -> None:
    """Wait until the cluster is ready.

    Parameters
    ----------
    expected
        Names of all hosts.
    logs
        Folder of their logs, for the message.
    check
        Called repeatedly; raises when waiting has become pointless.

    Raises
    ------
    Unreachable
        Naming the hosts or links that are missing.
    """
    pairs = len(expected) * (len(expected) - 1)

    def poll(step: str, phase: Callable[[Readiness], str], timeout_s: float) -> Readiness:
        """Poll until a phase has nothing more to wait for, or time is up; the last reading."""
        deadline = time.monotonic() + timeout_s
        while True:
            check()
            listing = store.list(NODES)
            now = readiness(expected, {name: v.record for name, v in listing.records.items()})
            waits_for = phase(now)
            if not waits_for or time.monotonic() > deadline:
                return now
            on_progress(step, waits_for)
            time.sleep(LOOK_EVERY_S)

    def registering(now: Readiness) -> str:
        registered = len(expected) - len(now.absent)
        return f"{registered} of {len(expected)} registered" if now.absent else ""

    def probing(now: Readiness) -> str:
        measured = pairs - sum(map(len, now.unprobed.values()))
        return f"{measured} of {pairs} links measured" if now.unprobed else ""

    now = poll("hosts", registering, REGISTER_TIMEOUT_S)
    if now.absent:
        raise _not_ready(f"{', '.join(now.absent)} did not register", REGISTER_TIMEOUT_S, logs)
    now = poll("coordinates", probing, PROBE_TIMEOUT_S)
    if now.unprobed:
        links = [f"{name} → {', '.join(peers)}" for name, peers in now.unprobed.items()]
        raise _not_ready(f"no latency was measured for {'; '.join(links)}", PROBE_TIMEOUT_S, logs)
    now = poll("coordinates", _uncertain, SETTLE_TIMEOUT_S)
    on_progress("coordinates", _uncertain(now) or "settled")


def _uncertain(now: Readiness) -> str:
    worst = sorted(now.uncertain, key=lambda name: now.uncertain[name], reverse=True)
    return ", ".join(f"{name} ±{now.uncertain[name]:.0%}" for name in worst)


def _not_ready(problem: str, timeout_s: float, logs: Path) -> Unreachable:
    return Unreachable(
        "The cluster",
        "this machine",
        f"is not complete: {problem} within {timeout_s:g} s",
        f"The logs in {logs} say why; a machine short of memory or processors is the usual reason.",
    )
