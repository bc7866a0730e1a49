"""Distances of coordinates are distances, with heights as without."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.coordinate import MIN_HEIGHT_MS, Coordinate

components_ms = st.floats(-1e4, 1e4)


@st.composite
def coordinates(draw: st.DrawFn, count: int) -> tuple[Coordinate, ...]:
    """Several of one space."""
    height = draw(st.booleans())
    heights_ms = st.floats(MIN_HEIGHT_MS, 1e3) if height else st.none()
    return tuple(
        Coordinate(
            position_ms=(draw(components_ms), draw(components_ms)),
            error=1.0,
            height_ms=draw(heights_ms),
        )
        for _ in range(count)
    )


@given(coordinates(2))
def test_it_is_as_far_there_as_back(pair: tuple[Coordinate, ...]):
    one, other = pair
    assert one.distance_ms(other) == other.distance_ms(one)
    assert one.distance_ms(other) >= (one.height_ms or 0) + (other.height_ms or 0)


@given(coordinates(3))
def test_a_way_round_is_no_shorter(three: tuple[Coordinate, ...]):
    """Heights keep the triangle inequality: the node between is gone down and up again."""
    one, between, other = three
    around_ms = one.distance_ms(between) + between.distance_ms(other)
    assert one.distance_ms(other) <= around_ms * (1 + 1e-12) + 1e-9


@given(coordinates(1))
def test_to_itself_a_coordinate_is_as_far_as_down_and_up(alone: tuple[Coordinate, ...]):
    """A flat one is nowhere else; between two nodes of one place a packet passes both links."""
    (one,) = alone
    assert one.distance_ms(one) == pytest.approx(2 * (one.height_ms or 0))
