"""Groups kept in arrays give what groups kept row by row give, and move between the two unseen.

Statements and inputs are random. Each statement is evaluated row by row, in arrays, and moving back
and forth, with either kernels, in different ways of delivery with snapshots on the way
(`test_passes.py`). Rows are compared with the definition (`stepwise.py`), states with each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streams.aggregates import contenders, folded_groups, groups
from streams.aggregates.folded_groups import FoldedGroups
from streams.kernels import compiled, kernels, reference
from streams.plan.choice import EvaluationWay, way_of
from tests.long_tests import mostly_long
from tests.property.streams.array_evaluations import by_definition, force_stepwise
from tests.property.streams.evaluate.stepwise.test_passes import compiled as program_of
from tests.property.streams.evaluate.stepwise.test_passes import evaluations, sums, texts, tuples

STATEMENTS_AT_ONCE = 50

NEVER = 10**9

KEYS = [(), ("k",), ("i",), ("b",), ("k", "b"), ("b", "i", "k")]
NUMBERS = [
    *("count(*)", "count(x)", "count(k)", "sum(i)", "sum(x)", "avg(i)", "avg(x)"),
    *("sum(x * 3 - i)", "sum(i % 5)", "avg(x / 7)", "stddev(i)", "stddev(x)", "stddev(i % 5)"),
    *("min(i)", "max(i)", "min(x)", "max(x)", "min(i % 5)", "max(x / 7)", "max(_ts)", "min(0 * x)"),
    *("first(i)", "last(i)", "first(x)", "last(x)", "last(i % 5)"),
    *("sum(length(CASE WHEN x > 0 THEN k END))", "count(CASE WHEN b THEN k END < 'b')"),
]
ONE_VALUE = ("min(", "max(", "first(", "last(")
OTHERS = [
    *("first(b)", "last(b)", "last(k)", "max(k)", "exact_sum(i)", "exact_sum(x)"),
    *("exact_squares(i)", "exact_squares(x / 7)", "exact_sum(k)"),
]
AGGREGATES = [*NUMBERS, *OTHERS]
CONDITIONS = [
    *("", " WHERE x > 0", " WHERE b OR i < 2", " WHERE k <> 'a'", " WHERE i > 100"),
    " WHERE upper(CASE WHEN i > 0 THEN k END) <> 'A'",
]
SOURCES = [
    *("s [NOW]", "s [RANGE 7 MILLISECONDS]", "s [RANGE 60 MILLISECONDS]", "s [UNBOUNDED]"),
    *("s [ROWS 1]", "s [ROWS 9]", "s [PARTITION BY k ROWS 2]", "s [SESSION 4 MILLISECONDS]"),
    *(
        "s [PARTITION BY b ROWS 3 RANGE 20 MILLISECONDS]",
        "s [SESSION 9 MILLISECONDS PARTITION BY b]",
    ),
]


def statement(rng: np.random.Generator) -> str:
    """A statement with aggregates that arrays can hold."""

    def any_of(options: list[Any]) -> Any:
        return options[int(rng.integers(len(options)))]

    keys = any_of(KEYS)
    chosen = rng.choice(AGGREGATES, int(rng.integers(1, 4)), replace=False).tolist()
    listed = [*keys, *(f"{one} AS a{place}" for place, one in enumerate(chosen))]
    grouping = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = f" HAVING {any_of(NUMBERS)} > 1" if rng.random() < 0.2 else ""
    to_stream = any_of(["RSTREAM", "ISTREAM", "ISTREAM", "DSTREAM"])
    source = f"{any_of(SOURCES)}{any_of(CONDITIONS)}"
    return f"{to_stream}(SELECT {', '.join(listed)} FROM {source}{grouping}{having})"


@pytest.mark.parametrize("block", mostly_long(range(4)))
def test_arrays_give_the_rows_of_evaluation_row_by_row(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    folded = dict.fromkeys((*ONE_VALUE, "exact"), 0)
    for seed in (*range(block * STATEMENTS_AT_ONCE, (block + 1) * STATEMENTS_AT_ONCE - 1), fresh):
        rng = np.random.default_rng(seed)
        text = statement(rng)
        if check(text, rng, monkeypatch, f"seed {seed}: {text}"):
            for one in folded:
                folded[one] += one in text
    assert min(folded.values()) >= 3, folded


def check(text: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, told: str) -> bool:
    """Check a statement; returns whether its groups were kept in arrays."""
    program = program_of(text)
    assert way_of(program) in (EvaluationWay.STEPWISE, EvaluationWay.SESSIONS), told
    force_stepwise(monkeypatch)
    monkeypatch.setattr(folded_groups, "FIRST_GROUPS", int(rng.choice([1, 64])))
    monkeypatch.setattr(folded_groups, "COMPACT_FROM", int(rng.choice([2, 4096])))
    monkeypatch.setattr(contenders, "FIRST_PLACES", int(rng.choice([1, 64])))
    folded: list[FoldedGroups] = []
    plain = FoldedGroups.__init__

    def noted(self: FoldedGroups, *given: Any, **named: Any) -> None:
        folded.append(self)
        plain(self, *given, **named)

    monkeypatch.setattr(FoldedGroups, "__init__", noted)
    inputs = {"s": tuples(rng, sums if "exact_sum(k)" in text else texts)}
    until_ms = inputs["s"][-1][0] + int(rng.choice([0, 1, 100]))
    expected = by_definition(program, inputs, until_ms)
    states: list[list[bytes]] = []
    ways = [(NEVER, NEVER), (0, NEVER), (int(rng.integers(2, 12)), 0)]
    for many, lost in ways:
        monkeypatch.setattr(groups, "MANY_CHANGES", many)
        monkeypatch.setattr(groups, "LOST_BEFORE_MOVING", lost)
        monkeypatch.setattr(groups, "MOST_MOVED", 1 if many == 0 else NEVER)
        kernels.use(reference if rng.random() < 0.3 else compiled)
        for emitted, state in evaluations(program, inputs, until_ms, rng, int(rng.integers(3))):
            assert repr(emitted) == repr(expected), told
            states.append(state)
    monkeypatch.setattr(FoldedGroups, "__init__", plain)
    assert all(state == states[0] for state in states), told
    return bool(folded)


def test_groups_move_into_arrays_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[str] = []
    for name in ("take", "saved"):
        original = getattr(FoldedGroups, name)

        def noted(self: Any, *given: Any, name: str = name, original: Any = original) -> Any:
            moves.append(name)
            return original(self, *given)

        monkeypatch.setattr(FoldedGroups, name, noted)
    monkeypatch.setattr(groups, "MANY_CHANGES", 10)
    monkeypatch.setattr(groups, "LOST_BEFORE_MOVING", 0)
    program = program_of("ISTREAM(SELECT k, sum(x) AS t FROM s [RANGE 9 MILLISECONDS] GROUP BY k)")
    rows = [(at, ("a", 1, 1.5, None)) for at in (1,) * 20 + (2, 3, 4, 5) + (6,) * 20]
    for _ in evaluations(program, {"s": rows}, 50, np.random.default_rng(1), only=0):
        pass
    assert moves.count("take") > 1
    assert "saved" in moves
