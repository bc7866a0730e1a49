"""Regions of the latency space."""

from __future__ import annotations

import numpy as np
import pytest

from foundation.arrays import FloatArray, IntArray
from topology.regions import RegionsError, fit_centres, label

CENTRES = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]])


def clouds(seed: int, each: int = 50) -> FloatArray:
    spread = np.random.default_rng(seed).normal(scale=3, size=(3 * each, 2))
    return np.repeat(CENTRES, each, axis=0) + spread


def regions(positions_ms: FloatArray, count: int, *, seed: int) -> tuple[FloatArray, IntArray]:
    """Centres, and the region of each position."""
    centres_ms = fit_centres(positions_ms, count, seed=seed)
    return centres_ms, label(positions_ms, centres_ms)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_finds_clusters_that_are_there(seed: int) -> None:
    centres_ms, labels = regions(clouds(seed), 3, seed=seed)
    assert len(centres_ms) == 3
    for first in (0, 50, 100):
        assert len(set(labels[first : first + 50].tolist())) == 1
    nearest = np.linalg.norm(centres_ms[:, None] - CENTRES[None], axis=2).min(axis=1)
    assert nearest.max() < 3


def test_same_seed_same_regions() -> None:
    one, other = (regions(clouds(1), 7, seed=5) for _ in range(2))
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_every_region_has_nodes_and_every_node_a_region() -> None:
    centres_ms, labels = regions(clouds(1), 10, seed=5)
    assert labels.shape == (150,)
    assert set(labels.tolist()) == set(range(len(centres_ms)))


def test_a_node_belongs_to_the_region_with_the_nearest_centre() -> None:
    centres_ms, labels = regions(clouds(1), 3, seed=5)
    distance_ms = np.linalg.norm(clouds(1)[:, None] - centres_ms[None], axis=2)
    np.testing.assert_array_equal(labels, distance_ms.argmin(axis=1))


def test_labels_of_nodes_that_were_not_fitted_to() -> None:
    centres_ms = fit_centres(clouds(1), 3, seed=5)
    labels = label(CENTRES, centres_ms)
    assert sorted(labels.tolist()) == [0, 1, 2]


def test_fewer_places_than_regions_leave_no_region_empty() -> None:
    centres_ms, _ = regions(np.repeat(CENTRES, 4, axis=0), 6, seed=1)
    assert len(centres_ms) == 3


@pytest.mark.parametrize("count", [0, 151])
def test_count_out_of_range_is_named(count: int) -> None:
    with pytest.raises(RegionsError, match=f"{count} regions of 150 nodes"):
        regions(clouds(1), count, seed=1)


def test_node_without_a_number_is_named() -> None:
    positions_ms = clouds(1)
    positions_ms[17, 1] = float("nan")
    with pytest.raises(RegionsError, match="node 17 has no coordinate"):
        regions(positions_ms, 3, seed=1)


def test_positions_that_do_not_fit_are_refused() -> None:
    centres_ms, _ = regions(clouds(1), 3, seed=1)
    with pytest.raises(RegionsError, match="positions have 3 dimensions, centres 2"):
        label(np.zeros((1, 3)), centres_ms)
    with pytest.raises(RegionsError, match=r"shape \(0, 2\)"):
        regions(np.zeros((0, 2)), 1, seed=1)
