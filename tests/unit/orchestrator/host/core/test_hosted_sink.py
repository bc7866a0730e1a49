"""What a sink receives, and the figures that it reports."""

from __future__ import annotations

import pytest
from msgspec import structs

from ha.cursor import Receipt
from ha.messages import Data
from orchestrator.edges.events import Deliver, Durable
from orchestrator.host.core.hosted_streams import MISS_WINDOW_US, HostedSink
from orchestrator.records import Late, SinkAssignment
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position
from tests.streams_of_numbers import chunk, numbers


def sink(late: Late = Late.KEEP) -> HostedSink:
    made = HostedSink(
        SinkAssignment(stream="s", columns={"number": "int"}, deadline_ms=5, late=late)
    )
    made.cursor.start(Position(), 1)
    return made


def data(part: Chunk) -> Data:
    return Data(stream="s", epoch=1, generation=1, chunk=part)


def test_before_anything_came() -> None:
    status = sink().status(0)
    assert (status.watermark_ms, status.latency_ms_p50, status.completed_timestamps) == (
        None,
        None,
        0,
    )


def test_latency_is_counted_for_every_completed_timestamp_and_late_ones_as_misses() -> None:
    made = sink()
    # Ingestion times are 10 and 20 ms; both timestamps are completed at 22 ms.
    receipt, (delivery,) = made.receive(data(chunk(0, [(10, 1), (20, 0)])), 22_000)
    assert receipt is Receipt.ACCEPTED
    assert (delivery.arrived_us, delivery.lost) == (22_000, 0)
    status = made.status(0)
    assert (status.completed_timestamps, status.rows, status.deadline_misses) == (2, 1, 1)
    assert status.latency_ms_p50 == pytest.approx(7)
    assert (status.next_seq, status.watermark_ms) == (1, 20)


def test_results_of_input_from_before_the_query_began_from_a_savepoint_have_no_latency() -> None:
    """They are made again hours after their input entered, and were delivered elsewhere."""
    made = sink()
    made.use(structs.replace(made.assignment, measured_from_us=15_000))
    made.receive(data(chunk(0, [(10, 3)])), 22_000)
    status = made.status(0)
    assert (status.completed_timestamps, status.made_again, status.rows) == (1, 1, 3)
    assert (status.latency_ms_p99, status.deadline_misses, status.late_rows) == (None, 0, 0)
    made.receive(data(chunk(3, [(14, 2), (20, 1)])), 28_000)
    status = made.status(0)
    assert (status.completed_timestamps, status.made_again, status.rows) == (3, 2, 6)
    assert status.latency_ms_p99 == pytest.approx(8)
    assert (status.deadline_misses, status.late_rows) == (1, 1)


def test_repeated_tuples_are_dropped_and_counted() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 2)])), 0)
    assert made.receive(data(chunk(0, [(10, 2)])), 0) == (Receipt.DUPLICATE, [])
    _, (delivery,) = made.receive(data(chunk(0, [(10, 2), (20, 1)])), 0)
    assert numbers([delivery.chunk]) == [2]
    assert (made.status(0).rows, made.status(0).repeated) == (3, 4)


def test_a_gap_is_not_taken_in_until_it_is_given_up_and_then_counted() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 2)])), 0)
    late = data(chunk(5, [(40, 1)]))
    assert made.receive(late, 0) == (Receipt.GAP, [])
    made.lose(made.cursor.skip_to(late.chunk))
    receipt, (delivery,) = made.receive(late, 0)
    assert receipt is Receipt.ACCEPTED
    assert delivery.lost == made.status(0).lost == 3


def test_late_tuples_are_counted_by_the_completed_timestamp_they_came_with() -> None:
    made = sink()
    # Ingestion times are 10, 20 and 30 ms; all arrive at 25 ms, with a deadline of 5 ms.
    made.receive(data(chunk(0, [(10, 3), (20, 2), (30, 1)])), 25_000)
    status = made.status(25_000)
    assert (status.rows, status.late_rows, status.deadline_misses) == (6, 3, 1)
    assert status.miss_pct == status.recent_miss_pct == pytest.approx(50.0)


def test_a_late_completed_timestamp_without_tuples_is_no_late_tuple() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 0)])), 25_000)
    status = made.status(25_000)
    assert (status.deadline_misses, status.late_rows, status.miss_pct) == (1, 0, 0.0)
    assert status.recent_miss_pct is None


def test_the_recent_miss_ratio_recovers_and_the_whole_one_does_not() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 1)])), 1_000_000)
    late_until_us = 1_000_000 + MISS_WINDOW_US
    made.receive(data(chunk(1, [(late_until_us // 1000, 3)])), late_until_us)
    status = made.status(late_until_us)
    assert (status.rows, status.late_rows, status.miss_pct) == (4, 1, 25.0)
    assert status.recent_miss_pct == 0.0
    assert made.status(late_until_us + 2 * MISS_WINDOW_US).recent_miss_pct is None


def test_a_repeated_tuple_is_no_second_miss() -> None:
    made = sink()
    for _ in range(2):
        made.receive(data(chunk(0, [(10, 2)])), 25_000)
    assert (made.status(0).late_rows, made.status(0).deadline_misses) == (2, 1)


def test_a_changed_deadline_holds_from_then_on_for_completed_timestamps_and_tuples_alike() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 1)])), 20_000)
    made.use(SinkAssignment(stream="s", columns={"number": "int"}, deadline_ms=50))
    made.receive(data(chunk(1, [(20, 1)])), 30_000)
    status = made.status(30_000)
    assert (status.deadline_misses, status.late_rows, status.rows) == (1, 1, 2)


