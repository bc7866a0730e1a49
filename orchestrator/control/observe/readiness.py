"""What is missing of a cluster that starts: hosts of its manifest, and their measurements.

Plans rest on coordinates and measured latencies. A cluster is therefore complete when every host
has registered and probed all others, and the coordinates have settled. `vivace up` waits for that,
and so does the leader at a start (`beginning`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec

from orchestrator.records import NodeRecord

SETTLED_ERROR = 0.4
"""A coordinate has settled when its host estimates its relative error below this. Estimates start
at 1. Cloud latencies violate the triangle inequality, so they rarely fall below 0.1."""

NEGLIGIBLE_MS = 2.0
"""A coordinate that is off by no more than this has settled, whatever its relative error: on links
within one machine or region a relative error means nothing."""

SHOWN_NAMES = 6
"""Most hosts that a sentence names."""


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts and measurements that are still missing.

    Attributes
    ----------
    expected
        Number of hosts that there should be.
    absent
        Hosts that have not registered.
    unprobed
        Host → peers whose latency it has not measured.
    uncertain
        Host → relative error of its coordinate, where it has not settled.
    starting
        Those of the absent whose process is known to run.
    begun
        Other steps of a start that have been taken.
    """

    expected: int
    absent: tuple[str, ...]
    unprobed: dict[str, tuple[str, ...]]
    uncertain: dict[str, float]
    starting: tuple[str, ...] = ()
    begun: int = 0

    @property
    def steps_left(self) -> tuple[int, int, int]:
        """What is missing, so that less compares as smaller."""
        hosts = 2 * len(self.absent) - len(self.starting) - self.begun
        return hosts, sum(map(len, self.unprobed.values())), len(self.uncertain)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not (self.absent or self.unprobed or self.uncertain)

    def __str__(self) -> str:
        if self.absent:
            registered = self.expected - len(self.absent)
            told = f"{registered} of {self.expected} registered, without {names(self.absent)}"
            return told + (f" ({names(self.starting)} starting)" if self.starting else "")
        if self.unprobed:
            pairs = self.expected * (self.expected - 1)
            return f"{pairs - self.steps_left[1]} of {pairs} links measured"
        worst = sorted(self.uncertain, key=lambda name: self.uncertain[name], reverse=True)
        return ", ".join(f"{name} ±{self.uncertain[name]:.0%}" for name in worst)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """What is missing, and for how long nothing of it has come.

    Patience goes by that: on a slow machine hosts come one by one, each after a while.

    Attributes
    ----------
    least
        The fewest steps that were left so far. A host that comes and goes again and again brings
        nobody any further.
    since_us
        When there were as few for the first time.
    """

    now: Readiness
    least: tuple[int, int, int]
    since_us: int


def incomplete(before: Incomplete | None, now: Readiness, now_us: int) -> Incomplete | None:
    """What is missing now, given what was before; None: nothing is."""
    if now.complete:
        return None
    left = now.steps_left
    if before is None or left < before.least:
        return Incomplete(now=now, least=left, since_us=now_us)
    return Incomplete(now=now, least=before.least, since_us=before.since_us)


def readiness(
    expected: Sequence[str], nodes: Mapping[str, NodeRecord], starting: Collection[str] = ()
) -> Readiness:
    """Compare the registered hosts with the expected ones.

    Parameters
    ----------
    starting
        Hosts whose process is known to run.
    """
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
        expected=len(expected),
        absent=tuple(name for name in expected if name not in nodes),
        unprobed=unprobed,
        uncertain=uncertain,
        starting=tuple(name for name in expected if name in starting and name not in nodes),
    )


def names(hosts: Sequence[str]) -> str:
    """Some hosts for a sentence, not too many of them."""
    shown, more = ", ".join(hosts[:SHOWN_NAMES]), len(hosts) - SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


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
