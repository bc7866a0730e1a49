"""The engine gives what the oracle gives, however its inputs are cut, and after a snapshot."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.evaluate.engine import Evaluated, FragmentEngine
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position, stream_schema, widened
from tests.property.streams import oracle

columns = {"k": "string", "i": "int", "x": "float", "b": "bool"}
catalogue = {"s": columns, "t": columns}

shapes = {
    "project": "RSTREAM(SELECT k, i * 2 - 1 AS j, x / i AS q, b FROM s [NOW] WHERE x > 0 OR b)",
    "union": (
        "RSTREAM(SELECT * FROM t [NOW] UNION ALL SELECT k, 7 AS i, x, NOT b AS b FROM s [NOW])"
    ),
    "istream of now": "ISTREAM(SELECT k, i FROM s [NOW])",
    "dstream of range": "DSTREAM(SELECT k FROM s [RANGE 3 MILLISECONDS] WHERE i IS NOT NULL)",
    "rstream of rows": "RSTREAM(SELECT i, x FROM s [ROWS 2] UNION ALL SELECT i, x FROM t [NOW])",
    "partition": "ISTREAM(SELECT * FROM s [PARTITION BY k ROWS 2 RANGE 4 MILLISECONDS])",
    "partition by two": "DSTREAM(SELECT i, b FROM s [PARTITION BY k, b ROWS 1])",
    "rstream of partition": "RSTREAM(SELECT k FROM s [PARTITION BY k ROWS 1 RANGE 3 MILLISECONDS])",
    "functions": (
        "ISTREAM(SELECT floor(x) AS f, ceil(x) AS c, round(x) AS r, sqrt(x) AS s, abs(i) AS a, "
        "least(i, x, 2) AS l, greatest(k, 'b') AS g, i % 3 AS m, power(x, 2) AS p, -x AS n "
        "FROM s [ROWS 3])"
    ),
    "three values": (
        "ISTREAM(SELECT b AND x > 1 AS a, b OR i < 2 AS o, NOT b AS n FROM s [UNBOUNDED] "
        "WHERE NOT (b AND i = 1))"
    ),
    "count": (
        "ISTREAM(SELECT count(*) AS n, count(x) AS c, sum(i) AS t FROM s [RANGE 4 MILLISECONDS])"
    ),
    "count of now": "RSTREAM(SELECT count(*) AS n, max(k) AS m FROM s [NOW] WHERE b)",
    "groups": (
        "ISTREAM(SELECT k, sum(x) / count(*) AS a, avg(x) AS m, min(x) AS l, max(i) AS h "
        "FROM s [RANGE 5 MILLISECONDS] WHERE i < 3 GROUP BY k)"
    ),
    "groups of rows": "RSTREAM(SELECT b, k, sum(x) AS t FROM s [ROWS 4] GROUP BY k, b)",
    "aggregates of two": (
        "DSTREAM(SELECT count(*) AS n FROM s [ROWS 3] UNION ALL "
        "SELECT sum(i) AS n FROM t [RANGE 2 MILLISECONDS])"
    ),
    "self-join": (
        "ISTREAM(SELECT a.k AS first, b.k AS second FROM "
        "s [PARTITION BY k ROWS 1 RANGE 4 MILLISECONDS] AS a, "
        "s [PARTITION BY k ROWS 1 RANGE 4 MILLISECONDS] AS b "
        "WHERE a.k < b.k AND abs(a.x - b.x) < 2 AND a.i <= 2)"
    ),
    "join": (
        "RSTREAM(SELECT s.k AS k, t.x - s.x AS d FROM s [RANGE 3 MILLISECONDS], t [ROWS 2] "
        "WHERE s.k = t.k AND (s.i < t.i OR t.b))"
    ),
    "cross join": "DSTREAM(SELECT s.i AS i, t.i AS j FROM s [ROWS 1], t [RANGE 2 MILLISECONDS])",
    "join of three": (
        "ISTREAM(SELECT a.i AS i, b.i AS j, c.k AS k FROM s [ROWS 2] AS a, t [ROWS 2] AS b, "
        "s [RANGE 2 MILLISECONDS] AS c WHERE a.i < b.i AND c.x > a.x AND b.b)"
    ),
    "aggregate of join": (
        "ISTREAM(SELECT a.k AS k, count(*) AS n, sum(b.x) AS t FROM s [ROWS 3] AS a, "
        "t [RANGE 3 MILLISECONDS] AS b WHERE a.i <> b.i GROUP BY a.k)"
    ),
}
shapes |= {
    "tumbling": (
        "RSTREAM(SELECT k, count(*) AS n, sum(x) AS t, max(i) AS m "
        "FROM s [RANGE 4 MILLISECONDS SLIDE 4 MILLISECONDS] WHERE x > 0 GROUP BY k)"
    ),
    "tumbling without groups": (
        "ISTREAM(SELECT count(*) AS n, min(x) AS l "
        "FROM s [RANGE 3 MILLISECONDS SLIDE 3 MILLISECONDS OFFSET 2 MILLISECONDS])"
    ),
    "sliding": (
        "RSTREAM(SELECT k, avg(x) AS a, min(i) AS m "
        "FROM s [RANGE 5 MILLISECONDS SLIDE 2 MILLISECONDS OFFSET 1 MILLISECONDS] GROUP BY k)"
    ),
    "windows with gaps": (
        "RSTREAM(SELECT k, i FROM s [RANGE 2 MILLISECONDS SLIDE 5 MILLISECONDS])"
    ),
    "changes of a sliding window": (
        "DSTREAM(SELECT k, i FROM s [RANGE 6 MILLISECONDS SLIDE 3 MILLISECONDS] WHERE b)"
    ),
    "join of windows": (
        "RSTREAM(SELECT s.k AS k, s.i AS i, t.i AS j "
        "FROM s [RANGE 2 MILLISECONDS SLIDE 2 MILLISECONDS], "
        "t [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS] WHERE s.k = t.k)"
    ),
    "join of windows that tumble": (
        "RSTREAM(SELECT s.k AS k, s.i AS i, t.x AS x "
        "FROM s [RANGE 3 MILLISECONDS SLIDE 3 MILLISECONDS OFFSET 1 MILLISECONDS], "
        "t [RANGE 3 MILLISECONDS SLIDE 3 MILLISECONDS OFFSET 1 MILLISECONDS] "
        "WHERE s.k = t.k AND s.x < t.i AND s.b)"
    ),
    "lookup": (
        "RSTREAM(SELECT s.k AS k, s.i AS i, t.x AS x FROM s [UNBOUNDED], t [NOW] "
        "WHERE s.k = t.k AND s.x < t.i)"
    ),
    "join of a sliding window": (
        "ISTREAM(SELECT s.k AS k, t.i AS j FROM s [RANGE 3 MILLISECONDS SLIDE 3 MILLISECONDS], "
        "t [ROWS 2] WHERE s.i = t.i)"
    ),
    "union of windows": (
        "RSTREAM(SELECT k FROM s [RANGE 3 MILLISECONDS SLIDE 3 MILLISECONDS] UNION ALL "
        "SELECT k FROM t [NOW])"
    ),
    "sessions": (
        "RSTREAM(SELECT k, count(*) AS n, min(_ts) AS first, sum(x) AS t "
        "FROM s [SESSION 3 MILLISECONDS PARTITION BY k] GROUP BY k)"
    ),
    "tuples of sessions": (
        "ISTREAM(SELECT i, b FROM s [SESSION 2 MILLISECONDS PARTITION BY b, k] WHERE x > 0)"
    ),
    "ends of sessions": (
        "DSTREAM(SELECT count(*) AS n FROM s [SESSION 2 MILLISECONDS] GROUP BY k)"
    ),
    "union of sessions": (
        "RSTREAM(SELECT i FROM s [SESSION 4 MILLISECONDS PARTITION BY i] UNION ALL "
        "SELECT i FROM t [ROWS 2])"
    ),
    "having": (
        "ISTREAM(SELECT k, count(*) AS n FROM s [RANGE 5 MILLISECONDS] GROUP BY k "
        "HAVING count(*) > 1 AND max(i) >= 0)"
    ),
    "having without groups": "RSTREAM(SELECT sum(i) AS t FROM s [ROWS 3] HAVING count(x) > 1)",
    "distinct": "ISTREAM(SELECT DISTINCT k, b FROM s [RANGE 4 MILLISECONDS])",
    "distinct values": (
        "ISTREAM(SELECT k, count(DISTINCT i) AS n, sum(DISTINCT x) AS t, avg(DISTINCT i) AS a "
        "FROM s [RANGE 5 MILLISECONDS] GROUP BY k)"
    ),
    "distinct groups": "RSTREAM(SELECT DISTINCT k, max(x) AS m FROM s [ROWS 4] GROUP BY k)",
    "deviations": (
        "ISTREAM(SELECT k, stddev(x) AS d, stddev(i) AS e, stddev(DISTINCT i) AS f "
        "FROM s [RANGE 6 MILLISECONDS] GROUP BY k)"
    ),
    "ends": (
        "ISTREAM(SELECT b, first(x) AS f, last(k) AS l, first(i) AS g, last(b) AS h "
        "FROM s [PARTITION BY k ROWS 2 RANGE 5 MILLISECONDS] GROUP BY b)"
    ),
    "ends of all": (
        "ISTREAM(SELECT k, first(i) AS f, last(x) AS l, min(x) AS m, max(i) AS n "
        "FROM s [UNBOUNDED] GROUP BY k)"
    ),
    "ends of sessions and slides": (
        "RSTREAM(SELECT first(i) AS f, last(DISTINCT i) AS l, stddev(i) AS d "
        "FROM s [SESSION 2 MILLISECONDS PARTITION BY k] UNION ALL SELECT first(i) AS f, "
        "last(i) AS l, avg(i) AS d FROM t [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS])"
    ),
    "top": "ISTREAM(SELECT * FROM s [RANGE 4 MILLISECONDS] TOP 2 BY x, k ASC PARTITION BY b)",
    "top of all": "ISTREAM(SELECT k, i FROM s [UNBOUNDED] TOP 2 BY i ASC, x PARTITION BY k)",
    "top of the last": "RSTREAM(SELECT k, i + 1 AS j FROM s [ROWS 4] WHERE b TOP 1 BY k)",
    "top of groups": (
        "ISTREAM(SELECT k, b, count(*) AS n FROM s [RANGE 5 MILLISECONDS] GROUP BY k, b "
        "HAVING max(x) > 0 TOP 1 BY count(*), sum(i) PARTITION BY b)"
    ),
    "top of a join": (
        "DSTREAM(SELECT s.i AS i, t.x AS x FROM s [ROWS 3], t [RANGE 3 MILLISECONDS] "
        "WHERE s.k = t.k TOP 2 BY t.x - s.x ASC)"
    ),
    "timestamps": (
        "RSTREAM(SELECT k, max(_ts) - min(_ts) AS d, count(*) AS n "
        "FROM s [RANGE 6 MILLISECONDS] WHERE _ts % 2 = 0 GROUP BY k)"
    ),
    "timestamps without state": (
        "RSTREAM(SELECT _ts * 2 AS t, _ts AS u, i FROM s [NOW] WHERE _ts > 1)"
    ),
    "timestamps of both": (
        "ISTREAM(SELECT s.k AS k, t._ts - s._ts AS d FROM s [ROWS 2], t [ROWS 2] "
        "WHERE s._ts <= t._ts)"
    ),
    "cases": (
        "RSTREAM(SELECT CASE WHEN i > 1 THEN i WHEN x > 0 THEN x END AS c, "
        "CASE k WHEN 'a' THEN 'first' WHEN 'ç' THEN k ELSE 'other' END AS d, "
        "coalesce(i, x, 9) AS e, coalesce(k, 'none') AS f FROM s [NOW])"
    ),
    "conditions": (
        "ISTREAM(SELECT k IN ('a', 'ç') AS a, i NOT IN (1, x) AS b, x BETWEEN 0 AND i AS c, "
        "k LIKE 'a%' AS d, k NOT LIKE '_' AS e FROM s [ROWS 2])"
    ),
    "texts": (
        "RSTREAM(SELECT concat(k, '-', k) AS a, substring(k, 1, i) AS b, substring(k, i) AS c, "
        "split_part(concat(k, '/b'), '/', 2) AS d, length(k) AS e FROM s [NOW])"
    ),
    "patterns": (
        "RSTREAM(SELECT lower(concat(k, 'XÇ')) AS a, upper(k) AS b, replace(k, 'a', 'bb') AS c, "
        "replace(k, '', k) AS d, regexp_extract(concat(k, 'ab'), '(b|(ç))(a?)', 2) AS e, "
        "regexp_extract(concat('b', k), 'b.', 0) AS f FROM s [NOW])"
    ),
    "hops of rows": "RSTREAM(SELECT k, i FROM s [ROWS 3 SLIDE 2] WHERE b IS NOT NULL)",
    "hops with gaps": (
        "ISTREAM(SELECT k, count(*) AS n, first(i) AS f FROM s [ROWS 2 SLIDE 3] GROUP BY k)"
    ),
    "join of hops": (
        "DSTREAM(SELECT s.i AS i, t.k AS k FROM s [ROWS 4 SLIDE 1] JOIN t [ROWS 2 SLIDE 2] "
        "ON s.k = t.k)"
    ),
    "groups by expressions": (
        "ISTREAM(SELECT i % 2 AS odd, upper(k) AS u, count(*) + (i % 2) AS n, sum(x) AS t "
        "FROM s [ROWS 5] GROUP BY i % 2, upper(k) HAVING i % 2 IS NULL OR count(*) > 1)"
    ),
    "numbers of two types": (
        "RSTREAM(SELECT i AS v, NULL AS w FROM s [ROWS 2] UNION ALL SELECT x, k FROM t [NOW])"
    ),
    "nulls": (
        "RSTREAM(SELECT CASE WHEN b THEN NULL ELSE i END AS a, coalesce(NULL, x, NULL) AS c, "
        "i NOT IN (1, NULL) AS d, NULL < x AS e, b AND NULL AS f, nullif(NULL, k) AS g, "
        "least(i, NULL) AS h FROM s [NOW])"
    ),
    "casts": (
        "RSTREAM(SELECT CAST(x AS int) AS a, CAST(i AS float) AS b, CAST(i AS string) AS c, "
        "CAST(b AS string) AS d, CAST(b AS int) AS e, CAST(CAST(i AS string) AS int) AS f, "
        "CAST(CAST(x AS string) AS float) AS g FROM s [NOW])"
    ),
}
shapes |= {
    "periodic": (
        "RSTREAM(SELECT k, count(*) AS n, sum(x) AS t FROM s [RANGE 5 MILLISECONDS] "
        "WHERE i > 0 GROUP BY k) RTSPEC PERIOD 2 MILLISECONDS OFFSET 1 MILLISECOND"
    ),
    "periodic without groups": (
        "RSTREAM(SELECT count(*) AS n, max(i) AS m FROM s [RANGE 2 MILLISECONDS] WHERE b) "
        "RTSPEC STIME 1 MILLISECOND ETIME 9 MILLISECONDS PERIOD 3 MILLISECONDS"
    ),
    "periodic, of now": (
        "SELECT count(*) AS n, avg(x) AS a FROM s [NOW] RTSPEC PERIOD 2 MILLISECONDS"
    ),
    "periodic join": (
        "RSTREAM(SELECT s.k AS k, s.i AS i, t.x AS x FROM s [RANGE 3 MILLISECONDS], "
        "t [RANGE 3 MILLISECONDS] WHERE s.k = t.k AND s.x < t.i) "
        "RTSPEC ETIME 8 MILLISECONDS PERIOD 3 MILLISECONDS"
    ),
    "periodic join of others": (
        "RSTREAM(SELECT s.k AS k, t.i AS j, count(*) AS n FROM s [ROWS 2], "
        "t [RANGE 4 MILLISECONDS] WHERE s.i <> t.i GROUP BY s.k, t.i) "
        "RTSPEC PERIOD 2 MILLISECONDS IMPORTANCE 3"
    ),
    "periodic, newest": (
        "RSTREAM(SELECT * FROM s [PARTITION BY k ROWS 1]) RTSPEC STIME 4 MILLISECONDS "
        "PERIOD 5 MILLISECONDS OFFSET 2 MILLISECONDS DEADLINE 1 SECOND"
    ),
    "periodic over windows that slide": (
        "RSTREAM(SELECT k, i FROM s [RANGE 6 MILLISECONDS SLIDE 3 MILLISECONDS] UNION ALL "
        "SELECT k, count(*) AS n FROM t [ROWS 4 SLIDE 2] GROUP BY k) RTSPEC PERIOD 2 MILLISECONDS"
    ),
    "periodic, all of it": (
        "RSTREAM(SELECT count(*) AS n, sum(i) AS t FROM s [UNBOUNDED] UNION ALL "
        "SELECT count(*) AS n, max(i) AS t FROM t [RANGE 2 MILLISECONDS]) "
        "RTSPEC ETIME 6 MILLISECONDS PERIOD 1 MILLISECOND"
    ),
}
rows = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", "ç", None]),
        "i": st.sampled_from([0, 1, 2, 3, -4, None]),
        "x": st.sampled_from([0.0, -0.0, 0.5, 1.5, -2.5, 0.1, 1e16, None]),
        "b": st.sampled_from([True, False, None]),
    }
).map(lambda row: {name: row[name] for name in columns})


@st.composite
def streams(draw: st.DrawFn) -> list[oracle.Tuple]:
    """Tuples with timestamps that never fall."""
    gaps = draw(st.lists(st.tuples(st.sampled_from([0, 0, 1, 1, 2, 7]), rows), max_size=12))
    tuples: list[oracle.Tuple] = []
    now = 0
    for gap, row in gaps:
        now += gap
        tuples.append((now, row))
    return tuples


@st.composite
def cuts(draw: st.DrawFn, tuples: list[oracle.Tuple], watermarks_ms: list[int]) -> list[Chunk]:
    """A stream as chunks, each ending with one of the watermarks."""
    ends = sorted(draw(st.sets(st.sampled_from(watermarks_ms))) | {watermarks_ms[-1]})
    schema = stream_schema(columns)
    chunks: list[Chunk] = []
    start, seq = -1, 0
    for end in ends:
        part = [{"_ts": ts, **row} for ts, row in tuples if start < ts <= end]
        inside = [watermark_ms for watermark_ms in watermarks_ms if start < watermark_ms <= end]
        chunks.append(
            Chunk(
                first_seq=seq,
                rows=pa.RecordBatch.from_pylist(part, schema=schema),
                watermarks_ms=np.array(inside, dtype=np.int64),
                ingestion_times_us=np.array(
                    [watermark_ms * 1000 for watermark_ms in inside], dtype=np.int64
                ),
            )
        )
        start, seq = end, seq + len(part)
    return chunks


def with_read_columns(program: Program, stream: str, chunk: Chunk) -> Chunk:
    """A chunk as its reader's host receives it: without the columns that nobody uses there."""
    places = [place for place in program.read_places(stream) if place]
    rows = widened(chunk.rows.select([0, *places]), chunk.rows.schema, places)
    return replace(chunk, rows=rows)


