"""Aggregates, with and without groups."""

from __future__ import annotations

import math

import pytest

from streams.evaluate.engine import FragmentEngine
from streams.language import QueryError
from tests.unit.streams.running import chunk, program, run, sensor


def test_a_global_aggregate_has_a_row_even_of_nothing() -> None:
    query = "RSTREAM(SELECT count(*) AS n, sum(i) AS t, max(k) AS m FROM s [NOW] WHERE b)"
    given = [(1, "a", 5, None, False), (5, "b", 6, None, True)]
    assert run(query, given, until_ms=9) == [
        (1, 0, None, None),
        (2, 0, None, None),
        (5, 1, 6, "b"),
        (6, 0, None, None),
    ]


def test_istream_of_a_count_tells_every_change() -> None:
    query = "ISTREAM(SELECT count(*) AS alerts FROM s [RANGE 1 MINUTE])"
    given = [(t, "a", 1, None, None) for t in (0, 0, 30_000)]
    assert run(query, given, until_ms=200_000) == [
        (0, 2),
        (30_000, 3),
        (60_000, 1),
        (90_000, 0),
    ]


def test_groups_come_and_go_with_their_rows() -> None:
    given = [(1, "a", 1, None, None), (1, None, 2, None, None), (2, "a", 3, None, None)]
    query = "(SELECT k, sum(i) AS t FROM s [RANGE 2 MILLISECONDS] GROUP BY k)"
    assert run("ISTREAM" + query, given, until_ms=9) == [
        (1, "a", 1),
        (1, None, 2),
        (2, "a", 4),
        (3, "a", 3),
    ]
    assert run("DSTREAM" + query, given, until_ms=9) == [
        (2, "a", 1),
        (3, "a", 4),
        (3, None, 2),
        (4, "a", 3),
    ]


def test_a_group_without_rows_leaves_nothing_behind() -> None:
    engine = FragmentEngine(program("ISTREAM(SELECT k, sum(i) AS t FROM s [NOW] GROUP BY k)"))
    engine.offer("s", chunk(sensor, [(1, "a", 1, None, None)], [1]))
    engine.advance(1)
    kept = len(list(engine.snapshot().pieces()))
    engine.offer("s", chunk(sensor, [], [9], 1))
    engine.advance(1)
    # Neither the window nor the aggregate has anything to save.
    assert len(list(engine.snapshot().pieces())) == kept - 2


def test_what_was_saved_does_not_change_while_groups_do() -> None:
    engine = FragmentEngine(program("ISTREAM(SELECT k, sum(i) AS t FROM s [UNBOUNDED] GROUP BY k)"))
    engine.offer("s", chunk(sensor, [(1, "a", 1, None, None), (1, "b", 2, None, None)], [1]))
    engine.advance(1)
    saved = engine.snapshot()
    before = list(saved.pieces())
    engine.offer("s", chunk(sensor, [(2, "a", 5, None, None), (2, "c", 5, None, None)], [2], 2))
    engine.advance(1)
    assert list(saved.pieces()) == before
    restored = FragmentEngine(
        program("ISTREAM(SELECT k, sum(i) AS t FROM s [UNBOUNDED] GROUP BY k)")
    )
    restored.restore(saved)
    restored.offer("s", chunk(sensor, [(2, "a", 5, None, None), (2, "c", 5, None, None)], [2], 2))
    evaluated = restored.advance(1)
    assert evaluated is not None
    assert [tuple(row.values()) for row in evaluated.rows.to_pylist()] == [
        (2, "a", 6),
        (2, "c", 5),
    ]


def test_nulls_are_not_aggregated() -> None:
    given = [(1, "a", None, 1.0, None), (1, "b", 3, None, None)]
    query = "RSTREAM(SELECT count(i) AS c, avg(i) AS a, min(x) AS l, max(x) AS h FROM s [ROWS 2])"
    assert run(query, given) == [(1, 1, 3.0, 1.0, 1.0)]


def test_sums_are_exact_and_what_left_leaves_no_trace() -> None:
    values = [1e300, 0.1, 0.2, 0.3, -0.1, 5e-324]
    given = [(n, "a", n, x, None) for n, x in enumerate(values)]
    rows = run("ISTREAM(SELECT sum(x) AS t, avg(x) AS a FROM s [ROWS 5])", given)
    assert rows[-1] == (5, math.fsum(values[1:]), math.fsum(values[1:]) / 5)


