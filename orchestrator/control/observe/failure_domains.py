"""Failure domains of the live executors, by their names."""

from __future__ import annotations

import msgspec
import numpy as np

from orchestrator.control.observe.view import ClusterView
from placement.failure_domains import LABELS, TOGETHER, FailureDomains


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
        return max((self._kinds[kind] for kind in self._shared(one, other)), default=0)

    def shared(self, one: str, other: str) -> tuple[str, ...]:
        """The labels that count and that two nodes share, such as `machine m1`."""
        return tuple(f"{kind} {self._named[one][kind]}" for kind in self._shared(one, other))

    def told(self, node: str) -> str:
        """The labels of a node that count, joined by `@`; empty if none does."""
        labels = self._named.get(node, {})
        return "@".join(labels[kind] for kind in self._kinds if labels.get(kind))

    def _shared(self, one: str, other: str) -> list[str]:
        here, there = self._named.get(one, {}), self._named.get(other, {})
        return [kind for kind in self._kinds if here.get(kind) and here[kind] == there.get(kind)]
