"""A host's view of its own process: its CPU use, its session, and whether its executor still lives.

*CPU use.* A node is one executor with one single-threaded host, and several nodes may share a
machine. The CPU use of a node is therefore that of its own process, in cores: its CPU time between
two readings. The machine's load would include that of the neighbours, and would make all nodes on
the machine look equally busy.

*Parents.* A host is a Python process that was forked by a daemon, which in turn was started by the
Java process of an executor. When that Java process dies, the daemon normally reads end of file and
terminates its children within a second. If the daemon was killed too, or hangs, nobody terminates
the host, and it would go on for a node that Spark has started anew. The host's loop therefore
checks who its parents are.

*Session.* Spark starts all processes of an application in one session. Linux divides processors
among sessions first, and within a session among threads (`kernel.sched_autogroup_enabled`). When an
executor has died, a Java process starts in its place with a dozen busy threads, and each host of
the session would wait for its turn among them, just when hosts take over. So each has a session.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

import psutil


def process_cpu_s() -> float:
    """CPU seconds, user and system, that this process has used since it started.

    The kernel counts in hundredths of a second.
    """
    times = psutil.Process().cpu_times()
    return times.user + times.system


class CpuMeter:
    """Computes the CPU use between two readings.

    Parameters
    ----------
    now_us
        Time of the first reading.
    least_us
        Shortest interval between two readings: over a shorter one, hundredths are too coarse.
    used_s
        Reads the CPU seconds used so far.
    """

    def __init__(
        self, now_us: int, *, least_us: int, used_s: Callable[[], float] = process_cpu_s
    ) -> None:
        self._read_s = used_s
        self._least_us = least_us
        self._at_us, self._used_s = now_us, used_s()

    def load(self, now_us: int) -> float | None:
        """CPU use since the last reading, cores ≥ 0; None if that is less than `least_us` ago."""
        elapsed_us = now_us - self._at_us
        if elapsed_us < self._least_us:
            return None
        used_s = self._read_s()
        load = max(used_s - self._used_s, 0.0) * 1e6 / elapsed_us
        self._at_us, self._used_s = now_us, used_s
        return load


def begin_session() -> None:
    """Leave the session of the processes that started this one; do nothing if it has its own."""
    with suppress(PermissionError):
        os.setsid()


LOOK_EVERY_S = 0.5
"""Interval between two checks of the grandparent: each takes about a millisecond."""


class ParentWatchdog:
    """Remembers who a process's parent and grandparent were.

    Create it when the process starts its work, in that process.
    """

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._grandparent = _parent_of(self._parent)
        self._look_at = time.monotonic()

    def parent_is_gone(self) -> bool:
        """Whether the parent or the grandparent has ended; cheap enough for every turn.

        When a parent ends, the kernel gives its children another parent. Comparing parents is
        therefore safe even if the pid of the old one is used again.
        """
        if os.getppid() != self._parent:
            return True
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_EVERY_S
        return _parent_of(self._parent) != self._grandparent


def _parent_of(pid: int) -> int | None:
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return None
