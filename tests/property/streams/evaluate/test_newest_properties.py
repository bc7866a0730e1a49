"""Newest rows of each key, as in stepwise evaluation, row for row, with either kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streams.evaluate import newest
from streams.kernels import compiled, reference
from streams.operators import changes_to_stream
from streams.plan.choice import EvaluationWay
from tests.property.streams.array_evaluations import check_evaluation, force_stepwise

STATEMENTS_AT_ONCE = 50

KEYS = ["k", "i", "b", "k, b", "b, i, k"]
OUTPUTS = ["k", "i", "b", "x", "x > 1 AS y", "i % 3 AS m", "concat(k, 'z') AS c", "_ts AS t"]
CONDITIONS = ["", " WHERE x > 0", " WHERE b OR i < 2", " WHERE k <> 'a'"]


def statement(rng: np.random.Generator) -> str:
    """A statement about the newest rows of each key."""

    def any_of(options: list[Any]) -> Any:
        return options[int(rng.integers(len(options)))]

    keys = any_of(KEYS)
    rows = int(rng.choice([1, 1, 1, 2, 3, 16]))
    outputs = rng.choice(OUTPUTS, int(rng.integers(1, 4)), replace=False).tolist()
    if rng.random() < 0.5:
        outputs += [key for key in keys.split(", ") if key not in outputs]
    to_stream = any_of(["ISTREAM", "ISTREAM", "DSTREAM"])
    window = f"[PARTITION BY {keys} ROWS {rows}]"
    return f"{to_stream}(SELECT {', '.join(outputs)} FROM s {window}{any_of(CONDITIONS)})"


@pytest.mark.parametrize("block", range(4))
def test_newest_rows_are_those_of_stepwise_evaluation(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    for seed in (*range(block * STATEMENTS_AT_ONCE, (block + 1) * STATEMENTS_AT_ONCE - 5), fresh):
        rng = np.random.default_rng(seed)
        text = statement(rng)
        monkeypatch.setattr(changes_to_stream, "FEW_ROWS", int(rng.choice([0, 32])))
        monkeypatch.setattr(newest, "FIRST_KEYS", int(rng.choice([1, 64])))
        check_evaluation(
            text, EvaluationWay.NEWEST, rng, (reference, compiled), f"seed {seed}: {text}"
        )
        if seed % 7 == 0:
            with monkeypatch.context() as patch:
                force_stepwise(patch)
                way = EvaluationWay.STEPWISE
                check_evaluation(text, way, rng, (reference,), f"stepwise, {seed}")
