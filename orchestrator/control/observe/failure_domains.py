"""Failure domains of the live executors, by their names."""

from __future__ import annotations

import msgspec
import numpy as np

from orchestrator.control.observe.view import ClusterView
from placement.failure_domains import LABELS, TOGETHER, FailureDomains

DRIVER = "driver"
"""The label that is compared with machines, too."""


class HostDomains:
    """Which executors may die together.

    Labels count of which the usable nodes have several values: those that are heard from and not
    closed.
    """

    def __init__(self, view: ClusterView) -> None:
        executors = view.executors
        named = {n: msgspec.structs.asdict(node.labels) for n, node in executors.items()}
        usable = view.trusted.keys() - view.closed
        domains = FailureDomains.of(
            {kind: [each[kind] for each in named.values()] for kind in LABELS},
            np.array([name in usable for name in executors], dtype=np.bool_),
        )
        self.levels = domains.levels
        """How loose failure domains may become, the strictest first."""
        self._kinds = dict(zip(domains.kinds, domains.looseness_of.tolist(), strict=True))
        self._named = named

    def looseness(self, one: str, other: str) -> int:
        """How loose failure domains must be for two replicas to be on these nodes; 0 if one of the
        nodes is not there."""
        if one == other:
            return TOGETHER
        return max((self._kinds[kind] for kind, _ in self._shared(one, other)), default=0)

    def shared(self, one: str, other: str) -> tuple[str, ...]:
        """The labels that count and that two nodes share, such as `machine m1`."""
        found = (f"{kind} {name}" for _, (kind, name) in self._shared(one, other))
        return tuple(dict.fromkeys(found))

    def told(self, node: str) -> str:
        """The labels of a node that count, joined by `@`; empty if none does."""
        labels = self._named.get(node, {})
        kinds = (kind for kind in self._kinds if kind != DRIVER)
        return "@".join(labels[kind] for kind in kinds if labels.get(kind))

    def _shared(self, one: str, other: str) -> list[tuple[str, tuple[str, str]]]:
        """Kinds that count and of which two nodes share a label → what they share."""
        here, there = self._named.get(one, {}), self._named.get(other, {})
        found = [
            (kind, (kind, here[kind]))
            for kind in self._kinds
            if kind != DRIVER and here.get(kind) and here[kind] == there.get(kind)
        ]
        if DRIVER in self._kinds:
            machines = [
                {each.get("machine"), each.get(DRIVER)} - {"", None} for each in (here, there)
            ]
            common = sorted(name for name in machines[0] & machines[1] if name)
            found += [(DRIVER, ("machine", name)) for name in common]
        return found
