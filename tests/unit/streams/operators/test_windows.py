"""Windows, seen through ISTREAM (what enters) and DSTREAM (what leaves)."""

from __future__ import annotations

import tracemalloc

import pytest

from foundation.arrays import IntArray
from streams.evaluate.engine import FragmentEngine
from streams.evaluate.stepwise import incremental
from streams.language import QueryError
from streams.operators.slide_window import SlideWindow
from streams.operators.window import Arrived
from streams.plan.program import Program
from streams.vectors.vector import Delta
from tests.unit.streams.running import Row, chunk, program, run, sensor


def tuples(*given: tuple[int, str, int]) -> list[Row]:
    return [(timestamp, key, number, None, None) for timestamp, key, number in given]


def test_range_holds_what_is_younger_than_its_length() -> None:
    given = tuples((10, "a", 1), (12, "b", 2))
    query = "(SELECT i FROM s [RANGE 5 MILLISECONDS])"
    assert run("ISTREAM" + query, given, until_ms=20) == [(10, 1), (12, 2)]
    assert run("DSTREAM" + query, given, until_ms=16) == [(15, 1)]
    assert run("RSTREAM" + query, given, until_ms=20) == [(10, 1), (12, 1), (12, 2), (15, 2)]


def test_now_expires_a_millisecond_later() -> None:
    given = tuples((10, "a", 1), (11, "a", 1), (13, "a", 1))
    # At 11 the relation is what it was at 10; at 12 it is empty.
    assert run("ISTREAM(SELECT i FROM s [NOW])", given) == [(10, 1), (13, 1)]
    assert run("DSTREAM(SELECT i FROM s [NOW])", given) == [(12, 1)]
    assert run("RSTREAM(SELECT i FROM s [NOW])", given) == [(10, 1), (11, 1), (13, 1)]


def test_rows_counts_tuples_of_one_timestamp_in_their_order() -> None:
    given = tuples((1, "a", 1), (2, "b", 2), (2, "c", 3), (2, "d", 4))
    assert run("ISTREAM(SELECT i FROM s [ROWS 2])", given) == [(1, 1), (2, 3), (2, 4)]
    assert run("DSTREAM(SELECT i FROM s [ROWS 2])", given) == [(2, 1)]


def test_partition_keeps_the_newest_of_each_key_and_null_is_a_key() -> None:
    given = [
        (1, "a", 1, None, None),
        (1, None, 2, None, None),
        (2, None, 3, None, None),
        (3, "a", 4, None, None),
        (3, "a", 5, None, None),
    ]
    query = "(SELECT k, i FROM s [PARTITION BY k ROWS 1])"
    assert run("ISTREAM" + query, given) == [(1, "a", 1), (1, None, 2), (2, None, 3), (3, "a", 5)]
    assert run("DSTREAM" + query, given) == [(2, None, 2), (3, "a", 1)]


def test_partition_with_range_forgets_the_silent() -> None:
    given = tuples((0, "a", 1), (20_000, "b", 2), (29_999, "a", 3))
    query = "DSTREAM(SELECT k, i FROM s [PARTITION BY k ROWS 1 RANGE 30 SECONDS])"
    assert run(query, given, until_ms=70_000) == [
        (29_999, "a", 1),
        (50_000, "b", 2),
        (59_999, "a", 3),
    ]


def test_partition_rows_and_age_bound_each_other() -> None:
    given = tuples((0, "a", 1), (2, "a", 2), (3, "a", 3), (9, "b", 4))
    query = "RSTREAM(SELECT i FROM s [PARTITION BY k ROWS 2 RANGE 4 MILLISECONDS])"
    assert run(query, given, until_ms=9) == [
        (0, 1),
        (2, 1),
        (2, 2),
        (3, 2),
        (3, 3),
        (6, 3),
        (9, 4),
    ]


def test_unbounded_keeps_everything() -> None:
    given = tuples((1, "a", 1), (10**9, "b", 2))
    query = "(SELECT i FROM s [UNBOUNDED])"
    assert run("RSTREAM" + query, given) == [(1, 1), (10**9, 1), (10**9, 2)]
    assert run("DSTREAM" + query, given) == []


