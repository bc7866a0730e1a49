"""Vivaldi on whole networks: it converges where it can, and never stops being numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.vivaldi import Adaptive, Constant, Coordinate, Vivaldi


def embed(
    rtt_ms: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    seed: int,
    timestep: Adaptive | Constant,
    rounds: int,
) -> float:
    """Median relative error after `rounds` exchanges of every node with a random peer."""
    rng = np.random.default_rng(seed)
    n = len(rtt_ms)
    nodes = [Vivaldi(2, rng, timestep=timestep) for _ in range(n)]
    for _ in range(rounds):
        for i, node in enumerate(nodes):
            j = int(rng.integers(n - 1))
            j += j >= i
            node.observe(str(j), float(rtt_ms[i, j]), nodes[j].coordinate)
    errors = [
        abs(float(np.linalg.norm(nodes[i].position_ms - nodes[j].position_ms)) - rtt_ms[i, j])
        / rtt_ms[i, j]
        for i in range(n)
        for j in range(i)
    ]
    return float(np.median(errors))


@pytest.mark.parametrize("timestep", [Adaptive(), Constant(delta=0.1, rest_ms=0.1)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_converges_on_a_metric_matrix(seed: int, timestep: Adaptive | Constant):
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
    assert embed(rtt_ms, 1, Adaptive(), rounds=150) < 0.15


floats = st.floats(allow_nan=True, allow_infinity=True)
samples = st.tuples(st.sampled_from("abc"), floats, st.tuples(floats, floats), floats)


@settings(max_examples=200, deadline=None)
@given(st.lists(samples, max_size=30), st.sampled_from([Adaptive(), Constant(delta=1)]))
def test_is_never_anything_but_numbers(
    given_samples: list[tuple[str, float, tuple[float, float], float]],
    timestep: Adaptive | Constant,
):
    node = Vivaldi(2, np.random.default_rng(0), timestep=timestep)
    for peer, rtt_ms, position_ms, error in given_samples:
        node.observe(peer, rtt_ms, Coordinate(position_ms=position_ms, error=error))
        assert np.all(np.isfinite(node.position_ms))
        assert math.isfinite(node.error)
        assert 0 < node.error <= 1.5
    assert node.rejected <= len(given_samples)
