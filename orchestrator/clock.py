"""The cluster's clock, µs since 1970 and never backwards within a process; processor time."""

from __future__ import annotations

import time

_offset_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000


def now_us() -> int:
    """The time now. It rises steadily even if the machine's wall clock is set meanwhile."""
    return _offset_us + time.monotonic_ns() // 1000


def thread_us() -> int:
    """Processor time that the calling thread has used."""
    return time.thread_time_ns() // 1000
