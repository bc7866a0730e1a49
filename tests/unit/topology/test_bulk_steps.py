"""The two rules that move many coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from foundation.arrays import FloatArray
from topology.bulk_coordinates import BulkCoordinates
from topology.bulk_steps import Averaged, Timestep, relax
from topology.latency_samples import LatencySamples
from topology.vivaldi import AdaptiveTimestep, ConstantTimestep

NODES = 6


def scattered() -> BulkCoordinates:
    """Nodes with some measurements behind them, centred at zero."""
    positions_ms = np.random.default_rng(3).uniform(-50, 50, (NODES, 2))
    return BulkCoordinates(
        positions_ms=positions_ms - positions_ms.mean(axis=0), errors=np.full(NODES, 0.4)
    )


def all_pairs() -> LatencySamples:
    nodes, peers = np.nonzero(~np.eye(NODES, dtype=bool))
    rtt_ms = 10.0 + 7 * np.abs(nodes - peers)
    return LatencySamples(nodes=nodes, peers=peers, rtt_ms=rtt_ms)


def guttman(positions_ms: FloatArray, rtt_ms: FloatArray) -> FloatArray:
    """X' = B(X) X / n (de Leeuw, 1977), for centred coordinates."""
    apart_ms = np.linalg.norm(positions_ms[:, None] - positions_ms, axis=2)
    np.fill_diagonal(apart_ms, 1.0)
    b = -rtt_ms / apart_ms
    np.fill_diagonal(b, 0.0)
    np.fill_diagonal(b, -b.sum(axis=1))
    return b.dot(positions_ms) / len(positions_ms)


def test_averaged_with_all_pairs_known_is_the_guttman_transform_of_smacof() -> None:
    """Of n nodes each has n − 1 peers: the gain (n − 1) / n is the transform undamped."""
    placed = scattered()
    samples = all_pairs()
    rtt_ms = np.zeros((NODES, NODES))
    rtt_ms[samples.nodes, samples.peers] = samples.rtt_ms
    moved = relax(
        placed,
        samples,
        rng=np.random.default_rng(),
        timestep=Averaged(gain=(NODES - 1) / NODES, rtt_exponent=0),
    )
    np.testing.assert_allclose(moved.positions_ms, guttman(placed.positions_ms, rtt_ms))


@pytest.mark.parametrize("timestep", [Averaged(), AdaptiveTimestep(), ConstantTimestep()])
def test_the_given_arrays_stay_as_they_are(timestep: Timestep) -> None:
    placed = scattered()
    # One that starts over, too: its array must not change either.
    placed.positions_ms[2] = np.nan
    given = placed.positions_ms.copy(), placed.errors.copy()
    samples = all_pairs()
    samples = samples.take(samples.peers != 2)
    relax(placed, samples, rng=np.random.default_rng(1), timestep=timestep)
    np.testing.assert_array_equal(placed.positions_ms, given[0])
    np.testing.assert_array_equal(placed.errors, given[1])


def test_broken_are_those_with_any_part_that_is_no_number() -> None:
    positions_ms = np.array([[0, 0], [np.nan, 0], [0, np.inf], [1, 1]])
    placed = BulkCoordinates(positions_ms=positions_ms, errors=np.array([1, 1, 1, np.nan]))
    assert placed.broken().tolist() == [False, True, True, True]
