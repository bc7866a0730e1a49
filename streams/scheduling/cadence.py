"""How much a host does at a time, and how often: what the planner and the host both go by."""

from __future__ import annotations

TIMESTAMPS_PER_DISPATCH = 64
"""Most timestamp groups of a batch; then the host handles messages again."""


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
