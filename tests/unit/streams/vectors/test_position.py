"""Cuts through streams."""

from __future__ import annotations

import pytest

from streams.vectors.chunk import Position

HERE = Position(next_seq=5, watermark_ms=100)


@pytest.mark.parametrize(
    ("next_seq", "watermark_ms", "contradicts"),
    [
        (5, 100, False),
        (4, 100, True),
        (6, 100, True),
        (5, 101, False),
        (6, 101, False),
        (4, 101, True),
        (5, 99, False),
        (4, 99, False),
        (6, 99, True),
    ],
)
def test_cuts_of_one_stream_have_numbers_that_rise_with_their_watermarks(
    next_seq: int, watermark_ms: int, contradicts: bool
) -> None:
    other = Position(next_seq=next_seq, watermark_ms=watermark_ms)
    assert HERE.contradicts(other) is contradicts
    assert other.contradicts(HERE) is contradicts
