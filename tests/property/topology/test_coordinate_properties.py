"""Distances of coordinates are distances."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from topology.coordinate import Coordinate

components_ms = st.floats(-1e4, 1e4)
coordinates = st.builds(
    Coordinate, position_ms=st.tuples(components_ms, components_ms), error=st.just(1.0)
)


@given(coordinates, coordinates)
def test_it_is_as_far_there_as_back(one: Coordinate, other: Coordinate):
    assert one.distance_ms(other) == other.distance_ms(one)
    assert one.distance_ms(other) >= 0


@given(coordinates, coordinates, coordinates)
def test_a_way_round_is_no_shorter(one: Coordinate, between: Coordinate, other: Coordinate):
    around_ms = one.distance_ms(between) + between.distance_ms(other)
    assert one.distance_ms(other) <= around_ms * (1 + 1e-12) + 1e-9


@given(coordinates)
def test_a_coordinate_is_nowhere_else(alone: Coordinate):
    assert alone.distance_ms(alone) == 0
