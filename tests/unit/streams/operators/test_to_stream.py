"""ISTREAM, DSTREAM, RSTREAM and UNION ALL on multisets."""

from __future__ import annotations

from tests.unit.streams.running import run


def test_istream_emits_what_is_there_more_often_than_before() -> None:
    given = [(1, "a", 1, None, None), (2, "a", 1, None, None), (2, "a", 1, None, None)]
    # At 2 one of them leaves and two come: one more than before.
    query = "(SELECT i FROM s [RANGE 1 MILLISECOND])"
    assert run("ISTREAM" + query, given, until_ms=9) == [(1, 1), (2, 1)]
    assert run("DSTREAM" + query, given, until_ms=9) == [(3, 1), (3, 1)]


def test_union_keeps_equal_rows_and_the_order_of_its_parts() -> None:
    s = [(1, "a", 1, None, None), (2, "b", 2, None, None)]
    t = [(1, "a", 1, None, None), (1, "c", 3, None, None)]
    query = "(SELECT i FROM t [NOW] UNION ALL SELECT i FROM s [NOW])"
    assert run("RSTREAM" + query, s, t) == [(1, 1), (1, 3), (1, 1), (2, 2)]
    assert run("ISTREAM" + query, s, t) == [(1, 1), (1, 3), (1, 1), (2, 2)]


def test_rstream_keeps_the_order_in_which_rows_came() -> None:
    given = [(n, "a", n % 2, None, None) for n in range(5)]
    query = "RSTREAM(SELECT i FROM s [ROWS 3])"
    assert run(query, given)[-3:] == [(4, 0), (4, 1), (4, 0)]
