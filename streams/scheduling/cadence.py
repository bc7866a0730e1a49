"""How much a host does at a time, and how often: what the planner and the host both go by."""

from __future__ import annotations

TIMESTAMPS_PER_DISPATCH = 64
"""Most timestamp groups of a batch; then the host handles messages again."""


BLOCKING_SHARE = 1 / 6
"""Length of a batch as a share of the tightest sub-deadline on a host: input that arrives
meanwhile waits that long. Admission leaves a fifth to spare, which is more. Much shorter batches
would be expensive, because each takes a turn of the loop, at a cost that does not depend on the
batch."""

BATCH_US = (1_000.0, 10_000.0)
"""Least and greatest length of a batch: dispatching costs more than shorter batches gain, and
heartbeats wait for longer ones."""


def batch_length_us(tightest_us: float) -> float:
    """How long a batch of a host may last whose tightest sub-deadline this is, µs."""
    least_us, most_us = BATCH_US
    return min(max(BLOCKING_SHARE * tightest_us, least_us), most_us)


def every_nth(count: float, few: int, *, most: int) -> int:
    """In every how many intervals a host tells of so many streams or replicas.

    A power of two: what is told rarely then travels with what is told more often.

    Parameters
    ----------
    few
        Of fewer, it tells in each interval.
    most
        The result is at most this, a power of two.
    """
    return min(1 << int(count // few).bit_length(), most)
