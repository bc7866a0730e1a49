"""However many timestamps a pass takes: the same rows in the same order, and the same state.

Inputs are larger than those of `test_engine_matches_oracle.py`, so that joins use their index and
windows and relations move their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.evaluate.engine import FragmentEngine
from streams.evaluate.stepwise import incremental
from streams.language import parse
from streams.operators import changes_to_stream, join, join_index
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from streams.vectors.chunk import Chunk, stream_schema
from tests.property.streams.evaluate.test_engine_matches_oracle import catalogue, columns
from tests.property.streams.evaluate.test_engine_matches_oracle import shapes as small_shapes
from tests.property.streams.stepwise import Stepwise

shapes = {
    **small_shapes,
    "band of integers": (
        "DSTREAM(SELECT a.i AS i, b.i AS j, b.x AS x FROM s [RANGE 30 MILLISECONDS] AS a, "
        "s [ROWS 60] AS b WHERE 2.5 > abs(b.i - a.i) AND a.b)"
    ),
    "band of floats": (
        "ISTREAM(SELECT s.i AS i, t.i AS j FROM s [RANGE 20 MILLISECONDS], "
        "t [RANGE 15 MILLISECONDS] WHERE abs(s.x - t.x) <= 1.5 AND s.k < t.k)"
    ),
    "band of both": (
        "ISTREAM(SELECT s.x AS x, t.i AS i FROM s [ROWS 9], t [RANGE 9 MILLISECONDS] "
        "WHERE abs(s.x - t.i) < 1 AND NOT s.b)"
    ),
    "equal strings": (
        "RSTREAM(SELECT s.i AS i, t.i AS j FROM s [PARTITION BY i ROWS 2], t [ROWS 5] "
        "WHERE s.k = t.k)"
    ),
    "equal numbers of three": (
        "ISTREAM(SELECT a.i AS i, b.i AS j, c.k AS k FROM s [ROWS 9] AS a, t [ROWS 8] AS b, "
        "s [RANGE 9 MILLISECONDS] AS c WHERE a.i = b.x AND c.x = a.x AND b.b)"
    ),
    "groups of all": (
        "ISTREAM(SELECT k, i, count(*) AS n, sum(x) AS t, max(x) AS m FROM s [UNBOUNDED] "
        "GROUP BY k, i)"
    ),
}

texts: list[Any] = ["a", "b", "ç", "d", None]
sums: list[Any] = ["1p0", "-3p-1", "0p0", "7fp900", "1p-2148", "1fffp2000", "ap-2", "1p9999", None]
"""Exact sums, not all of them in their only form, and what is none."""
integers: list[Any] = [0, 1, 2, 3, -4, 5, 2**63 - 1, -(2**63), None]
floats: list[Any] = [0.0, -0.0, 0.5, 1.5, -2.5, 0.1, 1e16, 5e-324, 1e308, -1e308, None]
booleans: list[Any] = [True, False, None]

Rows = list[tuple[int, tuple[Any, ...]]]


def compiled(text: str) -> Program:
    """The program of a statement's body."""
    (statement,) = parse(f"REGISTER QUERY q {text};")
    return compile_statement(statement, catalogue)


def tuples(rng: np.random.Generator, texts: Sequence[Any] = texts) -> Rows:
    """Tuples of a stream, up to some tens, with these texts."""
    count = int(rng.choice([3, 20, 70]))
    timestamps = np.cumsum(rng.choice([0, 0, 1, 1, 2, rng.choice([3, 40])], count)).tolist()
    picked: list[list[Any]] = [
        [values[at] for at in rng.integers(len(values), size=count).tolist()]
        for values in (texts, integers, floats, booleans)
    ]
    return list(zip(timestamps, zip(*picked, strict=True), strict=True))


