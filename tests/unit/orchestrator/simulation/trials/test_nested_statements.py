"""Statements of several levels that random trials draw: the trials' oracle gives what is right."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from foundation.loop_limits import Beyond, LoopLimits
from orchestrator.simulation.trials.nested_statements import (
    fragments_of,
    loop_statements,
    nested_statement,
)
from orchestrator.simulation.trials.oracle import rows_of
from streams.evaluate.chain import FragmentChain
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from streams.vectors.chunk import Chunk, stream_schema
from tests.property.streams import oracle
from tests.property.streams.evaluate.loop_oracle import LoopOracle

COLUMNS = {"key": "int", "value": "int"}
STREAMS = {"s1": COLUMNS, "s2": COLUMNS}
UNTIL_MS = 2500


def recorded(rng: np.random.Generator, tuples: int) -> dict[str, list[tuple[int, int, int]]]:
    return {
        name: list(
            zip(
                (10 * np.sort(rng.integers(0, 200, tuples))).tolist(),
                rng.integers(0, 6, tuples).tolist(),
                rng.integers(0, 100, tuples).tolist(),
                strict=True,
            )
        )
        for name in STREAMS
    }


def made_of(
    programs: dict[str, Program], inputs: dict[str, list[tuple[int, int, int]]]
) -> dict[str, list[Any]]:
    """What the trials' oracle says of each fragment."""
    chain = FragmentChain(programs)
    for name in {each for one in programs.values() for each in one.inputs} & inputs.keys():
        rows = inputs[name]
        times_ms = np.unique([*(row[0] for row in rows), UNTIL_MS])
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=stream_schema(COLUMNS))
        chain.offer(
            name,
            Chunk(first_seq=0, rows=batch, watermarks_ms=times_ms, ingestion_times_us=times_ms),
        )
    return {name: rows_of(made.rows) for name, made in chain.advance(10**9)}


def named(inputs: dict[str, list[tuple[int, int, int]]]) -> dict[str, list[oracle.Tuple]]:
    return {
        name: [(at, {"key": key, "value": value}) for at, key, value in rows]
        for name, rows in inputs.items()
    }


@pytest.mark.parametrize("seed", range(20))
def test_relations_are_those_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = recorded(rng, 12)
    (statement,) = parse(nested_statement(rng, "f1", dict.fromkeys(STREAMS, 1), 2))
    programs = fragments_of([statement], STREAMS, LoopLimits())
    assert programs["f1"].columns == COLUMNS
    found: dict[int, Counter[Any]] = {}
    for at, *row in made_of(programs, inputs).get("f1", []):
        found.setdefault(at, Counter())[tuple(row)] += 1
    assert found == oracle.evaluate(statement, named(inputs), UNTIL_MS)


@pytest.mark.parametrize("seed", range(12))
def test_loops_are_those_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = recorded(rng, 4)
    limits = LoopLimits(int(rng.choice([12, 40])), int(rng.choice([25, 1000])), Beyond.CUT)
    text = loop_statements(rng, "f1", dict.fromkeys(STREAMS, 1), 2)
    programs = fragments_of(parse(text), STREAMS, limits)
    given = made_of(programs, inputs)
    for name, program in programs.items():
        assert program.columns == COLUMNS or name == "f1__loop"
    members = [each.name for each in parse(text)]
    (whole,) = parse(
        f"REGISTER LOOP l OF {', '.join(members)} STEPS {limits.steps} TUPLES {limits.tuples} "
        f"CUT ({text.removesuffix(';')});"
    )
    every = made_of({"l": compile_statement(whole, STREAMS)}, inputs)["l"]
    parts = dict.fromkeys(members, every)
    if len(members) > 1:
        parts = {
            name: [(at, *row[2 * place : 2 * place + 2]) for at, tag, *row in every if tag == place]
            for place, name in enumerate(members)
        }
    for name in programs.keys() & parts.keys():
        assert given.get(name, []) == parts[name]
    definition = LoopOracle(
        whole,
        named(inputs),
        {name: [*COLUMNS] for name in members},
        {name: [row[1:] for row in rows] for name, rows in parts.items()},
        10**6,
    )
    definition.run(UNTIL_MS)
    assert definition.delivered == {name: len(rows) for name, rows in parts.items()}
