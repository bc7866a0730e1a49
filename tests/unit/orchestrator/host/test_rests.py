"""How long tasks rest: by what the standbys of a host have taken lately."""

from __future__ import annotations

import pytest

from orchestrator.host.rests import Rests
from streams.scheduling.recent_rates import RecentRates
from tests.driven_host import data, primary
from tests.quiet_host import MS
from tests.streams_of_numbers import chunk

NOW_US = 9_600 * MS


@pytest.mark.parametrize(("cores", "rests_ms"), [(0.01, 320), (0.25, 160), (0.9, 160)])
def test_many_standbys_rest_for_no_longer_than_they_can_make_up_for_within_their_lag(
    cores: float, rests_ms: int
) -> None:
    taken = RecentRates(4, now_us=0)
    taken.add(cores * NOW_US / 1e6, 0, 0, 0)
    rests = Rests(batch_us=10 * MS)
    rests.look(NOW_US, [taken])
    until_us, _ = rests.ends_us(
        NOW_US, 100 * MS, standby=True, standby_lag_us=100 * MS, replicas=60, lag_us=0
    )
    assert until_us - NOW_US == rests_ms * MS


def primary_rests(rests: Rests, sub_deadline_ms: int, standby_lag_ms: int) -> tuple[int, int]:
    """For how long with input and without it, ms; by their number alone, it would be long."""
    ends = rests.ends_us(
        NOW_US,
        sub_deadline_ms * MS,
        standby=False,
        standby_lag_us=standby_lag_ms * MS,
        replicas=150,
        lag_us=0,
    )
    return ends[0] // MS - NOW_US // MS, ends[1] // MS - NOW_US // MS


@pytest.mark.parametrize(
    ("sub_deadline_ms", "took_ms", "rests_ms"), [(500, 1, 240), (500, 5, 80), (500, 6.5, 10)]
)
def test_primaries_leave_the_time_that_evaluating_all_of_them_once_takes(
    sub_deadline_ms: int, took_ms: float, rests_ms: int
) -> None:
    rests = Rests(batch_us=10 * MS)
    later = [(5_000.0 * MS, 100.0 * MS)]
    rests.look(NOW_US, [], [(sub_deadline_ms * MS, took_ms * MS)] * 60 + later)
    found, _ = primary_rests(rests, sub_deadline_ms, standby_lag_ms=1_000)
    assert 0 <= rests_ms - found < 10


@pytest.mark.parametrize(("standby_lag_ms", "rests_ms"), [(31, 80), (1, 10)])
def test_primaries_rest_for_three_lags_of_their_standbys_at_most(
    standby_lag_ms: int, rests_ms: int
) -> None:
    found = primary_rests(Rests(batch_us=10 * MS), 10_000, standby_lag_ms)
    assert max(found) <= rests_ms


def test_a_rest_ends_when_a_successor_of_the_primary_sends() -> None:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    began_us = host.now_us
    host.hear("site", data(chunk(4, [(20, 1)])))
    assert (host.core.next_work_us or 0) > began_us
    host.hear("site", data(chunk(5, [(30, 1)]), epoch=2))
    assert (host.core.next_work_us or 0) <= began_us
    host.work()
    host.hear("site", data(chunk(6, [(40, 1)]), epoch=2))
    assert (host.core.next_work_us or 0) > host.now_us
