"""When a primary that has been superseded stops sending."""

from __future__ import annotations

import pytest

from ha.handover import BEHIND_US, UNHEARD_US, Handover


def handover(reached_ms: int | None, heard_by: set[str]) -> Handover:
    return Handover(epoch=2, watermark_ms=500, since_us=7, reached_ms=reached_ms, heard_by=heard_by)


@pytest.mark.parametrize(
    ("reached_ms", "heard_by", "over"),
    [
        (None, {"exit"}, False),
        (499, {"exit"}, False),
        (500, set[str](), False),
        (500, {"exit"}, True),
        (500, {"exit", "elsewhere"}, True),
    ],
)
def test_over_when_the_successor_has_come_as_far_and_all_consumers_hear_it(
    reached_ms: int | None, heard_by: set[str], over: bool
) -> None:
    assert handover(reached_ms, heard_by).is_over(["exit"], 1000) is over


def test_over_at_once_if_nothing_was_ever_sent() -> None:
    assert Handover(epoch=2, watermark_ms=None, since_us=0).is_over([], 0)


UNFINISHED = pytest.mark.parametrize(
    ("reached_ms", "heard_by", "limit_us"),
    [(None, {"exit"}, UNHEARD_US), (500, set[str](), UNHEARD_US), (499, {"exit"}, BEHIND_US)],
)


@UNFINISHED
def test_over_after_a_while_in_any_case_if_the_store_knows_the_successor(
    reached_ms: int | None, heard_by: set[str], limit_us: int
) -> None:
    made = handover(reached_ms, heard_by)
    assert not made.is_over(["exit"], 6 + limit_us, confirmed=True)
    assert made.is_over(["exit"], 7 + limit_us, confirmed=True)


@UNFINISHED
def test_a_successor_that_the_store_does_not_know_may_be_gone(
    reached_ms: int | None, heard_by: set[str], limit_us: int
) -> None:
    assert not handover(reached_ms, heard_by).is_over(["exit"], 7 + 10 * limit_us)


def test_a_successor_that_has_fallen_silent_cannot_do_alone() -> None:
    made = handover(None, {"exit"})
    made.hear(500, now_us=1000)
    assert made.is_over(["exit"], 1000 + UNHEARD_US)
    assert not made.is_over(["exit"], 1001 + UNHEARD_US)
    made.hear(500, now_us=2000 + UNHEARD_US)
    assert made.is_over(["exit"], 2000 + UNHEARD_US)