def run(
    engine: FragmentEngine,
    offers: list[tuple[str, Chunk]],
    limit: int,
    eager: bool,
    tuples: int | None = None,
) -> list[Evaluated]:
    """Offer chunks and evaluate, after each or after all."""
    results: list[Evaluated] = []
    for number, (stream, chunk) in enumerate(offers):
        engine.offer(stream, chunk)
        if eager or number == len(offers) - 1:
            while engine.ready:
                evaluated = engine.advance(limit, tuples)
                assert evaluated is not None
                assert len(evaluated.watermarks_ms) <= limit
                assert (
                    tuples is None
                    or evaluated.tuples_in <= tuples
                    or len(evaluated.watermarks_ms) == 1
                )
                results.append(evaluated)
    assert engine.advance(limit) is None
    return results


Whole = tuple[pa.Table, list[int], list[int]]
"""All rows, watermarks and ingestion times of an output."""


def together(engine: FragmentEngine, results: list[Evaluated]) -> Whole:
    for one in results:
        assert len(one.watermarks_ms) == len(one.ingestion_times_us) >= 1
        if one.rows.num_rows:
            assert one.rows.column(0)[one.rows.num_rows - 1].as_py() <= one.watermarks_ms[-1]
    table = pa.Table.from_batches([one.rows for one in results], schema=engine.schema)
    watermarks_ms = [watermark_ms for one in results for watermark_ms in one.watermarks_ms.tolist()]
    ingestion_times = [
        ingestion_time for one in results for ingestion_time in one.ingestion_times_us.tolist()
    ]
    return table, watermarks_ms, ingestion_times


