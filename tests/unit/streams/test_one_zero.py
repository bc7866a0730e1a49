"""A float has one zero, 0.0: neither rows nor snapshots tell how a zero came or was computed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import pytest

from streams.evaluate.engine import FragmentEngine
from streams.plan.choice import EvaluationWay as Way
from streams.plan.choice import way_of
from tests.unit.streams.running import Row, chunk, program, run, sensor

ZERO = 0.0
ROWS: list[Row] = [
    (1000, "a", 1, ZERO, True),
    (1000, "a", 1, ZERO, True),
    (1000, "a", 1, -5e-324, True),
    (2000, "b", 2, ZERO, False),
    (2000, "a", 1, ZERO, False),
    (3000, "b", 1, 5.0, True),
    (4000, "a", 1, ZERO, None),
    (4000, "b", 1, ZERO, None),
    (20000, "a", 2, -7.0, True),
]

CELLS = (
    "s.k AS k, s.x AS x, CAST(s.x AS string) AS t, -s.x AS n, s.x * -1 AS m, round(s.x / 9) AS r"
)
GROUPS = (
    "s.k AS k, min(s.x) AS a, max(-s.x) AS b, first(s.x) AS c, last(s.x) AS d, sum(s.x) AS e, "
    "avg(s.x) AS f, max(DISTINCT s.x) AS g, CAST(last(s.x) AS string) AS h, -count(s.x) * 0.0 AS i"
)
SLIDING = "[RANGE 4 SECONDS SLIDE 1 SECOND]"
TUMBLING = "[RANGE 4 SECONDS SLIDE 4 SECONDS]"
SESSION = "[SESSION 2 SECONDS PARTITION BY k]"

queries = [
    (Way.STATELESS, f"RSTREAM(SELECT {CELLS} FROM s [NOW])"),
    (Way.STATELESS, f"RSTREAM(SELECT {CELLS} FROM s [NOW] WHERE i = 1)"),
    (Way.PANES, f"RSTREAM(SELECT {GROUPS} FROM s {SLIDING} GROUP BY k)"),
    (Way.SESSIONS, f"RSTREAM(SELECT {GROUPS} FROM s {SESSION} GROUP BY k)"),
    (Way.NEWEST, f"ISTREAM(SELECT {CELLS} FROM s [PARTITION BY k ROWS 1])"),
    (Way.NEWEST, f"DSTREAM(SELECT {CELLS} FROM s [PARTITION BY k ROWS 2])"),
    (Way.JOIN, f"RSTREAM(SELECT {CELLS} FROM s {TUMBLING}, t {TUMBLING} WHERE s.k = t.k)"),
    (Way.LOOKUP, f"RSTREAM(SELECT {CELLS} FROM s [UNBOUNDED], t [NOW] WHERE s.k = t.k)"),
    *(
        (Way.STEPWISE, query)
        for query in (
            f"RSTREAM(SELECT {CELLS} FROM s [RANGE 2 SECONDS])",
            f"ISTREAM(SELECT {CELLS} FROM s [PARTITION BY x ROWS 1])",
            f"ISTREAM(SELECT DISTINCT {CELLS} FROM s [ROWS 2])",
            f"DSTREAM(SELECT {GROUPS} FROM s [RANGE 2 SECONDS] GROUP BY k)",
            f"ISTREAM(SELECT {GROUPS} FROM s [PARTITION BY k ROWS 2] GROUP BY k)",
            "ISTREAM(SELECT x, count(*) AS n FROM s [ROWS 3] GROUP BY x)",
            f"ISTREAM(SELECT {CELLS} FROM s [ROWS 3] TOP 2 BY x, -x PARTITION BY k)",
            f"ISTREAM(SELECT {CELLS} FROM s [UNBOUNDED] TOP 2 BY b)",
            f"RSTREAM(SELECT {CELLS} FROM s {SLIDING} TOP 2 BY i)",
            # Of the row that shows only the sign of a zero would change.
            "RSTREAM(SELECT stddev(1) * (3 - count(*)) AS z FROM s [ROWS 9] "
            "HAVING count(*) > 1 TOP 2 BY count(*))",
            f"ISTREAM(SELECT {CELLS} FROM s [ROWS 3], t [ROWS 2] WHERE s.x = t.x)",
        )
    ),
]


@pytest.mark.parametrize(("way", "query"), queries)
def test_equal_input_gives_the_same_bits(way: Way, query: str) -> None:
    assert way_of(program(query)) is way
    expected = evaluated(query, ROWS)
    assert "-0.0" not in expected[0]
    for zeros in ([-0.0], [0.0, -0.0], [-0.0, 0.0]):
        assert evaluated(query, with_zeros(ROWS, zeros)) == expected


def evaluated(query: str, rows: Sequence[Row]) -> tuple[str, list[bytes]]:
    """The rows of a query of the same tuples on both streams, and the snapshots on the way."""
    compiled = program(query)
    engine = FragmentEngine(compiled)
    emitted: list[Row] = []
    saved: list[bytes] = []
    seq = 0
    for at_ms, group in groupby(rows, itemgetter(0)):
        some = list(group)
        for stream in compiled.inputs:
            engine.offer(stream, chunk(sensor, some, [at_ms], seq))
        seq += len(some)
        while (made := engine.advance(1)) is not None:
            emitted += [tuple(one.values()) for one in made.rows.to_pylist()]
        saved += engine.snapshot().pieces()
    return repr(emitted), saved


def with_zeros(rows: Sequence[Row], zeros: Sequence[float]) -> list[Row]:
    """The rows, with these zeros by turns in the places of theirs."""
    return [
        tuple(zeros[n % len(zeros)] if cell is ZERO else cell for cell in row)
        for n, row in enumerate(rows)
    ]


@pytest.mark.parametrize(
    "zero",
    [
        *("-0.0", "0.0 * -1", "0 / -5.0", "-1 % 1.0", "-5e-324 / 2", "-(-1e-300 * -1e-300)"),
        *("round(-0.3)", "sqrt(-0.0)", "sin(-0.0)", "radians(-5e-324)", "power(-1e-300, 3)"),
        *("CAST('-0' AS float)", "exact_value('-1p-1080')", "exact_mean('-1p-1074', 2)"),
        *("least(-0.0, 0.0)", "coalesce(-0.0, 1)", "CASE WHEN b THEN -0.0 ELSE 0.0 END"),
        "nullif(-0.0, 1)",
    ],
)
def test_no_expression_gives_another_zero(zero: str) -> None:
    query = f"RSTREAM(SELECT {zero} AS x, CAST({zero} AS string) AS t FROM s [NOW])"
    assert repr(run(query, ROWS[:1])) == "[(1000, 0.0, '0.0')]"
