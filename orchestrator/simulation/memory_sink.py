"""Sinks of simulated sites: what they have flushed outlives their host, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.host.events import Deliver, Durable
from orchestrator.records import SinkAssignment

Deliveries = Callable[[str, Deliver], None]
"""Takes a delivery that was kept for good, with its node."""


class MemorySinks:
    """The disks of all simulated sites.

    Parameters
    ----------
    deliver
        Takes everything that is flushed.
    """

    def __init__(self, deliver: Deliveries) -> None:
        self.deliver = deliver
        self.durable: dict[tuple[str, str, int], Durable] = {}

    def open(self, node: str, assignment: SinkAssignment) -> MemorySink:
        """Continue a stream at a node."""
        return MemorySink(self, node, (node, assignment.stream, assignment.life))


class MemorySink:
    """An open sink of one stream."""

    def __init__(self, disks: MemorySinks, node: str, key: tuple[str, str, int]) -> None:
        self._disks = disks
        self._node = node
        self._key = key
        self._kept: list[Deliver] = []

    @property
    def durable(self) -> Durable | None:
        """Everything that was flushed, in whatever life of the host."""
        return self._disks.durable.get(self._key)

    def keep(self, delivery: Deliver) -> None:
        """Take a delivery in."""
        self._kept.append(delivery)

    def flush(self) -> None:
        """Keep all deliveries for good."""
        for delivery in self._kept:
            self._disks.deliver(self._node, delivery)
            self._disks.durable[self._key] = delivery.end
        self._kept.clear()

    def close(self) -> None:
        """Drop what was not flushed."""
        self._kept.clear()