def test_windows_win_back_the_room_of_what_left() -> None:
    given = tuples(
        *(
            (timestamp_group, f"k{timestamp_group % 7}", timestamp_group)
            for timestamp_group in range(1000)
        )
    )
    rows = run("ISTREAM(SELECT count(*) AS n, sum(i) AS t FROM s [ROWS 90])", given)
    assert rows[-1] == (999, 90, sum(range(910, 1000)))
    rows = run("ISTREAM(SELECT count(*) AS n, sum(i) AS t FROM s [PARTITION BY k ROWS 3])", given)
    assert rows[-1] == (999, 21, sum(range(979, 1000)))


def test_a_window_that_slides_changes_at_its_boundaries() -> None:
    given = tuples((1, "a", 1), (4, "b", 2), (5, "c", 3), (16, "d", 4))
    window = "(SELECT i FROM s [RANGE 8 MILLISECONDS SLIDE 4 MILLISECONDS])"
    assert run("ISTREAM" + window, given, until_ms=40) == [(4, 1), (4, 2), (8, 3), (16, 4)]
    assert run("DSTREAM" + window, given, until_ms=40) == [(12, 1), (12, 2), (16, 3), (24, 4)]
    assert run("RSTREAM" + window, given, until_ms=40) == [
        *((4, 1), (4, 2), (8, 1), (8, 2), (8, 3), (12, 3), (16, 4), (20, 4)),
    ]


def test_boundaries_before_the_first_tuple_and_after_the_last_give_nothing() -> None:
    given = tuples((10_007, "a", 1))
    window = "[RANGE 2 MILLISECONDS SLIDE 2 MILLISECONDS OFFSET 1 MILLISECOND]"
    query = f"RSTREAM(SELECT count(*) AS n FROM s {window})"
    assert run(query, given, until_ms=20_000) == [(10_007, 1), (10_009, 0)]


def test_tuples_between_windows_are_in_none() -> None:
    given = tuples((1, "a", 1), (4, "b", 2), (5, "c", 3))
    query = "RSTREAM(SELECT i FROM s [RANGE 1 MILLISECOND SLIDE 5 MILLISECONDS])"
    assert run(query, given, until_ms=40) == [(5, 3)]


def test_a_window_may_not_slide_too_often() -> None:
    with pytest.raises(QueryError, match="at most 100000 times as long as SLIDE"):
        run("RSTREAM(SELECT i FROM s [RANGE 1 HOUR SLIDE 1 MILLISECOND])", [])


def advanced_at_once(compiled: Program, given: list[Row]) -> None:
    """Evaluates tuples under one watermark."""
    engine = FragmentEngine(compiled)
    engine.offer("s", chunk(sensor, given, [given[-1][0]]))
    engine.advance(1)


FAR_APART = tuples(*((at * 200_000_000, "a", 1) for at in range(1, 51)))


@pytest.mark.parametrize(
    "query",
    [
        "ISTREAM(SELECT k FROM s [RANGE 100000 SECONDS SLIDE 1 SECOND])",
        "DSTREAM(SELECT k FROM s [RANGE 100000 SECONDS SLIDE 1 SECOND])",
        "ISTREAM(SELECT k FROM s [RANGE 100000 SECONDS SLIDE 1 SECOND] TOP 1 BY i)",
    ],
)
def test_boundaries_at_which_nothing_changes_take_no_memory(query: str) -> None:
    compiled = program(query)
    tracemalloc.start()
    try:
        advanced_at_once(compiled, FAR_APART)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # At 5 million boundaries there is a tuple.
    assert peak < 5_000_000


def test_a_pass_of_rstream_has_a_bounded_number_of_boundaries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incremental, "PASS_BOUNDARIES", 500)
    boundaries: list[int] = []

    def evaluated_ms(window: SlideWindow, arrived: Arrived, change: Delta | None) -> IntArray:
        found = original(window, arrived, change)
        boundaries.append(len(found))
        return found

    original = SlideWindow.evaluated_ms
    monkeypatch.setattr(SlideWindow, "evaluated_ms", evaluated_ms)
    query = "RSTREAM(SELECT k FROM s [RANGE 100 SECONDS SLIDE 1 SECOND] WHERE i > 1)"
    advanced_at_once(program(query), FAR_APART)
    assert max(boundaries) <= 500 + 2 * 101
    # The last tuple leaves later, and all others have 100 boundaries and the one after them.
    assert sum(boundaries) == (len(FAR_APART) - 1) * 101 + 1
    dense = tuples(*((at * 100, "a", 1) for at in range(1, 2001)))
    boundaries.clear()
    advanced_at_once(program(query), dense)
    assert boundaries == [200]
