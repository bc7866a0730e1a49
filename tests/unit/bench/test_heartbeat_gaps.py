"""Thresholds on silence that are learnt from a peer's gaps."""

from __future__ import annotations

import numpy as np

from bench.detection import HEARTBEAT_US as HEARTBEAT
from bench.detection import SUSPECT_US as LIMIT
from bench.detection import detector_with
from bench.heartbeat_gaps import LEAST_HEARTBEATS, LEAST_SAMPLES, HeartbeatGaps

PHI = 8.0
CONSUMER = "consumer"


def learnt(*gaps_us: int) -> HeartbeatGaps:
    made = HeartbeatGaps(HEARTBEAT, PHI)
    for gap_us in gaps_us:
        made.note(gap_us)
    return made


def test_until_enough_is_known_the_fixed_threshold_holds() -> None:
    gaps = learnt(*[HEARTBEAT] * (LEAST_SAMPLES - 1))
    assert gaps.threshold_us(LIMIT) == LIMIT
    gaps.note(HEARTBEAT)
    assert gaps.threshold_us(LIMIT) == LEAST_HEARTBEATS * HEARTBEAT


def test_a_peer_that_sends_data_all_the_time_may_go_back_to_heartbeats() -> None:
    assert learnt(*[1_000] * 1000).threshold_us(LIMIT) == LEAST_HEARTBEATS * HEARTBEAT


def test_the_less_regular_the_later() -> None:
    rng = np.random.default_rng(1)
    found = [
        learnt(*np.maximum(rng.normal(25_000, spread, 500), 0).astype(int)).threshold_us(10**9)
        for spread in (1_000, 5_000, 10_000, 20_000)
    ]
    assert found == sorted(found)
    # φ = 8 is 5.6 standard deviations.
    assert 25_000 + 5 * 20_000 < found[-1] < 25_000 + 7 * 20_000


def test_never_above_the_bound_and_never_below_what_has_been_seen() -> None:
    assert learnt(*[HEARTBEAT] * 100, 400_000).threshold_us(LIMIT) == LIMIT
    assert learnt(*[HEARTBEAT] * 100, 80_000).threshold_us(LIMIT) >= 80_000


def detected_after(phi: float | None, every: int) -> int:
    """Time until a peer is suspected that was heard at every so many heartbeats for ten seconds."""
    made = detector_with(phi)
    made.watch({"peer"}, 0)
    last = now = 0
    for number in range(400):
        now = number * HEARTBEAT
        made.heard(CONSUMER, now)
        if number % every == 0:
            made.heard("peer", now)
            last = now
        assert made.suspects(now) == []
    while not made.suspects(now):
        now += HEARTBEAT
        made.heard(CONSUMER, now)
    return now - last


def test_a_peer_that_is_heard_in_time_is_suspected_sooner() -> None:
    fixed, adaptive = detected_after(None, 1), detected_after(PHI, 1)
    assert LIMIT < fixed <= LIMIT + 2 * HEARTBEAT
    assert LEAST_HEARTBEATS * HEARTBEAT < adaptive <= fixed - HEARTBEAT


def test_a_peer_that_is_heard_rarely_is_suspected_no_sooner() -> None:
    assert detected_after(PHI, 4) == detected_after(None, 4)
