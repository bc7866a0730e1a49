"""Statements of random settings."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.simulation.trials.setting import COLUMNS
from orchestrator.simulation.trials.statements import (
    FIRST_FORMS,
    FORMS,
    MOST_FACTORS,
    SHOWN_AGAIN,
    factors_of,
    random_statement,
    stated,
)
from streams.language import parse
from streams.plan.compiler import compile_statement

STREAMS = {"s1": 1, "s2": 1}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_columns_that_all_streams_have(form: str) -> None:
    body = stated(np.random.default_rng(1), form, "s1", "s2", 2)
    (statement,) = parse(f"REGISTER QUERY f {body};")
    assert compile_statement(statement, dict.fromkeys(STREAMS, COLUMNS)).columns == COLUMNS


def test_half_of_the_statements_are_of_forms_that_came_later() -> None:
    rng = np.random.default_rng(1)
    drawn = [random_statement(rng, "f", STREAMS, 2) for _ in range(400)]
    again = np.random.default_rng(1)
    first = {random_statement(again, "f", STREAMS, 2, first_forms=True) for _ in range(4000)}
    later = [each for each in drawn if each not in first]
    assert 150 < len(later) < 250
    assert set(FIRST_FORMS) < set(FORMS)


def test_joins_of_joins_do_not_multiply_without_bound() -> None:
    rng = np.random.default_rng(1)
    factors = {"s": 1}
    for number in range(300):
        name = f"f{number}"
        (statement,) = parse(random_statement(rng, name, factors, 2))
        made = compile_statement(statement, dict.fromkeys(factors, COLUMNS))
        factors[name] = factors_of(made, factors)
    assert max(factors.values()) == MOST_FACTORS


def test_groups_of_groups_that_are_shown_at_every_timestamp_do_not_multiply_without_bound() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        text = random_statement(rng, "f", {"s": MOST_FACTORS - 1}, 2)
        assert "stddev" not in text
    (statement,) = parse(f"REGISTER QUERY f {stated(rng, 'deviation', 's', 's', 2)};")
    made = compile_statement(statement, {"s": COLUMNS})
    assert factors_of(made, {"s": 2}) == 2 * SHOWN_AGAIN
