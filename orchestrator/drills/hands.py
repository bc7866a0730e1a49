"""What drills do to a cluster, and how time passes meanwhile: here, to processes of this machine.

The simulated world does the same to simulated hosts (`orchestrator.simulation.world.drill_hands`),
so that the drills themselves are written once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import ClusterView
from orchestrator.drills.processes import (
    coordinator_process,
    coordinator_processes,
    host_process,
    zookeeper_processes,
)
from orchestrator.embedded.process_faults import CROWDED, FULL_DISK, STOPPED, imposed
from orchestrator.embedded.spark_processes import kill_executor


class Process(Protocol):
    """Something that can be ended, and that is started again by its supervisor, as another one."""

    def terminate(self) -> None:
        """Have it end in order."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


class Hands:
    """Strikes processes. A process that is not there raises `NoProcess`."""

    def now_us(self, view: ClusterView) -> int:
        """The cluster's clock."""
        return cluster_now_us(view.cluster_clocks)

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def hold(self, seconds: float, breach: threading.Event) -> None:
        """Let time pass, but stop at a breach."""
        breach.wait(seconds)

    def site(self, view: ClusterView, site: str) -> Process:
        """The host of a site."""
        return host_process(view, site)

    def coordinators(self, cluster_pid: int) -> Sequence[Process]:
        """The cluster's coordinators, the oldest first."""
        return coordinator_processes(cluster_pid)

    def servers(self, cluster_pid: int) -> Sequence[Process]:
        """The cluster's own servers of ZooKeeper, the oldest first."""
        return zookeeper_processes(cluster_pid)

    def kill_executor(self, view: ClusterView, node: str) -> None:
        """End a node's executor by SIGKILL."""
        kill_executor(view.nodes[node].record.pid)

    def kill_coordinator(self, cluster_pid: int, candidate: str) -> None:
        """End a coordinator by SIGKILL."""
        coordinator_process(cluster_pid, candidate).kill()

    def full_disk(
        self, view: ClusterView, site: str, lasts_s: float
    ) -> AbstractContextManager[None]:
        """Let a site write nothing to its files for the time of a block; see `imposed`."""
        return imposed(FULL_DISK, [host_process(view, site)], lasts_s)

    def crowded(self, view: ClusterView, node: str, lasts_s: float) -> AbstractContextManager[None]:
        """Leave a node's host a quarter of a processor for the time of a block."""
        return imposed(CROWDED, [host_process(view, node)], lasts_s)

    def store_stopped(
        self, cluster_pid: int, lasts_s: float, *, most: bool
    ) -> AbstractContextManager[None]:
        """Stop a server of ZooKeeper, or most of them, for the time of a block."""
        servers = zookeeper_processes(cluster_pid)
        return imposed(STOPPED, servers[: len(servers) // 2 + 1 if most else 1], lasts_s)


REAL = Hands()
