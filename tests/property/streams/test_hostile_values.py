"""No value that an input accepts raises, in any function, operator, cast, aggregate or window.

Random statements (`hostile.py`) over random hostile values are evaluated in different ways of
delivery, with snapshots on the way, and compared with evaluation by the definition
(`stepwise.py`). Each run has a fresh seed, which a failure prints.
"""

from __future__ import annotations

import numpy as np
import pytest

from streams.expressions.functions import functions
from streams.plan.choice import EvaluationWay, way_of
from streams.plan.resolver import aggregate_names
from tests.long_tests import mostly_long
from tests.property.streams import hostile
from tests.property.streams.array_evaluations import by_definition
from tests.property.streams.evaluate.stepwise.test_passes import compiled, evaluations

MEETINGS = 20_000
"""So many times a statement meets the values of a tuple, in each block."""

MOST_TUPLES, MOST_JOINED = 60, 12


@pytest.mark.timeout(900)
@pytest.mark.parametrize("block", mostly_long(range(10)))
def test_hostile_values_give_rows(block: int) -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    statements = hostile.Statements(np.random.default_rng(seed))
    ways: set[EvaluationWay] = set()
    met = number = 0
    wanted = {*functions, *aggregate_names}
    # Loops consist of several statements: `evaluate/test_loops_match_oracle.py` has those.
    flat = {*EvaluationWay} - {EvaluationWay.COMPILED_LOOP, EvaluationWay.LOOP}
    # Some ways serve few statements: the block goes on until each has been met.
    while met < MEETINGS or ways != flat or not statements.expressions.seen >= wanted:
        number += 1
        body = statements.body(number)
        ways.add(way_of(compiled(body)))
        met += meet(body, seed, number)


def meet(body: str, seed: int, number: int) -> int:
    """Check that a statement gives its rows; returns how many tuples it met."""
    told = f"seed {seed}, statement {number}: {body}"
    program = compiled(body)
    rng = np.random.default_rng([seed, number])
    start_ms = hostile.any_of(rng, hostile.starts_ms)
    most = MOST_TUPLES if len(program.inputs) == 1 else MOST_JOINED
    inputs = {stream: hostile.tuples(rng, most, start_ms) for stream in program.inputs}
    until_ms = max(rows[-1][0] for rows in inputs.values()) + int(rng.choice([0, 1, 100]))
    try:
        ((emitted, _),) = evaluations(program, inputs, until_ms, rng, int(rng.integers(3)))
    except Exception as raised:
        raise AssertionError(told) from raised
    expected = by_definition(program, inputs, until_ms)
    assert not any(repr(x) == "-0.0" for row in emitted for x in row if isinstance(x, float)), told
    # To the bit; rows of a timestamp may come in any order.
    assert sorted(map(repr, emitted)) == sorted(map(repr, expected)), told
    return sum(map(len, inputs.values()))
