"""How far two clocks are apart, from probes that travel between them anyway.

A probe leaves at t₁ and is answered at t₂ on the other's clock; the answer arrives at t₄. (NTP, RFC
5905, tells the arrival of the probe from the departure of the answer; here they are one moment.)
The answer was written after t₁ and before t₄. Hence the other's clock is ahead by

    θ  ∈  [t₂ − t₄, t₂ − t₁],

whatever the two ways took: an interval as wide as the round trip, around NTP's estimate. It is
exact only if both ways took the same time. Each probe gives such an interval, and the offset lies
in all of them, as in Marzullo and Owicki (1983), *Maintaining the time in a distributed system*.
One interval is kept: it grows with the time, since two clocks may drift apart, and is cut by that
of each new probe. A short round trip therefore counts until drift has made it worth less than a
later one, as in NTP's filter for the least delay, but without a window to choose. Two probes of
which one was slow on its way there and the other on its way back bound the offset more closely than
each of them does.
"""

from __future__ import annotations

from dataclasses import dataclass

DRIFT_PPM = 1000
"""Two clocks gain at most this on each other: kernels correct clocks by up to 500 ppm, and crystals
are off by far less."""

RESOLUTION_US = 1
"""Clocks are read in whole µs."""


@dataclass(frozen=True, slots=True)
class Offset:
    """By how much another clock is ahead, µs, and by how much that may be wrong."""

    ahead_us: int
    uncertainty_us: int


class OffsetEstimator:
    """By how much another clock is ahead of one's own."""

    def __init__(self) -> None:
        self._least_us = self._most_us = 0.0
        self._at_us: int | None = None
        self.resets = 0
        """How often a probe contradicted those before: a clock was set, or drifts faster."""

    def observe(self, sent_us: int, answered_us: int, now_us: int) -> None:
        """Note a probe.

        Parameters
        ----------
        sent_us, now_us
            When it left, and when its answer came; own clock.
        answered_us
            When it was answered; the other's clock.
        """
        if now_us < sent_us:
            return
        drifted_us = _drift_us(now_us - sent_us) + RESOLUTION_US
        least_us = answered_us - now_us - drifted_us
        most_us = answered_us - sent_us + drifted_us
        if self._at_us is not None:
            grown_us = _drift_us(max(now_us - self._at_us, 0))
            before = self._least_us - grown_us, self._most_us + grown_us
            both = max(least_us, before[0]), min(most_us, before[1])
            if both[0] <= both[1]:
                least_us, most_us = both
            else:
                self.resets += 1
        self._least_us, self._most_us, self._at_us = least_us, most_us, now_us

    @property
    def measured(self) -> bool:
        """Whether there has been a probe."""
        return self._at_us is not None

    def at(self, now_us: int) -> Offset | None:
        """The estimate as of now; None before the first probe."""
        if self._at_us is None:
            return None
        grown_us = _drift_us(max(now_us - self._at_us, 0))
        half_us = (self._most_us - self._least_us) / 2 + grown_us
        return Offset(round((self._least_us + self._most_us) / 2), int(half_us) + 1)


def _drift_us(elapsed_us: int) -> float:
    return elapsed_us * DRIFT_PPM / 1e6
