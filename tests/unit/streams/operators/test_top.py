"""TOP n BY."""

from __future__ import annotations

import numpy as np
import pytest

from streams.evaluate.engine import FragmentEngine
from streams.language import QueryError
from streams.operators import top
from tests.unit.streams.running import chunk, program, run, sensor


def test_rows_move_up_when_others_leave() -> None:
    given = [(1, "a", 1, 5.0, None), (2, "b", 2, 9.0, None), (3, "c", 3, 7.0, None)]
    query = "(SELECT k FROM s [RANGE 4 MILLISECONDS] TOP 1 BY x)"
    assert run("ISTREAM" + query, given, until_ms=20) == [(1, "a"), (2, "b"), (6, "c")]
    assert run("DSTREAM" + query, given, until_ms=20) == [(2, "a"), (6, "b"), (7, "c")]


def test_a_row_moves_up_although_one_that_came_with_it_leaves_before_it() -> None:
    given = [(1, "a", 1, 9.0, None), (2, "b", 2, 5.0, None), (2, "c", 3, 1.0, None)]
    window = "[RANGE 3 MILLISECONDS SLIDE 2 MILLISECONDS]"
    query = f"ISTREAM(SELECT k FROM s {window} TOP 1 BY x)"
    assert run(query, given, until_ms=8) == [(2, "a"), (4, "b")]


def test_equal_rows_are_ranked_by_what_is_selected() -> None:
    given = [(1, "c", 1, 5.0, None), (1, "a", 2, 5.0, None), (1, "b", 3, 5.0, None)]
    query = "RSTREAM(SELECT k, i FROM s [NOW] TOP 2 BY x)"
    assert sorted(run(query, given)) == [(1, "a", 2), (1, "b", 3)]
    assert sorted(run(query, given[::-1])) == [(1, "a", 2), (1, "b", 3)]


@pytest.mark.parametrize("order", ["", " ASC"])
def test_null_comes_last(order: str) -> None:
    given = [(1, None, None, None, None), (1, "a", None, 1.0, None)]
    assert run(f"RSTREAM(SELECT x FROM s [NOW] TOP 1 BY k{order})", given) == [(1, 1.0)]


def test_a_longer_text_is_greater() -> None:
    given = [(1, text, 1, None, None) for text in ("a", "ab", "aa", "")]
    assert run("RSTREAM(SELECT k FROM s [NOW] TOP 1 BY k)", given) == [(1, "ab")]
    assert run("RSTREAM(SELECT k FROM s [NOW] TOP 1 BY k ASC)", given) == [(1, "")]


def test_the_two_zeros_are_equal() -> None:
    given = [(1, "b", 1, 0.0, None), (1, "a", 1, -0.0, None)]
    assert run("RSTREAM(SELECT k FROM s [NOW] TOP 1 BY x)", given) == [(1, "a")]
    assert run("RSTREAM(SELECT k FROM s [NOW] TOP 1 BY x ASC)", given) == [(1, "a")]


@pytest.mark.parametrize(
    "window", ["[NOW]", "[RANGE 1 MILLISECOND SLIDE 1 MILLISECOND]", "[ROWS 9]", "[UNBOUNDED]"]
)
def test_the_two_zeros_are_equal_in_what_is_selected(window: str) -> None:
    # A pane's oldest and newest rows are kept in any case: let these be others.
    given = [(1, "c", 1, -0.0, None), (1, "b", 1, -0.0, None), (1, "a", 1, 0.0, None)]
    for tuples in ([*given, given[0]], [*given[::-1], given[2]], [given[2], *given]):
        rows = run(f"RSTREAM(SELECT x, k FROM s {window} TOP 1 BY i)", tuples)
        assert repr(rows) == "[(1, 0.0, 'a')]"
        rows = run(f"RSTREAM(SELECT x FROM s {window} TOP 1 BY i)", tuples)
        assert repr(rows) == "[(1, 0.0)]"
    by_group = f"RSTREAM(SELECT -sum(x) AS y, k FROM s {window} GROUP BY k TOP 1 BY count(*))"
    given = [(1, "b", 1, 0.0, None), (1, "a", 1, 1.0, None), (1, "a", 1, -1.0, None)]
    rows = run(by_group, [*given, (1, "b", 1, 0.0, None)])
    assert repr(rows) == "[(1, 0.0, 'a')]"


def test_what_can_never_show_is_not_kept() -> None:
    engine = FragmentEngine(program("ISTREAM(SELECT i FROM s [UNBOUNDED] TOP 2 BY i)"))
    rows = [(1, "a", number, None, None) for number in range(1000)]
    engine.offer("s", chunk(sensor, rows, [1]))
    engine.advance(1)
    assert sum(map(len, engine.snapshot().pieces())) < 1000


def test_top_of_different_rows_is_refused() -> None:
    with pytest.raises(QueryError, match="make SELECT DISTINCT a statement"):
        program("RSTREAM(SELECT DISTINCT k FROM s [NOW] TOP 2 BY k)")


def test_top_by_what_is_not_grouped_is_refused() -> None:
    with pytest.raises(QueryError, match="x is neither in GROUP BY nor in an aggregate"):
        program("RSTREAM(SELECT k, count(*) AS n FROM s [NOW] GROUP BY k TOP 2 BY x)")


def kept_bytes(query: str, rows: int) -> int:
    """Bytes of the state when a window has begun with so many rows."""
    engine = FragmentEngine(program(query))
    given = [(10, "abc"[n % 3], n, n % 7 / 2, None) for n in range(rows)]
    engine.offer("s", chunk(sensor, given, [10, 100]))
    while engine.advance(1) is not None:
        pass
    return sum(map(len, engine.snapshot().pieces()))


@pytest.mark.parametrize("by", ["x PARTITION BY k", "k", "x, i ASC", "k ASC, x"])
def test_a_window_that_slides_keeps_what_may_show(by: str) -> None:
    query = f"ISTREAM(SELECT k, i FROM s [RANGE 1 MINUTE SLIDE 20 MILLISECONDS] TOP 2 BY {by})"
    assert kept_bytes(query, 4000) < kept_bytes(query, 40) + 100


@pytest.mark.parametrize("order", ["", " ASC"])
def test_rows_are_ranked_alike_however_many_there_are(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    given = [(1 + n, str(rng.integers(2)), int(rng.integers(40)), 1.0, None) for n in range(300)]
    query = f"(SELECT k, i FROM s [RANGE 90 MILLISECONDS] TOP 3 BY i{order} PARTITION BY k)"
    few = [run(to + query, given, until_ms=400) for to in ("ISTREAM", "DSTREAM")]
    monkeypatch.setattr(top, "MANY_ROWS", 5)
    assert [run(to + query, given, until_ms=400) for to in ("ISTREAM", "DSTREAM")] == few


def test_many_rows_are_saved_and_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "MANY_ROWS", 5)
    query = program("ISTREAM(SELECT i FROM s [RANGE 1 HOUR] TOP 1 BY i ASC)")
    given = [(n, "a", 100 - n, None, None) for n in range(1, 41)]
    engine, other = FragmentEngine(query), FragmentEngine(query)
    engine.offer("s", chunk(sensor, given, [40]))
    engine.advance(1)
    other.restore(engine.snapshot())
    assert other.snapshot() == engine.snapshot()
    for each in (engine, other):
        each.offer("s", chunk(sensor, [(41, "a", 1, None, None)], [41], 40))
        evaluated = each.advance(1)
        assert evaluated is not None
        assert evaluated.rows.column("i").to_pylist() == [1]
