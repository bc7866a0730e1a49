"""Which loops the compiled core evaluates, and what is said of the others."""

from __future__ import annotations

import pytest

from streams.language import parse
from streams.language.loops import with_loops
from streams.language.views import with_relations
from streams.plan.choice import EvaluationWay, way_of
from streams.plan.compiler import compile_statement
from streams.plan.loop_core import why_stepwise
from streams.plan.program import Program

CATALOGUE = {"s": {"x": "int", "k": "string", "v": "float", "b": "bool"}}
FED_BACK = " UNION ALL SELECT x, k FROM l [NOW] WHERE FALSE"


def loop(select: str) -> Program:
    text = f"REGISTER QUERY l ISTREAM({select}{FED_BACK})<NOW>"
    (made,) = with_loops(with_relations(parse(text)), ["l"])
    return compile_statement(made, CATALOGUE)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT x, k FROM s [NOW]",
        "SELECT x, k FROM s [PARTITION BY k, x ROWS 2 RANGE 5 SECONDS] WHERE k = 'a' OR k IS NULL",
        "SELECT count(*) AS x, k FROM s [RANGE 1 SECOND] GROUP BY k HAVING avg(v) > 1",
        "SELECT max(x) AS x, k FROM s [ROWS 5] GROUP BY k",
        "SELECT a.x, CASE WHEN b.b THEN a.k ELSE coalesce(b.k, 'x') END AS k "
        "FROM s [UNBOUNDED] AS a, s [ROWS 1] AS b WHERE a.k <> b.k",
        "SELECT d.x, d.k FROM (SELECT sum(x) AS x, k FROM s [ROWS 9] GROUP BY k) AS d, s [NOW] "
        "WHERE d.k = s.k",
        "SELECT CAST(sqrt(v) AS int) AS x, CAST(k AS string) AS k FROM s [NOW]",
    ],
)
def test_the_compiled_core_knows(select: str) -> None:
    program = loop(select)
    assert why_stepwise(program) is None
    assert way_of(program) is EvaluationWay.COMPILED_LOOP


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        ("SELECT x, k FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]", "a window that slides"),
        ("SELECT x, k FROM s [ROWS 4 SLIDE 2]", "a window that slides"),
        ("SELECT x, k FROM s [SESSION 2 SECONDS PARTITION BY k]", "sessions"),
        ("SELECT x, k FROM s [NOW] WHERE k < 'b'", "< of texts"),
        ("SELECT x, upper(k) AS k FROM s [NOW]", "upper of texts"),
        ("SELECT x, CAST(x AS string) AS k FROM s [NOW]", "CAST"),
        ("SELECT CAST(ln(v) AS int) AS x, k FROM s [NOW]", "ln"),
        ("SELECT x, max(k) AS k FROM s [ROWS 3] GROUP BY x", "max of texts"),
        ("SELECT count(DISTINCT x) AS x, k FROM s [ROWS 3] GROUP BY k", "different values"),
        ("SELECT CAST(stddev(v) AS int) AS x, k FROM s [ROWS 3] GROUP BY k", "stddev"),
        (
            "SELECT max(a.x) AS x, b.k FROM s [ROWS 3] AS a, s [ROWS 1] AS b GROUP BY b.k",
            "max of rows that do not leave in the order in which they come",
        ),
        (
            "SELECT a.x, a.k FROM s [NOW] AS a WHERE EXISTS "
            "(SELECT 1 AS one FROM s [ROWS 1] AS b WHERE b.k = a.k)",
            "IN, EXISTS",
        ),
        ("SELECT x, k FROM s [NOW] TOP 1 BY x", "TOP"),
    ],
)
def test_other_loops_are_stepwise(select: str, reason: str) -> None:
    program = loop(select)
    told = why_stepwise(program)
    assert told is not None
    assert told.startswith("l has ")
    assert reason in told
    assert way_of(program) is EvaluationWay.LOOP
