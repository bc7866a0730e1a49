"""Aggregates that are folded in what lies below them, and computed once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams.evaluate.stepwise.incremental import Incremental
from streams.plan.choice import EvaluationWay, way_of
from streams.plan.pushdown import pushdowns
from streams.vectors.chunk import stream_schema
from tests.unit.streams.running import output, program

UNION = (
    "RSTREAM(SELECT k, sum(i) AS a FROM s [RANGE 9 MILLISECONDS] WHERE b GROUP BY k UNION ALL "
    "SELECT k, max(i) + sum(i) AS a FROM s [RANGE 9 MILLISECONDS] WHERE b GROUP BY k "
    "HAVING count(*) > 1 UNION ALL "
    "SELECT k, sum(i) AS a FROM s [RANGE 9 MILLISECONDS] GROUP BY k)"
)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("RSTREAM(SELECT k FROM s [NOW])", ()),
        (
            "RSTREAM(SELECT sum(i) AS t, sum(i) / count(i) AS m FROM s [NOW])",
            (
                "aggregates folded in window: 2 values are kept for each group, instead of 3 for "
                "each of its rows",
            ),
        ),
        (
            "RSTREAM(SELECT max(i * 2) AS t FROM s [NOW] WHERE b)",
            (
                "aggregates folded in window + selection + projection: 1 value is kept for each "
                "group, instead of 1 for each of its rows",
            ),
        ),
        (
            "RSTREAM(SELECT count(*) AS n FROM s [NOW], t [NOW] WHERE s.k = t.k)",
            (
                "aggregates folded in window + join: 1 value is kept for each group, instead of 1 "
                "for each of its rows",
            ),
        ),
        (
            "RSTREAM(SELECT count(*) AS n FROM (SELECT k FROM s [NOW] UNION ALL "
            "SELECT k FROM t [NOW]) AS u)",
            (
                "aggregates folded in window + union: 1 value is kept for each group, instead of "
                "1 for each of its rows",
            ),
        ),
        (
            UNION,
            (
                "aggregates folded in window + selection: 3 values are kept for each group, "
                "instead of 4 for each of its rows",
                "aggregates folded in window: 1 value is kept for each group, instead of 1 for "
                "each of its rows",
            ),
        ),
    ],
)
def test_what_is_folded_where_is_told(query: str, told: tuple[str, ...]) -> None:
    assert tuple(map(str, pushdowns(program(query)))) == told


def test_selects_over_the_same_rows_share_their_groups() -> None:
    compiled = program(UNION)
    first, second, third = (select.group for select in compiled.selects)
    assert first is not None
    assert first == second
    assert [one.function for one in first.aggregates] == ["sum", "max", "count"]
    assert third is not None
    assert [one.function for one in third.aggregates] == ["sum"]
    evaluation = Incremental(compiled, stream_schema(compiled.columns))
    assert [name for name, _ in evaluation.stateful()] == [
        "window-0",
        "select-0-aggregate",
        "select-2-aggregate",
        "to-stream",
    ]


def test_shared_groups_give_what_separate_ones_give() -> None:
    given = [(1, "a", 1, None, True), (2, "a", 5, None, True), (3, "b", 7, None, False)]
    assert output(program(UNION), {"s": given}) == [
        (1, "a", 1),
        (1, "a", 1),
        (2, "a", 6),
        (2, "a", 11),
        (2, "a", 6),
        (3, "a", 6),
        (3, "a", 11),
        (3, "a", 6),
        (3, "b", 7),
    ]


@pytest.mark.parametrize(
    "listed",
    [
        "count(*) AS a, count(DISTINCT i) AS b, sum(x) AS c, min(k) AS d, max(k) AS e",
        "avg(i) AS a, stddev(x) AS b, first(x) AS c, last(i) AS d, max(x) AS e",
    ],
)
@pytest.mark.parametrize("window", ["RANGE 4 MILLISECONDS SLIDE 4 MILLISECONDS", "ROWS 3"])
def test_naive_aggregates_give_the_same(listed: str, window: str) -> None:
    given = [(at, "abc"[at % 3], at % 5 if at % 4 else None, at * 0.1, None) for at in range(1, 30)]
    compiled = program(f"ISTREAM(SELECT {listed} FROM s [{window}])")
    naive = replace(compiled, naive=True)
    assert way_of(naive) is EvaluationWay.STEPWISE
    assert pushdowns(naive) == ()
    assert output(naive, {"s": given}, 40) == output(compiled, {"s": given}, 40) != []


@pytest.mark.parametrize("window", ["RANGE 9 MILLISECONDS", "ROWS 4", "ROWS 3 SLIDE 3"])
def test_one_statement_aggregates_a_union(window: str) -> None:
    given = [(at, "abc"[at % 3], at % 5 if at % 4 else None, at * 0.1, None) for at in range(1, 30)]
    aggregates = "SELECT k, count(*) AS n, sum(i) AS t, max(i) AS m, max(i) + 1 AS more FROM"
    both = f"(SELECT k, i FROM s [{window}] UNION ALL SELECT k, i FROM s [{window}] WHERE i > 1)"
    compiled = program(f"ISTREAM({aggregates} {both} AS u GROUP BY k)")
    (pushdown,) = pushdowns(compiled)
    assert (pushdown.into, pushdown.written, pushdown.kept) == (("window", "union"), 4, 3)
    rows = output(compiled, {"s": given}, 40)
    assert output(replace(compiled, naive=True), {"s": given}, 40) == rows != []


def test_a_window_by_number_is_emptied_at_each_emission() -> None:
    given = [(at, "a", at, None, None) for at in range(1, 10)]
    emptied = program("RSTREAM(SELECT count(*) AS n, sum(i) AS t FROM s [ROWS 3 SLIDE 3])")
    assert output(emptied, {"s": given}) == [(3, 3, 6), (6, 3, 15), (9, 3, 24)]
    slides = program("RSTREAM(SELECT count(*) AS n, sum(i) AS t FROM s [ROWS 4 SLIDE 2])")
    assert output(slides, {"s": given}) == [(2, 2, 3), (4, 4, 10), (6, 4, 18), (8, 4, 26)]
    for one in (emptied, slides):
        assert output(replace(one, naive=True), {"s": given}) == output(one, {"s": given})
