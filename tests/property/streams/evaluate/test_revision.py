"""A statement that is changed at a cut gives what the former one gives before it, and the new one
after it, however its inputs are cut, in each replica and after a snapshot."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.evaluate.engine import FragmentEngine
from streams.language import parse
from streams.language.ast import Statement
from streams.plan.compiler import compile_statement
from streams.plan.program import FormerProgram, Program
from streams.plan.revision import why_anew
from streams.vectors.chunk import NO_WATERMARK
from tests.property.streams import oracle
from tests.property.streams.evaluate.test_engine_matches_oracle import (
    Delivery,
    catalogue,
    equal,
    multisets,
    run,
    scenarios,
    slow,
    together,
)

Multisets = dict[int, Counter[Any]]

SLIDING = "FROM s [RANGE 5 MILLISECONDS SLIDE 2 MILLISECONDS] WHERE x > 0 GROUP BY k"
RANGED = "FROM s [RANGE 5 MILLISECONDS] WHERE i < 3 GROUP BY k"
FOREVER = "FROM s [UNBOUNDED] GROUP BY k, b"
SESSIONS = "FROM s [SESSION 3 MILLISECONDS PARTITION BY k] GROUP BY k"
MATCHED = (
    "FROM s [RANGE 3 MILLISECONDS SLIDE 3 MILLISECONDS], "
    "t [RANGE 3 MILLISECONDS SLIDE 3 MILLISECONDS] WHERE s.k = t.k AND s.x < t.i"
)
LOOKED_UP = "FROM s [UNBOUNDED], t [NOW] WHERE s.k = t.k AND s.x < t.i"
JOINED = "FROM s [ROWS 3] AS a, t [RANGE 3 MILLISECONDS] AS b WHERE a.k = b.k AND a.x < b.x"

kept = {
    "HAVING of a sliding window": (
        f"RSTREAM(SELECT k, count(*) AS n {SLIDING} HAVING count(*) > 1)",
        f"RSTREAM(SELECT k, count(*) AS n {SLIDING} HAVING count(*) > 2)",
    ),
    "SELECT list of a sliding window": (
        f"RSTREAM(SELECT k, count(*) AS n {SLIDING})",
        f"RSTREAM(SELECT k, count(*) * 10 AS n {SLIDING})",
    ),
    "a sliding window loses its key": (
        f"RSTREAM(SELECT k, count(*) AS n {SLIDING})",
        f"RSTREAM(SELECT 'all' AS k, count(*) AS n {SLIDING})",
    ),
    "a sliding window gets its key": (
        f"RSTREAM(SELECT 'all' AS k, count(*) AS n {SLIDING} HAVING count(*) > 1)",
        f"RSTREAM(SELECT k, count(*) AS n {SLIDING})",
    ),
    "changes of a sliding window": (
        f"ISTREAM(SELECT k, count(*) AS n {SLIDING} HAVING count(*) > 1)",
        f"ISTREAM(SELECT k, 0 - count(*) AS n {SLIDING})",
    ),
    "TOP of a sliding window": (
        f"RSTREAM(SELECT k, count(*) AS n {SLIDING} TOP 1 BY count(*))",
        f"RSTREAM(SELECT k, count(*) AS n {SLIDING} TOP 2 BY count(*) ASC)",
    ),
    "a sliding window gets TOP": (
        f"DSTREAM(SELECT k, count(*) AS n {SLIDING})",
        f"DSTREAM(SELECT k, count(*) AS n {SLIDING} TOP 1 BY count(*))",
    ),
    "a sliding window without groups": (
        "RSTREAM(SELECT count(*) AS n FROM s [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS])",
        "RSTREAM(SELECT count(*) + 1 AS n FROM s [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS])",
    ),
    "HAVING of a range": (
        f"RSTREAM(SELECT k, sum(i) AS t {RANGED} HAVING sum(i) > 1)",
        f"RSTREAM(SELECT k, sum(i) AS t {RANGED} HAVING sum(i) < 2)",
    ),
    "changes of a range": (
        f"ISTREAM(SELECT k, sum(i) AS t {RANGED} HAVING sum(i) > 1)",
        f"ISTREAM(SELECT upper(k) AS k, sum(i) * 2 AS t {RANGED})",
    ),
    "TOP of a range": (
        f"ISTREAM(SELECT k, sum(i) AS t {RANGED} TOP 1 BY sum(i))",
        f"ISTREAM(SELECT k, sum(i) AS t {RANGED} TOP 1 BY sum(i) ASC)",
    ),
    "groups that last for ever": (
        f"RSTREAM(SELECT k, b, max(x) AS m {FOREVER})",
        f"RSTREAM(SELECT k, NOT b AS b, max(x) AS m {FOREVER} HAVING max(x) > 0)",
    ),
    "sessions": (
        f"RSTREAM(SELECT k, count(*) AS n {SESSIONS})",
        f"RSTREAM(SELECT k, count(*) * 3 AS n {SESSIONS} HAVING count(*) > 1)",
    ),
    "a join of windows that tumble": (
        f"RSTREAM(SELECT s.k AS k, t.i AS i {MATCHED})",
        f"RSTREAM(SELECT upper(s.k) AS k, t.i + 1 AS i {MATCHED})",
    ),
    "a lookup": (
        f"RSTREAM(SELECT s.k AS k, t.i AS i {LOOKED_UP})",
        f"RSTREAM(SELECT s.k AS k, 0 - t.i AS i {LOOKED_UP})",
    ),
    "a join": (
        f"ISTREAM(SELECT a.k AS k, b.x - a.x AS d {JOINED})",
        f"ISTREAM(SELECT a.k AS k, a.x - b.x AS d {JOINED})",
    ),
    "groups of a join": (
        f"RSTREAM(SELECT a.k AS k, count(*) AS n {JOINED} GROUP BY a.k)",
        f"RSTREAM(SELECT a.k AS k, count(*) AS n {JOINED} GROUP BY a.k HAVING count(*) > 1)",
    ),
    "no state": (
        "RSTREAM(SELECT k, i FROM s [NOW] WHERE x > 0)",
        "RSTREAM(SELECT k, i + 1 AS i FROM s [NOW] WHERE b)",
    ),
    "a union": (
        f"ISTREAM(SELECT k, count(*) AS n {SLIDING} UNION ALL SELECT k, i AS n FROM t [ROWS 2])",
        f"ISTREAM(SELECT k, count(*) AS n {SLIDING} UNION ALL SELECT k, -i AS n FROM t [ROWS 2])",
    ),
    "the newest rows, as they were": (
        "DSTREAM(SELECT k, i FROM s [PARTITION BY k ROWS 1])",
        "DSTREAM(SELECT u.k AS k, u.i AS i FROM s [PARTITION BY k ROWS 1] AS u)",
    ),
    "rows that are shown, as they were": (
        "RSTREAM(SELECT k, i FROM s [ROWS 3])",
        "RSTREAM(SELECT  k,  i FROM s [ROWS 3])",
    ),
    "ranked rows, as they were": (
        "RSTREAM(SELECT k, i FROM s [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS] TOP 1 BY i)",
        "RSTREAM(SELECT  k,  i FROM s [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS] TOP 1 BY i)",
    ),
    "the deadline of releases": (
        f"RSTREAM(SELECT k, sum(i) AS t {RANGED}) RTSPEC STIME 2 MILLISECONDS ETIME 9 "
        "MILLISECONDS PERIOD 3 MILLISECONDS",
        f"RSTREAM(SELECT k, sum(i) AS t {RANGED}) RTSPEC STIME 2 MILLISECONDS ETIME 9 "
        "MILLISECONDS PERIOD 3 MILLISECONDS DEADLINE 1 SECOND",
    ),
    "the importance of releases": (
        "RSTREAM(SELECT k, i FROM s [ROWS 3]) RTSPEC PERIOD 2 MILLISECONDS",
        "RSTREAM(SELECT k, i FROM s [ROWS 3]) RTSPEC PERIOD 2 MILLISECONDS IMPORTANCE 7",
    ),
}
"""A statement before and after, of which the state is kept."""

anew = {
    "another window": (
        f"RSTREAM(SELECT k, count(*) AS n {SLIDING})",
        f"RSTREAM(SELECT k, count(*) AS n {SLIDING.replace('RANGE 5', 'RANGE 6')})",
        "its windows differ",
    ),
    "another condition": (
        f"ISTREAM(SELECT k, count(*) AS n {SLIDING})",
        f"ISTREAM(SELECT k, count(*) AS n {SLIDING.replace('x > 0', 'x > 1')})",
        "its sources or conditions differ",
    ),
    "other groups": (
        "RSTREAM(SELECT count(*) AS n FROM s [ROWS 4] GROUP BY k)",
        "RSTREAM(SELECT count(*) AS n FROM s [ROWS 4] GROUP BY k, upper(k))",
        "its groups differ",
    ),
    "another aggregate": (
        f"RSTREAM(SELECT k, sum(i) AS t {RANGED})",
        f"RSTREAM(SELECT k, sum(i) AS t {RANGED} HAVING max(i) > 1)",
        "its state has nothing of max(…) that it shows now",
    ),
    "fewer aggregates": (
        f"RSTREAM(SELECT k, sum(i) AS t {RANGED} HAVING max(i) > 1)",
        f"RSTREAM(SELECT k, sum(i) AS t {RANGED})",
        "it shows fewer aggregates, or in another order, and its state has one place for each",
    ),
    "another column": (
        "ISTREAM(SELECT k FROM s [ROWS 2] WHERE x > 0)",
        "ISTREAM(SELECT CASE WHEN b THEN k END AS k FROM s [ROWS 2] WHERE x > 0)",
        "its state has nothing of column b of s",
    ),
    "another form of stream": (
        f"ISTREAM(SELECT k, sum(i) AS t {RANGED})",
        f"DSTREAM(SELECT k, sum(i) AS t {RANGED})",
        "it was ISTREAM and is DSTREAM",
    ),
    "the newest rows": (
        "ISTREAM(SELECT k, i FROM s [PARTITION BY k ROWS 1])",
        "ISTREAM(SELECT k, i + 1 AS i FROM s [PARTITION BY k ROWS 1])",
        "the newest rows of each key are kept as the SELECT list shows them",
    ),
    "rows that are shown": (
        "RSTREAM(SELECT k, i FROM s [ROWS 3])",
        "RSTREAM(SELECT k, i + 1 AS i FROM s [ROWS 3])",
        "the rows that it shows are kept as the SELECT list shows them",
    ),
    "ranked rows": (
        "RSTREAM(SELECT k, i FROM s [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS] TOP 1 BY i)",
        "RSTREAM(SELECT k, i FROM s [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS] TOP 2 BY i)",
        "the rows that TOP ranks are kept as the SELECT list shows them",
    ),
    "groups now": (
        "RSTREAM(SELECT i AS n FROM s [ROWS 3])",
        "RSTREAM(SELECT max(i) AS n FROM s [ROWS 3])",
        "it has groups now",
    ),
    "another union": (
        "ISTREAM(SELECT i FROM s [ROWS 3] UNION ALL SELECT i FROM t [ROWS 2])",
        "ISTREAM(SELECT i FROM s [ROWS 3] UNION ALL SELECT i FROM t [ROWS 2] "
        "UNION ALL SELECT i FROM t [ROWS 2])",
        "it is a union of another number of SELECTs",
    ),
}
"""A statement before and after, of which the state begins anew, and why."""

cases = [(name, *pair, True) for name, pair in kept.items()]
cases += [(name, before, after, False) for name, (before, after, _) in anew.items()]


def compiled(body: str) -> tuple[Statement, Program]:
    (statement,) = parse(f"REGISTER QUERY q {body};")
    return statement, compile_statement(statement, catalogue)


def changed(before: Program, after: Program, until_ms: int | None) -> Program:
    former = FormerProgram(program=before, until_ms=until_ms, keeps=why_anew(before, after) is None)
    return replace(after, former=(former,))


@pytest.mark.parametrize("name", list(kept))
def test_a_state_is_kept_by_its_shape(name: str) -> None:
    before, after = (compiled(body)[1] for body in kept[name])
    assert why_anew(before, after) is None
    assert why_anew(after, before) is None


@pytest.mark.parametrize("name", list(anew))
def test_why_a_state_is_not_kept(name: str) -> None:
    before, after, why = anew[name]
    assert why_anew(compiled(before)[1], compiled(after)[1]) == why


def expected(
    before: Statement,
    after: Statement,
    tuples: dict[str, list[oracle.Tuple]],
    cut_ms: int,
    until_ms: int,
    *,
    keeps: bool,
) -> Multisets:
    seen = {
        stream: [each for each in found if keeps or each[0] > cut_ms]
        for stream, found in tuples.items()
    }
    first = oracle.evaluate(before, tuples, until_ms)
    second = oracle.evaluate(after, seen, until_ms)
    return {at: rows for at, rows in first.items() if at <= cut_ms} | {
        at: rows for at, rows in second.items() if at > cut_ms
    }


@pytest.mark.parametrize(("name", "one", "other", "keeps"), cases, ids=[each[0] for each in cases])
def test_a_change_equals_an_oracle_that_changes_at_the_cut(
    name: str, one: str, other: str, keeps: bool
) -> None:
    (first, before), (second, after) = compiled(one), compiled(other)
    assert before.inputs == after.inputs

    @settings(max_examples=25, deadline=None, suppress_health_check=slow)
    @given(scenarios(before.inputs), st.data())
    def check(
        scenario: tuple[dict[str, list[oracle.Tuple]], int, list[Delivery]], data: st.DataObject
    ) -> None:
        tuples, until_ms, deliveries = scenario
        cut_ms = data.draw(st.integers(-1, until_ms + 1))
        program = changed(before, after, cut_ms)
        outputs = [
            together(engine := FragmentEngine(program), run(engine, offers, limit, eager, most))
            for offers, limit, eager, most in deliveries
        ]
        wanted = expected(first, second, tuples, cut_ms, until_ms, keeps=keeps)
        assert multisets(outputs[0][0]) == wanted
        assert equal(outputs[0], outputs[1])

        # Another replica goes on from a snapshot that was taken before or after the cut.
        offers, limit, *_ = deliveries[0]
        stop = data.draw(st.integers(0, len(offers)))
        third, fourth = FragmentEngine(program), FragmentEngine(program)
        results = run(third, offers[:stop], 1, True)
        saved = third.snapshot()
        fourth.restore(saved)
        assert fourth.program == third.program
        assert fourth.evaluated_ms == third.evaluated_ms
        assert fourth.snapshot() == saved
        positions = fourth.positions()
        rest = [
            (stream, left)
            for stream, chunk in offers
            if (left := chunk.after(positions[stream])) is not None
        ]
        results += run(fourth, rest, limit, True)
        assert multisets(together(fourth, results)[0]) == wanted

    check()


@pytest.mark.parametrize("name", ["HAVING of a range", "sessions", "a join"])
def test_a_replica_that_hears_of_a_change_holds_before_the_cut(name: str) -> None:
    (first, before), (second, after) = (compiled(body) for body in kept[name])

    @settings(max_examples=25, deadline=None, suppress_health_check=slow)
    @given(scenarios(before.inputs), st.data())
    def check(
        scenario: tuple[dict[str, list[oracle.Tuple]], int, list[Delivery]], data: st.DataObject
    ) -> None:
        tuples, until_ms, ((offers, limit, *_), _) = scenario
        engine = FragmentEngine(before)
        heard, agreed = sorted(data.draw(st.tuples(*[st.integers(0, len(offers))] * 2)))
        results = run(engine, offers[:heard], limit, True)
        assert engine.revise(changed(before, after, None))
        engine.hold_ms = max(engine.evaluated_ms, -1) + data.draw(st.integers(0, 3))
        results += run(engine, offers[heard:agreed], limit, True)
        assert engine.evaluated_ms <= engine.hold_ms
        cut_ms = engine.hold_ms + data.draw(st.integers(0, 3))
        assert engine.revise(changed(before, after, cut_ms))
        engine.hold_ms = None
        while (evaluated := engine.advance(limit)) is not None:
            results.append(evaluated)
        results += run(engine, offers[agreed:], limit, True)
        wanted = expected(first, second, tuples, cut_ms, until_ms, keeps=True)
        assert multisets(together(engine, results)[0]) == wanted
        # What was before is forgotten once no state is of it.
        assert engine.revise(after) is (engine.evaluated_ms > cut_ms)

    check()


def test_an_engine_beyond_the_cut_cannot_change_there() -> None:
    before, after = (compiled(body)[1] for body in kept["HAVING of a range"])
    engine = FragmentEngine(before)
    engine.evaluated_ms = 10
    assert not engine.revise(changed(before, after, 9))
    assert engine.revise(changed(before, after, 10))
    assert engine.program == before


def test_a_change_that_is_undone_counts_in_its_time() -> None:
    """A → B → A: the texts of the first and the last program are equal."""
    one, other = (compiled(body)[1] for body in kept["HAVING of a range"])
    former = (
        FormerProgram(program=one, until_ms=3, keeps=True),
        FormerProgram(program=other, until_ms=6, keeps=True),
    )
    engine = FragmentEngine(replace(one, former=former))
    assert engine.evaluated_ms == NO_WATERMARK
    for evaluated_ms, program in ((2, one), (5, other), (9, one)):
        engine.evaluated_ms = evaluated_ms
        again = FragmentEngine(program)
        again.evaluated_ms = evaluated_ms
        assert again.revise(replace(one, former=former))
        assert again.program == program
