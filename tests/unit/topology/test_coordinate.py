"""Arithmetic of coordinates with and without heights (Dabek et al. 2004, §5.4)."""

from __future__ import annotations

import numpy as np
import pytest

from topology.coordinate import Coordinate, CoordinateError, Vector


def at(*position_ms: float, height_ms: float | None = None) -> Coordinate:
    return Coordinate(position_ms=position_ms, error=0.1, height_ms=height_ms)


def test_a_flat_distance_is_euclids():
    assert at(0, 0).distance_ms(at(3, 4)) == 5


def test_a_packet_goes_down_one_height_and_up_the_other():
    assert at(0, 0, height_ms=2).distance_ms(at(3, 4, height_ms=1)) == 8


def test_heights_add_whichever_way_one_looks():
    one, other = Vector(np.array([1.0, 5.0]), 2.0), Vector(np.array([1.0, 1.0]), 3.0)
    way = one.minus(other)
    assert (way.position_ms.tolist(), way.height_ms, way.length_ms) == ([0, 4], 5, 9)
    assert way.unit().length_ms == pytest.approx(1)
    assert way.unit().height_ms == pytest.approx(5 / 9)


def test_a_move_keeps_the_minimum_height():
    here, direction = Vector(np.array([1.0]), 2.0), Vector(np.array([0.5]), 0.5)
    up = here.moved(direction, 4, 0.1)
    assert (up.position_ms.tolist(), up.height_ms) == ([3], 4)
    assert here.moved(direction, -20, 0.1).height_ms == 0.1


def test_coordinates_of_two_spaces_have_no_distance():
    with pytest.raises(CoordinateError, match="coordinate has 3 dimensions"):
        at(0, 0).distance_ms(at(0, 0, 0))
    with pytest.raises(CoordinateError, match="has a height of 1 ms"):
        at(0, 0).distance_ms(at(0, 0, height_ms=1))
    with pytest.raises(CoordinateError, match="is flat"):
        at(0, 0, height_ms=1).distance_ms(at(0, 0))