def equal(one: Whole, other: Whole) -> bool:
    return one[0].equals(other[0]) and one[1:] == other[1:]


def multisets(table: pa.Table) -> dict[int, Counter[Any]]:
    found: dict[int, Counter[Any]] = {}
    for row in table.to_pylist():
        timestamp, *values = row.values()
        found.setdefault(timestamp, Counter())[tuple(values)] += 1
    return found


slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
"""A scenario takes many choices to draw, however small it is."""

Delivery = tuple[list[tuple[str, Chunk]], int, bool, int | None]
"""Chunks in the order of arrival; limit; whether to evaluate after each; most tuples."""


@st.composite
def scenarios(
    draw: st.DrawFn, inputs: tuple[str, ...]
) -> tuple[dict[str, list[oracle.Tuple]], int, list[Delivery]]:
    """Tuples for each input, the last timestamp, and two ways of delivering them."""
    tuples = {name: draw(streams()) for name in inputs}
    last = max((one[-1][0] for one in tuples.values() if one), default=0)
    until_ms = last + draw(st.sampled_from([0, 1, 10]))
    watermarks_ms = {
        name: sorted(
            draw(st.sets(st.sampled_from([timestamp for timestamp, _ in one] or [until_ms])))
            | draw(st.sets(st.integers(0, until_ms), max_size=3))
            | {until_ms}
        )
        for name, one in tuples.items()
    }
    deliveries: list[Delivery] = []
    for _ in range(2):
        chunks = {name: draw(cuts(tuples[name], watermarks_ms[name])) for name in inputs}
        order = draw(st.permutations([name for name in inputs for _ in chunks[name]]))
        waiting = {name: iter(chunks[name]) for name in inputs}
        offers = [(name, next(waiting[name])) for name in order]
        limit, eager = draw(st.sampled_from([1, 2, 100])), draw(st.booleans())
        deliveries.append((offers, limit, eager, draw(st.sampled_from([None, 1, 3]))))
    return tuples, until_ms, deliveries


