"""How many answers of an output stream came too late, ever and lately.

The deadline-miss ratio (deadline placement, §6.1) is the share of what comes out that is later
than its end-to-end deadline; the text defines it as the share in time, and uses it as here. Over a
stream's whole life it says how well it was planned; to see whether it is well now, it is taken over
a window of time as well. The window is made of buckets: a ring of counts, the oldest of which is
given up when a new one begins. So it takes no memory for each answer, and reaches back by
`window_us`, or less by up to two buckets' length.

An answer is late if its latency is greater than the deadline; one that comes just then is not.
"""

from __future__ import annotations

import numpy as np

from topology.arrays import IntArray

BUCKETS = 20
"""Parts of the window, at most."""


class MissRatio:
    """The deadline-miss ratio of one output stream.

    Parameters
    ----------
    deadline_us
        Greatest latency that is in time, µs; infinite: none is late.
    window_us
        Length of the window, µs, ≥ 1.

    Raises
    ------
    ValueError
        A window that is none.
    """

    def __init__(self, deadline_us: float, window_us: int) -> None:
        if window_us < 1:
            raise ValueError(f"cannot look back {window_us} µs; give 1 or more")
        self.deadline_us = deadline_us
        self.completed = 0
        self.misses = 0
        self._bucket_us = -(-window_us // BUCKETS)
        self._buckets = window_us // self._bucket_us
        # Which bucket of all time each place of the ring holds, and its counts.
        self._held = [-1] * self._buckets
        self._recent_completed = [0] * self._buckets
        self._recent_misses = [0] * self._buckets

    def observe(self, latencies_us: IntArray, now_us: int) -> None:
        """Count answers.

        Parameters
        ----------
        latencies_us
            Of each, µs, shape (n,).
        now_us
            When they came, µs, ≥ 0; does not fall from call to call.
        """
        completed = len(latencies_us)
        if completed == 0:
            return
        misses = int(np.count_nonzero(latencies_us > self.deadline_us))
        self.completed += completed
        self.misses += misses
        bucket = now_us // self._bucket_us
        place = bucket % self._buckets
        if self._held[place] != bucket:
            self._held[place] = bucket
            self._recent_completed[place] = self._recent_misses[place] = 0
        self._recent_completed[place] += completed
        self._recent_misses[place] += misses

    @property
    def ratio_pct(self) -> float | None:
        """Share of all answers that were late, %; None if there was none."""
        return 100.0 * self.misses / self.completed if self.completed else None

    def recent_pct(self, now_us: int) -> float | None:
        """Share of the window's answers that were late, %; None if there was none."""
        newest = now_us // self._bucket_us
        completed = misses = 0
        for place, bucket in enumerate(self._held):
            if newest - self._buckets < bucket <= newest:
                completed += self._recent_completed[place]
                misses += self._recent_misses[place]
        return 100.0 * misses / completed if completed else None
