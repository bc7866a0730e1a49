"""The processes of executors and of the driver: drills have them end, and jobs measure them.

*Peak memory.* The kernel records each process's largest resident size. A driver consists of this
process and the Java process below it, an executor of a Java process and the Python worker below it.
The sum of both peaks is an upper bound, because they need not have been reached at the same time.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from orchestrator.errors import VivaceError

BACKEND = "ExecutorBackend"
"""End of the name of an executor's main class: CoarseGrained…, Kubernetes…, YarnCoarse…"""


class NoExecutor(VivaceError):
    """A process does not belong to an executor on this machine."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"process {pid} belongs to no Spark executor on this machine")
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


def kill_executor(pids: Sequence[int]) -> None:
    """Kill all processes of an executor (`executor_pids`), as a crash of its machine would."""
    # The host first: otherwise the end of its parents could make it shut down in order. One that
    # does it itself has no time to.
    own = os.getpid()
    for pid in [*(pid for pid in reversed(pids) if pid != own), *({own} & {*pids})]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


DRIVER = "SparkSubmit"
"""End of the name of the main class of the driver's Java process."""


def kill_own_driver() -> None:
    """Kill the Java process of the driver that this process has started.

    Its executors notice, and end with their hosts.
    """
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any(part.endswith(DRIVER) for part in process.cmdline()):
                process.kill()


_MAXRSS_UNIT_MB = 2**20 if sys.platform == "darwin" else 2**10


def driver_peak_mb() -> float:
    """Peak of this process plus that of its Java process, MB."""
    peak_mb = _own_peak_mb()
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if any(part.endswith(DRIVER) for part in process.cmdline()):
                peak_mb += _peak_mb(process)
    return peak_mb


def executor_peak_mb() -> float:
    """Peak of this Python worker plus that of the executor above it, MB."""
    peak_mb = _own_peak_mb()
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process().parents():
            if any(part.endswith(BACKEND) for part in process.cmdline()):
                return peak_mb + _peak_mb(process)
    return peak_mb


def _own_peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MAXRSS_UNIT_MB


def _peak_mb(process: psutil.Process) -> float:
    """Another process's peak if the kernel reports it (Linux), else its present size, MB."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    return process.memory_info().rss / 2**20
