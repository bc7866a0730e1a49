"""The processes of a cluster on this machine, for drills of ZooKeeper and for benchmarks.

A site's host is a process of its own. An executor's host is a child of a Python daemon, whose
parent is the executor's Java process. ZooKeeper runs below the process that started the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import psutil

from orchestrator.control.observe.view import ClusterView
from orchestrator.errors import VivaceError

ZOOKEEPER = "QuorumPeerMain"
"""End of the name of ZooKeeper's main class."""

SUPERVISOR = "child_process.py"
"""End of the name of the program that supervises a child process."""


class NoProcess(VivaceError):
    """A process is not on this machine, or has ended."""


def host_process(view: ClusterView, node: str) -> psutil.Process:
    """The process of a node's or site's host.

    Raises
    ------
    NoProcess
        It is not here.
    """
    try:
        return psutil.Process(view.nodes[node].record.pid)
    except (KeyError, psutil.Error) as error:
        raise NoProcess(f"the host of {node} has no process on this machine") from error


def zookeeper_processes(cluster_pid: int) -> list[psutil.Process]:
    """The embedded ZooKeeper servers that this process has started, the oldest first."""
    found = _below(cluster_pid, lambda command: any(p.endswith(ZOOKEEPER) for p in command))
    return sorted(found, key=lambda process: process.pid)


def _below(pid: int, wanted: Callable[[list[str]], bool]) -> list[psutil.Process]:
    """Processes below another one, by their commands.

    The supervisor of a child process has the child's command among its arguments, and is left out.
    """
    found: list[psutil.Process] = []
    with suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                command = process.cmdline()
                if wanted(command) and not any(p.endswith(SUPERVISOR) for p in command):
                    found.append(process)
    return found
