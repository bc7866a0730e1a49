"""How long things took, counted in buckets: what monitoring adds up over time and over places."""

from __future__ import annotations

from math import ceil

from orchestrator.records.base import Record

BUCKETS = 15
"""Buckets with a bound; one more has all that took longer."""

RECOVERY_LEAST_MS = 1.0
"""Recoveries are counted up to 16 s."""

MOVE_LEAST_MS = 10.0
"""Moves are counted up to 164 s: a large state takes long to come."""


def bucket_of(us: float, least_us: int) -> int:
    """The bucket of a duration: of those that hold it, the one with the least bound."""
    return min((max(ceil(us) - 1, 0) // least_us).bit_length(), BUCKETS)


class Histogram(Record, frozen=True, kw_only=True):
    """How often something took how long.

    Attributes
    ----------
    least_ms
        The longest duration of the first bucket; that of each further one is twice as long.
    counts
        By bucket, each without those before; the last one has no bound.
    """

    least_ms: float
    counts: tuple[int, ...] = (0,) * (BUCKETS + 1)
    sum_ms: float = 0.0

    @property
    def bounds_ms(self) -> tuple[float, ...]:
        """The longest durations of the buckets that have one."""
        return tuple(self.least_ms * 2**bucket for bucket in range(len(self.counts) - 1))

    def plus(self, ms: float) -> Histogram:
        """With one more duration."""
        counts = [*self.counts]
        counts[bucket_of(ms * 1000, round(self.least_ms * 1000))] += 1
        return Histogram(
            least_ms=self.least_ms, counts=tuple(counts), sum_ms=self.sum_ms + max(ms, 0.0)
        )


NO_RECOVERY = Histogram(least_ms=RECOVERY_LEAST_MS)

NO_MOVE = Histogram(least_ms=MOVE_LEAST_MS)


class DurationsRecord(Record, frozen=True, kw_only=True):
    """`/durations`: how long recoveries and moves took, as leaders saw, whoever led."""

    recoveries: dict[str, Histogram] = {}
    """By query: of its fragments, from the failure until the replica that took over had caught
    up."""
    moves: Histogram = NO_MOVE
    """Of the steps of moves that were done, from their beginning on."""
