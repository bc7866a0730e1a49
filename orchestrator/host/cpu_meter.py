"""Measures a host's CPU use: the CPU time of its process between two readings.

A node is one executor with one single-threaded host, and several nodes may share a machine. The CPU
use of a node is therefore that of its own process, in cores. The machine's load would include that
of the neighbours, and would make all nodes on the machine look equally busy.
"""

from __future__ import annotations

from collections.abc import Callable

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
