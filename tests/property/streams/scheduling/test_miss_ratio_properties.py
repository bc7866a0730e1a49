"""Ratios of any sequence of outputs, against a list of them all."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.scheduling.miss_ratio import BUCKETS, MissRatio

DEADLINE_US = 100
arrivals = st.lists(
    st.tuples(st.integers(0, 300), st.lists(st.integers(0, 200), max_size=4)), max_size=25
)


def pct(late: list[bool]) -> float | None:
    return 100.0 * sum(late) / len(late) if late else None


@settings(max_examples=300, deadline=None)
@given(arrivals, st.integers(1, 500), st.integers(0, 600))
def test_recent_ratio_is_that_of_completed_timestamps_since_the_window_began(
    arrivals: list[tuple[int, list[int]]], window_us: int, rest_us: int
) -> None:
    ratio, now_us = MissRatio(DEADLINE_US, window_us), 0
    seen: list[tuple[int, bool]] = []
    for gap_us, latencies in arrivals:
        now_us += gap_us
        ratio.observe(np.array(latencies, dtype=np.int64), now_us)
        seen += [(now_us, latency > DEADLINE_US) for latency in latencies]
        assert ratio.completed == len(seen)
        assert ratio.misses == sum(late for _, late in seen)
        assert ratio.ratio_pct == pct([late for _, late in seen])
    now_us += rest_us
    bucket_us = -(-window_us // BUCKETS)
    # The window begins at a bucket's edge, at most two buckets' length late.
    begins = range(now_us - window_us, now_us - window_us + 2 * bucket_us + 1)
    possible = [pct([late for at_us, late in seen if at_us > begin]) for begin in begins]
    assert ratio.recent_pct(now_us) in possible