def test_what_the_driver_had_kept_and_has_no_more_is_counted_as_lost() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 2), (20, 3)])), 0)
    made.flushed(kept(5, 20))
    made.close()
    made.open(kept(0, NO_WATERMARK))
    # Producers keep the last of them still.
    rest = data(chunk(4, [(20, 1), (30, 1)]))
    made.lose(made.cursor.skip_to(rest.chunk))
    _, (delivery,) = made.receive(rest, 0)
    assert delivery.lost == made.status(0).lost == 4
    assert made.status(0).rows == 6


def kept(next_seq: int, watermark_ms: int) -> Durable:
    return Durable(generation=1, position=Position(next_seq=next_seq, watermark_ms=watermark_ms))


def test_what_is_delivered_again_to_a_reopened_sink_is_counted_once() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 2), (20, 1)])), 100_000)
    before = made.status(0)
    made.close()
    assert made.status(0).repeated == before.repeated
    made.open(kept(2, 10))
    _, (delivery,) = made.receive(data(chunk(2, [(20, 1), (30, 4)])), 100_000)
    assert numbers([delivery.chunk]) == [2, 3, 4, 5, 6], "its driver has lost them"
    status = made.status(0)
    assert (status.rows, status.completed_timestamps) == (7, 3)
    assert (status.deadline_misses, status.late_rows) == (3, 7)


def test_repeated_tuples_are_counted_once_while_and_after_a_sink_is_closed() -> None:
    made = sink()
    for _ in range(2):
        made.receive(data(chunk(0, [(10, 2)])), 0)
    made.close()
    assert made.status(0).repeated == 2
    made.open(None)
    assert made.status(0).repeated == 2


def test_a_hole_that_a_reopened_sink_crosses_again_is_counted_once() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 2)])), 0)
    after = data(chunk(5, [(40, 1)]))
    for _ in range(2):
        made.lose(made.cursor.skip_to(after.chunk))
        _, (delivery,) = made.receive(after, 0)
        assert delivery.lost == 3, "for the archive, which did not keep the first"
        made.close()
        made.open(kept(2, 10))
    assert made.status(0).lost == 3


def test_a_loss_that_was_not_delivered_before_the_sink_failed_is_counted_when_it_is() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 2)])), 0)
    after = data(chunk(5, [(40, 1)]))
    made.lose(made.cursor.skip_to(after.chunk))
    made.close()
    made.open(kept(2, 10))
    made.lose(made.cursor.skip_to(after.chunk))
    made.receive(after, 0)
    assert made.status(0).lost == 3


def test_what_a_new_generation_brings_again_to_a_reopened_sink_is_counted_once() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 2), (20, 1)])), 0)
    made.close()
    made.open(kept(2, 10))
    made.cursor.cross(Position(), 2)
    anew = Data(stream="s", epoch=2, generation=2, chunk=chunk(0, [(10, 2), (20, 1), (30, 1)]))
    made.receive(anew, 0)
    assert (made.status(0).rows, made.status(0).completed_timestamps) == (4, 3)


def test_a_sink_that_keeps_nothing_is_said_until_it_keeps_everything() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 1)])), 1_000_000)
    made.receive(data(chunk(1, [(20, 1)])), 3_000_000)
    assert made.status(5_000_000).unkept_ms == 4000
    made.flushed(Durable(generation=1, position=Position(next_seq=1, watermark_ms=10)))
    assert made.status(5_000_000).unkept_ms == 2000
    assert made.held_bytes == chunk(1, [(20, 1)]).size_bytes
    made.flushed(Durable(generation=1, position=Position(next_seq=2, watermark_ms=20)))
    assert made.status(5_000_000).unkept_ms == 0


def told(deliveries: list[Deliver]) -> list[tuple[list[int], list[int], tuple[int, ...], int]]:
    """Numbers, watermarks, what was dropped, and the number after each."""
    return [
        (numbers([d.chunk]), d.chunk.watermarks_ms.tolist(), d.late, d.chunk.next_seq)
        for d in deliveries
    ]


def test_late_results_are_dropped_where_the_output_asks_and_numbers_go_on() -> None:
    made = sink(Late.DROP)
    # At 25 ms, what entered by 20 ms is in time.
    part = chunk(0, [(10, 2), (15, 0), (18, 1), (20, 2), (30, 1)])
    _, deliveries = made.receive(data(part), 25_000)
    assert told(deliveries) == [
        ([], [10], (2,), 2),
        ([], [15], (), 2),
        ([], [18], (1,), 3),
        ([3, 4, 5], [20, 30], (), 6),
    ]
    for each in deliveries:
        each.chunk.check(made.schema)
    status = made.status(25_000)
    assert (status.rows, status.late_rows, status.late_dropped) == (6, 3, 3)
    assert status.next_seq == 6


def test_what_is_in_time_or_has_no_tuples_is_delivered_as_it_came() -> None:
    made = sink(Late.DROP)
    part = chunk(0, [(10, 0), (20, 2)])
    _, (delivery,) = made.receive(data(part), 25_000)
    assert (delivery.chunk, delivery.late) == (part, ())


def test_a_sink_that_is_opened_again_drops_what_it_has_dropped_and_delivers_the_rest() -> None:
    made = sink(Late.DROP)
    first = data(chunk(0, [(10, 2), (20, 2)]))
    made.receive(first, 25_000)
    made.close()
    made.open(None)
    made.cursor.start(Position(), 1)
    _, deliveries = made.receive(first, 90_000)
    assert told(deliveries) == [([], [10], (2,), 2), ([2, 3], [20], (), 4)]
    assert made.status(0).late_dropped == 2
    made.flushed(deliveries[0].end)
    made.flushed(deliveries[1].end)
    assert made.held_bytes == 0