def evaluations(
    program: Program,
    inputs: Mapping[str, Rows],
    until_ms: int,
    rng: np.random.Generator,
    only: int | None = None,
    new: type[FragmentEngine] = FragmentEngine,
) -> Iterator[tuple[list[Any], list[bytes]]]:
    """Rows and final state of the same input, delivered and evaluated in three different ways.

    `only` chooses one of them, and `new` makes engines.
    """
    schema = stream_schema(columns)
    batches = {
        stream: pa.RecordBatch.from_pylist(
            [{"_ts": at, **dict(zip(columns, row, strict=True))} for at, row in rows], schema=schema
        )
        for stream, rows in inputs.items()
    }
    ways = ((1, 6), (10**6, 0), (int(rng.integers(2, 9)), 4))
    for limit, cuts in ways if only is None else ways[only : only + 1]:
        engine = new(program)
        emitted: list[Any] = []
        offered: list[tuple[str, Chunk]] = []
        first_ms = min([0, *(rows[0][0] for rows in inputs.values() if rows)])
        begin_ms = first_ms - 1
        for end_ms in np.unique([*rng.integers(first_ms, until_ms + 1, cuts), until_ms]).tolist():
            for stream, rows in batches.items():
                timestamps = rows.column(0).to_numpy()
                begin, end = np.searchsorted(timestamps, [begin_ms, end_ms], side="right").tolist()
                watermarks_ms = np.unique([*timestamps[begin:end], end_ms])
                chunk = Chunk(
                    first_seq=begin,
                    rows=rows.slice(begin, end - begin),
                    watermarks_ms=watermarks_ms,
                    ingestion_times_us=watermarks_ms,
                )
                offered.append((stream, chunk))
                engine.offer(stream, chunk)
            while (evaluated := engine.advance(limit)) is not None:
                emitted += [tuple(row.values()) for row in evaluated.rows.to_pylist()]
                if rng.random() < 0.2:
                    saved, engine = engine.snapshot(), _continued(engine, program, offered)
                    assert engine.snapshot() == saved
            begin_ms = end_ms
        yield emitted, list(engine.snapshot().pieces())


def _continued(
    engine: FragmentEngine, program: Program, offered: Sequence[tuple[str, Chunk]]
) -> FragmentEngine:
    """Another engine that goes on from the same state, with the same waiting input."""
    positions = engine.positions()
    other = FragmentEngine(program)
    other.restore(engine.snapshot())
    for stream, chunk in offered:
        rest = chunk.after(positions[stream])
        if rest is not None:
            other.offer(stream, rest)
    return other


@pytest.mark.parametrize(
    ("shape", "sorted_from"),
    [
        (shape, sorted_from)
        for shape, text in shapes.items()
        # Only a join has an index, used whenever it may be, or never.
        for sorted_from in ((0, 10**9) if compiled(text).joins else (0,))
    ],
)
def test_every_way_gives_the_rows_of_stepwise_evaluation(
    shape: str, sorted_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compiled(shapes[shape])

    @settings(max_examples=8, deadline=None)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        rng = np.random.default_rng(seed)
        monkeypatch.setattr(join_index, "SORTED_FROM_ROWS", min(sorted_from, 1))
        monkeypatch.setattr(join_index, "SORTED_FROM_PAIRS", sorted_from)
        monkeypatch.setattr(join, "LARGEST_BLOCK", int(rng.choice([7, 1 << 20])))
        monkeypatch.setattr(incremental, "JOIN_PASS_ROWS", int(rng.choice([1, 5, 128])))
        monkeypatch.setattr(changes_to_stream, "FEW_ROWS", int(rng.choice([0, 32])))
        monkeypatch.setattr(incremental, "PASS_ROWS", int(rng.choice([3, 4096])))
        monkeypatch.setattr(incremental, "PASS_BOUNDARIES", int(rng.choice([1, 6, 1 << 14])))
        inputs = {stream: tuples(rng) for stream in program.inputs}
        until_ms = max(rows[-1][0] for rows in inputs.values()) + int(rng.choice([0, 1, 50]))
        places = {
            stream: [["_ts", *columns].index(name) for name in program.reads[stream]]
            for stream in program.inputs
        }
        plain = {
            stream: [(at, tuple((at, *row)[place] for place in places[stream])) for at, row in rows]
            for stream, rows in inputs.items()
        }
        expected = [(at, *row) for at, row in Stepwise(program).run(plain, until_ms)]
        states: list[list[bytes]] = []
        for emitted, state in evaluations(program, inputs, until_ms, rng):
            assert repr(emitted) == repr(expected)
            states.append(state)
        assert states[0] == states[1] == states[2]

    check()
