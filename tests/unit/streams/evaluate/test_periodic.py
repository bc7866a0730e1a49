"""Periodic statements: releases, their limits, and what does not apply to them.

`tests/property/streams/evaluate/test_engine_matches_oracle.py` compares them with the oracle.
"""

from __future__ import annotations

import pytest

from streams.evaluate.engine import FragmentEngine
from streams.language import QueryError, parse
from streams.language.loops import with_loops
from streams.language.views import with_relations
from streams.operators import releases
from streams.plan.choice import EvaluationWay, way_of
from streams.plan.compiler import compile_statement
from streams.plan.partial import split
from streams.plan.partitioning import Interacting, partitionings
from streams.plan.program import ReleasePlan
from tests.unit.streams.running import catalogue, chunk, output, program, run, sensor

PAPER = (
    "SELECT avg(s.x) AS a, min(s.x) AS l, max(s.x) AS h FROM s [RANGE 2 SECOND], t [UNBOUNDED] "
    "WHERE s.k = t.k RTSPEC STIME 0 second ETIME 301 second PERIOD 2 second DEADLINE 1 second "
    "IMPORTANCE 0"
)
"""Fig. 1, with the window that a stream needs here."""


def test_the_query_of_the_paper_is_understood_as_it_is_written() -> None:
    made = program(PAPER)
    assert made.releases == ReleasePlan(
        period_ms=2000,
        offset_ms=0,
        begins_ms=0,
        ends_ms=301_000,
        deadline_ms=1000,
        importance=0,
    )
    s = [(at, "a", 1, float(at), True) for at in range(500, 400_000, 500)]
    rows = output(made, {"s": s, "t": [(0, "a", 0, 0.0, True)]}, 500_000)
    assert [row[0] for row in rows] == list(range(0, 302_000, 2000))
    assert rows[2] == (4000, 3250.0, 2500.0, 4000.0)


def test_windows_with_a_range_slide_by_the_period_and_others_stay() -> None:
    text = "FROM s [RANGE 9 SECONDS] WHERE b) RTSPEC PERIOD 3 SECONDS OFFSET 1 SECOND"
    (window,) = program(f"RSTREAM(SELECT count(*) AS n {text}").windows
    assert (window.range_ms, window.slide_ms, window.offset_ms) == (9000, 3000, 1000)
    for spec in ("ROWS 3", "UNBOUNDED", "RANGE 9000 DAYS", "RANGE 9 SECONDS SLIDE 2 SECONDS"):
        plain = program(f"RSTREAM(SELECT k FROM s [{spec}])").windows
        periodic = f"RSTREAM(SELECT k FROM s [{spec}]) RTSPEC PERIOD 3 SECONDS"
        assert program(periodic).windows == plain
        assert way_of(program(periodic)) is EvaluationWay.STEPWISE


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("SELECT k, sum(x) AS t FROM s [RANGE 9 SECONDS] GROUP BY k", EvaluationWay.PANES),
        ("SELECT avg(x) AS a FROM s [RANGE 3 SECONDS]", EvaluationWay.PANES),
        (
            "SELECT s.i AS i FROM s [RANGE 3 SECONDS], t [RANGE 3 SECONDS] WHERE s.k = t.k",
            EvaluationWay.JOIN,
        ),
        ("SELECT i FROM s [NOW]", EvaluationWay.STEPWISE),
        ("SELECT sum(x) AS t FROM s [RANGE 9 SECONDS SLIDE 2 SECONDS]", EvaluationWay.STEPWISE),
    ],
)
def test_the_ways_of_evaluation_that_exist_are_taken(text: str, way: EvaluationWay) -> None:
    assert way_of(program(f"{text} RTSPEC PERIOD 3 SECONDS")) is way


def test_a_release_follows_the_watermark_and_not_the_tuples() -> None:
    engine = FragmentEngine(program("SELECT count(*) AS n FROM s [ROWS 9] RTSPEC PERIOD 5 SECONDS"))
    engine.offer("s", chunk(sensor, [(1, "a", 1, 1.0, True)], [4999]))
    assert (evaluated := engine.advance(9)) is not None
    assert evaluated.rows.num_rows == 0
    engine.offer("s", chunk(sensor, [], [5000], 1))
    assert (evaluated := engine.advance(9)) is not None
    assert evaluated.rows.to_pylist() == [{"_ts": 5000, "n": 1}]


