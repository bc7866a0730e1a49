"""A statement split into a partial and a final one gives its rows at each timestamp.

Statements and inputs are random, and delivered in different ways. The rows of one timestamp are
compared as a multiset, since their order has no meaning, with their values to the bit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streams import partial
from streams.chunk import Chunk, stream_schema
from streams.compiler import compile_statement
from streams.engine import FragmentEngine
from streams.language import parse
from streams.language.ast import Statement
from streams.program import Program
from tests.property.streams.test_passes import catalogue, evaluations, tuples

STATEMENTS_AT_ONCE = 40

KEYS = [(), (), ("k",), ("i",), ("b",), ("k", "b"), ("_ts", "k"), ("s.x", "k")]
AGGREGATES = [
    *("count(*)", "count(x)", "count(k)", "sum(i)", "avg(i)", "sum(i % 5)", "avg(-i)"),
    *("min(i)", "max(DISTINCT i)", "min(x)", "max(x)", "max(k)", "min(k)", "max(i + 1)"),
    *("min(_ts)", "max(_ts)", "first(x)", "last(k)", "sum(CASE WHEN b THEN i ELSE 1 END)"),
]
CONDITIONS = [
    *("", " WHERE x > 0", " WHERE b OR i < 2", " WHERE k NOT IN ('a', 'it''s')", " WHERE i > 100"),
    *(" WHERE NOT b", " WHERE i IS NOT NULL AND k LIKE 'a%'", " WHERE x BETWEEN -1.5 AND 1e16"),
]


def statement(rng: np.random.Generator) -> Statement:
    """A statement that is split."""

    def any_of(options: list[Any]) -> Any:
        return options[int(rng.integers(len(options)))]

    keys = any_of(KEYS)
    chosen = rng.choice(AGGREGATES, int(rng.integers(1, 5)), replace=False).tolist()
    listed = [f"{key} AS g{place}" for place, key in enumerate(keys) if rng.random() < 0.8]
    listed += [f"{one} AS a{place}" for place, one in enumerate(chosen)]
    if rng.random() < 0.3:
        listed.append("coalesce(min(i), 0) * count(*) + 1 AS c")
    slide = int(rng.choice([1, 2, 3, 5, 20]))
    offset = int(rng.integers(slide))
    place = f" OFFSET {offset} MILLISECONDS" if offset else ""
    span = slide * int(rng.choice([2, 3, 4, 12]))
    sliding = f"s [RANGE {span} MILLISECONDS SLIDE {slide} MILLISECONDS{place}]"
    grouping = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = " HAVING count(*) > 1 OR max(i) = 3" if rng.random() < 0.2 else ""
    top = f" TOP 2 BY {chosen[0]}, count(*) ASC" if rng.random() < 0.15 else ""
    if top and len(keys) > 1:
        top += f" PARTITION BY {keys[0]}"
    to_stream = any_of(["RSTREAM", "RSTREAM", "ISTREAM", "DSTREAM"])
    text = f"{to_stream}(SELECT {', '.join(listed)} FROM {sliding}"
    text += f"{any_of(CONDITIONS)}{grouping}{having}{top})"
    (parsed,) = parse(f"REGISTER QUERY q {text};")
    return parsed


def rows_at(emitted: list[Any]) -> dict[int, Counter[str]]:
    """Timestamp → its rows."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for row in emitted:
        found[row[0]][repr(row)] += 1
    return found


def in_two(
    first: Program, second: Program, rows: list[Any], until_ms: int, rng: np.random.Generator
) -> list[Any]:
    """What the final statement makes of what the partial one makes of the rows."""
    way = int(rng.integers(3))
    between, _ = next(evaluations(first, {"s": rows}, until_ms, rng, only=way))
    engine = FragmentEngine(second)
    schema = stream_schema(first.columns)
    emitted: list[Any] = []
    begin_ms, seq = -1, 0
    for end_ms in np.unique([*rng.integers(0, until_ms + 1, way), until_ms]).tolist():
        some = [row for row in between if begin_ms < row[0] <= end_ms]
        batch = pa.RecordBatch.from_pylist(
            [dict(zip(schema.names, row, strict=True)) for row in some], schema=schema
        )
        watermarks_ms = np.unique([*(row[0] for row in some), end_ms]).astype(np.int64)
        engine.offer(
            second.inputs[0],
            Chunk(
                first_seq=seq,
                rows=batch,
                watermarks_ms=watermarks_ms,
                ingestion_times_us=watermarks_ms,
            ),
        )
        begin_ms, seq = end_ms, seq + len(some)
        while (evaluated := engine.advance(int(rng.integers(1, 9)))) is not None:
            emitted += [tuple(row.values()) for row in evaluated.rows.to_pylist()]
    return emitted


@pytest.mark.parametrize("block", range(5))
def test_a_statement_in_two_gives_the_rows_of_the_whole_one(block: int) -> None:
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    for seed in (*range(block * STATEMENTS_AT_ONCE, (block + 1) * STATEMENTS_AT_ONCE - 5), fresh):
        rng = np.random.default_rng(seed)
        parsed = statement(rng)
        parts = partial.split(parsed, catalogue)
        told = f"seed {seed}: {parsed.text}"
        assert parts is not None, told
        told += f"\n{parts[0].text}\n{parts[1].text}"
        whole = compile_statement(parsed, catalogue)
        first = compile_statement(parts[0], catalogue)
        second = compile_statement(parts[1], {first.name: first.columns})
        assert second.columns == whole.columns, told
        rows = tuples(rng)
        until_ms = rows[-1][0] + int(rng.choice([0, 1, 100]))
        expected, _ = next(evaluations(whole, {"s": rows}, until_ms, rng, only=1))
        emitted = in_two(first, second, rows, until_ms, rng)
        assert rows_at(emitted) == rows_at(expected), told
