"""A statement evaluated in parts gives what it gives as a whole."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.plan.partitioning import Interacting, Partitioning, partitionings
from streams.plan.program import Program
from streams.vectors.chunk import TIMESTAMP
from tests.property.streams.evaluate.test_engine_matches_oracle import (
    catalogue,
    columns,
    shapes,
    streams,
)
from tests.unit.streams.running import Row, output

own_shapes = {
    "join by key": (
        "ISTREAM(SELECT s.k AS k, s.x AS x, t.i AS i FROM s [RANGE 3 MILLISECONDS], "
        "t [PARTITION BY k ROWS 2] WHERE t.k = s.k AND s.x < t.i)"
    ),
    "aggregate of a join by key": (
        "ISTREAM(SELECT s.i AS i, count(*) AS n, sum(t.x) AS t FROM s [RANGE 4 MILLISECONDS], "
        "t [UNBOUNDED] WHERE s.i = t.i GROUP BY s.i)"
    ),
    "join of three by key": (
        "DSTREAM(SELECT b.i AS i, a.x AS x FROM s [RANGE 2 MILLISECONDS] AS a, "
        "t [RANGE 3 MILLISECONDS] AS b, s [PARTITION BY i, b ROWS 1] AS c "
        "WHERE a.i = b.i AND c.i = a.i)"
    ),
    "now beside a range": (
        "RSTREAM(SELECT s.k AS k, t.x AS x FROM s [NOW], t [RANGE 3 MILLISECONDS] WHERE s.k = t.k)"
    ),
    "union by key": (
        "ISTREAM(SELECT k, sum(x) AS t FROM s [RANGE 3 MILLISECONDS] GROUP BY k UNION ALL "
        "SELECT k, x AS t FROM t [PARTITION BY k ROWS 1])"
    ),
    "union of now and sessions": (
        "RSTREAM(SELECT k, i FROM s [SESSION 3 MILLISECONDS PARTITION BY k] UNION ALL "
        "SELECT k, i FROM t [NOW])"
    ),
    "top by key": ("ISTREAM(SELECT i, x FROM s [RANGE 5 MILLISECONDS] TOP 2 BY x PARTITION BY i)"),
    "distinct sessions": (
        "DSTREAM(SELECT DISTINCT k, b FROM s [SESSION 3 MILLISECONDS PARTITION BY b, k])"
    ),
    "lookup by a number": (
        "RSTREAM(SELECT s.k AS k, t.x AS x FROM s [UNBOUNDED], t [NOW] WHERE s.i = t.i)"
    ),
}

alone = {
    "range": "RSTREAM(SELECT k, count(*) AS n FROM s [RANGE 3 MILLISECONDS] GROUP BY k)",
    "unlike boundaries": (
        "RSTREAM(SELECT k FROM s [RANGE 3 MILLISECONDS SLIDE 3 MILLISECONDS] UNION ALL "
        "SELECT k FROM t [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS])"
    ),
    "rows": "ISTREAM(SELECT k FROM s [ROWS 2])",
    "partitioned by another column": "ISTREAM(SELECT k, x FROM s [PARTITION BY b ROWS 1])",
    "sessions of all": "ISTREAM(SELECT k FROM s [SESSION 2 MILLISECONDS])",
    "cross join": (
        "ISTREAM(SELECT s.k AS k, t.k AS l FROM s [RANGE 2 MILLISECONDS], t [UNBOUNDED] "
        "WHERE s.k < t.k)"
    ),
    "no group": "ISTREAM(SELECT sum(x) AS t FROM s [RANGE 2 MILLISECONDS] WHERE k = 'a')",
    "group by an expression": "ISTREAM(SELECT count(*) AS n FROM s [UNBOUNDED] GROUP BY b)",
    "key not shown": "ISTREAM(SELECT sum(x) AS t FROM s [RANGE 4 MILLISECONDS] GROUP BY k)",
    "key at other places": (
        "ISTREAM(SELECT k, 'x' AS l FROM s [RANGE 2 MILLISECONDS] UNION ALL "
        "SELECT 'x' AS k, k AS l FROM t [RANGE 2 MILLISECONDS])"
    ),
    "distinct without the key": "ISTREAM(SELECT DISTINCT x FROM s [PARTITION BY k ROWS 2])",
    "top of all": "ISTREAM(SELECT k, x FROM s [RANGE 4 MILLISECONDS] TOP 1 BY x)",
    "keys of two types": (
        "ISTREAM(SELECT s.i AS i FROM s [UNBOUNDED], t [UNBOUNDED] WHERE s.i = t.x)"
    ),
    "floats": "ISTREAM(SELECT x, count(*) AS n FROM s [RANGE 4 MILLISECONDS] GROUP BY x)",
}


def program(text: str) -> Program:
    (statement,) = parse(f"REGISTER QUERY q {text};")
    return compile_statement(statement, catalogue)


def divided(shape: str) -> bool:
    try:
        return bool(partitionings(program(shape)))
    except Interacting:
        return False


STATELESS = [name for name, text in shapes.items() if program(text).stateless]
DIVIDED = {name: text for name, text in (shapes | own_shapes).items() if divided(text)}


rows = streams().map(lambda own: [(at, *row.values()) for at, row in own])


def evaluated_in_parts(
    compiled: Program, inputs: dict[str, list[Row]], by: Partitioning, until_ms: int
) -> Counter[Row]:
    """The rows of all parts, of which each has one value of the column."""
    places = {stream: (TIMESTAMP, *columns).index(column) for stream, column in by.items()}
    keys = {row[places[stream]] for stream, own in inputs.items() for row in own}
    parts: Counter[Row] = Counter()
    for key in keys:
        part = {
            stream: [row for row in own if row[places[stream]] == key]
            for stream, own in inputs.items()
        }
        parts.update(output(compiled, part, until_ms))
    return parts


def test_statements_whose_keys_do_not_interact_are_divided() -> None:
    assert DIVIDED.keys() >= own_shapes.keys()
    assert DIVIDED.keys() >= {"groups", "sliding", "sessions", "lookup", "join of windows", "top"}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in alone.items()])
def test_statements_whose_keys_interact_are_not(text: str) -> None:
    with pytest.raises(Interacting):
        partitionings(program(text))


@pytest.mark.parametrize("name", DIVIDED)
@settings(max_examples=25)
@given(data=st.data())
def test_parts_give_what_the_whole_gives(name: str, data: st.DataObject) -> None:
    compiled = program(DIVIDED[name])
    inputs = {stream: data.draw(rows, label=stream) for stream in compiled.inputs}
    until_ms = max((row[0] for own in inputs.values() for row in own), default=0) + 10
    whole = Counter(output(compiled, inputs, until_ms))
    for by in partitionings(compiled):
        assert evaluated_in_parts(compiled, inputs, by, until_ms) == whole, by


@pytest.mark.parametrize("name", STATELESS)
@settings(max_examples=10)
@given(data=st.data())
def test_timestamps_of_stateless_statements_do_not_meet(name: str, data: st.DataObject) -> None:
    compiled = program(shapes[name])
    inputs = {stream: data.draw(rows, label=stream) for stream in compiled.inputs}
    by = dict.fromkeys(inputs, TIMESTAMP)
    whole = Counter(output(compiled, inputs, 100))
    assert evaluated_in_parts(compiled, inputs, by, 100) == whole
