"""Durations: the same counts, however they are counted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.host.core.durations import Durations
from orchestrator.records import Histogram
from orchestrator.records.durations import BUCKETS

LEAST_US = 1000


@given(st.lists(st.integers(-(10**6), 10**9)))
def test_many_at_once_are_counted_as_one_by_one(durations_us: list[int]) -> None:
    together, single = Durations(LEAST_US), Durations(LEAST_US)
    together.add_all(np.array(durations_us, dtype=np.int64))
    stored = Histogram(least_ms=LEAST_US / 1000)
    for us in durations_us:
        single.add(us)
        stored = stored.plus(us / 1000)
    assert together.histogram.counts == single.histogram.counts == stored.counts
    assert sum(stored.counts) == len(durations_us)
    assert len(stored.counts) == BUCKETS + 1
    if all(us >= 0 for us in durations_us):
        assert together.histogram.sum_ms == single.histogram.sum_ms
