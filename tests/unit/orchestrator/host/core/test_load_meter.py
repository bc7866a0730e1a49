"""What a host reports of the processor time that it takes."""

from __future__ import annotations

import pytest

from orchestrator.host.core.load_meter import STARTING_US, LoadMeter
from orchestrator.records import HostLoad
from orchestrator.records.speed import HOST_CORES, Speed
from streams.scheduling.rests import START_US

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
            meter.evaluated(1_500.0)
        meter.measured(0.4, SLOW, second * S, has_ends=False)
    load = load_of(meter)
    assert load.evaluating_cores == pytest.approx(0.15)
    assert load.evaluations_s == pytest.approx(100.0)
    around = (HOST_CORES + 100 * START_US / 1e6) / 0.25
    assert load.cores == pytest.approx(0.15 + around)
    assert load.cores < 0.4


def test_no_more_counts_than_was_taken() -> None:
    # Emulated costs are slept.
    meter = LoadMeter(0)
    meter.evaluated(500_000.0)
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
