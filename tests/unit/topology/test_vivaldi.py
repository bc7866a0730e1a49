"""Vivaldi step by step: the paper's rule, Dabek's weights, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from foundation.bounds import MAX_RTT_MS
from topology.coordinate import Coordinate, CoordinateError
from topology.vivaldi import MAX_ERROR, AdaptiveTimestep, ConstantTimestep, Vivaldi, VivaldiError


def vivaldi(
    timestep: AdaptiveTimestep | ConstantTimestep | None = None,
    *,
    error_gain: float = 0.25,
    filter_samples: int = 3,
) -> Vivaldi:
    return Vivaldi(
        2,
        np.random.default_rng(1),
        timestep=timestep,
        error_gain=error_gain,
        filter_samples=filter_samples,
    )


def at(*position_ms: float, error: float = 1.0) -> Coordinate:
    return Coordinate(position_ms=position_ms, error=error)


def test_algorithm_2_moves_by_delta_times_the_stretch():
    """Reliable placement §4.2: x_i ← x_i + δ·e·u(x_i − x_j); here e = 10 − 30."""
    node = vivaldi(timestep=ConstantTimestep(delta=0.5, rest_ms=0.1))
    node.observe("p", 10, at(0, 30))
    assert node.position_ms == pytest.approx([0, 10])


def test_algorithm_2_rests_below_its_threshold():
    node = vivaldi(timestep=ConstantTimestep(delta=0.5, rest_ms=2))
    node.observe("p", 31, at(0, 30))
    assert node.position_ms == pytest.approx([0, 0])


def test_adaptive_steps_are_weighted_by_who_is_unsure():
    """Dabek et al. 2004, figure 4: w = e_i/(e_i + e_j), δ = c_c·w."""
    node = vivaldi(timestep=AdaptiveTimestep(gain=0.25))
    node.observe("p", 10, at(0, 30, error=0.25))
    weight = 1 / 1.25
    assert node.position_ms == pytest.approx([0, 0.25 * weight * 20])
    # The sample is off by |10 − 30|/10 = 2, taken as MAX_ERROR.
    assert node.error == pytest.approx(MAX_ERROR * 0.25 * weight + 1 - 0.25 * weight)


def test_two_nodes_on_one_point_part_in_some_direction():
    node = vivaldi(timestep=ConstantTimestep(delta=1))
    node.observe("p", 12, at(0, 0))
    assert float(np.linalg.norm(node.position_ms)) == pytest.approx(12)


def test_one_late_packet_does_not_move_the_node():
    node = vivaldi(timestep=ConstantTimestep(delta=1), filter_samples=3)
    for rtt_ms in (30, 30, 900):
        node.observe("p", rtt_ms, at(0, 30))
    assert node.position_ms == pytest.approx([0, 0])


def test_the_filter_is_per_peer_and_discards_samples_on_demand():
    node = vivaldi(timestep=ConstantTimestep(delta=1), filter_samples=3)
    node.observe("p", 30, at(0, 30))
    node.observe("p", 30, at(0, 30))
    node.discard_samples("p")
    node.observe("p", 10, at(0, 30))
    assert node.position_ms == pytest.approx([0, 20])


@pytest.mark.parametrize("rtt_ms", [0, -1, math.nan, math.inf, 10_001])
def test_impossible_round_trips_are_counted_and_change_nothing(rtt_ms: float):
    node = vivaldi()
    node.observe("p", rtt_ms, at(0, 30))
    assert node.rejected == 1
    assert node.position_ms == pytest.approx([0, 0])
    assert node.error == 1


def test_a_peer_that_is_nowhere_is_refused():
    node = vivaldi()
    node.observe("p", 10, at(0, math.nan))
    node.observe("p", 10, at(0, 1, error=math.nan))
    assert node.rejected == 2


def test_another_number_of_dimensions_is_an_error():
    with pytest.raises(CoordinateError, match="peer 'p' has 3 dimensions, this node 2"):
        vivaldi().observe("p", 10, at(0, 0, 30))


def test_a_coordinate_that_overflows_starts_over():
    node = vivaldi()
    node.observe("p", 10, at(1.5e308, 1.5e308))
    assert node.resets == 1
    assert node.position_ms == pytest.approx([0, 0])
    assert node.coordinate == Coordinate(position_ms=(0, 0), error=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: vivaldi(ConstantTimestep(delta=0)),
        lambda: vivaldi(AdaptiveTimestep(gain=1.5)),
        lambda: vivaldi(ConstantTimestep(rest_ms=-1)),
        lambda: vivaldi(error_gain=0),
        lambda: vivaldi(filter_samples=0),
        lambda: Vivaldi(0, np.random.default_rng(1)),
    ],
)
def test_parameters_are_checked(make: Callable[[], Vivaldi]):
    with pytest.raises(VivaldiError, match="is not"):
        make()


def test_the_same_seed_gives_the_same_coordinate():
    def run() -> Coordinate:
        node = vivaldi()
        for i in range(20):
            node.observe(f"p{i % 3}", 10 + i, at(0, 0))
        return node.coordinate

    assert run() == run()


def test_error_in_ms_follows_the_stretches():
    node = vivaldi(ConstantTimestep(delta=1, rest_ms=1000), error_gain=0.5)
    assert node.coordinate.error_ms == MAX_RTT_MS
    node.observe("p", 40, at(0, 30))
    # Both are unsure alike, so that a sample counts for a quarter; the first is off by 10 of 40.
    assert node.error_ms == pytest.approx(0.25 * 10 + 0.75 * 40)
    node.reset()
    assert node.error_ms == MAX_RTT_MS
