"""`first` and `last` of equal zeros: a restored engine gives the bits that the other one gives."""

from __future__ import annotations

import pytest

from streams.evaluate.engine import FragmentEngine
from tests.unit.streams.running import Row, chunk, program, sensor

ROWS: list[Row] = [
    (1000, "a", 1, 0.0, True),
    (2000, "a", 1, -0.0, True),
    (3000, "b", 1, 5.0, True),
    (4000, "a", 1, 7.0, True),
    (20000, "a", 1, 7.0, True),
]
SLIDING = "s [RANGE 10 SECONDS SLIDE 1 SECOND]"
RANGE = "s [RANGE 10 SECONDS]"


def emitted(query: str, *, restored_after_ms: int | None) -> list[str]:
    compiled = program(query)
    engine = FragmentEngine(compiled)
    rows: list[str] = []
    for seq, row in enumerate(ROWS):
        engine.offer("s", chunk(sensor, [row], [row[0]], seq))
        while (evaluated := engine.advance(1)) is not None:
            rows += [repr(tuple(one.values())) for one in evaluated.rows.to_pylist()]
        if row[0] == restored_after_ms:
            saved, engine = engine.snapshot(), FragmentEngine(compiled)
            engine.restore(saved)
    return rows


@pytest.mark.parametrize("window", [SLIDING, RANGE], ids=["panes", "stepwise"])
@pytest.mark.parametrize("to_stream", ["RSTREAM", "DSTREAM"])
@pytest.mark.parametrize("shown", ["last(x) AS l", "CAST(last(x) AS string) AS l"])
def test_a_restored_engine_gives_the_same_rows(to_stream: str, window: str, shown: str) -> None:
    query = f"{to_stream}(SELECT k, {shown} FROM {window} GROUP BY k)"
    apart = emitted(query, restored_after_ms=None)
    assert emitted(query, restored_after_ms=2000) == apart
