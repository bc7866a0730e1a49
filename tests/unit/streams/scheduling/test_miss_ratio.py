"""Shares of outputs that are late."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streams.scheduling.miss_ratio import MissRatio


def latencies(*values_us: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values_us, dtype=np.int64)


def test_without_completed_timestamps_there_is_no_ratio() -> None:
    ratio = MissRatio(100, 1000)
    ratio.observe(latencies(), 0)
    assert ratio.ratio_pct is None
    assert ratio.recent_pct(0) is None
    assert (ratio.completed, ratio.misses) == (0, 0)


def test_late_is_what_exceeds_the_deadline() -> None:
    ratio = MissRatio(100, 1000)
    ratio.observe(latencies(99, 100, 101, 500), 0)
    assert (ratio.completed, ratio.misses) == (4, 2)
    assert ratio.ratio_pct == 50
    assert ratio.recent_pct(0) == 50


def test_recent_ratio_forgets_what_the_whole_one_keeps() -> None:
    ratio = MissRatio(100, 1000)
    ratio.observe(latencies(500), 10)
    ratio.observe(latencies(50, 50, 50), 600)
    assert ratio.recent_pct(999) == 25
    assert ratio.recent_pct(1000) == 0
    assert ratio.ratio_pct == 25
    assert ratio.recent_pct(1599) == 0
    assert ratio.recent_pct(1600) is None
    assert ratio.recent_pct(10**9) is None


def test_bucket_is_used_again_for_a_later_time() -> None:
    ratio = MissRatio(100, 1000)
    for second in range(5):
        ratio.observe(latencies(500 if second == 0 else 50), second * 1000)
        assert ratio.recent_pct(second * 1000) == (100 if second == 0 else 0)
    assert ratio.ratio_pct == 20


def test_nothing_is_late_without_a_deadline() -> None:
    ratio = MissRatio(math.inf, 1)
    ratio.observe(latencies(2**62), 7)
    assert ratio.recent_pct(7) == 0
    assert ratio.recent_pct(8) is None


def test_refuses_a_window_that_is_none() -> None:
    with pytest.raises(ValueError, match="cannot look back 0 µs"):
        MissRatio(100, 0)
