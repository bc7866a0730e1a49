"""Durations of a host, counted in buckets as they come."""

from __future__ import annotations

import numpy as np

from foundation.arrays import IntArray
from orchestrator.records.durations import BUCKETS, Histogram, bucket_of


class Durations:
    """Counts durations.

    Parameters
    ----------
    least_us
        The longest one of the first bucket.
    """

    def __init__(self, least_us: int) -> None:
        self._least_us = least_us
        self._bounds_us: IntArray = least_us << np.arange(BUCKETS)
        self._counts: IntArray = np.zeros(BUCKETS + 1, dtype=np.int64)
        self._sum_us = 0.0

    def add(self, us: float) -> None:
        """Count one."""
        self._counts[bucket_of(us, self._least_us)] += 1
        self._sum_us += max(us, 0.0)

    def add_all(self, durations_us: IntArray) -> None:
        """Count some. Clocks of two machines may tell of durations below 0, which count as 0."""
        if len(durations_us) == 1:
            # As most come; an array takes ten times as long.
            self.add(int(durations_us[0]))
            return
        buckets = self._bounds_us.searchsorted(durations_us)
        self._counts += np.bincount(buckets, minlength=BUCKETS + 1)
        self._sum_us += max(int(durations_us.sum()), 0)

    @property
    def histogram(self) -> Histogram:
        """What was counted."""
        return Histogram(
            least_ms=self._least_us / 1000,
            counts=tuple(self._counts.tolist()),
            sum_ms=round(self._sum_us / 1000, 3),
        )
