"""The longest silence at a sink: the measure by which failovers are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

TUPLES_PER_S = 5_000
"""Load while executors are killed; the same for every system."""

KEYS = 200
"""Number of keys: about that of the aircraft in the example."""

STEADY_S = 5.0
"""Undisturbed time before each kill, and after all executors are back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Measurements of one system in a series of failovers.

    Attributes
    ----------
    gaps_ms
        Longest silence around each kill, ms.
    counts
        Further figures of the whole series: `lost`, `repeated`, …
    """

    gaps_ms: Sequence[float]
    counts: Mapping[str, float] = field(default_factory=dict[str, float])


Seconds = Sequence[float] | npt.NDArray[np.float64]


def longest_silence_ms(arrivals_s: Seconds, since_s: float, until_s: float) -> float:
    """Longest time without an arrival, among the silences that overlap [since, until].

    Parameters
    ----------
    arrivals_s
        Arrival times of output, s, rising. A silence that lasts beyond `until` counts up to
        `until`, so that a system that never recovers has a long silence.
    since_s, until_s
        Time of the kill, and end of the measurement.

    >>> longest_silence_ms([0.0, 1.0, 3.0, 3.5], since_s=2.0, until_s=4.0)
    2000.0
    """
    arrivals = np.asarray(arrivals_s, dtype=float)
    before = arrivals[arrivals <= since_s]
    start = before[-1] if len(before) else since_s
    within = arrivals[(arrivals > since_s) & (arrivals < until_s)]
    edges = np.concatenate([[start], within, [until_s]])
    return float(np.max(np.diff(edges))) * 1000
