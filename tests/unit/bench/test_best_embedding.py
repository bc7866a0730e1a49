"""The yardstick: what can be embedded is, and SMACOF agrees with scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.manifold import smacof as reference

from bench.best_embedding import (
    EmbeddingError,
    best,
    classical,
    completed,
    relative_errors,
    smacof,
)
from bench.networks.generators import ring


def plane(nodes: int, seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Distances of points scattered over a plane, ms."""
    points_ms = np.random.default_rng(seed).uniform(0, 100, size=(nodes, 2))
    return cdist(points_ms, points_ms)


def test_a_planar_set_is_recovered():
    rtt_ms = plane(12, seed=1)
    assert relative_errors(rtt_ms, classical(rtt_ms, 2)).p90 < 1e-6
    found = best(rtt_ms, 2, np.random.default_rng(1))
    assert found.errors.median < 1e-6


@pytest.mark.parametrize("rtt_exponent", [0, 1, 2])
def test_a_planar_set_is_recovered_from_a_random_start(rtt_exponent: int):
    rtt_ms = plane(12, seed=2)
    start_ms = np.random.default_rng(3).normal(size=(12, 2))
    found = smacof(rtt_ms, start_ms, rtt_exponent=rtt_exponent)
    assert relative_errors(rtt_ms, found).median < 0.01


def test_missing_pairs_are_recovered_too():
    rtt_ms = plane(20, seed=4)
    rng = np.random.default_rng(5)
    hidden = np.triu(rng.random(rtt_ms.shape) < 0.2, k=1)
    known_ms = np.where(hidden | hidden.T, np.nan, rtt_ms)
    found = best(known_ms, 2, np.random.default_rng(1))
    assert relative_errors(known_ms, found.positions_ms).each.size < 20 * 19 / 2
    assert relative_errors(rtt_ms, found.positions_ms).p90 < 0.01


def test_unknown_pairs_count_as_their_shortest_detour():
    rtt_ms = np.array([[0, 3, np.nan], [3, 0, 4], [np.nan, 4, 0]])
    assert completed(rtt_ms).tolist() == [[0, 3, 7], [3, 0, 4], [7, 4, 0]]


def test_plain_smacof_lowers_the_stress_as_far_as_scikit_learns():
    # A ring fits no line: there is stress left to agree on.
    rtt_ms = ring(9, 10).rtt_ms
    start_ms = np.random.default_rng(6).normal(scale=20, size=(9, 2))
    ours = smacof(rtt_ms, start_ms)
    _, theirs = reference(
        rtt_ms, n_components=2, init=start_ms, n_init=1, max_iter=1000, eps=1e-9,
        normalized_stress=False,
    )  # fmt: skip
    stress = float(np.sum((cdist(ours, ours) - rtt_ms) ** 2) / 2)
    assert stress == pytest.approx(theirs, rel=1e-2)


@pytest.mark.parametrize("rtt_exponent", [0, 1, 2])
def test_no_step_raises_the_stress(rtt_exponent: int):
    rtt_ms = ring(8, 10).rtt_ms
    x = np.random.default_rng(7).normal(scale=20, size=(8, 2))
    weights = np.where(rtt_ms > 0, np.where(rtt_ms > 0, rtt_ms, 1.0) ** -rtt_exponent, 0)
    stresses = list[float]()
    for _ in range(30):
        stresses.append(float(np.sum(weights * (cdist(x, x) - rtt_ms) ** 2)))
        x = smacof(rtt_ms, x, rtt_exponent=rtt_exponent, max_steps=1)
    assert np.all(np.diff(stresses) <= 1e-9 * stresses[0])
    assert stresses[-1] < 0.5 * stresses[0]


def test_the_best_is_no_worse_than_its_start():
    rtt_ms = ring(10, 10).rtt_ms
    found = best(rtt_ms, 1, np.random.default_rng(8))
    assert found.errors.median <= relative_errors(rtt_ms, classical(rtt_ms, 1)).median


def test_errors_count_each_known_pair_once():
    rtt_ms = np.array([[0, 10, np.nan], [10, 0, 20], [np.nan, 20, 0]])
    errors = relative_errors(rtt_ms, np.array([[0.0], [9.0], [30.0]]))
    assert sorted(errors.each) == pytest.approx([0.05, 0.1])
    assert errors.median == pytest.approx(0.075)


@pytest.mark.parametrize("dimensions", [0, 3])
def test_ranks_that_no_table_has_are_refused(dimensions: int):
    with pytest.raises(EmbeddingError, match=f"3 nodes cannot be embedded in {dimensions} dim"):
        classical(ring(3, 10).rtt_ms, dimensions)


def test_a_table_in_two_parts_is_refused():
    parts = np.full((4, 4), np.nan)
    parts[0, 1] = parts[1, 0] = parts[2, 3] = parts[3, 2] = 5
    with pytest.raises(EmbeddingError, match="joins nodes 0 and 2"):
        classical(parts, 2)
