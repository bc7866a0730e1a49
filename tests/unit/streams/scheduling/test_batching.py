"""Batching policies: how long tasks rest between two starts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from msgspec import structs

from orchestrator.records import Assignment
from streams.scheduling.batching import (
    GAMMA_US,
    NAMES,
    SET_POINT,
    HostFigures,
    Measured,
    SdmrMonitor,
    TaskTime,
    policy_of,
)
from streams.scheduling.recent_rates import RecentRates
from tests.driven_host import STATEMENT, Driven, assigned, data, peers, primary, subscribed
from tests.quiet_host import MS
from tests.streams_of_numbers import chunk

NOW_US = 9_600 * MS


def figures(replicas: int, batch_ms: int = 10) -> HostFigures:
    return HostFigures(batch_us=batch_ms * MS, replicas=replicas)


def time_of(sub_deadline_ms: int, lag_ms: int = 10_000, *, standby: bool = False) -> TaskTime:
    return TaskTime(
        sub_deadline_us=sub_deadline_ms * MS, standby=standby, standby_lag_us=lag_ms * MS
    )


@pytest.mark.parametrize(("cores", "rests_ms"), [(0.01, 320), (0.25, 160), (0.9, 160)])
def test_many_standbys_rest_for_no_longer_than_they_can_make_up_for_within_their_lag(
    cores: float, rests_ms: int
) -> None:
    taken = RecentRates(4, now_us=0)
    taken.add(cores * NOW_US / 1e6, 0, 0, 0)
    host = figures(60)
    host.look(NOW_US, [taken], [], evaluating_cores=cores)
    found_us, _ = Measured().rests_us(time_of(100, standby=True), host)
    assert found_us == rests_ms * MS


def test_on_a_slow_processor_tasks_rest_longer() -> None:
    host = figures(6)
    found_ms: list[int] = []
    for host.slowness in (1.0, 2.0, 4.0):
        found_ms.append(Measured().rests_us(time_of(500), host)[0] // MS)
    assert found_ms == [30, 60, 120]


def test_tasks_rest_longer_where_starting_a_batch_was_found_to_take_longer() -> None:
    host = figures(6)
    found_ms: list[int] = []
    for host.dispatch_us in (100.0, 400.0, 1600.0):
        found_ms.append(Measured().rests_us(time_of(500), host)[0] // MS)
    assert found_ms == [10, 30, 120]


@pytest.mark.parametrize(
    ("sub_deadline_ms", "took_ms", "rests_ms"), [(500, 1, 240), (500, 3.5, 80), (500, 5, 10)]
)
def test_primaries_leave_the_time_that_evaluating_all_of_them_once_takes(
    sub_deadline_ms: int, took_ms: float, rests_ms: int
) -> None:
    host = figures(150)
    later = [(5_000.0 * MS, 100.0 * MS)]
    host.look(NOW_US, [], [(sub_deadline_ms * MS, took_ms * MS)] * 60 + later, 0.0)
    found_us, _ = Measured().rests_us(time_of(sub_deadline_ms), host)
    assert found_us == rests_ms * MS


@pytest.mark.parametrize(("standby_lag_ms", "rests_ms"), [(31, 80), (1, 10)])
def test_primaries_rest_for_three_lags_of_their_standbys_at_most(
    standby_lag_ms: int, rests_ms: int
) -> None:
    found_us = Measured().rests_us(time_of(10_000, standby_lag_ms), figures(150))
    assert max(found_us) <= rests_ms * MS


def test_without_a_batch_unit_nothing_rests() -> None:
    for name in NAMES:
        assert policy_of(name).rests_us(time_of(500), figures(600, batch_ms=0)) == (0, 0)


def test_fixed_policies_do_as_their_names_say() -> None:
    host = figures(600)
    assert policy_of("taat").rests_us(time_of(500), host) == (0, 0)
    assert policy_of("taat").groups == 1
    assert policy_of("bts-7").rests_us(time_of(500), host) == (70 * MS, 70 * MS)


def miss(name: str, ratios: Iterable[float], sub_deadline_ms: int = 500) -> list[int]:
    """k after each Γ with such miss ratios."""
    policy, host, found = policy_of(name), figures(3), list[int]()
    for sdmr in ratios:
        policy.rests_us(time_of(sub_deadline_ms), host)
        policy.adapt(sdmr, host)
        found.append(policy.rests_us(time_of(sub_deadline_ms), host)[0] // host.batch_us)
    return found


def test_the_law_that_the_convergence_argument_needs_never_leaves_one() -> None:
    draw = np.random.default_rng(1)
    assert max(miss("ats", draw.random(2_000).tolist())) == 1


def test_the_law_as_printed_rises_with_misses_up_to_the_longest_batch_in_time() -> None:
    for name in ("ats-algorithm", "ats-printed"):
        found = miss(name, [0.3] * 20)
        assert found[0] > 1
        assert found[-1] == 30, "0.6 of the sub-deadline"
        # Nothing lets it fall but a falling ratio.
        assert miss(name, [0.3] * 20 + [0.0] * 20)[-1] >= 29


@pytest.mark.parametrize(("lag_us", "k"), [(0, 1), (50 * MS, 12)])
def test_misses_lengthen_batches_on_a_host_that_is_short_of_time_and_shorten_them_elsewhere(
    lag_us: int, k: int
) -> None:
    policy, host = Measured(), figures(12)
    host.look(NOW_US, [], [(500 * MS, 1 * MS)], 0.0)
    before = policy.rests_us(time_of(500), host)
    assert before[0] == 60 * MS
    host.lag_us = lag_us
    for _ in range(10):
        policy.adapt(0.1, host)
    assert policy.rests_us(time_of(500), host)[0] == k * host.batch_us
    for _ in range(10):
        policy.adapt(SET_POINT, host)
    assert policy.rests_us(time_of(500), host) == before


def test_unknown_policies_are_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'bts-0'; one of taat, bts-4, ats"):
        policy_of("bts-0")


def test_the_monitor_counts_what_was_decided_within_gamma() -> None:
    monitor = SdmrMonitor()
    monitor.decided("a", 10, 5, 0)
    monitor.decided("b", 10, 0, 0)
    assert (monitor.sdmr("a", 1), monitor.sdmr("b", 1), monitor.host_sdmr(1)) == (0.5, 0.0, 0.25)
    assert monitor.sdmr("a", 2 * GAMMA_US) == 0.0
    assert (monitor.host.completed, monitor.host.misses) == (20, 5)
    monitor.keep(["b"])
    assert monitor.sdmr("a", 1) == 0.0


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
