"""Regions of the latency space."""

from __future__ import annotations

import numpy as np
import pytest

from topology.regions import RegionsError, fit_centres, label, regions

CENTRES = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]])


def clouds(seed: int, each: int = 50) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    spread = np.random.default_rng(seed).normal(scale=3, size=(3 * each, 2))
    return np.repeat(CENTRES, each, axis=0) + spread


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_finds_clusters_that_are_there(seed: int) -> None:
    found = regions(clouds(seed), 3, seed=seed)
    assert len(found) == 3
    for first in (0, 50, 100):
        assert len(set(found.labels[first : first + 50].tolist())) == 1
    nearest = np.linalg.norm(found.centres_ms[:, None] - CENTRES[None], axis=2).min(axis=1)
    assert nearest.max() < 3


def test_same_seed_same_regions() -> None:
    one, other = (regions(clouds(1), 7, seed=5) for _ in range(2))
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.centres_ms, other.centres_ms)


def test_members_of_all_regions_are_all_nodes_once() -> None:
    found = regions(clouds(1), 10, seed=5)
    members = np.concatenate([found.members(region) for region in range(len(found))])
    assert sorted(members.tolist()) == list(range(150))
    assert all(len(found.members(region)) for region in range(len(found)))


def test_nearest_regions_come_nearest_first_and_hold_the_candidates() -> None:
    found = regions(clouds(1), 3, seed=5)
    point = np.array([90.0, 30.0])
    order = found.nearest_regions(point, 9)
    distance = np.linalg.norm(found.centres_ms[order] - point, axis=1)
    assert len(order) == 3
    assert np.all(np.diff(distance) > 0)
    assert found.candidates(point, 1).tolist() == list(range(50, 100))
    assert len(found.candidates(point, 2)) == 100


def test_labels_of_nodes_that_were_not_fitted_to() -> None:
    centres_ms = fit_centres(clouds(1), 3, seed=5)
    labels = label(CENTRES, centres_ms)
    assert sorted(labels.tolist()) == [0, 1, 2]


def test_fewer_places_than_regions_leave_no_region_empty() -> None:
    found = regions(np.repeat(CENTRES, 4, axis=0), 6, seed=1)
    assert len(found) == 3


@pytest.mark.parametrize("count", [0, 151])
def test_count_out_of_range_is_named(count: int) -> None:
    with pytest.raises(RegionsError, match=f"{count} regions of 150 nodes"):
        regions(clouds(1), count, seed=1)


def test_node_without_a_number_is_named() -> None:
    positions_ms = clouds(1)
    positions_ms[17, 1] = float("nan")
    with pytest.raises(RegionsError, match="node 17 has no coordinate"):
        regions(positions_ms, 3, seed=1)


def test_questions_that_make_no_sense() -> None:
    found = regions(clouds(1), 3, seed=1)
    with pytest.raises(RegionsError, match="region 3 is not one of 3"):
        found.members(3)
    with pytest.raises(RegionsError, match=r"point \[1.0\] is not one of 2 numbers"):
        found.nearest_regions(np.array([1.0]), 1)
    with pytest.raises(RegionsError, match="0 regions were asked for"):
        found.nearest_regions(np.array([1.0, 1.0]), 0)
    with pytest.raises(RegionsError, match="positions have 3 dimensions, centres 2"):
        label(np.zeros((1, 3)), found.centres_ms)
    with pytest.raises(RegionsError, match=r"shape \(0, 2\)"):
        regions(np.zeros((0, 2)), 1, seed=1)
