"""Joins of windows that tumble together, as in stepwise evaluation, with either kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from streams import window_join
from streams.panes import compiled, kernels, reference
from streams.program import Evaluation, Program
from tests.property.streams.array_evaluations import check_evaluation

STATEMENTS_AT_ONCE = 50

EQUAL = ["a.k = b.k", "b.i = a.i", "a.b = b.b", "a.i % 3 = b.i % 3", "concat(b.k, 'a') = a.k"]
OTHERS = ["a.x < b.x", "a.i <> b.i OR b.b", "abs(a.x - b.x) <= 2", "a.i = b.x", "a.b", "b.x > 0"]
OUTPUTS = ["a.k", "b.i", "a.x", "b.x + a.i AS y", "b.k AS l", "a._ts - b._ts AS d"]


@pytest.fixture(autouse=True)
def any_kernels() -> Iterator[None]:
    """Leave the kernels that were in use."""
    before = kernels.current()
    yield
    kernels.use(before)


def statement(rng: np.random.Generator) -> str:
    """A join of windows that tumble together."""

    def some_of(options: list[Any], least: int) -> list[Any]:
        return rng.choice(options, int(rng.integers(least, 3)), replace=False).tolist()

    length = int(rng.choice([1, 2, 5, 30]))
    offset = int(rng.integers(length))
    place = f" OFFSET {offset} MILLISECONDS" if offset else ""
    window = f"[RANGE {length} MILLISECONDS SLIDE {length} MILLISECONDS{place}]"
    if length == 1 and rng.random() < 0.5:
        window = "[NOW]"
    conditions = [*some_of(EQUAL, 1), *some_of(OTHERS, 0)]
    rng.shuffle(conditions)
    second = "s" if rng.random() < 0.3 else "t"
    listed = ", ".join(some_of(OUTPUTS, 1))
    where = " AND ".join(f"({condition})" for condition in conditions)
    return f"RSTREAM(SELECT {listed} FROM s {window} AS a, {second} {window} AS b WHERE {where})"


@pytest.mark.parametrize("block", range(6))
def test_joins_of_windows_are_those_of_stepwise_evaluation(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    for seed in (*range(block * STATEMENTS_AT_ONCE, (block + 1) * STATEMENTS_AT_ONCE - 5), fresh):
        rng = np.random.default_rng(seed)
        text = statement(rng)
        monkeypatch.setattr(window_join, "MOST_PAIRS", int(rng.choice([1, 3, 1 << 20])))
        check_evaluation(text, Evaluation.JOIN, rng, (reference, compiled), f"seed {seed}: {text}")
        if seed % 7 == 0:
            with monkeypatch.context() as patch:
                patch.setattr(Program, "equal_keys", ())
                check_evaluation(text, Evaluation.STEPWISE, rng, (reference,), f"stepwise, {seed}")
