"""A statement split into a partial and a final one gives its rows at each timestamp.

Statements and inputs are random, and delivered in different ways. The rows of one timestamp are
compared as a multiset, since their order has no meaning, with their values to the bit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streams.evaluate.engine import FragmentEngine
from streams.language import parse
from streams.language.ast import Call, Column, Statement
from streams.plan import partial
from streams.plan.compiler import compile_statement
from streams.plan.partial_union import split_below
from streams.plan.program import Program
from streams.vectors.chunk import Chunk, stream_schema
from tests.long_tests import mostly_long
from tests.property.streams.evaluate.stepwise.test_passes import (
    catalogue,
    columns,
    evaluations,
    tuples,
)

STATEMENTS_AT_ONCE, UNIONS_AT_ONCE = 40, 20

KEYS = [(), (), ("k",), ("i",), ("b",), ("k", "b"), ("_ts", "k"), ("s.x", "k")]
AGGREGATES = [
    *("count(*)", "count(x)", "count(k)", "sum(i)", "avg(i)", "sum(i % 5)", "avg(-i)"),
    *("min(i)", "max(DISTINCT i)", "min(x)", "max(x)", "max(k)", "min(k)", "max(i + 1)"),
    *("sum(x)", "avg(x)", "sum(x / 7)", "avg(x * x)", "sum(x * 3 - i)", "exact_sum(x)"),
    *("stddev(x)", "stddev(i)", "stddev(x / 7)", "exact_squares(x)", "exact_sum(i)"),
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
        listed.append("coalesce(avg(x), sum(x)) * 2 AS d")
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


def passed_through(
    program: Program, inputs: Mapping[str, list[Any]], until_ms: int, rng: np.random.Generator
) -> list[Any]:
    """What a statement makes of rows, whose timestamps come first.

    Each stream comes in portions of its own.
    """
    engine = FragmentEngine(program)
    portions = [
        (end_ms, stream)
        for stream in program.inputs
        for end_ms in np.unique(
            [*rng.integers(0, until_ms + 1, rng.integers(4)), until_ms]
        ).tolist()
    ]
    if rng.random() < 0.5:
        portions.sort()
    begins_ms = dict.fromkeys(program.inputs, -1)
    seqs = dict.fromkeys(program.inputs, 0)
    emitted: list[Any] = []
    for end_ms, stream in portions:
        rows = [row for row in inputs[stream] if begins_ms[stream] < row[0] <= end_ms]
        schema = stream_schema(program.input_columns[stream])
        batch = pa.RecordBatch.from_pylist(
            [dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema
        )
        watermarks_ms = np.unique([*(row[0] for row in rows), end_ms]).astype(np.int64)
        engine.offer(
            stream,
            Chunk(
                first_seq=seqs[stream],
                rows=batch,
                watermarks_ms=watermarks_ms,
                ingestion_times_us=watermarks_ms,
            ),
        )
        begins_ms[stream] = end_ms
        seqs[stream] += len(rows)
        while (evaluated := engine.advance(int(rng.integers(1, 9)))) is not None:
            emitted += [tuple(row.values()) for row in evaluated.rows.to_pylist()]
    return emitted


def flat(rows: list[Any]) -> list[Any]:
    """Tuples with their timestamps in front."""
    return [(at, *row) for at, row in rows]


def union(rng: np.random.Generator) -> Statement:
    """A statement that passes on streams as one that has the columns of each of them."""

    def any_of(options: list[str]) -> str:
        return options[int(rng.integers(len(options)))]

    conditions = ["", "", " WHERE i <> 2", " WHERE b", " WHERE x < 1 OR k = 'a'"]
    lists = [
        *("*", "k, i, x, b", "k AS k, i AS i, x * 2 AS x, i > 2 AS b", "'a' AS k, i, x, b"),
        *("coalesce(k, 'none') AS k, i, x, b", "'here' AS k, 7 AS i, -x AS x, TRUE AS b"),
        "k, i + 1 AS i, sqrt(x) AS x, NOT b AS b",
    ]
    listed = [any_of(lists) for _ in range(int(rng.integers(2, 5)))]
    if rng.random() < 0.6:
        listed = [one for one in listed if "+" not in one and "coalesce" not in one] or ["*", "*"]
    selects = [
        f"SELECT {one} FROM {any_of(['s', 't'])} [NOW]{any_of(conditions)}" for one in listed
    ]
    if len(selects) == 1:
        selects.append("SELECT t.k AS k, u.i AS i, x, b FROM t [NOW] AS u".replace("t.k", "u.k"))
    (parsed,) = parse(f"REGISTER QUERY u RSTREAM({' UNION ALL '.join(selects)});")
    return parsed


@pytest.mark.parametrize("block", mostly_long(range(5)))
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
        between = passed_through(first, {"s": flat(rows)}, until_ms, rng)
        emitted = passed_through(second, {first.name: between}, until_ms, rng)
        assert rows_at(emitted) == rows_at(expected), told


@pytest.mark.parametrize("block", mostly_long(range(5)))
def test_a_statement_split_below_a_union_gives_the_rows_of_the_whole_one(block: int) -> None:
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    tried = 0
    for seed in (*range(block * UNIONS_AT_ONCE, (block + 1) * UNIONS_AT_ONCE - 1), fresh):
        rng = np.random.default_rng(seed)
        united, over = union(rng), statement(rng)
        (over,) = parse(over.text.replace(" FROM s [", " FROM u [").replace("]", "] AS s"))
        told = f"seed {seed}: {united.text}\n{over.text}"
        program = compile_statement(united, catalogue)
        streams = {**catalogue, "u": program.columns}
        parts = split_below(over, united, streams)
        if parts is None:
            assert _above_only(over, united), told
            continue
        tried += 1
        told += "".join(f"\n{part.text}" for part in parts)
        inputs = {"s": flat(tuples(rng)), "t": flat(tuples(rng))}
        until_ms = max(rows[-1][0] for rows in inputs.values()) + int(rng.choice([0, 1, 100]))
        inputs["u"] = passed_through(program, inputs, until_ms, rng)
        whole = compile_statement(over, streams)
        expected = passed_through(whole, inputs, until_ms, rng)
        for part in parts:
            made = compile_statement(part, streams)
            streams[made.name] = made.columns
            inputs[made.name] = passed_through(made, inputs, until_ms, rng)
        assert streams["q"] == whole.columns, told
        assert rows_at(inputs["q"]) == rows_at(expected), told
    assert tried > UNIONS_AT_ONCE // 4


def _above_only(over: Statement, united: Statement) -> bool:
    """Whether a statement needs values in their order, or groups by what a stream computes."""
    if "first(" in over.text or "last(" in over.text:
        return True
    keys = [
        key.name
        for select in over.body.selects
        for key in select.group_by
        if isinstance(key, Column)
    ]
    listed = [select.items for select in united.body.selects if select.items]
    return any(
        isinstance(items[list(columns).index(key)].expression, Call)
        for items in listed
        for key in keys
        if key in columns
    )
