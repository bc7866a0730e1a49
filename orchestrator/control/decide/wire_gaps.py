"""Hosts whose versions share no wire: no link connects them (`assignments`).

A process that could not exchange messages with one that runs waits for its end, so there are none
unless two were started at the same moment. What one of them sends never reaches the other.
"""

from __future__ import annotations

from itertools import combinations

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.observe.readiness import names
from orchestrator.records.versions import Versions, wire_span


def name_wire_gaps(pending: PendingDecision) -> None:
    """Name the hosts of each two versions that share no wire."""
    hosts: dict[tuple[int, int], list[str]] = {}
    versions: dict[tuple[int, int], Versions] = {}
    for name, host in sorted(pending.view.hosts.items()):
        wire = host.versions.wire
        hosts.setdefault(wire, []).append(name)
        versions[wire] = host.versions
    for older, newer in combinations(sorted(hosts), 2):
        if versions[older].spoken_with(versions[newer]) is None:
            pending.problems.append(
                f"{names(hosts[older])} speak wire {wire_span(older)}, and {names(hosts[newer])} "
                f"wire {wire_span(newer)}: nothing is sent between them. Restart the former or the "
                "latter with a version that speaks a wire of the others (`vivace preflight`)"
            )