def test_past_its_end_a_statement_keeps_no_state() -> None:
    text = "SELECT k FROM s [ROWS 900] RTSPEC ETIME 1 SECOND PERIOD 1 SECOND"
    engine = FragmentEngine(program(text))
    rows = [(at, "a", 1, 1.0, True) for at in range(800)]
    engine.offer("s", chunk(sensor, rows, [999]))
    engine.advance(9)
    before = engine.state_bytes()
    engine.offer("s", chunk(sensor, [(1000, "b", 1, 1.0, True)], [1500], 800))
    assert (evaluated := engine.advance(9)) is not None
    assert evaluated.rows.num_rows == 801
    assert engine.state_bytes() < before / 100
    engine.offer("s", chunk(sensor, [(2000, "b", 1, 1.0, True)], [9000], 801))
    assert (evaluated := engine.advance(9)) is not None
    assert evaluated.rows.num_rows == 0
    # Its end is part of the state: whoever takes over has ended, too.
    other = FragmentEngine(program(text))
    other.restore(engine.snapshot())
    other.offer("s", chunk(sensor, [(9500, "c", 1, 1.0, True)], [12_000], 802))
    assert (evaluated := other.advance(9)) is not None
    assert evaluated.rows.num_rows == 0


@pytest.mark.parametrize("window", ["RANGE 2 SECONDS", "ROWS 2"])
def test_without_tuples_releases_go_on_for_so_many_periods(
    window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "SILENT_PERIODS", 3)
    monkeypatch.setattr("streams.evaluate.panes.evaluation.SILENT_PERIODS", 3)
    monkeypatch.setattr("streams.evaluate.stepwise.incremental.SILENT_PERIODS", 3)
    s = [(1500, "a", 1, 1.0, True), (9000, "b", 2, 1.0, True), (10_500, "c", 3, 1.0, True)]
    rows = run(f"SELECT count(*) AS n FROM s [{window}] RTSPEC PERIOD 1 SECOND", s, until_ms=99_999)
    shown = [2000, 3000, 4000, 5000, 9000, 10_000, 11_000, 12_000, 13_000, 14_000]
    assert [row[0] for row in rows] == shown


def test_releases_after_a_leap_of_event_time_are_bounded() -> None:
    s = [(0, "a", 1, 1.0, True), (10**14, "b", 1, 1.0, True)]
    rows = run("SELECT k FROM s [ROWS 1] RTSPEC PERIOD 1 MILLISECOND", s)
    assert len(rows) == releases.SILENT_PERIODS + 2


def test_it_is_neither_split_nor_divided() -> None:
    text = "SELECT k, sum(i) AS t FROM s [RANGE 9 SECONDS] GROUP BY k RTSPEC PERIOD 3 SECONDS"
    (statement,) = parse(f"REGISTER QUERY q {text};")
    assert split(statement, catalogue) is None
    with pytest.raises(Interacting, match="releases"):
        partitionings(compile_statement(statement, catalogue))


def test_it_may_read_a_relation_and_its_text_says_so() -> None:
    text = (
        "REGISTER QUERY r SELECT k, i FROM s [ROWS 2]; "
        "REGISTER QUERY q SELECT * FROM r RTSPEC PERIOD 2 SECONDS IMPORTANCE 4;"
    )
    _, statement = with_relations(parse(text))
    assert not statement.is_relation
    assert statement.text.endswith("AS r RTSPEC PERIOD 2 SECONDS IMPORTANCE 4;")
    (again,) = parse(statement.text)
    assert compile_statement(again, catalogue) == compile_statement(statement, catalogue)


def test_a_loop_has_no_releases() -> None:
    text = (
        "REGISTER QUERY q RSTREAM(SELECT * FROM r [NOW]) RTSPEC PERIOD 2 SECONDS; "
        "REGISTER QUERY r ISTREAM(SELECT k FROM s [NOW] UNION ALL SELECT * FROM q [NOW])<NOW>;"
    )
    with pytest.raises(QueryError, match="q is part of a loop, which has no releases"):
        with_loops(parse(text), ["q"])


@pytest.mark.parametrize("window", ["RANGE 2 SECONDS", "ROWS 2", "PARTITION BY k ROWS 1", "NOW"])
def test_the_longest_period_is_evaluated_and_longer_ones_are_refused(window: str) -> None:
    text = "SELECT k FROM s [{}] RTSPEC STIME 11574074 DAYS PERIOD {} DAYS"
    s = [(1, "a", 1, 1.0, True), (2**53, "b", 1, 1.0, True)]
    engine = FragmentEngine(program(text.format(window, 115_740)))
    engine.offer("s", chunk(sensor, s, [1, 2**53]))
    while engine.advance(9) is not None:
        pass
    other = FragmentEngine(program(text.format(window, 115_740)))
    other.restore(engine.snapshot())
    with pytest.raises(QueryError, match="PERIOD must be at most 115740 DAYS"):
        program(text.format(window, 115_741))


def test_the_clauses_are_told_in_their_order() -> None:
    with pytest.raises(QueryError, match="STIME, ETIME, PERIOD, OFFSET, DEADLINE, IMPORTANCE"):
        program("SELECT k FROM s [NOW] RTSPEC OFFSET 1 SECOND PERIOD 2 SECONDS")
