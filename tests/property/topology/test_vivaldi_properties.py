"""Vivaldi on whole networks: it converges where it can, and never stops being numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.arrays import FloatArray
from foundation.bounds import MAX_RTT_MS
from topology.coordinate import Coordinate
from topology.vivaldi import MAX_ERROR, MIN_ERROR, AdaptiveTimestep, ConstantTimestep, Vivaldi


def converged(
    rtt_ms: FloatArray, seed: int, timestep: AdaptiveTimestep | ConstantTimestep, rounds: int
) -> list[Coordinate]:
    """Coordinates after `rounds` exchanges of every node with a random peer."""
    rng = np.random.default_rng(seed)
    n = len(rtt_ms)
    nodes = [Vivaldi(2, rng, timestep=timestep) for _ in range(n)]
    for _ in range(rounds):
        for i, node in enumerate(nodes):
            j = int(rng.integers(n - 1))
            j += j >= i
            node.observe(str(j), float(rtt_ms[i, j]), nodes[j].coordinate)
    return [node.coordinate for node in nodes]


def errors_ms(coordinates: list[Coordinate], rtt_ms: FloatArray) -> FloatArray:
    """What distances are off by, for every pair, row by row below the diagonal."""
    return np.array(
        [
            abs(coordinates[i].distance_ms(coordinates[j]) - rtt_ms[i, j])
            for i in range(len(rtt_ms))
            for j in range(i)
        ]
    )


def embed(
    rtt_ms: FloatArray,
    seed: int,
    timestep: AdaptiveTimestep | ConstantTimestep,
    rounds: int,
) -> float:
    """Median relative error after so many rounds."""
    coordinates = converged(rtt_ms, seed, timestep, rounds)
    below = np.tril_indices(len(rtt_ms), -1)
    return float(np.median(errors_ms(coordinates, rtt_ms) / rtt_ms[below]))


def behind_access_links(seed: int, n: int) -> FloatArray:
    """Round trips in a plane, each node behind a link of its own of up to 20 ms."""
    rng = np.random.default_rng(seed)
    points_ms, access_ms = rng.uniform(0, 100, size=(n, 2)), rng.uniform(0, 20, n)
    rtt_ms = np.linalg.norm(points_ms[:, None] - points_ms[None], axis=2)
    rtt_ms = rtt_ms + access_ms[:, None] + access_ms[None]
    np.fill_diagonal(rtt_ms, 0)
    return rtt_ms


@pytest.mark.parametrize("timestep", [AdaptiveTimestep(), ConstantTimestep(delta=0.1, rest_ms=0.1)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_converges_on_a_metric_matrix(seed: int, timestep: AdaptiveTimestep | ConstantTimestep):
    points_ms = np.random.default_rng(seed).uniform(0, 100, size=(8, 2))
    rtt_ms = np.linalg.norm(points_ms[:, None] - points_ms[None], axis=2)
    assert embed(rtt_ms, seed, timestep, rounds=150) < 0.05


def test_reflects_six_european_regions():
    rtt_ms = np.array(
        [
            [0.0, 15, 12, 17, 11, 13],
            [15, 0, 20, 14, 20, 25],
            [12, 20, 0, 9, 17, 12],
            [17, 14, 9, 0, 23, 18],
            [11, 20, 17, 23, 0, 12],
            [13, 25, 12, 18, 12, 0],
        ]
    )
    assert embed(rtt_ms, 1, AdaptiveTimestep(), rounds=150) < 0.15


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_error_in_ms_tells_what_distances_are_off_by(seed: int):
    """On average over the nodes, within a factor of 2, settled or not."""
    rtt_ms = behind_access_links(seed, 12)
    for rounds in (20, 60, 200):
        coordinates = converged(rtt_ms, seed, AdaptiveTimestep(), rounds)
        told_ms = float(np.mean([each.error_ms for each in coordinates]))
        assert 0.5 < told_ms / float(np.mean(errors_ms(coordinates, rtt_ms))) < 2


floats = st.floats(allow_nan=True, allow_infinity=True)
samples = st.tuples(st.sampled_from("abc"), floats, st.tuples(floats, floats), floats)
Sample = tuple[str, float, tuple[float, float], float]
timesteps = st.sampled_from([AdaptiveTimestep(), ConstantTimestep(delta=1)])


@settings(max_examples=200, deadline=None)
@given(st.lists(samples, max_size=30), timesteps)
def test_is_never_anything_but_numbers(
    given_samples: list[Sample], timestep: AdaptiveTimestep | ConstantTimestep
):
    node = Vivaldi(2, np.random.default_rng(0), timestep=timestep)
    for peer, rtt_ms, position_ms, error in given_samples:
        node.observe(peer, rtt_ms, Coordinate(position_ms=position_ms, error=error))
        mine = node.coordinate
        assert all(map(math.isfinite, mine.position_ms))
        assert MIN_ERROR <= mine.error <= MAX_ERROR
        assert 0 <= mine.error_ms <= MAX_RTT_MS
    assert node.rejected + node.resets <= len(given_samples)


possible = st.tuples(
    st.sampled_from("abc"),
    st.floats(0.01, MAX_RTT_MS),
    st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4)),
    st.floats(0, 2),
)


@given(st.lists(possible, max_size=20), timesteps)
def test_the_same_samples_lead_to_the_same_place(
    given_samples: list[Sample], timestep: AdaptiveTimestep | ConstantTimestep
):
    def run() -> Coordinate:
        node = Vivaldi(2, np.random.default_rng(0), timestep=timestep)
        for peer, rtt_ms, position_ms, error in given_samples:
            node.observe(peer, rtt_ms, Coordinate(position_ms=position_ms, error=error))
        assert (node.rejected, node.resets) == (0, 0)
        return node.coordinate

    assert run() == run()
