from ha.failure_detector import FailureDetector

TICK, LIMIT = 25_000, 150_000


def detector(now: int = 0) -> FailureDetector:
    made = FailureDetector(LIMIT, TICK)
    made.watch({"peer"}, now)
    return made


def ticked(made: FailureDetector, begin: int, end: int) -> list[str]:
    return [peer for now in range(begin, end, TICK) for peer in made.suspects(now)]


def test_suspects_a_silent_peer_once() -> None:
    assert ticked(detector(), 0, 1_000_000) == ["peer"]


def test_does_not_suspect_a_peer_that_is_heard() -> None:
    made = detector()
    for now in range(0, 1_000_000, TICK):
        made.heard("peer", now)
        assert made.suspects(now) == []


def test_suspects_again_after_a_sign_of_life() -> None:
    made = detector()
    assert ticked(made, 0, 300_000) == ["peer"]
    made.heard("peer", 300_000)
    assert ticked(made, 300_000, 600_000) == ["peer"]


def test_does_not_blame_peers_for_its_own_hang() -> None:
    made = detector()
    assert ticked(made, 0, 100_000) == []
    assert made.suspects(5_000_000) == []
    assert ticked(made, 5_025_000, 5_300_000) == ["peer"]


def test_ignores_peers_it_does_not_watch() -> None:
    made = detector()
    made.watch(set(), 0)
    assert ticked(made, 0, 1_000_000) == []


def test_a_peer_that_was_unwatched_meanwhile_is_suspected_anew() -> None:
    detector = FailureDetector(suspect_after_us=100, tick_us=1000)
    detector.watch({"a"}, 0)
    assert detector.suspects(200) == ["a"]
    detector.watch(set(), 300)
    detector.watch({"a"}, 400)
    assert detector.suspects(450) == []
    assert detector.suspects(600) == ["a"]
