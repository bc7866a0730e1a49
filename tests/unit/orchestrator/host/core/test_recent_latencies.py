"""Percentiles of the newest latencies."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.host.core.recent_latencies import RecentLatencies


@pytest.mark.parametrize("pieces", [[1] * 23, [3, 4, 5, 11], [23], [7, 0, 9]])
def test_the_newest_ones_count(pieces: list[int]) -> None:
    recent = RecentLatencies(8)
    given = np.arange(sum(pieces), dtype=np.int64) * 1000
    begin = 0
    for length in pieces:
        recent.add(given[begin : begin + length])
        begin += length
    newest = given[-8:] / 1000
    assert recent.count == len(newest)
    expected = tuple(np.percentile(newest, [0, 50, 99, 100]).tolist())
    assert recent.percentiles_ms(0, 50, 99, 100) == pytest.approx(expected)
