"""The processes of an executor on this machine, for drills that kill one."""

from __future__ import annotations

import contextlib
import os
import signal

import psutil

from orchestrator.errors import VivaceError

BACKEND = "ExecutorBackend"
"""End of the name of an executor's main class: CoarseGrained…, Kubernetes…, YarnCoarse…"""


class NoExecutor(VivaceError):
    """A process does not belong to an executor on this machine."""

    def __init__(self, pid: int) -> None:
        super().__init__(
            f"process {pid} belongs to no Spark executor on this machine: "
            "kill it where it runs, or check the pid with `vivace status`"
        )
        self.pid = pid


def executor_pids(host_pid: int) -> list[int]:
    """The processes of a host's executor: its Java process first, then all below it.

    Raises
    ------
    NoExecutor
        The process was not started by an executor, or is gone.
    """
    try:
        for process in psutil.Process(host_pid).parents():
            if any(part.endswith(BACKEND) for part in process.cmdline()):
                return [process.pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.Error as error:
        raise NoExecutor(host_pid) from error
    raise NoExecutor(host_pid)


def kill_executor(host_pid: int) -> list[int]:
    """Kill all processes of an executor, as a crash of its machine would; their pids.

    Raises
    ------
    NoExecutor
        The process was not started by an executor, or is gone.
    """
    pids = executor_pids(host_pid)
    # The host first: otherwise the end of its parents could make it shut down in order.
    for pid in reversed(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids
