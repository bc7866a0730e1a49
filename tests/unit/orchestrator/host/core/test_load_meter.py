"""What a host reports of the processor time that it takes."""

from __future__ import annotations

import pytest

from orchestrator.host.core.load_meter import STARTING_US, LoadMeter
from orchestrator.records import HostLoad
from orchestrator.records.speed import HOST_CORES, Speed
from streams.scheduling.batching import DISPATCH_US

S = 1_000_000
SLOW = Speed(ratio=0.25)


def load_of(meter: LoadMeter) -> HostLoad:
    assert meter.load is not None
    return meter.load


def test_what_starting_takes_does_not_count() -> None:
    meter = LoadMeter(0)
    for second in range(1, 6):
        meter.measured(0.4, SLOW, second * S, has_ends=False)
    assert load_of(meter).cores == pytest.approx(HOST_CORES / 0.25)
    assert load_of(meter).speed == 0.25


def test_statements_count_from_the_first_moment_on() -> None:
    # As after a restart: the host has its replicas again at once.
    meter = LoadMeter(0)
    for second in range(1, 6):
        for _ in range(100):
            meter.evaluated(1_500.0, 0.0)
        meter.measured(0.4, SLOW, second * S, has_ends=False)
    load = load_of(meter)
    assert load.evaluating_cores == pytest.approx(0.15)
    assert load.evaluations_s == pytest.approx(100.0)
    around = (HOST_CORES + 100 * DISPATCH_US / 1e6) / 0.25
    assert load.cores == pytest.approx(0.15 + around)
    assert load.cores < 0.4


def test_no_more_counts_than_was_taken() -> None:
    # Emulated costs are slept.
    meter = LoadMeter(0)
    meter.evaluated(500_000.0, 0.0)
    meter.measured(0.02, Speed(), S, has_ends=False)
    assert load_of(meter).cores == pytest.approx(0.02)


def test_all_counts_where_streams_enter_or_leave_and_after_the_start() -> None:
    site, node = LoadMeter(0), LoadMeter(0)
    site.measured(0.4, SLOW, 2 * S, has_ends=True)
    assert load_of(site).cores == pytest.approx(0.4)
    for second in range(1, 100):
        node.measured(0.4, SLOW, second * S, has_ends=False)
        if second * S < STARTING_US:
            assert load_of(node).cores == pytest.approx(HOST_CORES / 0.25)
    assert load_of(node).cores == pytest.approx(0.4, rel=0.01)


@pytest.mark.parametrize("dispatch_us", [200.0, 1_000.0])
def test_the_time_of_a_batch_beyond_its_tuples_is_learnt_at_any_rate(dispatch_us: float) -> None:
    meter, at_us = LoadMeter(0), STARTING_US
    assert meter.dispatch_us == DISPATCH_US
    for second in range(200):
        often = 50 + 10 * (second % 7)
        for _ in range(often):
            meter.evaluated(2_000.0, 1_900.0)
        at_us += S
        beside = HOST_CORES + often * dispatch_us / 1e6
        meter.measured(often * 1_900.0 / 1e6 + beside / 0.25, SLOW, at_us, has_ends=False)
    assert meter.dispatch_us == pytest.approx(dispatch_us, rel=0.05)
    assert load_of(meter).dispatch_us == meter.dispatch_us


def test_longer_rests_do_not_make_a_batch_seem_dearer() -> None:
    """What a host does beside batches would otherwise be divided by ever fewer of them."""
    meter, at_us = LoadMeter(0), STARTING_US
    for often in (400, 200, 100, 50, 25) * 3:
        for _ in range(5):
            for _ in range(often):
                meter.evaluated(300.0, 0.0)
            at_us += S
            beside = 0.05 + often * 400.0 / 1e6
            meter.measured(beside, Speed(), at_us, has_ends=False)
    assert meter.dispatch_us == pytest.approx(400.0, rel=0.05)
