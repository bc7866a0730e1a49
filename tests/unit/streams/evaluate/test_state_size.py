"""The size of a state, estimated without writing it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from streams.evaluate.engine import FragmentEngine
from streams.evaluate.state_size import CHANGED
from streams.evaluate.state_size import _rows as rows_of  # pyright: ignore[reportPrivateUsage]
from tests.unit.streams.running import Row, chunk, program, sensor

STATEMENTS = {
    "range window": "ISTREAM(SELECT k, i, x FROM s [RANGE 1 MINUTE] WHERE i > 3)",
    "rows window": "ISTREAM(SELECT k, avg(x) AS m FROM s [ROWS 2000] GROUP BY k)",
    "session window": "ISTREAM(SELECT k, i FROM s [SESSION 1 MINUTE])",
    "sessions": (
        "ISTREAM(SELECT k, count(*) AS n, sum(x) AS y FROM s [SESSION 1 MINUTE PARTITION BY k] "
        "GROUP BY k)"
    ),
    "panes": "ISTREAM(SELECT k, sum(x) AS y FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY k)",
    "different values": (
        "ISTREAM(SELECT count(DISTINCT i) AS n FROM s [RANGE 1 MINUTE SLIDE 5 SECONDS])"
    ),
    "groups": "ISTREAM(SELECT k, min(x) AS y FROM s [RANGE 1 MINUTE] GROUP BY k)",
    "groups for ever": "ISTREAM(SELECT k, sum(x) AS y FROM s [UNBOUNDED] GROUP BY k)",
    "newest": "ISTREAM(SELECT k, i, x FROM s [PARTITION BY k ROWS 2])",
    "window join": (
        "ISTREAM(SELECT a.k, b.x FROM s [RANGE 20 SECONDS] AS a, t [RANGE 20 SECONDS] AS b "
        "WHERE a.k = b.k)"
    ),
    "lookup join": (
        "ISTREAM(SELECT a.k, b.x FROM s [NOW] AS a, t [PARTITION BY k ROWS 1] AS b WHERE a.k = b.k)"
    ),
    "top": "ISTREAM(SELECT k, i FROM s [UNBOUNDED] TOP 500 BY i)",
    "relation to stream": "DSTREAM(SELECT DISTINCT k, i FROM s [RANGE 1 MINUTE])",
    "stateless": "RSTREAM(SELECT k FROM s [NOW])",
}


def rows(count: int, keys: int, seed: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    return [
        (10 * at, f"key {rng.integers(keys)}", int(rng.integers(1000)), float(rng.random()), True)
        for at in range(1, count + 1)
    ]


@pytest.mark.parametrize("kind", STATEMENTS)
@pytest.mark.parametrize("keys", [3, 700])
def test_it_is_within_a_factor_of_two_of_a_snapshot(kind: str, keys: int) -> None:
    engine = FragmentEngine(program(STATEMENTS[kind]))
    for step in range(4):
        for stream in engine.positions():
            given = rows(1500, keys, seed=step)
            given = [(row[0] + 15_000 * step, *row[1:]) for row in given]
            first = engine.position_of(stream).next_seq
            engine.offer(stream, chunk(sensor, given, [15_000 * (step + 1)], first_seq=first))
        while engine.advance(10_000) is not None:
            pass
        size = sum(map(len, engine.snapshot().pieces()))
        assert size / 2 - 500 <= engine.state_bytes() <= 2 * size + 500


@pytest.mark.parametrize("kind", ["newest", "lookup join", "relation to stream", "top", "best"])
@pytest.mark.parametrize("keys", [3, 700])
def test_rows_are_counted_as_a_snapshot_has_them(kind: str, keys: int) -> None:
    best = "ISTREAM(SELECT k, i FROM s [RANGE 1 SECOND] TOP 3 BY i PARTITION BY k)"
    compiled = program({**STATEMENTS, "best": best}[kind])
    engine = FragmentEngine(compiled)
    for step in range(4):
        for stream in engine.positions():
            given = [(row[0] + 3000 * step, *row[1:]) for row in rows(300, keys, seed=step)]
            first = engine.position_of(stream).next_seq
            engine.offer(stream, chunk(sensor, given, [3000 * (step + 1)], first_seq=first))
        while engine.advance(100) is not None:
            pass
        if step == 2:
            snapshot = engine.snapshot()
            engine = FragmentEngine(compiled)
            engine.restore(snapshot)
        stateful = dict(engine._evaluation.stateful())  # pyright: ignore[reportPrivateUsage]
        # Groups are counted with those that are gone.
        stateful.pop("select-0-aggregate", None)
        held = {name: each.held() for name, each in stateful.items()}
        saved = {name: sum(map(rows_of, each.save()())) for name, each in stateful.items()}
        assert held == saved
        assert any(held.values())


def test_a_width_is_sampled_again_only_when_there_is_much_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = FragmentEngine(program(STATEMENTS["range window"]))
    saved: list[int] = []
    operator = dict(engine._evaluation.stateful())["window-0"]  # pyright: ignore[reportPrivateUsage]
    save = operator.save
    monkeypatch.setattr(operator, "save", lambda: (saved.append(operator.held()), save())[1])
    for at in range(200):
        given = [(10 * at + 10, "a", 5, 0.5, True)]
        engine.offer("s", chunk(sensor, given, [10 * at + 10], first_seq=at))
        engine.advance(10)
        engine.state_bytes()
    assert len(saved) < 12
    assert all(after > CHANGED * before for before, after in pairwise(saved[1:]))
