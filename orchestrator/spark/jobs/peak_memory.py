"""Peak memory of a Spark job, on the driver and on an executor.

The kernel records each process's largest resident size. A driver consists of this process and the
Java process below it, an executor of a Java process and the Python worker below it. The sum of both
peaks is an upper bound, because they need not have been reached at the same time.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path

import psutil

from orchestrator.spark.hosts.executors import BACKEND

DRIVER = "SparkSubmit"
"""End of the name of the main class of the driver's Java process."""

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