@pytest.mark.parametrize("shape", list(shapes))
def test_engine_equals_oracle_under_any_delivery(shape: str) -> None:
    (statement,) = parse(f"REGISTER QUERY q {shapes[shape]};")
    program = compile_statement(statement, catalogue)

    @settings(max_examples=25, deadline=None, suppress_health_check=slow)
    @given(scenarios(program.inputs), st.data())
    def check(
        scenario: tuple[dict[str, list[oracle.Tuple]], int, list[Delivery]], data: st.DataObject
    ) -> None:
        tuples, until_ms, deliveries = scenario
        outputs: list[Whole] = []
        for number, (offers, limit, eager, most) in enumerate(deliveries):
            engine = FragmentEngine(program)
            if number:
                offers = [(name, with_read_columns(program, name, chunk)) for name, chunk in offers]
            outputs.append(together(engine, run(engine, offers, limit, eager, most)))
        assert multisets(outputs[0][0]) == oracle.evaluate(statement, tuples, until_ms)
        assert equal(outputs[0], outputs[1])

        offers, limit, *_ = deliveries[0]
        stop = data.draw(st.integers(0, len(offers)))
        first, second = FragmentEngine(program), FragmentEngine(program)
        results = run(first, offers[:stop], 1, True)
        saved = first.snapshot()
        second.restore(saved)
        assert second.snapshot() == saved
        positions = second.positions()
        rest = [
            (name, left)
            for name, chunk in offers
            if (left := chunk.after(positions[name])) is not None
        ]
        results += run(second, rest, limit, True)
        assert equal(together(second, results), outputs[0])

    check()


