"""How time passes while a drill waits, and what drills of ZooKeeper do to its servers.

Everything else fails by itself, where it runs: the drill asks it to by a record
(`orchestrator.drills.striking`). ZooKeeper cannot, and its drills act on processes of this machine:
they fit only a cluster that was started here.

The simulated world has hands of its own (`orchestrator.simulation.world.drill_hands`), so that the
drills themselves are written once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import ClusterView
from orchestrator.drills.processes import zookeeper_processes
from orchestrator.embedded.process_faults import STOPPED, imposed


class Process(Protocol):
    """Something that can be ended, and that is started again by its supervisor, as another one."""

    def terminate(self) -> None:
        """Have it end in order."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


class Hands:
    """Waits, and strikes servers of ZooKeeper on this machine."""

    def now_us(self, view: ClusterView) -> int:
        """The cluster's clock."""
        return cluster_now_us(view.cluster_clocks)

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def hold(self, seconds: float, breach: threading.Event) -> None:
        """Let time pass, but stop at a breach."""
        breach.wait(seconds)

    def servers(self, cluster_pid: int) -> Sequence[Process]:
        """The cluster's own servers of ZooKeeper, the oldest first."""
        return zookeeper_processes(cluster_pid)

    def store_stopped(
        self, cluster_pid: int, lasts_s: float, *, most: bool
    ) -> AbstractContextManager[None]:
        """Stop a server of ZooKeeper, or most of them, for the time of a block."""
        servers = zookeeper_processes(cluster_pid)
        return imposed(STOPPED, servers[: len(servers) // 2 + 1 if most else 1], lasts_s)


REAL = Hands()
