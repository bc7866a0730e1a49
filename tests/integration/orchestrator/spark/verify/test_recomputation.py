"""Statements computed by Spark SQL give the rows that the query language's reference says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from orchestrator.spark.verify import recomputation
from orchestrator.spark.verify.evaluation import evaluate_parts
from orchestrator.spark.verify.recomputation import (
    EvaluatedStatement,
    Recomputed,
    Unordered,
    recompute,
)
from orchestrator.spark.verify.verification import PARTS_PER_CORE
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import stream_schema
from tests.unit.streams.running import Columns, Row, output
from tests.unit.streams.test_query_language_reference import examples, header, row

pytestmark = pytest.mark.spark


def read(example: str) -> tuple[str, dict[str, Columns], dict[str, list[Row]], int | None]:
    before, query, after = re.split(r"(REGISTER.*?;)\n", example, maxsplit=1, flags=re.DOTALL)
    catalogue: dict[str, Columns] = {}
    inputs: dict[str, list[Row]] = {}
    stream = ""
    for line in before.splitlines():
        if (found := header.fullmatch(line)) is not None:
            stream = found[1]
            names, kinds = zip(*map(str.split, found[2].split(", ")), strict=True)
            catalogue[stream] = dict(zip(names, kinds, strict=True))
            inputs[stream] = []
        else:
            inputs[stream].append(row(line, catalogue[stream]))
    until = re.search(r"^until (\d+)$", after, flags=re.MULTILINE)
    return query, catalogue, inputs, int(until[1]) if until else None


def table(columns: Columns, rows: list[Row]) -> pa.Table:
    schema = stream_schema(columns)
    named = [dict(zip(schema.names, one, strict=True)) for one in rows]
    return pa.Table.from_pylist(named, schema=schema)


def ordered(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


IN_SQL = ("newest", "counted", "expressions", "pairs", "quoted")
"""Statements of the reference that Spark SQL computes, one of each kind."""

FLOATS = "Spark adds the floats of sum in any order"


def statements() -> dict[str, tuple[str, dict[str, Columns], dict[str, list[Row]], int]]:
    """The statements of the reference, their inputs, and the last timestamp."""
    found: dict[str, tuple[str, dict[str, Columns], dict[str, list[Row]], int]] = {}
    for example in examples:
        query, catalogue, inputs, until_ms = read(example)
        last_ms = max(one[0] for rows in inputs.values() for one in rows)
        found[parse(query)[0].name] = query, catalogue, inputs, until_ms or last_ms
    return found


def recomputed(
    session: SparkSession,
    query: str,
    catalogue: dict[str, Columns],
    inputs: dict[str, list[Row]],
    until_ms: int,
    least_part_rows: int = 1,
) -> Recomputed:
    tables = {name: table(catalogue[name], rows) for name, rows in inputs.items()}
    texts = [statement.text for statement in parse(query)]
    return recompute(session, texts, catalogue, tables, until_ms, least_part_rows=least_part_rows)


def rows_of(made: Recomputed, stream: str) -> list[tuple[Any, ...]]:
    return ordered([tuple(one.asDict().values()) for one in made.frames[stream].collect()])


@pytest.mark.slow
def test_statements_of_the_reference_give_its_rows(session: SparkSession) -> None:
    known = statements()
    for name in (*IN_SQL, "per_second"):
        query, catalogue, inputs, until_ms = known[name]
        (statement,) = parse(query)
        expected = output(compile_statement(statement, catalogue), inputs, until_ms)
        made = recomputed(session, query, catalogue, inputs, until_ms)
        assert rows_of(made, name) == ordered(list(expected)), name
        again = EvaluatedStatement(why=FLOATS, by=("k",), whole=None)
        assert dict(made.not_in_sql) == ({name: again} if name not in IN_SQL else {})


def test_rows_are_counted_only_where_their_order_is_known(session: SparkSession) -> None:
    catalogue: dict[str, Columns] = {"s": {"k": "string", "i": "int"}}
    inputs: dict[str, list[Row]] = {"s": [(1, "a", 1), (1, "a", 2), (3, "b", 3)]}
    stateless = "REGISTER QUERY p RSTREAM(SELECT k, i FROM s [NOW] WHERE i > 0);"
    newest = "REGISTER QUERY q ISTREAM(SELECT k, i FROM p [PARTITION BY k ROWS 1]);"
    made = recomputed(session, stateless + newest, catalogue, inputs, 10)
    assert rows_of(made, "q") == [(1, "a", 2), (3, "b", 3)]
    assert not made.not_in_sql
    grouped = "REGISTER QUERY p ISTREAM(SELECT k, i FROM s [RANGE 1 SECOND] WHERE i > 0);"
    with pytest.raises(Unordered, match="q counts the rows of p"):
        recomputed(session, grouped + newest, catalogue, inputs, 10)


PER_KEY = (
    "REGISTER QUERY p ISTREAM(SELECT s.k AS k, sum(s.x * t.x) AS t "
    "FROM s [RANGE 2 SECONDS] AS s, t [PARTITION BY k ROWS 2] AS t WHERE s.k = t.k GROUP BY s.k);"
)
SESSIONS = (
    "REGISTER QUERY p RSTREAM(SELECT k, count(*) AS n, sum(x) AS t, first(x) AS f "
    "FROM s [SESSION 50 MILLISECONDS PARTITION BY k] GROUP BY k);"
)
TEXTS = "REGISTER QUERY p RSTREAM(SELECT upper(k) AS k, x FROM s [NOW]);"
COUNTED = "REGISTER QUERY q ISTREAM(SELECT k, x FROM p [PARTITION BY k ROWS 1]);"


@pytest.mark.parametrize(
    ("text", "by"),
    [
        (PER_KEY, ("k",)),
        (SESSIONS, ("k",)),
        (TEXTS + COUNTED, ("_ts",)),
    ],
)
def test_parts_give_what_one_piece_gives(
    session: SparkSession, text: str, by: tuple[str, ...]
) -> None:
    catalogue: dict[str, Columns] = {name: {"k": "string", "x": "float"} for name in ("s", "t")}
    random = np.random.default_rng(7)
    inputs: dict[str, list[Row]] = {}
    for stream in catalogue:
        timestamps = np.sort(random.integers(0, 10_000, 3000)).tolist()
        keys = [None if n == 40 else f"k{n}" for n in random.integers(0, 41, 3000)]
        inputs[stream] = list(zip(timestamps, keys, random.normal(size=3000).tolist(), strict=True))
    statement, *_ = parse(text)
    made = recomputed(session, text, catalogue, inputs, 10_000)
    (again,) = made.not_in_sql.values()
    assert (again.by, again.whole) == (by, None)
    compiled = compile_statement(statement, catalogue)
    assert rows_of(made, "p") == ordered(list(output(compiled, inputs, 10_000)))
    if "REGISTER QUERY q" in text:
        rows = output(compiled, inputs, 10_000)
        newest = compile_statement(parse(COUNTED)[0], {"p": compiled.columns})
        assert rows_of(made, "q") == ordered(list(output(newest, {"p": rows}, 10_000)))


def test_parts_have_a_least_size(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    most = PARTS_PER_CORE * session.sparkContext.defaultParallelism
    made: list[int] = []

    def evaluated(*given: Any) -> DataFrame:
        made.append(given[4])
        return evaluate_parts(*given)

    monkeypatch.setattr(recomputation, "evaluate_parts", evaluated)
    catalogue: dict[str, Columns] = {name: {"k": "string", "x": "float"} for name in ("s", "t")}
    # Each key has two tuples.
    inputs: dict[str, list[Row]] = {
        stream: [(n, f"k{n // 2}", 0.5) for n in range(2000)] for stream in catalogue
    }
    for least, parts in ((2001, None), (2000, 2), (1, most)):
        found = recomputed(session, PER_KEY, catalogue, inputs, 10_000, least).not_in_sql["p"]
        if parts is None:
            assert (found.by, found.whole) == ((), "its input has 4,000 tuples, too few for parts")
            assert not made
        else:
            assert (found.by, found.whole, made.pop()) == (("k",), None, parts)


def test_what_another_statement_counts_is_evaluated_in_one_piece(session: SparkSession) -> None:
    catalogue: dict[str, Columns] = {"s": {"k": "string", "x": "float"}}
    inputs: dict[str, list[Row]] = {"s": [(1, "a", 1.0), (1, "b", 2.5), (3, "b", 3.0)]}
    sums = "REGISTER QUERY p ISTREAM(SELECT k, sum(x) AS x FROM s [UNBOUNDED] GROUP BY k);"
    newest = "REGISTER QUERY q ISTREAM(SELECT k, x FROM p [ROWS 1]);"
    made = recomputed(session, sums + newest, catalogue, inputs, 10)
    assert made.not_in_sql["p"].whole == "another statement depends on the order of its rows"
    assert rows_of(made, "q") == [(1, "b", 2.5), (3, "b", 5.5)]


def test_an_aggregate_that_spark_lacks_is_named(session: SparkSession) -> None:
    catalogue: dict[str, Columns] = {"s": {"k": "string", "x": "float"}}
    inputs: dict[str, list[Row]] = {"s": [(1, "a", 1.0), (1, "a", 3.0), (3, "b", 3.0)]}
    for call in ("stddev(x)", "exact_sum(x)"):
        text = f"REGISTER QUERY p RSTREAM(SELECT k, {call} AS y FROM s [NOW] GROUP BY k);"
        made = recomputed(session, text, catalogue, inputs, 10)
        name = call.partition("(")[0]
        assert made.not_in_sql["p"].why == f"Spark has no {name} that gives the same bits"
        assert len(rows_of(made, "p")) == 2


@pytest.mark.parametrize("again", [False, True])
def test_the_first_of_a_timestamp_is_shown_only_where_the_order_is_known(
    session: SparkSession, again: bool
) -> None:
    catalogue: dict[str, Columns] = {"s": {"k": "string", "x": "float"}}
    inputs: dict[str, list[Row]] = {"s": [(1, "a", 1.0), (1, "b", 2.5)]}
    unordered = "REGISTER QUERY p ISTREAM(SELECT k, x FROM s [RANGE 1 SECOND]);"
    # Evaluated by the engine, but out of rows without an order.
    sums = "REGISTER QUERY r ISTREAM(SELECT k, sum(x) AS x FROM p [UNBOUNDED] GROUP BY k);"
    first = "REGISTER QUERY q ISTREAM(SELECT first(k) AS k FROM p [UNBOUNDED]);"
    text = unordered + (sums + first.replace("FROM p", "FROM r") if again else first)
    with pytest.raises(Unordered, match=r"q counts the rows of [pr], or shows the first"):
        recomputed(session, text, catalogue, inputs, 10)


@pytest.mark.parametrize(
    "query",
    [
        "REGISTER QUERY q RSTREAM(SELECT t, T, _ord, _since FROM s [NOW]);",
        "REGISTER QUERY q ISTREAM(SELECT t, T, _ord, _since FROM s [RANGE 2 MILLISECONDS]);",
        "REGISTER QUERY q RSTREAM(SELECT t, count(*) AS _rows, sum(T) AS a0, max(_ord) AS k0 "
        "FROM s [RANGE 2 MILLISECONDS] GROUP BY t);",
        "REGISTER QUERY q RSTREAM(SELECT upper(t) AS t, T, _ord, _since FROM s [NOW]);",
        "REGISTER QUERY q RSTREAM(SELECT t, first(T) AS _ord, sum(_ord) AS _part "
        "FROM s [SESSION 2 MILLISECONDS PARTITION BY t] GROUP BY t);",
    ],
)
def test_columns_may_be_called_as_those_of_the_translation_or_differ_in_case(
    session: SparkSession, query: str
) -> None:
    catalogue: dict[str, Columns] = {
        "s": {"t": "string", "T": "int", "_ord": "int", "_since": "int"}
    }
    rows: list[Row] = [(1, "a", 1, 10, 5), (1, "a", 2, 20, 5), (4, "b", 3, 30, 5)]
    (statement,) = parse(query)
    expected = output(compile_statement(statement, catalogue), {"s": rows}, 9)
    assert expected
    made = recomputed(session, query, catalogue, {"s": rows}, 9)
    assert rows_of(made, "q") == ordered(list(expected))


def test_late_tuples_of_a_stream_are_another_view_than_any_stream(session: SparkSession) -> None:
    catalogue: dict[str, Columns] = {name: {"i": "int"} for name in ("s", "s.late", "s_late")}
    inputs: dict[str, list[Row]] = {"s": [(1, 1)], "s.late": [(1, 2)], "s_late": [(1, 3)]}
    query = "REGISTER QUERY q RSTREAM(SELECT i FROM s.late [NOW] UNION ALL SELECT i FROM s [NOW]);"
    made = recomputed(session, query, catalogue, inputs, 10)
    assert rows_of(made, "q") == [(1, 1), (1, 2)]
    assert not made.not_in_sql
