"""Algorithm 2 on one sample, run to its end (reliable placement, §4.2)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from topology.coordinate import Coordinate, CoordinateError
from topology.pairwise import PRINTED, PairwiseError, PairwiseVivaldi, fit_sample
from topology.vivaldi import ConstantTimestep, Vivaldi, VivaldiError

THERE = np.array([0.0, 30.0])


def fit(
    rtt_ms: float = 10.0,
    *,
    delta: float = 0.25,
    rest_ms: float = 0.1,
    mine: tuple[float, ...] = (0.0, 0.0),
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    rng = np.random.default_rng(1)
    timestep = ConstantTimestep(delta=delta, rest_ms=rest_ms)
    return fit_sample(rtt_ms, np.array(mine), THERE, timestep=timestep, rng=rng)


@pytest.mark.parametrize("rtt_ms", [10, 31, 500])
@pytest.mark.parametrize("delta", [0.01, 0.25, 1])
def test_ends_with_a_stretch_below_the_threshold(rtt_ms: float, delta: float):
    distance_ms = float(np.linalg.norm(fit(rtt_ms, delta=delta) - THERE))
    assert abs(rtt_ms - distance_ms) < 0.1


def test_moves_along_the_spring():
    assert fit(10)[0] == 0
    assert fit(10)[1] == pytest.approx(20, abs=0.1)


def test_steps_are_those_that_are_taken_across_exchanges():
    """With one peer that stays where it is, the protocol's steps are the loop's."""
    node = Vivaldi(
        2,
        np.random.default_rng(1),
        timestep=ConstantTimestep(delta=0.25, rest_ms=0.1),
        filter_samples=1,
    )
    for _ in range(100):
        node.observe("p", 10, Coordinate(position_ms=(0.0, 30.0), error=1))
    assert node.position_ms == pytest.approx(fit(10))


def test_from_the_peers_own_place_it_leaves_in_some_direction():
    left = fit(10, mine=(0.0, 30.0))
    assert float(np.linalg.norm(left - THERE)) == pytest.approx(10, abs=0.1)


def test_the_step_before_the_test_is_taken_once_at_least():
    """`repeat … until` looks at the threshold after the move."""
    assert fit(30.5, rest_ms=1, delta=0.5)[1] == pytest.approx(-0.25)


def test_ends_though_rounding_keeps_it_from_the_threshold():
    assert np.all(np.isfinite(fit(10, rest_ms=1e-300)))


@pytest.mark.parametrize("rtt_ms", [0, -1, math.nan, 10_001])
def test_impossible_round_trips_are_refused(rtt_ms: float):
    with pytest.raises(PairwiseError, match=f"rtt_ms {rtt_ms} is not in"):
        fit(rtt_ms)


def test_parameters_and_coordinates_are_checked():
    with pytest.raises(VivaldiError, match="delta 0 is not in"):
        fit(delta=0)
    with pytest.raises(PairwiseError, match="rest_ms 0 is not above 0"):
        fit(rest_ms=0)
    with pytest.raises(PairwiseError, match=r"this node's coordinate .* is not finite"):
        fit(mine=(0.0, math.inf))
    with pytest.raises(CoordinateError, match=r"has shape \(2,\), this node's \(3,\)"):
        fit(mine=(0.0, 0.0, 0.0))


def test_a_host_fits_each_sample_and_forgets_the_ones_before():
    node = PairwiseVivaldi(2, np.random.default_rng(1))
    first, second = (Coordinate(position_ms=place, error=1) for place in ((0.0, 30.0), (50.0, 0.0)))
    node.observe("a", 10, first)
    assert float(np.linalg.norm(node.position_ms - first.vector)) == pytest.approx(
        10, abs=PRINTED.rest_ms
    )
    node.observe("b", 20, second)
    assert float(np.linalg.norm(node.position_ms - second.vector)) == pytest.approx(
        20, abs=PRINTED.rest_ms
    )
    assert float(np.linalg.norm(node.position_ms - first.vector)) > 20


def test_a_host_whose_peer_is_absurdly_far_away_starts_over():
    node = PairwiseVivaldi(2, np.random.default_rng(1))
    node.observe("a", 10, Coordinate(position_ms=(1e200, 1e200), error=1))
    assert node.resets == 1
    assert node.position_ms.tolist() == [0, 0]
