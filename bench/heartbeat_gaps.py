"""How long a peer's silence must last to mean something, learnt from its own gaps.

After Hayashibara, Défago, Yared and Katayama (2004), *The φ accrual failure detector*: the longer a
silence, the less likely is it that the peer lives. φ is the negative decimal logarithm of that
probability, given the gaps between the peer's former signs of life. A threshold on φ is a threshold
on the silence, another one for each peer: short for a peer that is always heard in time, long for
one that is not.

Symbols: μ, σ mean and standard deviation of the gaps, here with weights that fall exponentially.

Deviations from the paper. The gaps of a machine that is CPU-starved have a longer tail than
the paper's normal distribution, so the threshold is also `LONGEST_SHARE` times the longest gap
lately. Data counts as a sign of life, and may stop at any moment; then only heartbeats come. The
threshold is therefore never below `LEAST_HEARTBEATS` heartbeats.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from ha.failure_detector import FailureDetector

LEAST_HEARTBEATS = 3
"""Heartbeats that may be missing whatever the gaps were."""

LEAST_SAMPLES = 40
"""Gaps before which nothing is known: one second of heartbeats."""

WEIGHT = 1 / 64
"""Of a new gap in mean and variance."""

LONGEST_SHARE = 1.5

LONGEST_HALF_LIFE = 2_400
"""Gaps after which the longest one counts half: a minute of heartbeats."""


class HeartbeatGaps:
    """The gaps between a peer's signs of life.

    Parameters
    ----------
    heartbeat_us
        Time between two heartbeats, µs.
    phi
        The threshold on φ.
    """

    def __init__(self, heartbeat_us: int, phi: float) -> None:
        self._least_us = LEAST_HEARTBEATS * heartbeat_us
        self._deviations = NormalDist().inv_cdf(1 - 10.0**-phi)
        self._decay = 0.5 ** (1 / LONGEST_HALF_LIFE)
        self._count = 0
        self._mean_us = float(heartbeat_us)
        self._variance = 0.0
        self._longest_us = 0.0

    def note(self, gap_us: int) -> None:
        """Note the time between two signs of life, µs."""
        self._count += 1
        weight = max(WEIGHT, 1 / self._count)
        off_us = gap_us - self._mean_us
        self._mean_us += weight * off_us
        self._variance = (1 - weight) * (self._variance + weight * off_us * off_us)
        self._longest_us = max(self._longest_us * self._decay, gap_us)

    def threshold_us(self, most_us: int) -> float:
        """The silence after which φ exceeds its threshold, µs; `most_us` at most.

        That is what recovery bounds allow; it is also taken while too little is known.
        """
        if self._count < LEAST_SAMPLES:
            return most_us
        tail_us = self._mean_us + self._deviations * math.sqrt(self._variance)
        return min(max(tail_us, LONGEST_SHARE * self._longest_us, self._least_us), most_us)


class AccrualDetector(FailureDetector):
    """The product's detector, with thresholds that it learns from the gaps of each peer.

    Parameters
    ----------
    phi
        The threshold on φ.
    """

    def __init__(self, suspect_after_us: int, tick_us: int, phi: float) -> None:
        super().__init__(suspect_after_us, tick_us)
        self._most_us, self._heartbeat_us, self._phi = suspect_after_us, tick_us, phi
        self._gaps: dict[str, HeartbeatGaps] = {}

    def heard(self, peer: str, now_us: int) -> None:
        """Note a sign of life, and the gap that it ends."""
        if not self.counts_as_lost(peer):
            self._gaps_of(peer).note(self.silent_us(peer, now_us))
        super().heard(peer, now_us)

    def threshold_us(self, peer: str) -> float:
        """The silence after which φ exceeds its threshold."""
        return self._gaps_of(peer).threshold_us(self._most_us)

    def _gaps_of(self, peer: str) -> HeartbeatGaps:
        return self._gaps.setdefault(peer, HeartbeatGaps(self._heartbeat_us, self._phi))
