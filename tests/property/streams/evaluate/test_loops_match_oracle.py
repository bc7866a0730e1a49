"""Random loops give what the oracle gives, in one order however their inputs are cut, whether
milliseconds are left in between or not, and after snapshots.

Statements are drawn one after the other: each reads streams from outside and other statements, or
itself, through windows of all kinds. Delays are drawn, too, and added where a cycle lacks one. So
there are loops within loops, and statements on no cycle. `LOOP_PROGRAMS` says how many there are;
seeds are printed with failures, and `LOOP_SEED` begins with one.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from streams.evaluate import engine as engine_module
from streams.evaluate.engine import Evaluated, EvaluationError, FragmentEngine
from streams.evaluate.loops import compiled as compiled_module
from streams.kernels import kernels
from streams.language import QueryError, parse
from streams.language.ast import Statement
from streams.language.loops import with_delays
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from tests.property.streams.evaluate.loop_oracle import (
    LimitError,
    LoopOracle,
    TooLargeError,
)
from tests.property.streams.evaluate.stepwise.test_passes import evaluations
from tests.property.streams.evaluate.stepwise.test_random_relations import few_tuples
from tests.property.streams.evaluate.test_engine_matches_oracle import catalogue, columns
from tests.property.streams.oracle import Tuple

PROGRAMS = int(os.environ.get("LOOP_PROGRAMS", "60"))
MOST_TUPLES = 150
STEPS = 5


class Loops:
    """Draws the statements of loops. All streams have the columns k, i, x and b."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._names = [f"m{place}" for place in range(int(rng.integers(1, 5)))]

    def statement(self) -> tuple[str, Statement]:
        """A loop of all statements, as text and as it was written."""
        written = [self._member(place, name) for place, name in enumerate(self._names)]
        delayed = with_delays(parse("; ".join(written)))
        beyond = self._one(["CUT", "CUT", "ERROR"])
        tuples = self._one([12, 1000, 1000])
        exported = ", ".join(self._names)
        text = f"REGISTER LOOP l OF {exported} STEPS {STEPS} TUPLES {tuples} {beyond} ({delayed});"
        (made,) = parse(text)
        return text, made

    def _one(self, choices: list[Any]) -> Any:
        return choices[int(self._rng.integers(len(choices)))]

    def _chance(self, share: float) -> bool:
        return bool(self._rng.random() < share)

    def _member(self, place: int, name: str) -> str:
        # The first SELECT says the types.
        selects = [self._select(["s", "t"] if self._chance(0.7) else self._names)]
        if self._chance(0.6):
            selects.append(self._select([*self._names, self._names[place - 1]]))
        union = self._one([" UNION ALL "] * 3 + [" EXCEPT ALL ", " INTERSECT ", " UNION "])
        to_stream = self._one(["ISTREAM"] * 5 + ["DSTREAM", "DSTREAM", "RSTREAM"])
        durations = ["<NOW>", "<NOW>", "<1 MILLISECOND>", "<2 MILLISECONDS>", "<5 MILLISECONDS>"]
        delay = self._one(durations) if self._chance(0.5) else ""
        return f"REGISTER QUERY {name} {to_stream}({union.join(selects)}){delay}"

    def _window(self, *, alone: bool) -> str:
        windows = ["[NOW]"] * 5 + ["[ROWS 1]", "[ROWS 2]", "[UNBOUNDED]"]
        windows += ["[RANGE 1 MILLISECOND]", "[RANGE 3 MILLISECONDS]"]
        windows += ["[RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS OFFSET 1 MILLISECOND]"]
        windows += ["[PARTITION BY k ROWS 1]", "[PARTITION BY k ROWS 2 RANGE 3 MILLISECONDS]"]
        windows += ["[ROWS 3 SLIDE 2]"]
        windows += ["[SESSION 2 MILLISECONDS PARTITION BY k]"] if alone else []
        return self._one(windows)

    def _list(self, alias: str, other: str) -> str:
        """A SELECT list with types that are known whatever the sources' are."""
        k = self._one([f"{alias}.k", f"{other}.k"])
        i = self._one([f"{alias}.i", f"({alias}.i + 1) % 5", f"{alias}.i - {other}.i"])
        x = self._one([f"{alias}.x", f"{other}.x / 2", f"{alias}.i"])
        b = self._one([f"{alias}.i < {other}.i", f"{alias}.k IS NULL", f"{alias}.x > 0.5"])
        return f"CAST({k} AS string) AS k, CAST({i} AS int) AS i, CAST({x} AS float) AS x, {b} AS b"

    def _select(self, streams: list[str]) -> str:
        kind = self._one(["plain"] * 4 + ["join", "join", "group", "exists", "derived"])
        stream = self._one(streams)
        if kind == "plain":
            source = f"{stream} {self._window(alone=True)} AS p"
            where = self._one(["", " WHERE p.i < 3", " WHERE p.b OR p.i > 0"])
            return f"SELECT {self._list('p', 'p')} FROM {source}{where}"
        others = [*self._names, "s", "t"]
        if kind == "group":
            least = self._one(["min(p.x)", "max(p.x)", "avg(p.x)", "sum(p.x)"])
            number = self._one(["count(*)", "sum(p.i)", "max(p.i)"])
            return (
                f"SELECT CAST(p.k AS string) AS k, CAST({number} AS int) AS i, "
                f"CAST({least} AS float) AS x, count(*) > 1 AS b "
                f"FROM {stream} {self._window(alone=True)} AS p GROUP BY p.k"
            )
        joined = f"{self._one(others)} {self._window(alone=False)} AS q"
        source = f"{stream} {self._window(alone=False)} AS p"
        if kind == "join":
            on = self._one(["p.k = q.k", "p.i = q.i", "p.i < q.i AND p.b"])
            return f"SELECT {self._list('p', 'q')} FROM {source}, {joined} WHERE {on}"
        if kind == "exists":
            word = self._one(["EXISTS", "NOT EXISTS"])
            return (
                f"SELECT {self._list('p', 'p')} FROM {source} "
                f"WHERE {word} (SELECT 1 AS one FROM {joined} WHERE q.k = p.k)"
            )
        word = self._one(["MIN", "MAX"])
        inner = f"SELECT q.k AS k, {word}(q.i) AS i, max(q.x) AS x FROM {joined} GROUP BY q.k"
        return f"SELECT {self._list('p', 'd')} FROM {source}, ({inner}) AS d WHERE d.k = p.k"