def test_sums_out_of_range_are_null() -> None:
    given = [(1, "a", 2**62, 1e308, None), (1, "b", 2**62, 1e308, None)]
    query = "RSTREAM(SELECT sum(i) AS t, sum(x) AS u, avg(i) AS a FROM s [ROWS 2])"
    assert run(query, given) == [(1, None, None, 2.0**62)]


def test_an_expression_over_aggregates_and_keys() -> None:
    given = [(1, "a", 1, 0.5, None), (1, "a", 3, 0.5, None)]
    query = (
        "RSTREAM(SELECT i * 10 + count(*) AS y, greatest(k, 'b') AS g FROM s [NOW] GROUP BY i, k)"
    )
    assert run(query, given) == [(1, 11, "b"), (1, 31, "b")]


def test_a_deviation_is_exact_however_far_the_values_are_from_zero() -> None:
    given = [(n, "a", n, x, None) for n, x in enumerate([1e15, 1e15 + 1, 1e15 + 2, 5e-324])]
    query = "ISTREAM(SELECT stddev(x) AS d, stddev(i) AS e FROM s [ROWS 3])"
    rows = run(query, given[:3])
    assert rows == [(0, None, None), (1, math.sqrt(0.5), math.sqrt(0.5)), (2, 1.0, 1.0)]
    assert run("RSTREAM(SELECT stddev(x) AS d FROM s [ROWS 2])", given)[-1] == (
        3,
        # (10¹⁵ + 2) / √2 = 707106781186548.9386…, between …548.875 and …549.
        707106781186549.0,
    )


def test_the_first_and_the_last_value_follow_the_stream() -> None:
    given = [(1, "a", None, 1.0, None), (1, "b", 7, None, None), (4, "c", 8, 2.0, None)]
    query = "RSTREAM(SELECT first(i) AS f, last(k) AS l, last(x) AS x FROM s [RANGE 5 SECONDS])"
    assert run(query, given) == [(1, 7, "b", 1.0), (4, 7, "c", 2.0)]


@pytest.mark.parametrize("function", ["first", "last"])
def test_rows_of_a_join_have_no_first(function: str) -> None:
    with pytest.raises(QueryError, match=f"{function} needs the order of one stream"):
        program(f"RSTREAM(SELECT {function}(s.i) AS f FROM s [NOW], t [NOW])")


def test_of_an_unlimited_window_only_what_may_show_is_kept() -> None:
    listed = "min(i) AS m, max(x) AS n, first(i) AS f, last(i) AS l"
    engine = FragmentEngine(program(f"ISTREAM(SELECT {listed} FROM s [UNBOUNDED])"))
    sizes: list[int] = []
    for at in range(1, 4):
        rows = [(at, "a", n, float(n), None) for n in range(100)]
        engine.offer("s", chunk(sensor, rows, [at], 100 * (at - 1)))
        engine.advance(1)
        sizes.append(sum(map(len, engine.snapshot().pieces())))
    assert max(sizes) < 500


@pytest.mark.parametrize(
    "window", ["[NOW]", "[RANGE 1 SECOND SLIDE 1 SECOND]", "[SESSION 1 SECOND PARTITION BY k]"]
)
@pytest.mark.parametrize("distinct", ["", "DISTINCT "])
def test_a_column_that_is_named_twice_is_one_key(window: str, distinct: str) -> None:
    given = [(1, "a", 2, None, None), (1, "a", 3, None, None), (1, "b", 4, None, None)]
    query = f"RSTREAM(SELECT {distinct}k, count(*) AS n FROM s {window} GROUP BY k, s.k)"
    assert [row[1:] for row in run(query, given, until_ms=3000)] == [("a", 2), ("b", 1)]


def test_different_groups_show_all_keys() -> None:
    with pytest.raises(QueryError, match="DISTINCT of groups needs all GROUP BY columns"):
        program("RSTREAM(SELECT DISTINCT k, count(*) AS n FROM s [NOW] GROUP BY k, i, k)")


@pytest.mark.parametrize(
    "select", ["SELECT x, count(*) AS n FROM s {} GROUP BY x", "SELECT DISTINCT x FROM s {}"]
)
@pytest.mark.parametrize("window", ["[ROWS 1]", "[RANGE 1 SECOND SLIDE 1 MILLISECOND]", "[NOW]"])
def test_a_group_shows_one_zero_whichever_came_first(select: str, window: str) -> None:
    """They are equal: no row of the group says which of them the group would show."""
    query = f"RSTREAM({select.format(window)})"
    for first in (0.0, -0.0):
        given = [(1, "a", 1, first, None), (2, "a", 1, -first, None)]
        assert {math.copysign(1.0, row[1]) for row in run(query, given)} == {1.0}
