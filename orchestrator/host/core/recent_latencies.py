"""The latencies of late, of which percentiles are asked every second or so.

They lie in one array, in which the newest ones replace the oldest. A percentile is found by
partition, in time proportional to their number, without sorting or copying them one by one.
"""

from __future__ import annotations

import numpy as np

from foundation.arrays import IntArray


class RecentLatencies:
    """The newest latencies, µs.

    Parameters
    ----------
    most
        How many are kept.
    """

    def __init__(self, most: int) -> None:
        self._kept: IntArray = np.zeros(most, dtype=np.int64)
        self._next = 0
        """Place of the next one."""
        self.count = 0

    def add(self, latencies_us: IntArray) -> None:
        """Add some, the newest last."""
        newest = latencies_us[-len(self._kept) :]
        room = len(self._kept) - self._next
        self._kept[self._next : self._next + len(newest)] = newest[:room]
        self._kept[: max(len(newest) - room, 0)] = newest[room:]
        self._next = (self._next + len(newest)) % len(self._kept)
        self.count = min(self.count + len(newest), len(self._kept))

    def percentiles_ms(self, *ranks: float) -> tuple[float, ...]:
        """Percentiles, ms; there is at least one latency."""
        found = np.percentile(self._kept[: self.count], ranks)
        return tuple(float(us) / 1000 for us in found)
