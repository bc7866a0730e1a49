"""The parts of a takeover: detection, K (resend), Q·p (reprocess)."""

from ha.recovering import Recovering


def taken_over(*awaited: str, target_ms: int = 100) -> Recovering:
    return Recovering(
        epoch=2, silent_us=50_000, began_us=1_000, target_ms=target_ms, awaited=set(awaited)
    )


def test_a_standby_that_has_everything_has_recovered_at_once() -> None:
    found = taken_over()
    found.reached(100, 1_000)
    # What comes later is no part of the takeover.
    found.evaluated(3, 200, 9_000)
    found.took(700.0)
    assert (found.resent_us, found.caught_up_us, found.tuples) == (1_000, 1_000, 0)


def test_input_that_is_waiting_is_reprocessed() -> None:
    found = taken_over()
    found.evaluated(3, 90, 1_500)
    found.took(400.0)
    assert found.caught_up_us is None
    found.evaluated(4, 100, 2_000)
    found.took(700.0)
    found.took(900.0)
    assert (found.resent_us, found.caught_up_us, found.tuples) == (1_000, 2_700, 7)


def test_what_was_kept_back_is_waited_for_on_every_input() -> None:
    found = taken_over("a", "b")
    found.evaluated(2, 110, 1_200)
    found.arrived("a", 130, 2_000)
    found.arrived("a", 140, 2_500)
    found.arrived("c", 500, 2_600)
    assert found.resent_us is None
    found.arrived("b", 120, 3_000)
    assert found.resent_us == 3_000
    found.evaluated(5, 110, 3_100)
    assert found.caught_up_us is None
    found.evaluated(5, 120, 3_200)
    assert found.caught_up_us == 3_200
    found.evaluated(5, 200, 9_000)
    assert (found.caught_up_us, found.tuples) == (3_200, 10)
