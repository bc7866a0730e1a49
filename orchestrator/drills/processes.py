"""The processes that drills and benchmarks act on, on this machine.

A site's host is a process of its own. An executor's host is a child of a Python daemon, whose
parent is the executor's Java process. ZooKeeper runs below the process that started the cluster.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import psutil

from orchestrator.control.view import ClusterView
from orchestrator.errors import VivaceError

ZOOKEEPER = "QuorumPeerMain"
"""End of the name of ZooKeeper's main class."""

SUPERVISOR = "child_process.py"
"""End of the name of the program that supervises a child process."""

RIVALS = 3
"""Busy processes that a slow host shares its processor with: it gets a quarter."""

BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
"""A program that takes a processor until its parent has ended."""

COORDINATOR = "orchestrator.deploy.coordinator"
"""Module of a coordinator."""

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


def coordinator_processes(cluster_pid: int) -> list[psutil.Process]:
    """The coordinators that this process has started, the oldest first."""
    found = _below(cluster_pid, lambda command: COORDINATOR in command)
    return sorted(found, key=lambda process: process.pid)


def coordinator_process(cluster_pid: int, candidate: str) -> psutil.Process:
    """The process of a candidate for leader, which has its pid in its name.

    Raises
    ------
    NoProcess
        The cluster's process has not started it.
    """
    with suppress(psutil.Error, ValueError):
        process = psutil.Process(int(candidate.rsplit("-", 2)[1]))
        if any(parent.pid == cluster_pid for parent in process.parents()):
            return process
    raise NoProcess(f"coordinator {candidate} has no process on this machine")


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


@contextmanager
def crowded(process: psutil.Process) -> Generator[None]:
    """Have a process share one processor with busy ones for the time of a block."""
    allowed = {each.id: os.sched_getaffinity(each.id) for each in process.threads()}
    processor = {min(os.sched_getaffinity(process.pid))}
    command = [sys.executable, "-I", "-S", "-c", BUSY]
    # Hosts have sessions of their own, and Linux divides processors among sessions first.
    rivals = [subprocess.Popen(command, start_new_session=True) for _ in range(RIVALS)]
    try:
        for pid in (*allowed, *(rival.pid for rival in rivals)):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(pid, processor)
        yield
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()
        everything = set[int]().union(*allowed.values())
        with suppress(psutil.NoSuchProcess):
            # Threads that were started meanwhile have the processor of those that started them.
            for thread in process.threads():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(thread.id, allowed.get(thread.id, everything))
