"""When a cluster that was started is ready: everybody is there, and the network is known.

Plans rest on coordinates and measured latencies, so a cluster takes queries only when every host
has probed every other one and the coordinates have settled.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import msgspec

from orchestrator.errors import Unreachable
from orchestrator.progress import Progress
from orchestrator.records import NodeRecord
from orchestrator.store.protocol import NODES, Store

"""Told the step of starting that is under way, and how far it has come."""

SETTLED_ERROR = 0.4
"""Relative error, as each host estimates it of its own coordinate, below which it has settled.
Cloud latencies violate the triangle inequality: embeddings of them rarely get below 0.1, and
start at 1."""

NEGLIGIBLE_MS = 2.0
"""A coordinate that is off by no more than this has settled whatever its relative error: links
within one machine or region are too short for a relative error to mean anything."""

SETTLE_TIMEOUT_S = 20.0
"""How long coordinates may take to settle, once every pair has been probed. Planning prefers
measured latencies, so that uncertain coordinates are worth a remark, not a failure."""

PROBE_TIMEOUT_S = 60.0
"""How long until every pair has been probed; tens of probes a host do it, several a second."""

REGISTER_TIMEOUT_S = 90.0
"""How long a host may take to register, executors' start included, on a busy machine."""

LOOK_EVERY_S = 0.1


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """What is still to come.

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
    """Compare what is there with what must be."""
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
    store: Store, expected: Sequence[str], on_progress: Progress, check: Callable[[], None]
) -> None:
    """Wait until the cluster is ready.

    Parameters
    ----------
    expected
        Names of all hosts.
    check
        Called again and again; raises when waiting has become pointless.

    Raises
    ------
    Unreachable
        Naming what did not come in time.
    """

    def look() -> Readiness:
        check()
        listing = store.list(NODES)
        return readiness(expected, {name: v.record for name, v in listing.records.items()})

    now = _poll(
        look, lambda r: not r.absent, REGISTER_TIMEOUT_S, _registering(expected, on_progress)
    )
    if now.absent:
        raise _not_ready(f"{', '.join(now.absent)} did not register", REGISTER_TIMEOUT_S)
    now = _poll(look, lambda r: not r.unprobed, PROBE_TIMEOUT_S, _probing(expected, on_progress))
    if now.unprobed:
        pairs = [f"{name} → {', '.join(peers)}" for name, peers in now.unprobed.items()]
        raise _not_ready(f"no latency was measured for {'; '.join(pairs)}", PROBE_TIMEOUT_S)
    now = _poll(look, lambda r: not r.uncertain, SETTLE_TIMEOUT_S, _settling(on_progress))
    on_progress("coordinates", _uncertain(now) or "settled")


def _poll(
    look: Callable[[], Readiness],
    enough: Callable[[Readiness], bool],
    timeout_s: float,
    tell: Callable[[Readiness], None],
) -> Readiness:
    """Look until it is enough or time is up; the last look."""
    deadline = time.monotonic() + timeout_s
    told = None
    while True:
        now = look()
        if enough(now) or time.monotonic() > deadline:
            return now
        if now != told:
            tell(now)
            told = now
        time.sleep(LOOK_EVERY_S)


def _registering(expected: Sequence[str], on_progress: Progress) -> Callable[[Readiness], None]:
    def tell(now: Readiness) -> None:
        on_progress("hosts", f"{len(expected) - len(now.absent)} of {len(expected)} registered")

    return tell


def _probing(expected: Sequence[str], on_progress: Progress) -> Callable[[Readiness], None]:
    pairs = len(expected) * (len(expected) - 1)

    def tell(now: Readiness) -> None:
        measured = pairs - sum(map(len, now.unprobed.values()))
        on_progress("coordinates", f"{measured} of {pairs} links measured")

    return tell


def _settling(on_progress: Progress) -> Callable[[Readiness], None]:
    return lambda now: on_progress("coordinates", _uncertain(now))


def _uncertain(now: Readiness) -> str:
    worst = sorted(now.uncertain, key=lambda name: now.uncertain[name], reverse=True)
    return ", ".join(f"{name} ±{now.uncertain[name]:.0%}" for name in worst)


def _not_ready(problem: str, timeout_s: float) -> Unreachable:
    return Unreachable(
        "The cluster",
        "this machine",
        f"is not complete: {problem} within {timeout_s:g} s",
        "Its logs say why; a machine short of memory or processors is the usual reason.",
    )
