"""The CPU axis of the coordinate space: load turned into milliseconds (reliable placement, §4.2).

A node's distance is not only how far its packets travel: of two equally near nodes the idle one
should be nearer. A scaling function turns CPU use into a latency, and that becomes one more,
non-negative axis of the node's coordinate.
"""

from __future__ import annotations

import math


class CpuLoadError(ValueError):
    """A load or scale that no machine has."""


def linear(load: float, scale_ms: float) -> float:
    """Milliseconds in proportion to the load.

    Parameters
    ----------
    load
        CPU use in cores, ≥ 0: 1 = one core fully used.
    scale_ms
        What one fully used core counts for, ms, ≥ 0.

    Raises
    ------
    CpuLoadError
        If either is negative or not a number.

    Examples
    --------
    >>> linear(0.25, scale_ms=10)
    2.5
    """
    if not math.isfinite(load) or load < 0:
        raise CpuLoadError(f"CPU load {load} is not a number of cores ≥ 0")
    if not math.isfinite(scale_ms) or scale_ms < 0:
        raise CpuLoadError(f"CPU scale {scale_ms} ms is not a number ≥ 0")
    return load * scale_ms
