"""A result depends on no tuple that is older than the statement reaches (`Program.reach_ms`)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.streams.evaluate.stepwise.test_passes import compiled, shapes, tuples
from tests.unit.streams.running import Row, output

BOUNDED = [name for name, text in shapes.items() if compiled(text).reach_ms is not None]


def results(shape: str, inputs: dict[str, list[Row]], until_ms: int, begin_ms: int) -> Counter[Any]:
    """Those from a timestamp on, as often as each is there."""
    rows = output(compiled(shapes[shape]), inputs, until_ms)
    return Counter(repr(row) for row in rows if row[0] >= begin_ms)


@pytest.mark.parametrize("shape", BOUNDED)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_what_is_older_than_a_statement_reaches_changes_no_result(shape: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = {
        stream: [(at, *values) for at, values in tuples(rng)]
        for stream in compiled(shapes[shape]).inputs
    }
    until_ms = max(row[0] for rows in inputs.values() for row in rows)
    reach_ms = compiled(shapes[shape]).reach_ms
    assert reach_ms is not None
    for begin_ms in rng.integers(0, until_ms + 1, 3).tolist():
        kept = {
            stream: [row for row in rows if row[0] >= begin_ms - reach_ms]
            for stream, rows in inputs.items()
        }
        assert results(shape, kept, until_ms, begin_ms) == results(
            shape, inputs, until_ms, begin_ms
        )
