"""Compares an evaluation over arrays with the definition, with each kind of kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from streams.evaluate import engine
from streams.kernels import kernels
from streams.plan.choice import EvaluationWay
from streams.plan.program import Program
from tests.property.streams.evaluate.stepwise.test_passes import Rows, compiled, evaluations, tuples
from tests.property.streams.evaluate.test_engine_matches_oracle import columns
from tests.property.streams.stepwise import Stepwise


def by_definition(
    program: Program, inputs: Mapping[str, Rows], until_ms: int
) -> list[tuple[Any, ...]]:
    """The rows of a program, each with its timestamp, of inputs with all columns."""
    names = ["_ts", *columns]
    read = {
        stream: [
            (at, tuple((at, *row)[names.index(name)] for name in program.reads[stream]))
            for at, row in rows
        ]
        for stream, rows in inputs.items()
    }
    return [(at, *row) for at, row in Stepwise(program).run(read, until_ms)]


def force_stepwise(patch: pytest.MonkeyPatch) -> None:
    """Evaluate stepwise what has a faster way, too."""

    def stepwise(_: Program) -> EvaluationWay:
        return EvaluationWay.STEPWISE

    patch.setattr(engine, "way_of", stepwise)


def check_evaluation(
    text: str,
    way: EvaluationWay,
    rng: np.random.Generator,
    modules: Sequence[ModuleType],
    told: str,
) -> None:
    """Check a statement on random tuples, delivered in one way for each module of kernels.

    Parameters
    ----------
    text
        The statement's body.
    way
        The one in which the statement must be evaluated.
    modules
        The kernels.
    told
        What to say if rows differ.
    """
    program = compiled(text)
    assert engine.way_of(program) is way, told
    inputs = {stream: tuples(rng) for stream in program.inputs}
    until_ms = max(rows[-1][0] for rows in inputs.values()) + int(rng.choice([0, 1, 100]))
    expected = by_definition(program, inputs, until_ms)
    states: list[list[bytes]] = []
    for module in modules:
        kernels.use(module)
        for emitted, state in evaluations(program, inputs, until_ms, rng, int(rng.integers(3))):
            assert repr(emitted) == repr(expected), told
            states.append(state)
    assert all(state == states[0] for state in states), told
