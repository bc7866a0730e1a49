"""How long tasks rest: by what the standbys of a host have taken lately."""

from __future__ import annotations

import pytest
from msgspec import structs

from orchestrator.records import Assignment
from streams.scheduling.recent_rates import RecentRates
from streams.scheduling.rests import Rests
from tests.driven_host import STATEMENT, Driven, assigned, data, peers, primary, subscribed
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


def test_on_a_slow_processor_tasks_rest_longer() -> None:
    rests = Rests(batch_us=10 * MS)
    found_ms = [
        rests.ends_us(
            0,
            500 * MS,
            standby=False,
            standby_lag_us=500 * MS,
            replicas=6,
            lag_us=0,
            slowness=slowness,
        )[0]
        // MS
        for slowness in (1.0, 2.0, 4.0)
    ]
    assert found_ms == [30, 60, 120]


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
    for seq in range(5, 8):
        assert (host.core.next_work_us or 0) <= began_us
        host.work()
        host.hear("site", data(chunk(seq + 1, [(10 * seq, 1)]), epoch=2))
    assert (host.core.next_work_us or 0) > host.now_us


def with_many_replicas() -> Driven:
    host = Driven("one")
    many = [
        structs.replace(
            assigned("primary", peer_replica="two"),
            fragment=f"f{i}",
            statement=STATEMENT.replace("f RSTREAM", f"f{i} RSTREAM").replace("M s ", f"M s{i} "),
            inputs={f"s{i}": {"number": "int"}},
            sub_deadline_ms=500.0,
            readers_ms={f"sink:f{i}": 1000.0},
        )
        for i in range(60)
    ]
    producers = {f"s{i}": ("site",) for i in range(60)}
    consumers = {f"f{i}": ("exit",) for i in range(60)}
    host.assign(
        Assignment(
            incarnation="1",
            fragments=tuple(many),
            producers=producers,
            consumers=consumers,
            peers=peers(),
        )
    )
    host.hear("site", subscribed(stream="s0"))
    host.hear("site", data(chunk(0, [(10, 4)]), "s0"))
    host.work()
    host.hear("site", data(chunk(4, [(20, 1)]), "s0"))
    assert (host.core.next_work_us or 0) > host.now_us
    return host


@pytest.mark.parametrize("first", ["what was here", "an answer"])
def test_output_resumes_at_once_whatever_a_successor_sends_first(first: str) -> None:
    host = with_many_replicas()
    if first == "an answer":
        answer = subscribed(next_seq=5, watermark_ms=20, stream="s0")
        host.hear("site", structs.replace(answer, epoch=2))
    else:
        host.hear("site", data(chunk(4, [(20, 1)]), "s0", epoch=2))
    host.commands += host.core.work(host.now_us).commands
    host.hear("site", data(chunk(5, [(30, 1)]), "s0", epoch=2))
    assert ((host.core.next_work_us or 0) - host.now_us) / 1000 <= 0, "ms"
