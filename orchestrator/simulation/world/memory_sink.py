"""Sinks of simulated sites: what they have flushed outlives their host, and nothing else does."""

from __future__ import annotations

import errno
from collections.abc import Callable

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.events import Deliver, Durable
from orchestrator.records import SinkAssignment

Deliveries = Callable[[str, Deliver, int], None]
"""Takes a delivery that was kept for good: its node, itself, and when it arrived, world's clock."""


class MemorySinks:
    """The disks of all simulated sites.

    Parameters
    ----------
    deliver
        Takes everything that is flushed.
    clock_us
        The world's clock.

    Attributes
    ----------
    full
        Nodes that have no space left.
    owners
        Node → incarnation of the process that may open sinks there.
    """

    def __init__(self, deliver: Deliveries, clock_us: Callable[[], int]) -> None:
        self.deliver = deliver
        self.clock_us = clock_us
        self.durable: dict[tuple[str, str, int], Durable] = {}
        self.newest: dict[tuple[str, str, int], MemorySink] = {}
        self.full: set[str] = set()
        self.owners: dict[str, str] = {}

    def claim(self, node: str, incarnation: str) -> Callable[[], None]:
        """Give a disk to a process that starts; returns what raises once another one has it."""
        self.owners[node] = incarnation

        def check() -> None:
            if self.owners[node] != incarnation:
                raise DriverError(f"the disk of {node} belongs to a process that was started later")

        return check

    def open(self, node: str, assignment: SinkAssignment) -> MemorySink:
        """Continue a stream at a node."""
        key = (node, assignment.stream, assignment.life)
        self.newest[key] = MemorySink(self, node, key)
        return self.newest[key]


class MemorySink:
    """An open sink of one stream."""

    def __init__(self, disks: MemorySinks, node: str, key: tuple[str, str, int]) -> None:
        self._disks = disks
        self._node = node
        self._key = key
        self._kept: list[tuple[Deliver, int]] = []

    @property
    def durable(self) -> Durable | None:
        """Everything that was flushed, in whatever life of the host."""
        return self._disks.durable.get(self._key)

    def keep(self, delivery: Deliver) -> None:
        """Take a delivery in."""
        self._kept.append((delivery, self._disks.clock_us()))

    def flush(self) -> None:
        """Keep all deliveries for good.

        As in an archive, what is written by a process that was replaced is no part of the output.

        Raises
        ------
        OSError
            There is no space left.
        """
        if self._node in self._disks.full and self._kept:
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")
        if self._disks.newest[self._key] is not self:
            self._kept.clear()
        for delivery, arrived_us in self._kept:
            self._disks.deliver(self._node, delivery, arrived_us)
            self._disks.durable[self._key] = delivery.end
        self._kept.clear()

    def close(self) -> None:
        """Drop what was not flushed."""
        self._kept.clear()
