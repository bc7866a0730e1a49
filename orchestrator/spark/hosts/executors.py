"""The processes that make up an executor on this machine, for drills that kill one."""

from __future__ import annotations

import contextlib
import os
import signal

import psutil

from orchestrator.errors import VivaceError

BACKEND = "ExecutorBackend"
"""Ends the name of the class every executor runs: CoarseGrained…, Kubernetes…, YarnCoarse…"""


class NoExecutor(VivaceError):
    """A process that no executor on this machine runs."""

    def __init__(self, pid: int) -> None:
        super().__init__(
            f"process {pid} belongs to no Spark executor on this machine: "
            "kill it where it runs, or check the pid with `vivace status`"
        )
        self.pid = pid


def executor_pids(host_pid: int) -> list[int]:
    """The executor that runs a host, Java process first, then everything below it.

    Raises
    ------
    NoExecutor
        The process has no executor above it, or is gone.
    """
    try:
        for process in psutil.Process(host_pid).parents():
            if any(part.endswith(BACKEND) for part in process.cmdline()):
                return [process.pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.Error as error:
        raise NoExecutor(host_pid) from error
    raise NoExecutor(host_pid)


def kill_executor(host_pid: int) -> list[int]:
    """Kill an executor as a crash of its machine would, all processes at once; their pids.

    Raises
    ------
    NoExecutor
        The process has no executor above it, or is gone.
    """
    pids = executor_pids(host_pid)
    # The host first: its end must not become known through its parents' orderly ways.
    for pid in reversed(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids
