"""Joins by kernels give what stepwise evaluation gives, with either kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streams.evaluate.joins import key_pairs, lookup_join
from streams.kernels import compiled, reference
from streams.plan.choice import EvaluationWay
from tests.long_tests import mostly_long
from tests.property.streams.array_evaluations import check_evaluation, force_stepwise

STATEMENTS_AT_ONCE = 50

EQUAL = ["a.k = b.k", "b.i = a.i", "a.b = b.b", "a.i % 3 = b.i % 3", "concat(b.k, 'a') = a.k"]
OTHERS = ["a.x < b.x", "a.i <> b.i OR b.b", "abs(a.x - b.x) <= 2", "a.i = b.x", "a.b", "b.x > 0"]
OUTPUTS = ["a.k", "b.i", "a.x", "b.x + a.i AS y", "b.k AS l", "a._ts - b._ts AS d"]


def some_of(rng: np.random.Generator, options: list[Any], least: int) -> list[Any]:
    return rng.choice(options, int(rng.integers(least, 3)), replace=False).tolist()


def tumbling(rng: np.random.Generator) -> tuple[str, str]:
    """Windows that tumble together."""
    length = int(rng.choice([1, 2, 5, 30]))
    offset = int(rng.integers(length))
    place = f" OFFSET {offset} MILLISECONDS" if offset else ""
    window = f"[RANGE {length} MILLISECONDS SLIDE {length} MILLISECONDS{place}]"
    if length == 1 and rng.random() < 0.5:
        window = "[NOW]"
    return window, window


def statement(rng: np.random.Generator, first: str, second: str) -> str:
    """A join of two windows."""
    conditions = [*some_of(rng, EQUAL, 1), *some_of(rng, OTHERS, 0)]
    rng.shuffle(conditions)
    stream = "s" if rng.random() < 0.3 else "t"
    listed = ", ".join(some_of(rng, OUTPUTS, 1))
    where = " AND ".join(f"({condition})" for condition in conditions)
    return f"RSTREAM(SELECT {listed} FROM s {first} AS a, {stream} {second} AS b WHERE {where})"


@pytest.mark.parametrize("block", mostly_long(range(4)))
def test_joins_are_those_of_stepwise_evaluation(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    for seed in (*range(block * STATEMENTS_AT_ONCE, (block + 1) * STATEMENTS_AT_ONCE - 5), fresh):
        rng = np.random.default_rng(seed)
        lookup = block % 2 == 1
        windows = ("[UNBOUNDED]", "[NOW]") if lookup else tumbling(rng)
        text = statement(rng, *windows)
        way = EvaluationWay.LOOKUP if lookup else EvaluationWay.JOIN
        monkeypatch.setattr(lookup_join, "UNUSED_KEYS", int(rng.choice([-(10**6), 1 << 16])))
        monkeypatch.setattr(key_pairs, "MOST_PAIRS", int(rng.choice([1, 3, 1 << 20])))
        check_evaluation(text, way, rng, (reference, compiled), f"seed {seed}: {text}")
        if seed % 7 == 0:
            with monkeypatch.context() as patch:
                force_stepwise(patch)
                way = EvaluationWay.STEPWISE
                check_evaluation(text, way, rng, (reference,), f"stepwise, {seed}")
