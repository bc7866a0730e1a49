"""The measure of a failover, on arrivals written by hand."""

from __future__ import annotations

import pytest

from bench.silence import longest_silence_ms


@pytest.mark.parametrize(
    ("arrivals_s", "expected_ms"),
    [
        # Steady output every 100 ms: the kill goes unnoticed.
        ([9.8, 9.9, 10.0, 10.1, 10.2, 10.3, 10.4], 100),
        # The silence the kill falls into counts from the last output before it.
        ([9.8, 9.9, 10.3, 10.4], 400),
        # What was silent before the kill does not count.
        ([1.0, 9.9, 10.0, 10.1, 10.3], 200),
        # Output that stops for good is silent until watching ends,
        ([9.9, 10.0], 500),
        # as is output that never began.
        ([], 500),
        # Arrivals after that are not looked at.
        ([9.9, 10.0, 10.1, 10.4, 99.0], 300),
    ],
)
def test_longest_silence(arrivals_s: list[float], expected_ms: float) -> None:
    silence_ms = longest_silence_ms(arrivals_s, since_s=10.0, until_s=10.5)
    assert silence_ms == pytest.approx(expected_ms)
