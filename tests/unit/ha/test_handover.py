"""When a primary that has been superseded stops sending."""

from __future__ import annotations

from ha.handover import LONGEST_US, Handover


def test_over_at_the_watermark_that_was_reached_when_the_successor_was_first_heard() -> None:
    handover = Handover(epoch=2, watermark_ms=500, since_us=0)
    assert not handover.is_over(None, 1000)
    assert not handover.is_over(499, 1000)
    assert handover.is_over(500, 1000)


def test_over_at_once_if_nothing_was_ever_sent() -> None:
    assert Handover(epoch=2, watermark_ms=None, since_us=0).is_over(None, 0)


def test_over_after_a_while_though_the_successor_has_not_caught_up() -> None:
    handover = Handover(epoch=2, watermark_ms=500, since_us=7)
    assert not handover.is_over(499, 6 + LONGEST_US)
    assert handover.is_over(499, 7 + LONGEST_US)
