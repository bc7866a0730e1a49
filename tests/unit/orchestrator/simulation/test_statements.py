"""Statements of random settings."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.simulation.setting import COLUMNS
from orchestrator.simulation.statements import FIRST_FORMS, FORMS, random_statement, stated
from streams.compiler import compile_statement
from streams.language import parse

STREAMS = ["s1", "s2"]


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
