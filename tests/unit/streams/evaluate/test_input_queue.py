"""What has been offered of a stream and not been taken."""

from __future__ import annotations

import numpy as np
import pytest

from foundation.arrays import IntArray
from streams.evaluate.input_queue import InputQueue
from streams.vectors.chunk import ChunkError, Position, stream_schema
from tests.streams_of_numbers import chunk, cut, schema

TIMESTAMP_GROUPS = [(10, 2), (20, 0), (30, 3), (40, 1)]


def filled() -> InputQueue:
    """Two chunks: up to 20 ms, and up to 40."""
    queue = InputQueue("s", schema)
    for part in cut(TIMESTAMP_GROUPS, [2]):
        queue.offer(part)
    return queue


def counts(queue: InputQueue, *watermarks_ms: int) -> list[int]:
    return queue.count_until(np.array(watermarks_ms, dtype=np.int64)).tolist()


def test_nothing_offered_nothing_waits() -> None:
    queue = InputQueue("s", schema)
    assert (queue.waiting, queue.first_watermark_ms, queue.first_ingestion_time_us) == (
        0,
        None,
        None,
    )
    assert counts(queue, 10, 20) == [0, 0]


def test_tuples_are_counted_up_to_each_watermark_over_all_chunks() -> None:
    queue = filled()
    assert counts(queue, 5, 10, 20, 29, 30, 40, 50) == [0, 2, 2, 2, 5, 6, 6]
    assert counts(queue, 30) == [5]


def test_what_was_taken_waits_no_more() -> None:
    queue = filled()
    assert (queue.waiting, queue.first_ingestion_time_us) == (6, 10_000)
    queue.take(30)
    assert (queue.waiting, queue.first_watermark_ms, queue.first_ingestion_time_us) == (
        1,
        40,
        40_000,
    )
    assert counts(queue, 30, 40) == [0, 1]
    queue.take(40)
    assert (queue.waiting, queue.first_ingestion_time_us) == (0, None)


def test_a_cut_within_a_chunk_leaves_its_rest_waiting() -> None:
    queue = InputQueue("s", schema)
    queue.offer(chunk(0, TIMESTAMP_GROUPS))
    queue.take(10)
    assert (queue.waiting, queue.first_watermark_ms, queue.first_ingestion_time_us) == (
        4,
        20,
        20_000,
    )
    assert counts(queue, 20, 40) == [0, 4]


def test_what_was_restored_has_nothing_waiting() -> None:
    queue = filled()
    queue.restore(Position(next_seq=6, watermark_ms=40), 17)
    assert (queue.waiting, queue.taken) == (0, 17)
    queue.offer(chunk(6, [(50, 2)]))
    assert (queue.waiting, counts(queue, 50)) == (2, [2])


def test_a_chunk_that_breaks_its_promises_is_refused() -> None:
    queue = InputQueue("s", stream_schema({"other": "int"}))
    with pytest.raises(ChunkError):
        queue.offer(chunk(0, [(10, 1)]))
    assert queue.waiting == 0


def test_rows_keep_their_count_when_numbers_fall() -> None:
    queue = filled()
    queue.skip_to(Position(next_seq=1))
    queue.offer(chunk(1, [(50, 2)]))
    assert (queue.waiting, counts(queue, 50)) == (8, [8])
    queue.take(40)
    # The position is in the numbering of the tuple that follows.
    assert queue.position == Position(next_seq=1, watermark_ms=40)
    assert (queue.waiting, queue.taken) == (2, 6)
    queue.take(50)
    assert queue.position == Position(next_seq=3, watermark_ms=50)
    assert (queue.waiting, queue.taken) == (0, 8)


def test_a_skip_moves_the_position_once_everything_before_it_is_taken() -> None:
    queue = filled()
    queue.skip_to(Position(next_seq=100, watermark_ms=70))
    assert (queue.watermark_ms, queue.position) == (70, Position())
    queue.take(30)
    assert queue.position == Position(next_seq=5, watermark_ms=30)
    queue.take(60)
    assert queue.position == Position(next_seq=100, watermark_ms=70)
    queue.offer(chunk(100, [(80, 1)]))
    queue.take(75)
    assert queue.position == Position(next_seq=100, watermark_ms=75)


def test_a_skip_never_lowers_the_watermark() -> None:
    queue = filled()
    queue.skip_to(Position(next_seq=0, watermark_ms=20))
    with pytest.raises(ChunkError, match="brings 40 ms, after the watermark 40 ms"):
        queue.offer(chunk(0, [(40, 1)]))


def test_a_chunk_that_many_read_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    def rises(values: IntArray, _compare: object) -> bool:
        looked.append(values)
        return True

    monkeypatch.setattr("streams.vectors.chunk._rise", rises)
    one = chunk(0, [(10, 1)])
    for _ in range(33):
        one.check(schema)
    # Its watermarks and its timestamps.
    assert len(looked) == 2


def test_a_chunk_that_was_sound_for_one_reader_may_have_the_wrong_columns_for_another() -> None:
    one = chunk(0, [(10, 1)])
    one.check(schema)
    with pytest.raises(ChunkError, match="schema"):
        one.check(stream_schema({"other": "string"}))
