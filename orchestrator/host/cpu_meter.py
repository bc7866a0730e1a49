"""How busy a host is: the CPU time of its process between two looks.

A node is one executor with one single-threaded host, and several may share a machine: what counts
for a node is what its own process uses, in cores. The machine's load would be that of its
neighbours too, and would push all of them away alike.
"""

from __future__ import annotations

from collections.abc import Callable

import psutil


def process_cpu_s() -> float:
    """CPU seconds, user and system, that this process has used since it started.

    The kernel counts them in hundredths: over a second, a hundredth of a core.
    """
    times = psutil.Process().cpu_times()
    return times.user + times.system


class CpuMeter:
    """Takes the load between one look and the next.

    Parameters
    ----------
    now_us
        When it starts.
    least_us
        Looks closer together than this tell nothing: too few hundredths have passed.
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
        """CPU use since the last look that told something, cores ≥ 0; None if it was just now."""
        elapsed_us = now_us - self._at_us
        if elapsed_us < self._least_us:
            return None
        used_s = self._read_s()
        load = max(used_s - self._used_s, 0.0) * 1e6 / elapsed_us
        self._at_us, self._used_s = now_us, used_s
        return load
