"""Panes give what evaluation step by step gives, row for row, with either kernels.

Statements and inputs are random. Each statement is evaluated with either kernels, in different ways
of delivery with snapshots on the way (`test_passes.py`), and by the changes of relations; all are
compared with the definition (`stepwise.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streams.aggregates import distinct
from streams.evaluate.panes import evaluation, window
from streams.kernels import compiled, kernels, reference
from streams.plan.choice import EvaluationWay, way_of
from tests.long_tests import mostly_long
from tests.property.streams.array_evaluations import by_definition, force_stepwise
from tests.property.streams.evaluate.stepwise.test_passes import compiled as program_of
from tests.property.streams.evaluate.stepwise.test_passes import evaluations, sums, texts, tuples

STATEMENTS_AT_ONCE = 100

KEYS = [(), ("k",), ("i",), ("b",), ("k", "b"), ("b", "i", "k")]
NUMBERS = [
    *("count(*)", "count(x)", "count(k)", "sum(i)", "sum(x)", "avg(i)", "avg(x)"),
    *("min(i)", "max(i)", "min(x)", "max(x)", "sum(x * 3 - i)", "max(i % 5)", "max(_ts)"),
    *("first(i)", "last(i)", "first(x)", "last(x)", "last(-x)", "count(concat(k, k))"),
    *("stddev(i)", "stddev(x)", "stddev(x / 7)", "stddev(i % 5)"),
    *("sum(length(CASE WHEN x > 0 THEN k END))", "count(CASE WHEN b THEN k END < 'b')"),
]
OTHERS = [
    *("exact_sum(i)", "exact_sum(x)", "exact_squares(x / 7)", "exact_squares(i)", "exact_sum(k)"),
    *("first(b)", "last(b)", "first(k)", "last(k)", "min(k)", "max(k)"),
    *("first(upper(k))", "last(concat(k, k))", "min(substring(k, 2))", "max(replace(k, 'b', ''))"),
    *("max(concat(CASE WHEN i > 0 THEN k END, 'b'))", "first(lower(CASE WHEN b THEN k END))"),
]
DIFFERENT = [
    *("count(DISTINCT i)", "count(DISTINCT x)", "count(DISTINCT k)", "count(DISTINCT b)"),
    *("sum(DISTINCT i)", "sum(DISTINCT x)", "avg(DISTINCT x)", "avg(DISTINCT i % 3)"),
    *(
        "stddev(DISTINCT x)",
        "stddev(DISTINCT i)",
        "exact_sum(DISTINCT x)",
        "exact_squares(DISTINCT i)",
    ),
    *("count(DISTINCT CASE WHEN i > 0 THEN k END)", "sum(DISTINCT CASE WHEN b THEN -x END)"),
    *("count(DISTINCT x * 0)", "count(DISTINCT upper(k))", "exact_sum(DISTINCT k)"),
]
AGGREGATES = [*NUMBERS, *OTHERS, *DIFFERENT]
CONDITIONS = [
    *("", " WHERE x > 0", " WHERE b OR i < 2", " WHERE k <> 'a'", " WHERE i > 100"),
    " WHERE upper(CASE WHEN i > 0 THEN k END) <> 'A'",
]


def statement(rng: np.random.Generator) -> str:
    """A statement that panes evaluate."""

    def any_of(options: list[Any]) -> Any:
        return options[int(rng.integers(len(options)))]

    keys = any_of(KEYS)
    chosen = rng.choice(AGGREGATES, int(rng.integers(1, 4)), replace=False).tolist()
    shown = list(keys) if rng.random() < 0.8 else []
    listed = [*shown, *(f"{one} AS a{place}" for place, one in enumerate(chosen))]
    if len(chosen) > 1 and rng.random() < 0.2:
        number = chosen[-1] if chosen[-1] in NUMBERS else "count(*)"
        listed[-2:] = [f"coalesce({number}, 0) + 1 AS a"]
    slide = int(rng.choice([1, 2, 3, 5, 20]))
    span = slide if rng.random() < 0.4 else int(rng.choice([1, 2, 3, 4, 6, 10, 60]))
    offset = int(rng.integers(slide))
    place = f" OFFSET {offset} MILLISECONDS" if offset else ""
    sliding = f"s [RANGE {span} MILLISECONDS SLIDE {slide} MILLISECONDS{place}]"
    grouping = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = f" HAVING {any_of(NUMBERS)} > 1" if rng.random() < 0.2 else ""
    top = ""
    if rng.random() < 0.2:
        by = any_of([*chosen, *keys, "count(*)"])
        top = f" TOP {rng.integers(1, 4)} BY {by}{any_of(['', ' ASC'])}, count(*)"
        top += f" PARTITION BY {keys[0]}" if len(keys) > 1 and rng.random() < 0.5 else ""
    to_stream = any_of(["RSTREAM", "RSTREAM", "ISTREAM", "DSTREAM"])
    where = any_of(CONDITIONS)
    return f"{to_stream}(SELECT {', '.join(listed)} FROM {sliding}{where}{grouping}{having}{top})"


@pytest.mark.parametrize("block", mostly_long(range(10)))
def test_panes_give_the_rows_of_stepwise_evaluation(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    for seed in (*range(block * STATEMENTS_AT_ONCE, (block + 1) * STATEMENTS_AT_ONCE - 5), fresh):
        rng = np.random.default_rng(seed)
        text = statement(rng)
        check(text, rng, monkeypatch, f"seed {seed}: {text}")


def check(text: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    program = program_of(text)
    assert way_of(program) is EvaluationWay.PANES, told
    monkeypatch.setattr(window, "FIRST_GROUPS", int(rng.choice([1, 64])))
    monkeypatch.setattr(window, "COMPACT_FROM", int(rng.choice([2, 4096])))
    monkeypatch.setattr(distinct, "COMPACT_FROM", int(rng.choice([2, 4096])))
    monkeypatch.setattr(distinct, "FIRST_PAIRS", int(rng.choice([1, 64])))
    monkeypatch.setattr(window, "SETTLE_ROWS", int(rng.choice([3, 1 << 30])))
    monkeypatch.setattr(evaluation, "ROWS_AT_ONCE", int(rng.choice([3, 1 << 16])))
    monkeypatch.setattr(evaluation, "PACKED_FROM", int(rng.choice([1, 4, 512])))
    of_texts = "exact_sum(k)" in text or "exact_sum(DISTINCT k)" in text
    inputs = {"s": tuples(rng, sums if of_texts else [*texts, "", "ab"])}
    until_ms = inputs["s"][-1][0] + int(rng.choice([0, 1, 100]))
    expected = by_definition(program, inputs, until_ms)
    with monkeypatch.context() as patch:
        force_stepwise(patch)
        by_changes, _ = next(evaluations(program, inputs, until_ms, rng, only=1))
    if " TOP " in text:
        # The definition says which rows are the first ones, not in which order they come.
        assert repr(_in_any_order(by_changes)) == repr(_in_any_order(expected)), told
    else:
        assert repr(by_changes) == repr(expected), told
    states: list[list[bytes]] = []
    for module in (reference, compiled):
        kernels.use(module)
        ways = evaluations(program, inputs, until_ms, rng, only=int(rng.integers(3)))
        for emitted, state in ways:
            assert repr(emitted) == repr(by_changes), told
            states.append(state)
    assert all(state == states[0] for state in states), told


def _in_any_order(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: (row[0], repr(row)))
