"""The deadline-miss ratio of an output stream, over its whole life and over a recent window.

The deadline-miss ratio (deadline placement, §6.1) is the share of outputs that arrive after their
end-to-end deadline. (The text defines it as the share that arrives in time, but uses it as here.)
The ratio over the stream's whole life shows how good the plan was; the ratio over a recent window
shows the present state. The window is a ring of buckets, each a pair of counts; a new bucket
replaces the oldest. This needs no memory for single outputs. The window reaches back by
`window_us`, or by up to two buckets' length less.

An output is late if its latency exceeds the deadline; a latency equal to the deadline is in time.
"""

from __future__ import annotations

import numpy as np

from foundation.arrays import IntArray

BUCKETS = 20
"""The most buckets of the window."""


class MissRatio:
    """The deadline-miss ratio of one output stream.

    Parameters
    ----------
    deadline_us
        Greatest latency that is in time, µs; infinite: no output is late.
    window_us
        Length of the window, µs, ≥ 1.

    Raises
    ------
    ValueError
        The window is shorter than 1 µs.
    """

    def __init__(self, deadline_us: float, window_us: int) -> None:
        if window_us < 1:
            raise ValueError(f"cannot look back {window_us} µs; give 1 or more")
        self.deadline_us = deadline_us
        self.completed = 0
        self.misses = 0
        self._bucket_us = -(-window_us // BUCKETS)
        self._buckets = window_us // self._bucket_us
        # The number of the bucket that each place of the ring holds, and the bucket's counts.
        self._held = [-1] * self._buckets
        self._recent_completed = [0] * self._buckets
        self._recent_misses = [0] * self._buckets

    def observe(self, latencies_us: IntArray, now_us: int) -> None:
        """Count outputs.

        Parameters
        ----------
        latencies_us
            Latency of each output, µs, shape (n,).
        now_us
            When they arrived, µs, ≥ 0; does not fall from call to call.
        """
        misses = int(np.count_nonzero(latencies_us > self.deadline_us))
        self.count(len(latencies_us), misses, now_us)

    def count(self, completed: int, misses: int, now_us: int) -> None:
        """Count outputs of which somebody else has found how many are late."""
        if completed == 0:
            return
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
        """Share of all outputs that were late, %; None if there was none."""
        return 100.0 * self.misses / self.completed if self.completed else None

    def recent_pct(self, now_us: int) -> float | None:
        """Share of the window's outputs that were late, %; None if there was none."""
        newest = now_us // self._bucket_us
        completed = misses = 0
        for place, bucket in enumerate(self._held):
            if newest - self._buckets < bucket <= newest:
                completed += self._recent_completed[place]
                misses += self._recent_misses[place]
        return 100.0 * misses / completed if completed else None
