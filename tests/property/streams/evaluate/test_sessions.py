"""Groups that are sessions give what the definition gives, row for row, with either kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streams.evaluate import sessions
from streams.kernels import compiled, reference
from streams.plan.choice import EvaluationWay
from tests.long_tests import mostly_long
from tests.property.streams.array_evaluations import check_evaluation
from tests.property.streams.evaluate.panes.test_panes import CONDITIONS, NUMBERS, OTHERS

STATEMENTS_AT_ONCE = 50

KEYS = [("k",), ("i",), ("b",), ("k", "b"), ("b", "i", "k")]
AGGREGATES = [one for one in (*NUMBERS, *OTHERS) if one != "exact_sum(k)"]


def statement(rng: np.random.Generator) -> str:
    """A statement that sessions evaluate, if the gap is longer than a millisecond."""

    def any_of(options: list[Any]) -> Any:
        return options[int(rng.integers(len(options)))]

    keys = list(any_of(KEYS))
    chosen = rng.choice(AGGREGATES, int(rng.integers(0, 4)), replace=False).tolist()
    shown = keys if rng.random() < 0.7 or not chosen else keys[1:]
    listed = [*shown, *(f"{one} AS a{place}" for place, one in enumerate(chosen))]
    window = f"s [SESSION {rng.integers(1, 12)} MILLISECONDS PARTITION BY {', '.join(keys)}]"
    grouping = ", ".join(rng.permutation(keys).tolist())
    having = f" HAVING {any_of(NUMBERS)} > 1" if rng.random() < 0.3 else ""
    where = any_of(CONDITIONS)
    return f"RSTREAM(SELECT {', '.join(listed)} FROM {window}{where} GROUP BY {grouping}{having})"


@pytest.mark.parametrize("block", mostly_long(range(5)))
def test_sessions_give_the_rows_of_the_definition(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    for seed in (*range(block * STATEMENTS_AT_ONCE, (block + 1) * STATEMENTS_AT_ONCE), fresh):
        rng = np.random.default_rng(seed)
        text = statement(rng)
        monkeypatch.setattr(sessions, "FIRST_SESSIONS", int(rng.choice([1, 64])))
        monkeypatch.setattr(sessions, "ADDED_AT_ONCE", int(rng.choice([1, 3, 1 << 14])))
        monkeypatch.setattr(sessions, "COMPACT_FROM", int(rng.choice([2, 4096])))
        monkeypatch.setattr(sessions, "SETTLE_ROWS", int(rng.choice([3, 1 << 30])))
        short = "SESSION 1 MILLISECONDS" in text
        way = EvaluationWay.STEPWISE if short else EvaluationWay.SESSIONS
        check_evaluation(text, way, rng, (reference, compiled), f"seed {seed}: {text}")
