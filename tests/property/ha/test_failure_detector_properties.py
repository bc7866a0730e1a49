"""Whatever happens before: no peer is suspected early, and no silent peer for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ha.failure_detector import MOST_PATIENCE, RATION, FailureDetector

TICK, LIMIT = 25_000, 150_000
PEERS: tuple[str, ...] = ("a", "b", "c")

steps = st.lists(
    st.tuples(
        st.integers(0, 4 * LIMIT),
        st.sets(st.sampled_from(PEERS)),
        st.tuples(st.sampled_from(PEERS), st.integers(-LIMIT, 100 * LIMIT)),
        st.sampled_from([*PEERS, None]),
    ),
    max_size=60,
)
"""Time until the next tick, who is heard then, what a peer says of its lag, who is lost."""


@given(steps)
def test_no_peer_is_suspected_before_the_threshold_and_only_one_at_a_time(
    history: list[tuple[int, set[str], tuple[str, int], str | None]],
) -> None:
    detector, now = FailureDetector(LIMIT, TICK), 0
    detector.watch(set(PEERS), now)
    heard_us = dict.fromkeys(PEERS, 0)
    given_up: set[str] = set()
    for waits_us, heard, (late, lag_us), lost in history:
        now += waits_us
        for peer in sorted(heard):
            detector.heard(peer, now)
            heard_us[peer] = now
        given_up -= heard
        detector.told_lag(late, lag_us)
        if lost is not None:
            detector.lost(lost)
            given_up.add(lost)
        suspected = detector.suspects(now)
        assert len(suspected) <= 1
        for peer in suspected:
            assert now - heard_us[peer] > LIMIT
            assert peer not in given_up
        given_up.update(suspected)


@given(steps, st.sets(st.sampled_from(PEERS), min_size=1))
def test_every_peer_that_stays_silent_is_suspected_within_the_bound(
    history: list[tuple[int, set[str], tuple[str, int], str | None]], silent: set[str]
) -> None:
    detector, now = FailureDetector(LIMIT, TICK), 0
    detector.watch(set(PEERS), now)
    for waits_us, heard, (late, lag_us), _ in history:
        now += waits_us
        for peer in sorted(heard):
            detector.heard(peer, now)
        detector.told_lag(late, lag_us)
        detector.suspects(now)
    for peer in PEERS:
        detector.heard(peer, now)
    bound_us = (MOST_PATIENCE + RATION * len(silent)) * LIMIT
    suspected: set[str] = set()
    for at in range(now + TICK, now + bound_us + 3 * TICK, TICK):
        for peer in {*PEERS, "consumer"} - silent:
            detector.heard(peer, at)
        suspected.update(detector.suspects(at))
    assert suspected == silent
