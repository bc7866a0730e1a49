"""A window that gives up rows which TOP never shows gives the rows of one that keeps them all.

Statements and inputs are random. Each is evaluated with the window that gives up rows, in different
ways of delivery with snapshots on the way (`test_passes.py`), and with the plain one, whose rows
have the same order. Which rows are the first ones is compared with the definition (`stepwise.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streams.evaluate.stepwise import incremental
from streams.operators import row_log
from streams.operators.ranked_window import RankedWindow
from streams.plan.choice import ranks_panes
from streams.plan.program import Program
from tests.long_tests import mostly_long
from tests.property.streams.array_evaluations import by_definition
from tests.property.streams.evaluate.stepwise.test_passes import compiled as program_of
from tests.property.streams.evaluate.stepwise.test_passes import evaluations, tuples

STATEMENTS_AT_ONCE = 60

RANKED = ["i", "x", "k", "b", "x * 2", "i % 3", "_ts", "-x", "x * i", "concat(k, 'a')"]
CONDITIONS = ["", "", " WHERE x > 0", " WHERE b OR i < 2", " WHERE k <> 'a'", " WHERE i > 100"]


def statement(rng: np.random.Generator) -> str:
    """A statement with TOP over one window that slides, without groups."""

    def any_of(options: list[Any]) -> Any:
        return options[int(rng.integers(len(options)))]

    shown = rng.choice(RANKED, int(rng.integers(1, 3)), replace=False).tolist()
    listed = ", ".join(f"{one} AS a{place}" for place, one in enumerate(shown))
    slide = int(rng.choice([1, 2, 5, 20]))
    span = slide if rng.random() < 0.4 else int(rng.choice([1, 2, 3, 10, 60]))
    offset = int(rng.integers(slide))
    place = f" OFFSET {offset} MILLISECONDS" if offset else ""
    window = f"[RANGE {span} MILLISECONDS SLIDE {slide} MILLISECONDS{place}]"
    if rng.random() < 0.15:
        window = "[NOW]"
    ranked = rng.choice(RANKED, int(rng.integers(1, 3)), replace=False).tolist()
    by = ", ".join(f"{one}{any_of(['', ' ASC'])}" for one in ranked)
    partition = f" PARTITION BY {any_of(['k', 'b', 'x', 'k, b'])}" if rng.random() < 0.6 else ""
    to_stream = any_of(["RSTREAM", "ISTREAM", "ISTREAM", "DSTREAM"])
    top = f" TOP {rng.integers(1, 4)} BY {by}{partition}"
    return f"{to_stream}(SELECT {listed} FROM s {window}{any_of(CONDITIONS)}{top})"


@pytest.mark.parametrize("block", mostly_long(range(4)))
def test_rows_that_never_show_are_not_missed(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    given_up = 0
    for seed in (*range(block * STATEMENTS_AT_ONCE, (block + 1) * STATEMENTS_AT_ONCE - 1), fresh):
        rng = np.random.default_rng(seed)
        text = statement(rng)
        given_up += check(text, rng, monkeypatch, f"seed {seed}: {text}")
    assert given_up > STATEMENTS_AT_ONCE // 4


def never(_: Program) -> bool:
    return False


def check(text: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, told: str) -> bool:
    """Check a statement; returns whether rows were given up."""
    program = program_of(text)
    assert ranks_panes(program), told
    monkeypatch.setattr(row_log, "FIRST_CAPACITY", int(rng.choice([2, 64])))
    inputs = {"s": tuples(rng)}
    until_ms = inputs["s"][-1][0] + int(rng.choice([0, 1, 100]))
    with monkeypatch.context() as patch:
        patch.setattr(incremental, "ranks_panes", never)
        plain, _ = next(evaluations(program, inputs, until_ms, rng, only=1))
    expected = by_definition(program, inputs, until_ms)
    assert _in_any_order(plain) == _in_any_order(expected), told
    hidden: list[bool] = []
    showing = RankedWindow.rows_to_keep

    def noted(self: RankedWindow, *given: Any) -> Any:
        found = showing(self, *given)
        hidden.append(found is not None and not found.all())
        return found

    states: list[list[bytes]] = []
    with monkeypatch.context() as patch:
        patch.setattr(RankedWindow, "rows_to_keep", noted)
        for emitted, state in evaluations(program, inputs, until_ms, rng):
            assert repr(emitted) == repr(plain), told
            states.append(state)
    assert states[0] == states[1] == states[2], told
    return any(hidden)


def _in_any_order(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))
