"""A source that must wait, and one that cannot: what enters when consumers cannot follow."""

from __future__ import annotations

import msgspec
import pytest

from ha.messages import Ack, Subscribe
from ha.producer import acknowledge, subscribe
from orchestrator.edges.events import SourceEmitted
from orchestrator.host.core.hosted_streams import ENTRIES, HostedSource
from orchestrator.records import Guarantee, Overdue, Shed, SourceAssignment, SourceSpec
from streams.vectors.chunk import Position
from tests.streams_of_numbers import chunk, numbers

SIZE = chunk(0, [(10, 1)]).size_bytes


def source(
    *, resumable: bool, shed: Shed | None = None, overdue_after_ms: float | None = None
) -> HostedSource:
    """Its log has room for two chunks, and so has its only consumer."""
    made = HostedSource(
        SourceAssignment(
            stream="s",
            columns={"number": "int"},
            source=SourceSpec(
                driver="test", guarantee=Guarantee.REPLAYABLE if resumable else Guarantee.ONCE
            ),
            start_at_us=0,
            shed=shed,
            overdue=Overdue.KEEP if overdue_after_ms is None else Overdue.DROP,
            overdue_after_ms=overdue_after_ms,
        )
    )
    made.open(Position(), 0)
    made.log.capacity_bytes = 2 * SIZE
    request = Subscribe(
        stream="s", position=None, generation=None, demands=True, room_bytes=2 * SIZE
    )
    subscribe(made, "reader", request, 0)
    return made


def emitted(ts: int) -> SourceEmitted:
    one = chunk(ts, [(ts, 1)])
    return SourceEmitted(
        stream="s",
        rows=one.rows,
        watermarks_ms=one.watermarks_ms,
        ingestion_times_us=one.ingestion_times_us,
    )


def process(made: HostedSource, until: Position) -> None:
    told = Ack(position=until, epoch=1, generation=1, demanded=until, room_bytes=2 * SIZE)
    acknowledge(made, "reader", told, 0)


def test_a_source_that_can_be_read_again_waits() -> None:
    made = source(resumable=True)
    for ts in (10, 20, 30):
        assert not made.update_held_up(0)
        made.enter(emitted(ts), 0)
    assert made.update_held_up(0)
    assert made.status.throttled
    process(made, Position(next_seq=1, watermark_ms=10))
    assert not made.update_held_up(0)
    assert made.status.throttled, "it was a moment ago"
    assert not made.update_held_up(3_000_000)
    assert not made.status.throttled


@pytest.mark.parametrize("shed", [None, Shed(tuples=100, per_ms=1000)])
def test_input_that_cannot_wait_is_dropped_at_a_full_buffer_and_counted(shed: Shed | None) -> None:
    made = source(resumable=False, shed=shed)
    for ts in (10, 20, 30, 40, 50):
        assert not made.update_held_up(0)
        made.enter(emitted(ts), 0)
    assert numbers(made.log.chunks()) == [10, 20, 30]
    assert made.release(0) is None
    counted = (made.status.overflowed, made.status.shed)
    assert counted == ((2, 0) if shed is None else (0, 2))
    process(made, Position(next_seq=3, watermark_ms=30))
    lost = made.release(0)
    assert made.log.end == Position(next_seq=3, watermark_ms=50)
    if shed is None:
        assert lost is not None
        until = "after 1970-01-01T00:00:00.030Z up to 1970-01-01T00:00:00.050Z"
        assert lost.startswith(f"2 tuples with timestamps {until}")
    else:
        assert lost is None
    made.enter(emitted(60), 0)
    assert made.log.end == Position(next_seq=4, watermark_ms=60)
    assert made.release(0) is None


def test_a_full_buffer_is_said_while_it_drops_and_a_moment_longer() -> None:
    made = source(resumable=False)
    for ts in (10, 20, 30):
        made.enter(emitted(ts), 0)
    made.update_held_up(0)
    assert not made.status.overflowing
    made.enter(emitted(40), 0)
    made.update_held_up(0)
    assert made.status.overflowing
    process(made, Position(next_seq=3, watermark_ms=30))
    made.release(0)
    made.update_held_up(3_000_000)
    assert (made.status.overflowing, made.status.overflowed) == (False, 1)