def is_refused(error: QueryError) -> bool:
    """Whether a loop was drawn that the language refuses."""
    return any(told in str(error) for told in ("RSTREAM gives all", "no stream from outside"))


def parts_of(program: Program, rows: list[Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Stream → its rows, of all that a loop gives."""
    assert program.loop is not None
    names = [member.program.name for member in program.loop.members]
    if len(names) == 1:
        return {names[0]: [tuple(row[1:]) for row in rows]}
    width = len(columns)
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in names}
    for _, tag, *values in rows:
        found[names[tag]].append(tuple(values[tag * width : (tag + 1) * width]))
    return found


class Leaving(FragmentEngine):
    """An engine that leaves milliseconds in between, and takes them up again."""

    def advance(
        self, limit: int, tuples: int | None = None, *, whole: bool = True
    ) -> Evaluated | None:
        while True:
            made = super().advance(limit, tuples, whole=False)
            if made is None or len(made.watermarks_ms):
                return made
            assert not self.between_timestamps
            assert self.ready


@pytest.mark.parametrize("compiles", [False, True], ids=["stepwise", "compiled"])
def test_random_loops(monkeypatch: pytest.MonkeyPatch, *, compiles: bool) -> None:
    if compiles and not kernels.load(loops=True):
        pytest.skip("numba cannot be imported")
    first = int(os.environ.get("LOOP_SEED", "0"))
    compared = limited = 0
    for seed in range(first, first + PROGRAMS):
        rng = np.random.default_rng(seed)
        try:
            text, statement = Loops(rng).statement()
            program = compile_statement(statement, catalogue)
        except QueryError as error:
            if not is_refused(error):
                raise AssertionError(f"seed {seed}") from error
            continue
        told = f"seed {seed}: {text}"
        inputs = {stream: few_tuples(rng)[:5] for stream in program.inputs}
        until_ms = max(rows[-1][0] for rows in inputs.values()) + int(rng.choice([0, 1, 6]))
        named = {stream: list[Tuple]() for stream in catalogue} | {
            stream: [(at, dict(zip(columns, row, strict=True))) for at, row in rows]
            for stream, rows in inputs.items()
        }
        assert program.loop is not None
        members = {each.program.name: list(columns) for each in program.loop.members}
        runs: list[tuple[list[Any], list[bytes]]] = []
        try:
            runs = list(evaluations(program, inputs, until_ms, rng))
            rows = runs[0][0]
        except EvaluationError as error:
            if "under `loops`" not in str(error):
                raise AssertionError(told) from error
            # Until it fails, it gives what it would if it did not.
            (lenient,) = parse(text.replace(" ERROR (", " CUT ("))
            goes_on = compile_statement(lenient, catalogue)
            try:
                ((rows, _),) = evaluations(goes_on, inputs, until_ms, rng, only=1)
            except EvaluationError as failed:
                if "a join of" not in str(failed):
                    raise AssertionError(told) from failed
                # The oracle does not count rows of joins.
                continue
        parts = parts_of(program, rows)
        oracle = LoopOracle(statement, named, members, parts, MOST_TUPLES)
        try:
            oracle.run(until_ms)
        except LimitError:
            assert not runs, told
            limited += 1
            continue
        except TooLargeError:
            continue
        except AssertionError as error:
            raise AssertionError(told) from error
        assert runs, told
        compared += 1
        assert {name: len(of) for name, of in parts.items()} == oracle.delivered, told
        for emitted, state in runs[1:]:
            assert repr(emitted) == repr(rows), told
            assert state == runs[0][1], told
        monkeypatch.setattr(engine_module, "TURN_INSTANTS", int(rng.integers(1, 4)))
        monkeypatch.setattr(compiled_module, "PACE", 1)
        ((emitted, state),) = evaluations(program, inputs, until_ms, rng, only=0, new=Leaving)
        assert repr(emitted) == repr(rows), told
        assert state == runs[0][1], told
    assert compared > PROGRAMS // 3
    assert limited or PROGRAMS < 60, "none has too many instants"
