"""Event time: order, slack, late tuples, idle sources, timestamps in the future."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from orchestrator.edges.sources.live.orderer import (
    LATEST_MS,
    EventTime,
    Orderer,
    Refusals,
    Released,
)
from orchestrator.edges.sources.live.waiting_tuples import WaitingTuples
from streams.vectors.chunk import NO_WATERMARK, stream_schema

SCHEMA = stream_schema({"number": "int"})
NOW_US = 10_000_000
NOW_MS = NOW_US // 1000


def rows(*timestamps: int, numbers: Sequence[int] = ()) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"_ts": timestamps, "number": numbers or range(len(timestamps))}, schema=SCHEMA
    )


def by_column(**options: int | None) -> Orderer:
    given = {"slack_ms": 0, "idle_after_ms": None, "max_ahead_ms": None, **options}
    time = EventTime(by_arrival=False, **given)  # pyright: ignore
    return Orderer(SCHEMA, time, WaitingTuples(SCHEMA))


def content(released: Released | None) -> list[tuple[int, int]]:
    return [] if released is None else [tuple(r.values()) for r in released.rows.to_pylist()]


def test_newest_timestamp_waits_for_a_later_one() -> None:
    orderer = by_column()
    orderer.accept(rows(1, 2, 2), NOW_US)
    released = orderer.release(NOW_US)
    assert content(released) == [(1, 0)]
    assert released is not None
    assert released.watermarks_ms.tolist() == [1]
    assert orderer.release(NOW_US) is None
    orderer.accept(rows(2, 3), NOW_US)
    assert content(orderer.release(NOW_US)) == [(2, 1), (2, 2), (2, 0)]


def test_what_waits_is_told_with_since_when_and_for_what() -> None:
    orderer = by_column(slack_ms=10, idle_after_ms=1000)
    assert orderer.waiting_input is None
    orderer.accept(rows(1, 2), NOW_US)
    orderer.release(NOW_US)
    told = orderer.waiting_input
    assert told is not None
    assert (told.tuples, told.since_us, told.for_ms, told.until_idle_ms) == (2, NOW_US, 13, 1010)
    # A tuple that lets none enter does not end the wait.
    orderer.accept(rows(11), NOW_US + 5000)
    orderer.release(NOW_US + 5000)
    told = orderer.waiting_input
    assert told is not None
    assert (told.tuples, told.since_us, told.for_ms) == (3, NOW_US, 22)
    # Some enter: those that are left wait since then.
    orderer.accept(rows(told.for_ms - 9), NOW_US + 9000)
    assert len(content(orderer.release(NOW_US + 9000))) == 2
    told = orderer.waiting_input
    assert told is not None
    assert (told.tuples, told.since_us) == (2, NOW_US + 9000)
    orderer.accept(rows(told.for_ms or 0), NOW_US + 9000)
    orderer.release(NOW_US + 9000)
    told = orderer.waiting_input
    assert told is not None
    assert told.tuples == 1
    # The clock lets it enter, and nothing waits.
    assert len(content(orderer.release(NOW_US + 9000 + 1_020_000))) == 1
    assert orderer.waiting_input is None


def test_what_waits_for_consumers_waits_for_no_timestamp() -> None:
    orderer = by_column()
    orderer.accept(rows(1, 5), NOW_US)
    assert orderer.release(NOW_US, 0) is None
    told = orderer.waiting_input
    assert told is not None
    assert (told.tuples, told.for_ms) == (2, None)


def test_slack_brings_tuples_into_order_and_equals_keep_their_arrival() -> None:
    orderer = by_column(slack_ms=10)
    orderer.accept(rows(20, 15, 12, numbers=(1, 2, 3)), NOW_US)
    orderer.accept(rows(12, 30, numbers=(4, 5)), NOW_US)
    assert content(orderer.release(NOW_US)) == [(12, 3), (12, 4), (15, 2)]
    assert orderer.watermark_ms == 19


@pytest.mark.parametrize("one_by_one", [False, True])
def test_no_calendar_s_time_is_too_far_ahead_also_where_nothing_else_is(one_by_one: bool) -> None:
    """It would take the watermark with it, and everything else would be late."""
    orderer = by_column(one_by_one=one_by_one)
    accepted, refused = orderer.accept(rows(5, 2**63 - 1, 6, LATEST_MS + 1, -(2**63), 7), NOW_US)
    assert refused == Refusals(late=1, ahead=2)
    assert accepted.column(0).to_pylist() == [5, 6, 7]
    assert content(orderer.release(NOW_US)) == [(5, 0), (6, 2)]
    accepted, refused = orderer.accept(rows(LATEST_MS), NOW_US)
    assert refused == Refusals()


def test_late_tuples_are_counted_and_do_not_enter() -> None:
    orderer = by_column()
    orderer.accept(rows(5, 6), NOW_US)
    orderer.release(NOW_US)
    accepted, refused = orderer.accept(rows(4, 5, 6, 7), NOW_US)
    assert refused == Refusals(late=2)
    assert accepted.column(0).to_pylist() == [6, 7]


def test_a_timestamp_far_ahead_does_not_drag_the_watermark() -> None:
    orderer = by_column(max_ahead_ms=1000)
    _, refused = orderer.accept(rows(NOW_MS, NOW_MS + 1001, NOW_MS + 1000), NOW_US)
    assert refused == Refusals(ahead=1)
    assert orderer.newest_ms == NOW_MS + 1000


def test_an_idle_source_advances_with_the_clock_and_never_goes_back() -> None:
    orderer = by_column(idle_after_ms=500, slack_ms=10)
    orderer.accept(rows(100), NOW_US)
    orderer.release(NOW_US)
    assert orderer.watermark_ms == 89
    assert orderer.release(NOW_US + 499_000) is None
    released = orderer.release(NOW_US + 520_000)
    assert content(released) == [(100, 0)]
    assert orderer.watermark_ms == 110
    _, refused = orderer.accept(rows(110, 111), NOW_US + 521_000)
    assert refused == Refusals(late=1)
    assert orderer.release(NOW_US + 521_000) is None


def test_a_source_that_never_spoke_advances_by_arrival_only() -> None:
    assert by_column(idle_after_ms=1).release(NOW_US) is None
    orderer = Orderer(SCHEMA, EventTime(), WaitingTuples(SCHEMA))
    assert orderer.watermark_ms == NO_WATERMARK
    assert orderer.release(NOW_US) is not None
    assert orderer.watermark_ms == NOW_MS - 1


def test_timestamps_by_arrival_rise_and_are_complete_at_once() -> None:
    orderer = Orderer(SCHEMA, EventTime(), WaitingTuples(SCHEMA))
    stamps: list[int] = []
    for _ in range(3):
        orderer.accept(rows(0, 0), NOW_US)
        released = orderer.release(NOW_US)
        assert released is not None
        stamps += released.rows.column(0).to_pylist()
    assert stamps == [NOW_MS, NOW_MS, NOW_MS + 1, NOW_MS + 1, NOW_MS + 2, NOW_MS + 2]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000])
def test_few_watermarks_however_many_timestamps(count: int) -> None:
    orderer = by_column()
    orderer.accept(rows(*range(count), count + 5), NOW_US)
    released = orderer.release(NOW_US)
    assert released is not None
    watermarks_ms = released.watermarks_ms.tolist()
    assert watermarks_ms == sorted(set(watermarks_ms))
    assert watermarks_ms[-1] == count + 4
    assert len(watermarks_ms) <= 65


def test_a_source_that_goes_on_elsewhere_counts_as_idle_from_then_on() -> None:
    orderer = by_column(idle_after_ms=500)
    orderer.resume(NOW_MS - 3, NOW_MS, [rows(NOW_MS)], NOW_US)
    orderer.release(NOW_US + 499_000)
    assert orderer.watermark_ms == NOW_MS - 1
    orderer.release(NOW_US + 510_000)
    assert orderer.watermark_ms == NOW_MS + 10


def test_clients_that_could_not_speak_have_time_to_come_back() -> None:
    orderer = by_column(idle_after_ms=500, returns_ms=2000)
    orderer.resume(99, 100, [rows(100)], NOW_US)
    assert orderer.release(NOW_US + 2_499_000) is None
    assert content(orderer.release(NOW_US + 2_501_000)) == [(100, 0)]
    orderer.excuse(NOW_US + 5_000_000)
    orderer.accept(rows(5000), NOW_US + 5_000_000)
    orderer.release(NOW_US + 7_499_000)
    assert orderer.watermark_ms == 4999


def test_a_silent_source_that_was_held_up_goes_on_with_the_clock_from_where_it_was() -> None:
    orderer = by_column(idle_after_ms=500, slack_ms=10, returns_ms=2000)
    orderer.accept(rows(100), NOW_US)
    orderer.release(NOW_US + 600_500_000)
    assert orderer.watermark_ms == 600_090
    orderer.excuse(NOW_US + 601_000_000)
    assert orderer.release(NOW_US + 603_500_000) is None
    orderer.release(NOW_US + 603_600_000)
    assert orderer.watermark_ms == 600_190
    orderer.accept(rows(600_100), NOW_US + 604_000_000)
    orderer.resume(600_190, 100, [], NOW_US + 700_000_000)
    orderer.release(NOW_US + 702_700_000)
    assert orderer.watermark_ms == 600_390


def test_a_source_that_begins_has_no_clients_that_were_away() -> None:
    orderer = by_column(idle_after_ms=500, returns_ms=2000)
    orderer.resume(NO_WATERMARK, NO_WATERMARK, [], NOW_US)
    orderer.accept(rows(100), NOW_US)
    assert content(orderer.release(NOW_US + 501_000)) == [(100, 0)]


def test_what_may_not_be_released_now_is_released_later() -> None:
    orderer = by_column()
    orderer.accept(rows(1, 2, 3), NOW_US)
    assert orderer.release(NOW_US, 0) is None
    assert orderer.is_behind
    released = [orderer.release(NOW_US, 1), orderer.release(NOW_US, 1)]
    assert [content(each) for each in released] == [[(1, 0)], [(2, 1)]]
    assert not orderer.is_behind
