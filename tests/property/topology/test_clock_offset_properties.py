"""The true offset of a clock lies within the stated uncertainty, whatever the network does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.clock_offset import DRIFT_PPM, OffsetEstimator

MOST_DELAY_US = 400_000


@dataclass(frozen=True, slots=True)
class Probe:
    """Time since the one before, the delays of both ways, and whether the answer comes."""

    after_us: int
    there_us: int
    back_us: int
    lost: bool


delays_us = st.one_of(st.integers(0, 500), st.integers(0, MOST_DELAY_US))
probes = st.lists(
    st.builds(Probe, st.integers(0, 5_000_000), delays_us, delays_us, st.booleans()),
    min_size=1,
    max_size=40,
)


@dataclass(slots=True)
class Pair:
    """Two clocks, as functions of a true time. The other one runs faster or slower."""

    offset_us: int
    drift_ppm: float

    def other_us(self, own_us: int) -> int:
        return own_us + self.ahead_us(own_us)

    def ahead_us(self, own_us: int) -> int:
        return self.offset_us + round(own_us * self.drift_ppm / 1e6)


pairs = st.builds(
    Pair, st.integers(-(10**13), 10**13), st.floats(-DRIFT_PPM * 0.99, DRIFT_PPM * 0.99)
)


def play(pair: Pair, sent: list[Probe]) -> tuple[OffsetEstimator, int]:
    """Send probes one after the other; the estimate, and the time."""
    estimate, now_us = OffsetEstimator(), 10**9
    for probe in sent:
        now_us += probe.after_us
        sent_us = now_us
        answered_us = pair.other_us(sent_us + probe.there_us)
        now_us += probe.there_us + probe.back_us
        if not probe.lost:
            estimate.observe(sent_us, answered_us, now_us)
            check(pair, estimate, now_us)
    return estimate, now_us


def check(pair: Pair, estimate: OffsetEstimator, now_us: int) -> None:
    found = estimate.at(now_us)
    assert found is not None
    assert abs(found.ahead_us - pair.ahead_us(now_us)) <= found.uncertainty_us


@given(pair=pairs, sent=probes, later_us=st.integers(0, 60_000_000))
def test_true_offset_is_within_the_uncertainty(
    pair: Pair, sent: list[Probe], later_us: int
) -> None:
    estimate, now_us = play(pair, sent)
    assert estimate.resets == 0
    if estimate.measured:
        check(pair, estimate, now_us + later_us)


@given(pair=pairs, sent=probes)
def test_never_less_certain_than_the_last_round_trip_tells(pair: Pair, sent: list[Probe]) -> None:
    last = Probe(after_us=1_000_000, there_us=300, back_us=900, lost=False)
    estimate, now_us = play(pair, [*sent, last])
    found = estimate.at(now_us)
    assert found is not None
    assert found.uncertainty_us <= (last.there_us + last.back_us) / 2 + 10


@given(pair=pairs, slow_us=st.integers(1_000, MOST_DELAY_US))
def test_two_asymmetric_probes_tell_more_than_each(pair: Pair, slow_us: int) -> None:
    there = Probe(after_us=0, there_us=slow_us, back_us=50, lost=False)
    back = Probe(after_us=0, there_us=50, back_us=slow_us, lost=False)
    estimate, now_us = play(pair, [there, back])
    found = estimate.at(now_us)
    assert found is not None
    drifted_us = 4 * slow_us * DRIFT_PPM / 1e6
    assert found.uncertainty_us <= 50 + drifted_us + 10


@given(
    pair=pairs,
    sent=probes,
    step_us=st.one_of(st.integers(-(10**10), -(10**7)), st.integers(10**7, 10**10)),
)
def test_a_clock_that_was_set_is_found_again_at_the_next_probe(
    pair: Pair, sent: list[Probe], step_us: int
) -> None:
    estimate, now_us = play(pair, sent)
    known = estimate.measured
    pair.offset_us += step_us
    now_us += 1000
    estimate.observe(now_us - 1000, pair.other_us(now_us - 400), now_us)
    check(pair, estimate, now_us)
    assert estimate.resets == known


@pytest.mark.parametrize("backwards_us", [1, 10**9])
def test_an_answer_from_before_its_probe_is_ignored(backwards_us: int) -> None:
    estimate = OffsetEstimator()
    estimate.observe(10**9, 5, 10**9 - backwards_us)
    assert estimate.at(10**9) is None
