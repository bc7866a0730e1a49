from __future__ import annotations

from ha.messages import Data
from ha.pace import RECENT_TUPLES, WATCHED_US, Pace
from tests.streams_of_numbers import chunk


def came(pace: Pace, first_seq: int, tuples: int, generation: int = 1) -> int:
    """Data with so many tuples; returns its size as producers count it."""
    data = Data(
        stream="s",
        epoch=1,
        generation=generation,
        chunk=chunk(first_seq, [(first_seq + 1, tuples)]),
    )
    pace.came(data)
    return data.counted_bytes


def test_nothing_is_known_before_anything_has_come() -> None:
    assert Pace().room_bytes(0, 10) is None


def test_room_is_what_has_come_and_as_many_more_like_it() -> None:
    pace = Pace()
    size = came(pace, 0, 10)
    assert pace.room_bytes(0, 10) == size
    assert pace.room_bytes(0, 30) == 3 * size
    came(pace, 10, 10)
    assert pace.room_bytes(0, 30) == 3 * size
    assert pace.room_bytes(10, 10) == size, "the first chunk is processed"
    assert pace.room_bytes(20, 10) == size


def test_room_for_less_than_has_come_ends_after_a_chunk() -> None:
    pace = Pace()
    size = came(pace, 0, 10)
    came(pace, 10, 10)
    assert pace.room_bytes(0, 3) == size


def test_the_size_of_late_tuples_counts() -> None:
    pace = Pace()
    for n in range(10):
        came(pace, n, 1)
    size = came(pace, 10, 20 * RECENT_TUPLES)
    end = 10 + 20 * RECENT_TUPLES
    room = pace.room_bytes(end, RECENT_TUPLES)
    assert room is not None
    assert size / 20 <= room < 1.2 * size / 20


def test_what_comes_again_is_left_out_and_a_new_generation_begins_anew() -> None:
    pace = Pace()
    size = came(pace, 0, 10)
    came(pace, 0, 10)
    assert pace.room_bytes(0, 10) == size
    came(pace, 0, 10, generation=2)
    assert pace.room_bytes(0, 10) == size


def test_a_reader_that_always_has_input_gets_what_it_processes_within_the_time() -> None:
    pace = Pace()
    came(pace, 0, 1000)
    assert pace.tuples(0, 500, 100_000, 0) == 500, "it was not watched long enough"
    assert pace.tuples(100, 500, 100_000, WATCHED_US // 2) == 500
    # 200 tuples within 0.4 s are 50 within 0.1 s.
    assert pace.tuples(200, 500, 100_000, WATCHED_US) == 50
    assert pace.tuples(200, 10, 100_000, WATCHED_US) == 10


def test_a_reader_without_input_gets_what_is_computed() -> None:
    pace = Pace()
    came(pace, 0, 100)
    pace.tuples(0, 500, 100_000, 0)
    pace.tuples(100, 500, 100_000, WATCHED_US // 2)
    came(pace, 100, 100)
    assert pace.tuples(101, 500, 100_000, WATCHED_US) == 500


def test_a_reader_that_stands_still_gets_one_tuple() -> None:
    pace = Pace()
    came(pace, 0, 100)
    pace.tuples(0, 500, 100_000, 0)
    assert pace.tuples(0, 500, 100_000, WATCHED_US) == 1
