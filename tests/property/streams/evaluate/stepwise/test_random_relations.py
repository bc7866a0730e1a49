"""Random statements with sub-queries, outer joins and operations on relations give what the oracle
gives, in one order however their inputs are cut, and after snapshots.

`RELATION_PROGRAMS` says how many there are of each kind; seeds are printed with failures.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np
import pytest

from streams.language import parse
from streams.plan.compiler import compile_statement
from tests.property.streams import oracle
from tests.property.streams.evaluate.stepwise.test_passes import Rows, evaluations
from tests.property.streams.evaluate.test_engine_matches_oracle import catalogue, columns
from tests.property.streams.random_programs import Focus, Programs

PROGRAMS = int(os.environ.get("RELATION_PROGRAMS", "40"))
MOST_TUPLES = 7

texts: list[Any] = ["a", "b", "ç", None]
integers: list[Any] = [0, 1, 2, 3, -4, None]
floats: list[Any] = [0.0, -0.0, 0.5, 1.5, -2.5, 0.1, None]
booleans: list[Any] = [True, False, None]


def few_tuples(rng: np.random.Generator) -> Rows:
    """Tuples of a stream, at timestamps that are often the same."""
    count = int(rng.integers(1, MOST_TUPLES + 1))
    timestamps = np.cumsum(rng.choice([0, 0, 1, 1, 2, 6], count)).tolist()
    picked = [
        [values[at] for at in rng.integers(len(values), size=count).tolist()]
        for values in (texts, integers, floats, booleans)
    ]
    return list(zip(timestamps, zip(*picked, strict=True), strict=True))


def periodic(rng: np.random.Generator, statement: str) -> str:
    """The same relation, shown at releases."""
    body = statement[statement.index("(") :]
    begin, length = int(rng.choice([0, 0, 2, 5])), int(rng.choice([1, 4, 12]))
    limits = f"STIME {begin} MILLISECONDS " if begin else ""
    limits += f"ETIME {begin + length} MILLISECONDS " if rng.random() < 0.4 else ""
    period = int(rng.integers(1, 6))
    offset = f" OFFSET {int(rng.integers(period))} MILLISECONDS" if rng.random() < 0.5 else ""
    return f"RSTREAM{body} RTSPEC {limits}PERIOD {period} MILLISECONDS{offset}"


@pytest.mark.parametrize("released", [False, True], ids=["", "periodic"])
@pytest.mark.parametrize("focus", list(Focus), ids=lambda focus: focus.name.lower())
def test_random_relations(focus: Focus, *, released: bool) -> None:
    first = int(os.environ.get("RELATION_SEED", "0"))
    for seed in range(first, first + PROGRAMS):
        rng = np.random.default_rng(seed)
        body = Programs(rng, focus).statement()
        text = f"REGISTER QUERY q {periodic(rng, body) if released else body};"
        told = f"seed {seed}: {text}"
        try:
            (statement,) = parse(text)
            program = compile_statement(statement, catalogue)
        except ValueError as error:
            raise AssertionError(told) from error
        inputs = {stream: few_tuples(rng) for stream in program.inputs}
        until_ms = max(rows[-1][0] for rows in inputs.values()) + int(rng.choice([0, 1, 9]))
        named = {
            stream: [(at, dict(zip(columns, row, strict=True))) for at, row in rows]
            for stream, rows in inputs.items()
        }
        expected = oracle.evaluate(statement, named, until_ms)
        runs = list(evaluations(program, inputs, until_ms, rng))
        found: dict[int, Counter[Any]] = {}
        for at_ms, *row in runs[0][0]:
            found.setdefault(at_ms, Counter())[tuple(row)] += 1
        assert found == expected, told
        for emitted, state in runs[1:]:
            assert repr(emitted) == repr(runs[0][0]), told
            assert state == runs[0][1], told
