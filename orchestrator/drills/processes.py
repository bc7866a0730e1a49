"""The processes that drills and benchmarks act on, on this machine.

A site's host is a process of its own. An executor's host is a child of a Python daemon, whose
parent is the executor's Java process. ZooKeeper runs below the process that started the cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

import psutil

from orchestrator.control.view import ClusterView
from orchestrator.errors import VivaceError

ZOOKEEPER = "QuorumPeerMain"
"""End of the name of ZooKeeper's main class."""

FULL_BYTES = 100
"""A file may not grow beyond this while the disk is full; a write that crosses it is cut short."""


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


def zookeeper_process(cluster_pid: int) -> psutil.Process:
    """The embedded ZooKeeper of the cluster that this process runs.

    Raises
    ------
    NoProcess
        The cluster uses another one.
    """
    with suppress(psutil.Error):
        for process in psutil.Process(cluster_pid).children(recursive=True):
            with suppress(psutil.Error):
                if any(part.endswith(ZOOKEEPER) for part in process.cmdline()):
                    return process
    raise NoProcess("the cluster has no ZooKeeper of its own on this machine")


@contextmanager
def suspended(process: psutil.Process) -> Generator[None]:
    """Stop a process for the time of a block (SIGSTOP); it may end meanwhile."""
    process.suspend()
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            process.resume()


@contextmanager
def full_disk(process: psutil.Process) -> Generator[None]:
    """Let a process write nothing to its files for the time of a block."""
    soft, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (FULL_BYTES, hard))
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            process.rlimit(psutil.RLIMIT_FSIZE, (soft, hard))


def hold(seconds: float, breach: threading.Event) -> None:
    """Let time pass, but stop at a breach."""
    breach.wait(seconds)
