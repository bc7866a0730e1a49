"""Columns whose names stand in quotes, in whatever is made of a statement."""

from __future__ import annotations

from collections import Counter

import pytest

from streams.language import QueryError, parse
from streams.language.ast import Statement
from streams.plan.compiler import compile_statement
from streams.plan.partial import split
from streams.plan.partial_union import split_below
from streams.plan.partitioning import partitionings
from streams.plan.sharing import computations, forwarding
from streams.scheduling.shedder import value_of
from streams.vectors.chunk import stream_schema
from tests.unit.streams.running import chunk, output

columns = {"group": "string", "user-id": "int", "@timestamp": "float"}
catalogue = {"s": columns, "t": columns}
rows = [(1000, "a", 1, 0.5), (1500, "b", 2, 1.5), (1700, "a", 5, None)]

SLIDING = (
    'SELECT "group", sum("user-id") AS "of it", max(s."@timestamp") AS "from" FROM s '
    '[RANGE 2 SECONDS SLIDE 1 SECOND] WHERE "user-id" > 0 GROUP BY "group"'
)


def statement(text: str) -> Statement:
    (parsed,) = parse(f"REGISTER QUERY {text};")
    return parsed


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('RSTREAM(SELECT "user-id" * 2 AS "a b" FROM s [NOW])', [(1000, 2), (1500, 4), (1700, 10)]),
        (
            'ISTREAM(SELECT "user-id" FROM s [PARTITION BY "group" ROWS 1] WHERE "user-id" > 1)',
            [(1500, 2), (1700, 5)],
        ),
        (f"RSTREAM({SLIDING})", [(1000, "a", 1, 0.5), (2000, "b", 2, 1.5), (2000, "a", 6, 0.5)]),
        (
            'RSTREAM(SELECT "as"."user-id" FROM s [NOW] AS "as", t [UNBOUNDED] '
            'WHERE "as"."user-id" = t."user-id" TOP 1 BY "as"."@timestamp")',
            [(1000, 1), (1500, 2), (1700, 5)],
        ),
    ],
)
def test_quoted_columns_are_columns(body: str, expected: list[tuple[object, ...]]) -> None:
    program = compile_statement(statement(f"q {body}"), catalogue)
    assert output(program, {"s": rows, "t": rows}, 2000) == expected


def test_statements_that_are_split_quote_them() -> None:
    whole = statement(f"q RSTREAM({SLIDING})")
    parts = split(whole, catalogue)
    assert parts is not None
    partial, final = parts
    below = compile_statement(partial, catalogue)
    above = compile_statement(final, {partial.name: below.columns})
    direct = compile_statement(whole, catalogue)
    assert list(above.columns) == ["group", "of it", "from"]
    between = output(below, {"s": rows}, 4000)
    found = output(above, {partial.name: between}, 4000)
    assert Counter(found) == Counter(output(direct, {"s": rows}, 4000))


def test_statements_that_are_split_below_a_union_quote_them() -> None:
    union = statement("u RSTREAM(SELECT * FROM s [NOW] UNION ALL SELECT * FROM t [NOW])")
    body = SLIDING.replace('s."', 'u."').replace("FROM s", "FROM u")
    whole = statement(f"q RSTREAM({body})")
    known = {**catalogue, "u": columns}
    made = split_below(whole, union, known)
    assert made is not None
    for one in made:
        known[one.name] = compile_statement(one, known).columns
    assert list(known["q"]) == ["group", "of it", "from"]


def test_statements_that_forward_quote_them() -> None:
    one = statement(f"f RSTREAM({SLIDING})")
    other = statement(f"g RSTREAM({SLIDING.replace('of it', 'is')})")
    made = computations(
        {
            each.name: (each, list(compile_statement(each, catalogue).columns))
            for each in (one, other)
        }
    )
    names = made["f"].columns_of(made["g"])
    assert names is not None
    assert names == {"group": "group", "of it": "is", "from": "from"}
    text = 'SELECT "group" AS "group", "is" AS "of it", "from" AS "from" FROM g [NOW]'
    assert forwarding("f", "g", names).text == f"REGISTER QUERY f RSTREAM({text});"


def test_inputs_are_divided_by_them() -> None:
    found = partitionings(compile_statement(statement(f"q RSTREAM({SLIDING})"), catalogue))
    assert {"s": "group"} in found


def test_a_tuple_is_worth_what_they_say() -> None:
    worth = value_of('"user-id" * 2', stream_schema(columns))
    assert worth(chunk(columns, rows, [2000]).rows).tolist() == [2, 4, 10]


def test_a_text_in_double_quotes_is_taken_for_a_column_and_the_message_says_so() -> None:
    text = 'q RSTREAM(SELECT "group" FROM s [NOW] WHERE "group" = "a")'
    with pytest.raises(
        QueryError, match=r"s has no column a; .*string stands in single quotes: 'a'"
    ):
        compile_statement(statement(text), catalogue)
    text = 'q RSTREAM(SELECT "user-it" FROM s [NOW])'
    with pytest.raises(QueryError, match='no column user-it; did you mean "user-id"'):
        compile_statement(statement(text), catalogue)
