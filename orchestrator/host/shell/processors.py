"""The processors that a host runs on: who shares them, and how many there are.

Several hosts of a local cluster run on one machine. Together they cannot use more than its
processors, so plans must know which hosts these are. The kernel's boot id tells machines apart, and
is the same in all containers on one. A container with a processor quota of its own counts as a
machine of its own: what its neighbours use is not taken from the quota.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from orchestrator.records import Processors

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
QUOTA = Path("/sys/fs/cgroup/cpu.max")


def own_processors(boot_id: Path = BOOT_ID, quota: Path = QUOTA) -> Processors:
    """The processors of this process.

    Parameters
    ----------
    boot_id, quota
        The kernel's files; either may be missing.
    """
    name = socket.gethostname()
    shared = _text(boot_id) or name
    count = float(len(os.sched_getaffinity(0)))
    limited = _quota_processors(_text(quota))
    if limited is not None and limited < count:
        return Processors(machine=name, shared=f"{shared}/{name}", count=limited)
    return Processors(machine=name, shared=shared, count=count)


def _quota_processors(text: str) -> float | None:
    """Processors that a quota allows (`<µs> <period µs>`); None without one."""
    parts = text.split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts) or not int(parts[1]):
        return None
    return int(parts[0]) / int(parts[1])


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
