"""Event timestamps as people read them."""

from __future__ import annotations

import numpy as np
import pytest

from foundation.timestamps import timestamp_text
from streams.vectors.chunk import NO_WATERMARK


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_633_608_001_500, "2021-10-07T12:00:01.500Z"),
        (NO_WATERMARK, "the beginning"),
        (2**61, f"{2**61} ms"),
    ],
)
def test_a_timestamp_is_a_time_of_day_where_calendars_reach(at_ms: int, text: str) -> None:
    assert timestamp_text(at_ms) == text


def test_a_timestamp_may_come_from_an_array() -> None:
    # A host that cannot tell of what a loop has dropped would end, wherever it is started again.
    assert timestamp_text(np.array([1_500])[0]) == "1970-01-01T00:00:01.500Z"
