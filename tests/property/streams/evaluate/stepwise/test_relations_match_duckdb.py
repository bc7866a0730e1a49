"""Random statements of several levels, over windows that tumble, give what DuckDB gives.

At a boundary such windows hold the tuples since the last one, and RSTREAM shows the whole relation:
the same SELECT over tables with these tuples. The texts differ in the windows alone, so DuckDB is a
second opinion on sub-queries, NULLs in conditions, outer joins and operations on relations, from
which neither the engine nor its oracle has anything. What DuckDB cannot plan is left out.

The long tests compare a thousand statements of each kind; seeds are printed with failures.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from tests.long_tests import mostly_long
from tests.property.streams.evaluate.stepwise.test_passes import Rows, evaluations
from tests.property.streams.evaluate.test_engine_matches_oracle import catalogue
from tests.property.streams.random_programs import Focus, Named, Programs

duckdb = pytest.importorskip("duckdb")

BLOCKS, PROGRAMS = 100, 10
"""Blocks of statements of each kind; those of a block."""

LENGTH_MS = 4
WINDOW = f"RANGE {LENGTH_MS} MILLISECONDS SLIDE {LENGTH_MS} MILLISECONDS"
MOST_TUPLES = 12

values: list[list[Any]] = [
    ["a", "b", "ç", None],
    [0, 1, 2, 3, -4, None],
    # Sums of them are exact, in any order.
    [0.0, 0.5, 1.5, -2.5, None],
    [True, False, None],
]


SIGNS = ("UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")


class Tumbling(Programs):
    """Makes statements that DuckDB understands once their windows are left out."""

    windows = (WINDOW,)

    def statement(self) -> str:
        kinds = [self._one(["string", "int", "float"]) for _ in range(self._below(2) + 1)]
        return f"RSTREAM({self.query(kinds, 2)})"

    def query(self, kinds: Sequence[str], depth: int) -> str:
        """As in the base, but in parentheses: in SQL, INTERSECT comes before the others."""
        many = 0.8 if self._focus is Focus.SETS and depth == 2 else 0.15
        if depth == 0 or not self._chance(many):
            return self._select(kinds, depth)
        text = self._select(kinds, depth - 1)
        for _ in range(self._below(2) + 1):
            text = f"{self._select(kinds, depth - 1)} {self._one(SIGNS)} ({text})"
        return text

    def _select(
        self, kinds: Sequence[str], depth: int, around: Sequence[Named] = (), *, top: bool = True
    ) -> str:
        # SQL has no TOP.
        text = super()._select(kinds, depth, around, top=False)
        distinct = top and "(" not in text.partition(" FROM ")[0] and self._chance(0.2)
        return text.replace("SELECT ", "SELECT DISTINCT ", 1) if distinct else text

    def _value_query(self, kind: str, columns: Sequence[Named]) -> str:
        # Of several rows DuckDB makes an error.
        source, own = self._source(0)
        one, other = self._alike(own, columns)
        where = f" WHERE {one} = {other}" if self._chance(0.6) else ""
        value = "count(*)" if kind == "int" else f"max({self._of(own, kind)})"
        return f"(SELECT {value} FROM {source}{where})"


def few_tuples(rng: np.random.Generator) -> Rows:
    count = int(rng.integers(1, MOST_TUPLES + 1))
    timestamps = np.cumsum(rng.choice([0, 0, 1, 1, 2, 9], count)).tolist()
    picked = [[each[at] for at in rng.integers(len(each), size=count).tolist()] for each in values]
    return list(zip(timestamps, zip(*picked, strict=True), strict=True))


def boundary(at_ms: int) -> int:
    """Where the window of a tuple ends."""
    return -(-at_ms // LENGTH_MS) * LENGTH_MS


class Tables:
    """DuckDB with the tuples of a window."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        for name in catalogue:
            self._connection.execute(f"CREATE TABLE {name} (k TEXT, i BIGINT, x DOUBLE, b BOOL)")

    def relation(self, query: str, inputs: dict[str, Rows], end_ms: int) -> Counter[Any] | None:
        """What a query gives of the window that ends there; None if it cannot be planned."""
        for name, rows in inputs.items():
            self._connection.execute(f"DELETE FROM {name}")
            held = [list(row) for at_ms, row in rows if boundary(at_ms) == end_ms]
            if held:
                self._connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", held)
        try:
            rows = self._connection.execute(query).fetchall()
        except (duckdb.BinderException, duckdb.NotImplementedException):
            return None
        return Counter(tuple(map(plain, row)) for row in rows)


def plain(value: Any) -> Any:
    """A value of DuckDB, whose literals are decimals."""
    return float(value) if isinstance(value, Decimal) else value


def evaluated(program: Program, inputs: dict[str, Rows], until_ms: int) -> set[int]:
    """The boundaries at which a window holds tuples, or holds none any more."""
    ends = {boundary(at_ms) for stream in program.inputs for at_ms, _ in inputs[stream]}
    return {each for end in ends for each in (end, end + LENGTH_MS) if each <= until_ms}


@pytest.mark.parametrize("block", mostly_long(range(BLOCKS)))
@pytest.mark.parametrize("focus", list(Focus), ids=lambda focus: focus.name.lower())
def test_relations_are_those_of_duckdb(focus: Focus, block: int) -> None:
    tables, compared = Tables(), 0
    first = int(os.environ.get("DUCKDB_SEED", "0")) + block * PROGRAMS
    for seed in range(first, first + PROGRAMS):
        rng = np.random.default_rng(seed)
        body = Tumbling(rng, focus).statement()
        told = f"seed {seed}: {body}"
        (statement,) = parse(f"REGISTER QUERY q {body};")
        program = compile_statement(statement, catalogue)
        inputs = {stream: few_tuples(rng) for stream in catalogue}
        until_ms = max(rows[-1][0] for rows in inputs.values()) + 2 * LENGTH_MS
        query = re.sub(r" \[[^]]*\]", "", body.removeprefix("RSTREAM(").removesuffix(")"))
        query = query.replace("SOME (", "ANY (")
        ((rows, _),) = evaluations(
            program, {name: inputs[name] for name in program.inputs}, until_ms, rng, only=1
        )
        found: dict[int, Counter[Any]] = {}
        for at_ms, *row in rows:
            found.setdefault(at_ms, Counter())[tuple(row)] += 1
        ends = evaluated(program, inputs, until_ms)
        assert found.keys() <= ends, told
        wanted = {end_ms: tables.relation(query, inputs, end_ms) for end_ms in sorted(ends)}
        if None in wanted.values():
            continue
        compared += 1
        for end_ms, relation in wanted.items():
            assert found.get(end_ms, Counter()) == relation, f"{told} at {end_ms}"
    assert compared > PROGRAMS // 2
