"""Rates a second of things that are counted, as they were lately.

Amounts are added as they occur. A reading closes an interval: its amounts and its length join sums
that decay with time, so an interval's weight falls by a factor e every `WINDOW_US`. A rate is the
quotient of two such sums. It therefore is the plain mean at first, and later that of the last
seconds; short intervals make it no noisier than long ones.
"""

from __future__ import annotations

import math

WINDOW_US = 10_000_000
"""Long enough that garbage collections, a snapshot or a quiet second weigh little; short enough
that a new load shows within half a minute."""


class RecentRates:
    """Rates of several quantities.

    Parameters
    ----------
    quantities
        How many there are.
    now_us
        When counting begins.

    Examples
    --------
    >>> rates = RecentRates(2, now_us=0)
    >>> rates.add(10, 0.5)
    >>> rates.read(now_us=2_000_000)
    (5.0, 0.25)
    """

    def __init__(self, quantities: int, now_us: int) -> None:
        self._pending = [0.0] * quantities
        self._sums = [0.0] * quantities
        self._seconds = 0.0
        self._read_us = now_us

    def add(self, *amounts: float) -> None:
        """Count amounts, one for each quantity."""
        for at, amount in enumerate(amounts):
            self._pending[at] += amount

    def read(self, now_us: int) -> tuple[float, ...]:
        """The rates of now; 0 before any time has passed."""
        elapsed_us = now_us - self._read_us
        if elapsed_us > 0:
            kept = math.exp(-elapsed_us / WINDOW_US)
            self._seconds = self._seconds * kept + elapsed_us / 1e6
            self._sums = [
                kept * total + amount
                for total, amount in zip(self._sums, self._pending, strict=True)
            ]
            self._pending = [0.0] * len(self._pending)
            self._read_us = now_us
        return tuple(total / self._seconds if self._seconds else 0.0 for total in self._sums)

    @property
    def window_share(self) -> float:
        """How much of its window the last reading rests on, 0 to 1: little at first."""
        return min(self._seconds * 1e6 / WINDOW_US, 1.0)
