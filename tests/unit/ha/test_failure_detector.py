"""Suspicion by silence: of a silent peer, and not of one that is only slow."""

from itertools import pairwise

from ha.failure_detector import MOST_PATIENCE, RATION, FailureDetector

TICK, LIMIT = 25_000, 150_000
SECOND = 1_000_000

CONSUMER = "consumer"
"""A host that is not watched, and is always heard."""


def detector(now: int = 0, *peers: str) -> FailureDetector:
    made = FailureDetector(LIMIT, TICK)
    made.watch(set(peers or ("peer",)), now)
    return made


def ticked(made: FailureDetector, begin: int, end: int, *heard: str) -> list[str]:
    """Who is suspected between two times, if some peers are heard all the time."""
    suspected: list[str] = []
    for now in range(begin, end, TICK):
        for peer in (CONSUMER, *heard):
            made.heard(peer, now)
        suspected += made.suspects(now)
    return suspected


def suspected_after(made: FailureDetector, begin: int, peer: str = "peer") -> int | None:
    """Time until a peer that was heard at `begin` is suspected; None: not within a minute."""
    made.heard(peer, begin)
    for now in range(begin, begin + 60 * SECOND, TICK):
        made.heard(CONSUMER, now)
        if peer in made.suspects(now):
            return now - begin
    return None


def test_suspects_a_silent_peer_once() -> None:
    assert ticked(detector(), 0, SECOND) == ["peer"]


def test_does_not_suspect_a_peer_that_is_heard() -> None:
    made = detector()
    for now in range(0, SECOND, TICK):
        made.heard("peer", now)
        assert made.suspects(now) == []


def test_suspects_again_after_a_sign_of_life() -> None:
    made = detector()
    assert ticked(made, 0, 300_000) == ["peer"]
    made.heard("peer", 300_000)
    assert ticked(made, 300_000, 2 * SECOND) == ["peer"]


def test_does_not_blame_peers_for_its_own_hang() -> None:
    made = detector()
    assert ticked(made, 0, 100_000) == []
    assert made.suspects(5_000_000) == []
    assert ticked(made, 5_025_000, 5_300_000) == ["peer"]


def test_a_host_whose_ticks_all_come_late_is_as_much_more_patient() -> None:
    made = detector()
    late = 3 * TICK
    suspected: list[int] = []
    for now in range(0, SECOND, late):
        made.heard(CONSUMER, now)
        suspected += [now for _ in made.suspects(now)]
    assert suspected == [525_000], "the first tick after six that lasted 75 ms each"


def test_says_how_late_its_ticks_were_and_forgets_it() -> None:
    made = detector()
    ticked(made, 0, 100_000)
    assert made.lag_us == 0
    made.suspects(75_000 + 400_000)
    assert made.lag_us == 400_000 - TICK
    ticked(made, 500_000, 20 * SECOND, "peer")
    assert made.lag_us < 1000


def test_knows_how_late_its_ticks_usually_are() -> None:
    made = detector()
    ticked(made, 0, 10 * SECOND, "peer")
    assert made.usual_lag_us == 0
    for now in range(10 * SECOND, 200 * SECOND, 3 * TICK):
        made.heard("peer", now)
        made.suspects(now)
    assert 1.9 * TICK < made.usual_lag_us <= 2 * TICK
    ticked(made, 200 * SECOND, 400 * SECOND, "peer")
    assert made.usual_lag_us < TICK / 10


def test_a_peer_that_says_it_is_late_may_be_silent_for_longer() -> None:
    made = detector()
    made.told_lag("peer", 100_000)
    after = suspected_after(made, 0)
    assert after is not None
    assert LIMIT + 100_000 < after < MOST_PATIENCE * LIMIT
    made.told_lag("peer", 0)
    assert suspected_after(detector(), 0) == LIMIT + TICK


def test_no_lag_buys_a_peer_more_than_the_greatest_patience() -> None:
    for lag in (SECOND, 10**12):
        made = detector()
        made.told_lag("peer", lag)
        assert suspected_after(made, 0) == MOST_PATIENCE * LIMIT + TICK


def test_a_lag_below_zero_counts_as_none() -> None:
    made = detector()
    made.told_lag("peer", -(10**12))
    assert suspected_after(made, 0) == LIMIT + TICK


def test_each_false_alarm_makes_it_more_patient_up_to_a_limit() -> None:
    made, now = detector(), 0
    taken: list[int] = []
    for _ in range(6):
        after = suspected_after(made, now)
        assert after is not None
        taken.append(after)
        # The time that must lie between two suspicions passes, and the peer is well.
        ticked(made, now + after, now + after + SECOND, "peer")
        now += after + SECOND
    assert taken == sorted(taken)
    assert taken[1] > 1.5 * taken[0]
    assert taken[-1] <= MOST_PATIENCE * LIMIT + TICK


def test_false_alarms_are_forgotten() -> None:
    made = detector()
    ticked(made, 0, SECOND)
    ticked(made, SECOND, 120 * SECOND, "peer")
    assert suspected_after(made, 120 * SECOND) == LIMIT + TICK


def test_several_silent_peers_are_suspected_later_and_one_at_a_time() -> None:
    made = detector(0, "a", "b", "c")
    suspected: dict[str, int] = {}
    for now in range(0, 10 * SECOND, TICK):
        suspected |= dict.fromkeys(ticked(made, now, now + TICK), now)
    assert list(suspected) == ["a", "b", "c"]
    assert suspected["a"] > 3 * LIMIT
    times = list(suspected.values())
    assert all(later - earlier >= RATION * LIMIT for earlier, later in pairwise(times))


