"""The time by which a standby lags behind what its primary says."""

from __future__ import annotations

from ha.lag import REPORT_US, StandbyLag

ALLOWED_US = 100_000
BOUND_US = ALLOWED_US + REPORT_US


def test_a_standby_that_stands_still_lags_after_the_bound_and_since_it_stopped() -> None:
    lag = StandbyLag()
    lag.observe(10, 10, 0, ALLOWED_US)
    lag.observe(20, 10, 1_000, ALLOWED_US)
    lag.observe(30, 10, 1_000 + BOUND_US, ALLOWED_US)
    assert lag.since_us is None
    lag.observe(40, 10, 1_001 + BOUND_US, ALLOWED_US)
    assert lag.since_us == 1_000


def test_a_standby_that_follows_in_time_does_not_lag_however_long_it_runs() -> None:
    lag = StandbyLag()
    for step in range(100):
        # Always half the bound behind, and never equal.
        lag.observe(10 * step + 10, 10 * step, step * BOUND_US // 2, ALLOWED_US)
        assert lag.since_us is None


def test_a_standby_that_is_always_too_late_lags_without_a_break() -> None:
    lag = StandbyLag()
    step_us = BOUND_US // 4
    seen: list[bool] = []
    for step in range(100):
        # Six steps behind: half as long again as the bound.
        lag.observe(10 * step, 10 * max(step - 6, 0), step * step_us, ALLOWED_US)
        seen.append(lag.since_us is not None)
    assert seen.index(True) < 8
    assert all(seen[8:])


def test_the_lag_ends_when_the_standby_has_caught_up() -> None:
    lag = StandbyLag()
    lag.observe(20, 10, 0, ALLOWED_US)
    lag.observe(30, 10, BOUND_US + 1, ALLOWED_US)
    assert lag.since_us == 0
    lag.observe(40, 20, BOUND_US + 2, ALLOWED_US)
    assert lag.since_us == 0, "it has what was asked too late"
    lag.observe(50, 40, BOUND_US + 3, ALLOWED_US)
    assert lag.since_us is None


def test_a_quiet_primary_is_no_lag() -> None:
    lag = StandbyLag()
    lag.observe(20, 20, 0, ALLOWED_US)
    lag.observe(20, 20, 10 * BOUND_US, ALLOWED_US)
    assert lag.since_us is None


def test_nothing_is_left_of_an_earlier_time_as_standby() -> None:
    lag = StandbyLag()
    lag.observe(20, 10, 0, ALLOWED_US)
    lag.reset()
    lag.observe(30, 10, 10 * BOUND_US, ALLOWED_US)
    assert lag.since_us is None
