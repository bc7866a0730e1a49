"""The compiled loop core gives what the stepwise one gives, tuple by tuple, and the same snapshots.

Loops are drawn as in `test_loops_match_oracle.py`, of what the compiled core knows. Inputs are
larger, so that tables lack room, rows move and keys are found anew. The long tests draw more than a
thousand loops. Seeds are printed with failures, and `LOOP_CORE_SEED` begins with one.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from streams.evaluate import engine as engine_module
from streams.evaluate.engine import Evaluated, EvaluationError, FragmentEngine
from streams.evaluate.loops import compiled as compiled_module
from streams.kernels import kernels, reference
from streams.language import QueryError
from streams.plan.compiler import compile_statement
from streams.plan.loop_core import why_stepwise
from streams.plan.program import Program
from tests.long_tests import mostly_long
from tests.property.streams.evaluate.loop_oracle import TooLargeError
from tests.property.streams.evaluate.stepwise.test_passes import Rows, evaluations, tuples
from tests.property.streams.evaluate.test_engine_matches_oracle import catalogue
from tests.property.streams.evaluate.test_loops_match_oracle import Leaving, Loops, is_refused

BLOCKS, PROGRAMS = 30, 60
"""Blocks of loops; those of a block, of which two thirds can be compared or more."""

MOST_ROWS = 20_000
"""Tuples that a loop gives, timestamp by timestamp: others are left out."""


class Compilable(Loops):
    """Draws loops of what the compiled core knows."""

    def _window(self, *, alone: bool) -> str:
        windows = ["[NOW]"] * 5 + ["[ROWS 1]", "[ROWS 3]", "[UNBOUNDED]", "[ROWS 40]"]
        windows += ["[RANGE 1 MILLISECOND]", "[RANGE 3 MILLISECONDS]", "[RANGE 1 SECOND]"]
        windows += ["[PARTITION BY k ROWS 1]", "[PARTITION BY k ROWS 2 RANGE 3 MILLISECONDS]"]
        windows += ["[PARTITION BY i, b ROWS 2]", "[PARTITION BY x ROWS 1 RANGE 9 MILLISECONDS]"]
        return self._one(windows)

    def _list(self, alias: str, other: str) -> str:
        k = self._one([f"{alias}.k", f"{other}.k", f"coalesce({other}.k, {alias}.k, 'none')"])
        k = self._one([k, f"CASE WHEN {alias}.b THEN {k} ELSE 'else' END", f"nullif({k}, 'a')"])
        i = self._one(
            [
                *(f"{alias}.i", f"({alias}.i + 1) % 5", f"{alias}.i - {other}.i", "3"),
                *(f"{alias}.i * {other}.i", f"abs({alias}.i)", f"-{other}.i", f"floor({alias}.x)"),
                *(f"ceil({other}.x)", f"least({alias}.i, {other}.i)", f"{alias}.i % {other}.i"),
                *(f"round({alias}.x)", f"nullif({alias}.i, {other}.i)", f"{alias}._ts"),
            ]
        )
        x = self._one(
            [
                *(f"{alias}.x", f"{other}.x / 2", f"{alias}.i", f"{alias}.i / {other}.i"),
                *(f"{alias}.x * {other}.i - {other}.x", f"sqrt({alias}.x)", f"round({alias}.x)"),
                *(f"{alias}.x % {other}.x", f"greatest({alias}.i, {other}.x, {alias}.x)"),
                *(f"CASE WHEN {other}.b THEN {alias}.i WHEN {alias}.b THEN {other}.x END",),
                *(f"coalesce({alias}.x, {other}.i, 1.5)", f"abs({alias}.x) + {alias}.i + 1"),
            ]
        )
        b = self._one(
            [
                *(f"{alias}.i < {other}.i", f"{alias}.k IS NULL", f"{alias}.x > 0.5"),
                *(f"NOT {alias}.b", f"{alias}.b AND {other}.b", f"{alias}.b OR {other}.k = 'a'"),
                *(f"{alias}.i <= {other}.x", f"{alias}.i <> {other}.x", f"{alias}.x >= {other}.i"),
            ]
        )
        return f"CAST({k} AS string) AS k, CAST({i} AS int) AS i, CAST({x} AS float) AS x, {b} AS b"

    def _select(self, streams: list[str]) -> str:
        kind = self._one(["plain"] * 3 + ["join", "join", "three", "group", "group", "derived"])
        stream = self._one(streams)
        source = f"{stream} {self._window(alone=False)} AS p"
        others = [*self._names, "s", "t"]
        joined = f"{self._one(others)} {self._window(alone=False)} AS q"
        if kind == "plain":
            where = self._one(["", " WHERE p.i < 3", " WHERE p.b OR p.i > 0"])
            return f"SELECT {self._list('p', 'p')} FROM {source}{where}"
        if kind == "group":
            return self._grouped(source, joined)
        if kind == "derived":
            inner = f"SELECT q.k AS k, count(q.i) AS i, max(q.x) AS x, NULL AS b FROM {joined} "
            inner = inner.replace("NULL AS b", "sum(q.i) > 2 AS b")
            if "PARTITION" in joined:
                inner = inner.replace("max", "sum")
            inner += "GROUP BY q.k"
            if self._chance(0.3):
                inner = f"SELECT q.k AS k, q.i AS i, q.x AS x, q.b AS b FROM {joined}"
            return f"SELECT {self._list('p', 'd')} FROM {source}, ({inner}) AS d WHERE d.k = p.k"
        on = self._one(["p.k = q.k", "p.i = q.i", "p.i < q.i AND p.b", "p.x = q.x AND q.b"])
        if kind == "three":
            third = f"{self._one(others)} {self._window(alone=False)} AS r"
            on += self._one([" AND r.k = p.k", " AND r.i = q.i AND r.x > p.x", " AND r.i = 1"])
            return f"SELECT {self._list('p', 'r')} FROM {source}, {joined}, {third} WHERE {on}"
        return f"SELECT {self._list('p', 'q')} FROM {source}, {joined} WHERE {on}"

    def _grouped(self, source: str, joined: str) -> str:
        over, where = source, ""
        functions = ["avg", "sum"]
        if self._chance(0.3):
            over, where = f"{source}, {joined}", " WHERE p.k = q.k"
        elif "PARTITION" not in source:
            functions += ["min", "max", "first", "last"]
        x = f"{self._one(functions)}({self._one(['p.x', 'p.i', 'p.x * 3'])})"
        number = self._one(["count(*)", "sum(p.i)", "count(p.x)", f"{self._one(functions)}(p.i)"])
        by, k = self._one([("p.k", "p.k"), ("p.i, p.k", "p.k"), ("p.b", "'all'"), ("", "'all'")])
        having = self._one(["", " HAVING count(*) > 1"]) if by else ""
        return (
            f"SELECT CAST({k} AS string) AS k, CAST({number} AS int) AS i, "
            f"CAST({x} AS float) AS x, count(*) > 1 AS b FROM {over}{where}"
            + (f" GROUP BY {by}" if by else "")
            + having
        )


class Bounded(FragmentEngine):
    """An engine that gives up when loops multiply tuples too often."""

    rows = 0

    def advance(
        self, limit: int, tuples: int | None = None, *, whole: bool = True
    ) -> Evaluated | None:
        made = super().advance(limit, tuples, whole=whole)
        Bounded.rows += 0 if made is None else made.rows.num_rows
        if Bounded.rows > MOST_ROWS:
            raise TooLargeError
        return made


class Moving(FragmentEngine):
    """Engines that begin with one core and with the other by turns, and may go over."""

    made = 0

    def __init__(self, program: Program) -> None:
        Moving.made += 1
        kernels.use(reference)
        if Moving.made % 3 == 0:
            kernels.load(loops=True)
        super().__init__(program)

    def advance(
        self, limit: int, tuples: int | None = None, *, whole: bool = True
    ) -> Evaluated | None:
        Moving.made += 1
        kernels.use(reference)
        if Moving.made % 5 == 0:
            kernels.load(loops=True)
        return super().advance(limit, tuples, whole=whole)


def inputs_of(program: Program, rng: np.random.Generator) -> dict[str, Rows]:
    texts = [*"abcç", None, *(f"text {place}" for place in range(12))]
    return {stream: tuples(rng, texts) for stream in program.inputs}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("block", mostly_long(range(BLOCKS)))
def test_both_cores_give_the_same(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    if not kernels.load(loops=True):
        pytest.skip("numba cannot be imported")
    first = int(os.environ.get("LOOP_CORE_SEED", "0")) + block * PROGRAMS
    compared = 0
    for seed in range(first, first + PROGRAMS):
        rng = np.random.default_rng(seed)
        try:
            text, statement = Compilable(rng).statement()
            program = compile_statement(statement, catalogue)
        except QueryError as error:
            if not is_refused(error):
                raise AssertionError(f"seed {seed}") from error
            continue
        told = f"seed {seed}: {text}"
        inputs = inputs_of(program, rng)
        if why_stepwise(program) is not None:
            # INTERSECT or EXCEPT was drawn.
            continue
        until_ms = max(rows[-1][0] for rows in inputs.values()) + int(rng.choice([0, 1, 6]))
        monkeypatch.setattr(engine_module, "TURN_INSTANTS", int(rng.integers(1, 4)))
        monkeypatch.setattr(compiled_module, "PACE", int(rng.choice([1, 2, 100])))
        monkeypatch.setattr(compiled_module, "MOST_TEXTS", int(rng.choice([1, 8, 1000])))
        Bounded.rows = 0
        kernels.load(loops=True)
        try:
            list(evaluations(program, inputs, until_ms, rng, only=0, new=Bounded))
        except TooLargeError:
            continue
        except EvaluationError:
            # What it says is looked at below.
            pass
        found: list[Any] = []
        for module, engine, only in (
            (reference, FragmentEngine, 2),
            (None, FragmentEngine, 1),
            (None, Leaving, 2),
            (None, Moving, 2),
        ):
            kernels.use(module) if module is not None else kernels.load(loops=True)
            try:
                ways = evaluations(program, inputs, until_ms, rng, only=only, new=engine)
                found += ways
            except EvaluationError as error:
                if "under `loops`" not in str(error):
                    raise AssertionError(told) from error
                found.append(str(error.__cause__))
        compared += 1
        for each in found[1:]:
            assert type(each) is type(found[0]), told
            if isinstance(each, str):
                assert each == found[0], told
            else:
                assert repr(each[0]) == repr(found[0][0]), told
                assert each[1] == found[0][1], told
    assert compared > PROGRAMS // 3