def renumbered(chunk: Chunk, first_seq: int) -> Chunk:
    return replace(chunk, first_seq=first_seq)


@st.composite
def renumberings(
    draw: st.DrawFn, offers: list[tuple[str, Chunk]]
) -> list[tuple[str, Position | None, Chunk]]:
    """The same chunks, of which some are numbered anew: the numbers fall or jump before them.

    Gives the input, the cut to skip to (None: the chunk continues the numbering), the chunk.
    """
    ends: dict[str, Position] = {}
    steps: list[tuple[str, Position | None, Chunk]] = []
    for stream, chunk in offers:
        end = ends.get(stream, Position())
        first_seq = draw(st.sampled_from([end.next_seq, 0, 1, 5, end.next_seq + 3, 10**12]))
        cut = None
        if first_seq != end.next_seq:
            watermark_ms = draw(st.sampled_from([end.watermark_ms, NO_WATERMARK]))
            cut = Position(next_seq=first_seq, watermark_ms=watermark_ms)
        steps.append((stream, cut, renumbered(chunk, first_seq)))
        ends[stream] = steps[-1][-1].end
    return steps


def run_renumbered(
    engine: FragmentEngine, steps: list[tuple[str, Position | None, Chunk]], limit: int, eager: bool
) -> list[Evaluated]:
    results: list[Evaluated] = []
    for number, (stream, cut, chunk) in enumerate(steps):
        if cut is not None:
            engine.skip_to(stream, cut)
        engine.offer(stream, chunk)
        assert engine.waiting >= chunk.rows.num_rows
        if eager or number == len(steps) - 1:
            while (evaluated := engine.advance(limit)) is not None:
                results.append(evaluated)
    return results


