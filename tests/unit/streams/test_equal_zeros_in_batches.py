"""`first` and `last` of the two zeros, in batches of any size: the same rows, and no failure."""

from __future__ import annotations

import pytest

from streams.evaluate.engine import FragmentEngine
from tests.unit.streams.running import Row, chunk, program, sensor

# The values round to zero from both sides, then to another number.
ROWS: list[Row] = [(n, "a", n, -0.3 if n % 2 else 0.3, True) for n in range(1, 299)]
ROWS.append((300, "a", 300, 7.0, True))


def emitted(query: str, batch: int) -> list[str]:
    engine = FragmentEngine(program(query))
    rows: list[str] = []
    for begin in range(0, len(ROWS), batch):
        some = ROWS[begin : begin + batch]
        engine.offer("s", chunk(sensor, some, [row[0] for row in some], begin))
        while (evaluated := engine.advance(batch)) is not None:
            rows += [repr(tuple(one.values())) for one in evaluated.rows.to_pylist()]
    return rows


@pytest.mark.parametrize(
    "query",
    [
        "RSTREAM(SELECT CAST(last(round(x)) AS string) AS l FROM s [UNBOUNDED])",
        "RSTREAM(SELECT k, CAST(last(round(x)) AS string) AS l FROM s [RANGE 1 MINUTE] GROUP BY k)",
        "DSTREAM(SELECT k, last(round(x)) AS l FROM s [RANGE 1 MINUTE] GROUP BY k)",
        "ISTREAM(SELECT k, count(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k "
        "TOP 1 BY CAST(last(round(x)) AS string))",
        "ISTREAM(SELECT k FROM s [RANGE 1 MINUTE] GROUP BY k "
        "HAVING CAST(last(round(x)) AS string) = '0.0')",
    ],
)
def test_batches_of_any_size_give_the_same_rows(query: str) -> None:
    at_once = emitted(query, batch=300)
    assert at_once == emitted(query, batch=1) == emitted(query, batch=7)
