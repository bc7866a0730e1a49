"""The releases of a periodic statement: when its relation is shown.

Releases are at b_i = o + i·p. The first one is the first at or past the first tuple. While no
input brings a tuple, releases go on, because windows still hold tuples and aggregates have values;
but only for `SILENT_PERIODS` periods after the newest tuple. A leap of event time would otherwise
bring about any number of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foundation.arrays import IntArray
from streams.plan.program import ReleasePlan
from streams.vectors.chunk import FOREVER_MS
from streams.vectors.state import Pieces, State

SILENT_PERIODS = 100_000
"""Periods after the newest tuple for which releases go on."""


class Releases:
    """Which releases are due, from the timestamps of all inputs' tuples."""

    def __init__(self, plan: ReleasePlan) -> None:
        self._plan = plan
        self._newest_ms: int | None = None
        """The first release at or past the newest tuple; None: there was no tuple."""
        self._next_ms = -FOREVER_MS
        """No release before this is due any more."""

    def due(self, times_ms: IntArray, until_ms: int) -> IntArray:
        """The releases up to a watermark, rising, that have not been due before.

        Parameters
        ----------
        times_ms
            The timestamps of the tuples since the last watermark, rising.
        until_ms
            The watermark.
        """
        plan, period_ms = self._plan, self._plan.period_ms
        owners = times_ms + (plan.offset_ms - times_ms) % period_ms
        begins = owners
        if self._newest_ms is not None:
            owners = np.concatenate([[self._newest_ms], owners])
            begins = np.concatenate([[max(self._newest_ms, self._next_ms)], begins])
        if not len(owners):
            return owners
        last_ms = until_ms - (until_ms - plan.offset_ms) % period_ms
        ends = np.minimum(owners + SILENT_PERIODS * period_ms, last_ms)
        ends[:-1] = np.minimum(ends[:-1], begins[1:] - period_ms)
        counts = np.maximum((ends - begins) // period_ms + 1, 0)
        self._newest_ms = int(owners[-1])
        past_ms = self._newest_ms + (SILENT_PERIODS + 1) * period_ms
        self._next_ms = min(last_ms + period_ms, past_ms)
        places = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(begins, counts) + places * period_ms

    def next_ms(self) -> int:
        """The next release, if no tuple arrives before it."""
        if self._newest_ms is None:
            return FOREVER_MS
        next_ms = max(self._newest_ms, self._next_ms)
        most_ms = self._newest_ms + SILENT_PERIODS * self._plan.period_ms
        return next_ms if next_ms <= most_ms else FOREVER_MS

    def held(self) -> int:
        """Number of rows that it keeps."""
        return 0

    def save(self) -> Pieces:
        """Which releases are due next."""
        values = {"newest_ms": self._newest_ms, "next_ms": self._next_ms}

        def pieces() -> Iterator[State]:
            yield State(values=values)

        return pieces

    def load(self, state: State) -> None:
        """Take what was saved."""
        newest_ms = state.values["newest_ms"]
        self._newest_ms = None if newest_ms is None else int(newest_ms)
        self._next_ms = int(state.values["next_ms"])

    def loaded(self) -> None:
        """Nothing is left to do."""
