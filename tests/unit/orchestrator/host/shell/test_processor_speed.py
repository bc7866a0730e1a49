"""How fast a processor works is told by what a piece of work takes it, lately and on average."""

from __future__ import annotations

import pytest

from orchestrator.host.shell.processor_speed import REFERENCE_US, SpeedMeter, piece_of_work
from orchestrator.records.speed import SPEEDS, Speed

SECOND_US = 1_000_000


def meter(*took_us: float) -> SpeedMeter:
    """One whose pieces of work take so long."""
    clock = iter([0, *(at for us in took_us for at in (0, round(us)))])
    return SpeedMeter(0, used_us=lambda: next(clock), busy=lambda: 0.75)


@pytest.mark.parametrize("factor", [0.5, 1.0, 4.0])
def test_it_is_the_ratio_to_what_the_work_takes_where_costs_were_found(factor: float) -> None:
    assert meter(factor * REFERENCE_US).read(SECOND_US).ratio == pytest.approx(1 / factor)


def test_a_single_slow_piece_weighs_little() -> None:
    steady = meter(*[REFERENCE_US] * 20, 3 * REFERENCE_US)
    read = [steady.read(at * SECOND_US).ratio for at in range(1, 22)]
    assert read[:20] == pytest.approx([1.0] * 20)
    assert 0.75 < read[20] < 0.9


def test_a_processor_that_became_slower_is_so_within_half_a_minute() -> None:
    slower = meter(*[REFERENCE_US] * 30, *[4 * REFERENCE_US] * 30)
    read = [slower.read(at * SECOND_US).ratio for at in range(1, 61)]
    assert read[29] == pytest.approx(1.0)
    assert read[59] == pytest.approx(0.25, rel=0.2)


def test_what_cannot_be_is_not_believed() -> None:
    assert meter(1000 * REFERENCE_US).read(SECOND_US).ratio == SPEEDS[0]
    assert meter(1).read(SECOND_US).ratio == SPEEDS[1]
    # A clock that shows no difference tells nothing.
    assert meter(0).read(SECOND_US).ratio == 1.0


def test_the_work_is_always_the_same() -> None:
    assert piece_of_work() == piece_of_work() == 36837


def test_this_machine_has_a_speed() -> None:
    least, most = SPEEDS
    found = SpeedMeter(0).read(SECOND_US)
    assert least <= found.ratio <= most
    assert 0.0 <= found.busy <= 1.0


def test_how_busy_the_machine_is_is_a_mean_over_time() -> None:
    shares = iter([0.2, 0.8, 1.0])
    clock = iter(range(0, 1000, 10))
    read = SpeedMeter(0, used_us=lambda: next(clock), busy=lambda: next(shares))
    assert read.read(SECOND_US).busy == pytest.approx(0.2)
    assert read.read(2 * SECOND_US).busy == pytest.approx(0.5, abs=0.05)
    assert 0.8 < read.read(60 * SECOND_US).busy <= 1.0


@pytest.mark.parametrize(
    ("busy", "slowness"), [(0.0, 1.0), (0.5, 1.0), (0.6, 2.0), (0.7, 3.0), (1.0, 3.0)]
)
def test_slow_processors_matter_as_far_as_they_are_short(busy: float, slowness: float) -> None:
    assert Speed(ratio=1 / 3, busy=busy).slowness == pytest.approx(slowness)
    assert Speed(ratio=2.0, busy=busy).slowness == 1.0


def test_a_host_that_uses_up_its_own_processor_is_short_whatever_the_machine_has() -> None:
    # Its thread works for 0.9 s of each second; an eighth of the machine is in use.
    clock = iter([0, 900_000, 900_000 + round(REFERENCE_US), 1_800_000, 1_900_000])
    meter = SpeedMeter(0, used_us=lambda: next(clock), busy=lambda: 0.125)
    assert meter.read(SECOND_US).busy == pytest.approx(0.9)
    assert meter.read(2 * SECOND_US).busy == pytest.approx(0.9, abs=0.001)