def test_one_silent_peer_among_many_is_suspected_in_time() -> None:
    made = detector(0, "a", "b", "c")
    assert ticked(made, 0, LIMIT + 2 * TICK, "b", "c") == ["a"]


def test_a_peer_known_to_be_lost_neither_delays_nor_repeats_suspicions() -> None:
    made = detector(0, "dead", "silent", "well")
    made.lost("dead")
    assert ticked(made, 0, LIMIT + 2 * TICK, "well") == ["silent"]
    assert ticked(made, SECOND, 2 * SECOND, "well", "silent") == []


def test_a_lost_peer_that_comes_back_was_no_false_alarm() -> None:
    made = detector()
    made.lost("peer")
    assert suspected_after(made, 0) == LIMIT + TICK


def test_a_host_that_hears_nobody_suspects_nobody() -> None:
    made = detector(0, "a", "b")
    for name in ("a", "b", CONSUMER):
        made.heard(name, 0)
    # The last that arrives before a host is cut off is no proof.
    made.heard(CONSUMER, LIMIT // 2)
    assert [now for now in range(0, 60 * SECOND, TICK) if made.suspects(now)] == []
    # Nor is the first after that, since the next may have been sent at the same time.
    made.heard("a", 60 * SECOND)
    assert made.suspects(60 * SECOND) == []
    made.heard("b", 60 * SECOND + TICK)
    assert ticked(made, 60 * SECOND + TICK, 61 * SECOND, "a", "b") == []


def test_a_peer_that_stays_silent_when_others_are_heard_again_is_suspected() -> None:
    made = detector(0, "a", "b")
    for name in ("a", "b", CONSUMER):
        made.heard(name, 0)
    assert [now for now in range(0, SECOND, TICK) if made.suspects(now)] == []
    assert ticked(made, SECOND, SECOND + 4 * TICK, "a") == ["b"]


def test_knows_whether_a_peer_was_heard_since_it_is_watched() -> None:
    made = detector()
    assert not made.has_met("peer")
    made.heard("peer", TICK)
    assert made.has_met("peer")
    made.watch({"other"}, TICK)
    made.watch({"peer", "other"}, TICK)
    assert not made.has_met("peer")
    assert not made.has_met("nobody")


def test_ignores_peers_it_does_not_watch() -> None:
    made = detector()
    made.watch(set(), 0)
    made.heard("peer", 0)
    made.lost("peer")
    made.told_lag("peer", 1)
    assert ticked(made, 0, SECOND) == []


def test_an_assignment_that_names_a_peer_again_is_no_sign_of_life() -> None:
    made = detector()
    ticked(made, 0, 100_000)
    made.watch({"peer", "other"}, 100_000)
    assert ticked(made, 100_000, LIMIT + 2 * TICK, "other") == ["peer"]


def test_a_peer_that_was_unwatched_meanwhile_is_suspected_anew() -> None:
    made = detector()
    assert ticked(made, 0, SECOND) == ["peer"]
    made.watch(set(), SECOND)
    made.watch({"peer"}, 2 * SECOND)
    assert ticked(made, 2 * SECOND, 2 * SECOND + LIMIT) == []
    assert ticked(made, 2 * SECOND + LIMIT, 4 * SECOND) == ["peer"]


def test_counts_silences_that_nearly_made_a_peer_suspected() -> None:
    made = detector()
    assert ticked(made, 0, 100_000) == []
    made.heard("peer", 100_000)
    assert made.long_silences == 1
    assert ticked(made, 100_000, 150_000) == []
    made.heard("peer", 150_000)
    made.heard("stranger", 300_000)
    assert made.long_silences == 1


def test_a_lost_peer_that_is_given_something_to_do_is_watched_anew() -> None:
    """The leader had not heard of the loss yet when it chose it."""
    made = detector(0, "peer", "other")
    made.lost("peer")
    assert ticked(made, 0, SECOND, "other") == []
    made.watch({"peer", "other"}, SECOND, {"peer", "other"})
    assert ticked(made, SECOND, 3 * SECOND, "other") == ["peer"]
    made.watch({"peer", "other"}, 3 * SECOND, {"other"})
    assert ticked(made, 3 * SECOND, 5 * SECOND, "other") == []


def test_a_suspected_peer_that_is_given_something_to_do_is_suspected_again_without_delay() -> None:
    made = detector(0, "peer", "other")
    once, twice = LIMIT + TICK, 2 * LIMIT + 3 * TICK
    assert ticked(made, 0, once + TICK, "other") == ["peer"]
    made.watch({"peer", "other"}, once, {"peer"})
    assert ticked(made, once + TICK, twice, "other") == ["peer"]
    # Once it has been heard, another suspicion would be one more takeover.
    made.heard("peer", twice)
    assert ticked(made, twice, twice + 2 * LIMIT + 3 * TICK, "other") == []


def test_a_lost_peer_is_missed_until_it_is_heard_whatever_it_is_given_to_do() -> None:
    made = detector(0, "peer", "other")
    assert not made.misses("peer")
    made.lost("peer")
    assert made.misses("peer")
    made.watch({"peer", "other"}, TICK, {"peer", "other"})
    assert not made.counts_as_lost("peer")
    assert (made.misses("peer"), made.misses("other")) == (True, False)
    made.watch({"peer", "other"}, TICK, {"peer"})
    assert made.misses("peer")
    made.heard("peer", 2 * TICK)
    assert not made.misses("peer")
    assert not made.misses("nobody")
