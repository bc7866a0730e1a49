"""Rates a second, as they were lately."""

from __future__ import annotations

import pytest

from streams.scheduling.recent_rates import WINDOW_US, RecentRates

SECOND_US = 1_000_000


def test_first_reading_is_the_plain_mean() -> None:
    rates = RecentRates(2, now_us=SECOND_US)
    rates.add(3, 0.5)
    rates.add(1, 0.5)
    assert rates.read(3 * SECOND_US) == (2.0, 0.5)


def test_a_steady_rate_stays_whatever_the_intervals() -> None:
    rates = RecentRates(1, now_us=0)
    now_us = 0
    for milliseconds in (10, 2000, 1, 700, 300) * 20:
        now_us += milliseconds * 1000
        rates.add(milliseconds * 0.05)
        (read,) = rates.read(now_us)
        assert read == pytest.approx(50.0)


def test_a_new_rate_shows_after_some_windows_and_a_short_peak_hardly() -> None:
    rates = RecentRates(1, now_us=0)
    for second in range(1, 61):
        rates.add(100.0)
        rates.read(second * SECOND_US)
    rates.add(1000.0)
    (peak,) = rates.read(61 * SECOND_US)
    assert 100.0 < peak < 200.0
    seconds = 3 * WINDOW_US // SECOND_US
    later = [61 + second for second in range(1, seconds + 1)]
    for second in later:
        rates.add(20.0)
        rates.read(second * SECOND_US)
    (read,) = rates.read(later[-1] * SECOND_US)
    assert 20.0 < read < 35.0


def test_without_time_there_is_no_rate() -> None:
    rates = RecentRates(1, now_us=5)
    rates.add(7.0)
    assert rates.read(5) == (0.0,)
    assert rates.read(4) == (0.0,)
    assert rates.read(SECOND_US + 5) == (7.0,)


def test_the_window_fills_with_time() -> None:
    rates = RecentRates(1, now_us=0)
    rates.read(SECOND_US)
    assert 0.0 < rates.window_share < 0.15
    for second in range(2, 60):
        rates.read(second * SECOND_US)
    assert rates.window_share > 0.95