@pytest.mark.parametrize("shape", list(shapes))
def test_numbers_that_fall_or_jump_change_no_row(shape: str) -> None:
    (statement,) = parse(f"REGISTER QUERY q {shapes[shape]};")
    program = compile_statement(statement, catalogue)

    @settings(max_examples=25, deadline=None, suppress_health_check=slow)
    @given(scenarios(program.inputs), st.data())
    def check(
        scenario: tuple[dict[str, list[oracle.Tuple]], int, list[Delivery]], data: st.DataObject
    ) -> None:
        offers, limit, eager, _ = scenario[2][0]
        plain = FragmentEngine(program)
        expected = together(plain, run(plain, offers, limit, eager))
        steps = data.draw(renumberings(offers))
        engine = FragmentEngine(program)
        assert equal(together(engine, run_renumbered(engine, steps, limit, eager)), expected)

        stop = data.draw(st.integers(0, len(steps)))
        first, second = FragmentEngine(program), FragmentEngine(program)
        results = run_renumbered(first, steps[:stop], limit, data.draw(st.booleans()))
        saved = first.snapshot()
        second.restore(saved)
        assert second.snapshot() == saved
        positions = second.positions()
        rest: list[tuple[str, Position | None, Chunk]] = []
        known = set[str]()
        for number, (name, cut, chunk) in enumerate(steps):
            position = positions[name]
            taken = int(np.searchsorted(chunk.timestamps, position.watermark_ms, side="right"))
            cut_here = msgspec.structs.replace(position, next_seq=chunk.first_seq + taken)
            left = chunk.after(cut_here)
            if left is None:
                continue
            if name not in known and number < stop:
                # The first chunk that was offered and not evaluated continues the position.
                assert position.next_seq == left.first_seq
                cut = None
            known.add(name)
            rest.append((name, cut, left))
        results += run_renumbered(second, rest, limit, True)
        assert equal(together(second, results), expected)

    check()
