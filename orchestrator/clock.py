"""This process's clock, µs since 1970 and never backwards; the machine it runs on; processor time.

The clock is the machine's monotonic clock plus an *anchor*: by how much the machine's wall clock
was ahead of the monotonic one when the process started. Setting the wall clock therefore changes
nothing for a process that runs. A process that starts afterwards has another anchor. Processes of
one machine share the monotonic clock, so their clocks differ by their anchors exactly; how far
clocks of several machines are apart, hosts estimate (`topology.clock_offset`).

*A testing aid.* Nobody but root can set a machine's clock. If the environment variable
`VIVACE_CLOCK_OFFSET_FILE` names a file with a number of seconds, a process that starts takes its
wall clock to be ahead by that. If there is a second word in it, the process takes that for the name
of its machine.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

OFFSET_FILE = "VIVACE_CLOCK_OFFSET_FILE"

_READINGS = 16
"""A process may lose its processor between two readings of a clock; of several, the reading that
took the least time is the best."""


def monotonic_us() -> int:
    """The machine's monotonic clock, which all of its processes share."""
    return time.monotonic_ns() // 1000


def _wall_ahead_us() -> int:
    """By how much the wall clock is ahead of the monotonic one."""
    readings: list[tuple[int, int]] = []
    for _ in range(_READINGS):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return min(readings)[1] // 1000


def _boot() -> str:
    """The machine, until it is booted again."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        # Containers of one machine may have monotonic clocks of their own.
        return f"{boot} {Path('/proc/self/ns/time').readlink()}"
    except OSError:
        return socket.gethostname()


def _injected() -> tuple[int, str | None]:
    """The testing aid's offset and machine."""
    words = Path(os.environ[OFFSET_FILE]).read_text("utf-8").split()
    return round(float(words[0]) * 1e6), words[1] if len(words) > 1 else None


_anchor_us, _machine = _wall_ahead_us(), _boot()
if os.environ.get(OFFSET_FILE):
    _offset_us, _name = _injected()
    _anchor_us, _machine = _anchor_us + _offset_us, _name or _machine


def anchor_us() -> int:
    """By how much this process's clock is ahead of the machine's monotonic one."""
    return _anchor_us


def machine() -> str:
    """Names the machine in its present boot: processes that agree share a monotonic clock."""
    return _machine


def now_us() -> int:
    """The time now. It rises steadily even if the machine's wall clock is set meanwhile."""
    return _anchor_us + monotonic_us()


def thread_us() -> int:
    """Processor time that the calling thread has used."""
    return time.thread_time_ns() // 1000