def test_it_tells_how_many_tuples_come_at_once() -> None:
    made = source(resumable=False)
    made.log.capacity_bytes = 10**9

    def enter(first: int, counts: list[int]) -> None:
        for number, count in enumerate(counts, first):
            part = chunk(0, [(10 * (number + 1), count)])
            made.enter(
                SourceEmitted(
                    stream="s",
                    rows=part.rows,
                    watermarks_ms=part.watermarks_ms,
                    ingestion_times_us=part.ingestion_times_us,
                ),
                0,
            )

    enter(0, [30] * (ENTRIES - 1))
    assert made.status.together is None, "too few have come"
    enter(ENTRIES, [30, 0, 0, 0])
    assert made.status.together == 30.0, "a watermark alone is nothing that comes"
    enter(2 * ENTRIES, [1] * 10 * ENTRIES)
    assert made.status.together == pytest.approx(1.0, abs=0.1)


def test_tuples_wait_for_credit_until_they_are_overdue_and_the_source_is_read_meanwhile() -> None:
    made = source(resumable=True, overdue_after_ms=50.0)
    for ts in (10, 20, 30, 40, 50):
        assert not made.update_held_up(0)
        made.enter(emitted(ts), 0)
        made.take_in(0, 50_000)
    assert numbers(made.log.chunks()) == [10, 20, 30]
    assert (made.status.waiting, made.status.overdue) == (2, 0)
    assert made.waiting_bytes == 2 * SIZE
    assert not made.take_in(0, 90_000), "40 ms entered 50 ms ago: it is still in time"
    process(made, Position(next_seq=3, watermark_ms=30))
    assert made.take_in(0, 90_001)
    assert (made.status.waiting, made.status.overdue) == (0, 1)
    assert made.log.end == Position(next_seq=4, watermark_ms=50)
    assert numbers(made.log.chunks())[-1] == 50


def test_overdue_tuples_are_told_of_once_that_is_over_or_has_lasted() -> None:
    made = source(resumable=True, overdue_after_ms=50.0)
    assert made.tell_overdue(0) is None
    for ts in range(10, 100, 10):
        made.enter(emitted(ts), 0)
        made.take_in(0, ts * 1000)
    made.take_in(2_000_000, 10**9)
    assert made.tell_overdue(2_500_000) is None, "it may go on"
    told = made.tell_overdue(3_500_000)
    assert told is not None
    assert told.startswith("6 tuples within 0.0 s: they had waited for consumers")
    assert made.tell_overdue(9_000_000) is None
    for second in range(4, 70):
        made.enter(emitted(1000 * second), second * 1_000_000)
        made.take_in(second * 1_000_000, 10**9)
        if (told := made.tell_overdue(second * 1_000_000)) is not None:
            break
    else:
        pytest.fail("a minute passed")
    assert told.startswith("61 tuples within 60.0 s")


def test_a_room_that_is_full_drops_the_oldest() -> None:
    made = source(resumable=True, overdue_after_ms=1e6)
    made.room_bytes = 2 * SIZE
    for ts in (10, 20, 30, 40, 50, 60):
        made.enter(emitted(ts), 0)
        made.take_in(0, 60_000)
    assert (made.status.waiting, made.status.overdue) == (1, 2)


def test_once_dropping_ends_everything_that_waits_is_numbered() -> None:
    made = source(resumable=True, overdue_after_ms=50.0)
    for ts in (10, 20, 30, 40, 50):
        made.enter(emitted(ts), 0)
        made.take_in(0, 50_000)
    made.use(msgspec.structs.replace(made.assignment, overdue_after_ms=None))
    assert made.take_in(0, 10**9)
    assert numbers(made.log.chunks()) == [10, 20, 30, 40, 50]
    assert made.status.overdue == 0
    assert made.update_held_up(0), "now it can wait again"
