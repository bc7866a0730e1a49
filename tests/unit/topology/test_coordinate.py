"""Distances of coordinates."""

from __future__ import annotations

import pytest

from topology.coordinate import Coordinate, CoordinateError


def at(*position_ms: float) -> Coordinate:
    return Coordinate(position_ms=position_ms, error=0.1)


def test_a_distance_is_euclids():
    assert at(0, 0).distance_ms(at(3, 4)) == 5


def test_coordinates_of_two_spaces_have_no_distance():
    with pytest.raises(CoordinateError, match="coordinate has 3 dimensions"):
        at(0, 0).distance_ms(at(0, 0, 0))
