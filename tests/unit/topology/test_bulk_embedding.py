"""The schedule of an embedding, and the spectral start it begins with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from topology.bulk_coordinates import BulkCoordinates, BulkCoordinatesError
from topology.bulk_embedding import EmbeddingSteps, Flattening, embed
from topology.latency_samples import LatencySamples, LatencySamplesError
from topology.spectral_initialisation import Basis, Moments, spectral_initialisation


def rectangle() -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], LatencySamples]:
    """All pairs of nodes in a rectangle whose sides differ."""
    points_ms = np.random.default_rng(1).uniform((0, 0), (100, 40), (60, 2))
    nodes, peers = np.nonzero(~np.eye(60, dtype=bool))
    rtt_ms = np.linalg.norm(points_ms[nodes] - points_ms[peers], axis=1)
    return points_ms, LatencySamples(nodes=nodes, peers=peers, rtt_ms=rtt_ms)


def test_spectral_initialisation_with_all_pairs_is_classical_scaling() -> None:
    points_ms, samples = rectangle()
    placed = spectral_initialisation(samples, 60, 2, np.random.default_rng(3), iterations=60)
    distances = BulkCoordinates(positions_ms=placed, errors=np.ones(60))
    assert np.median(distances.relative_errors(samples)) < 0.03
    # Axes come out in the order of their extent, the longest last.
    np.testing.assert_allclose(placed.std(axis=0), np.sort(points_ms.std(axis=0)), rtol=0.1)


def test_moments_of_blocks_add_up_to_those_of_all() -> None:
    vectors = np.random.default_rng(1).normal((3, -5), (1, 4), (50, 2))
    parts = Moments.of(vectors[:20]) + Moments.of(vectors[20:])
    whole = Moments.of(vectors)
    np.testing.assert_allclose(parts.total, whole.total)
    np.testing.assert_allclose(parts.products, whole.products)
    assert parts.count == 50


def test_basis_makes_vectors_orthonormal() -> None:
    correlated = np.random.default_rng(1).normal((3, -5, 0), (1, 4, 9), (50, 3))
    vectors = Basis.of(Moments.of(correlated)).vectors(correlated)
    np.testing.assert_allclose(vectors.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors / 50, np.eye(3), atol=1e-12)


def test_direction_in_which_nothing_varies_stays_empty() -> None:
    correlated = np.outer(np.arange(10.0), [1.0, 2.0])
    vectors = Basis.of(Moments.of(correlated)).vectors(correlated)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors.std(axis=0), [0, 1], atol=1e-6)


def test_long_round_trips_first_then_all() -> None:
    schedule = EmbeddingSteps(iterations=10, coarse_share=0.3)
    exponents = [schedule.timestep(iteration).rtt_exponent for iteration in range(10)]
    assert exponents == [0] * 3 + [1] * 7


@pytest.mark.parametrize(("share", "coarse"), [(0.0, 1), (0.5, 2), (1.0, 4)])
def test_at_least_one_relaxation_is_of_either_kind(share: float, coarse: int) -> None:
    assert EmbeddingSteps(iterations=5, coarse_share=share).coarse_iterations == coarse


def test_flattening_keeps_the_distances_of_what_is_flat() -> None:
    rng = np.random.default_rng(1)
    flat_ms = rng.normal(scale=(40, 20), size=(50, 2))
    turned, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    spacious_ms = flat_ms @ turned[:2] + 7
    found = Flattening.of(Moments.of(spacious_ms), 2).positions_ms(spacious_ms)
    apart = np.linalg.norm(found[:, None] - found[None], axis=2)
    np.testing.assert_allclose(apart, np.linalg.norm(flat_ms[:, None] - flat_ms[None], axis=2))


@pytest.mark.slow
def test_spare_dimensions_unfold_a_plane() -> None:
    rng = np.random.default_rng(1)
    points_ms = rng.uniform((0, 0), (100, 60), (2000, 2))
    nodes = np.repeat(np.arange(2000), 8)
    peers = (nodes + rng.integers(1, 2000, len(nodes))) % 2000
    rtt_ms = np.linalg.norm(points_ms[nodes] - points_ms[peers], axis=1)
    samples = LatencySamples(nodes=nodes, peers=peers, rtt_ms=rtt_ms)
    medians = list[float]()
    for spare in (0, 2):
        schedule = EmbeddingSteps(spare_dimensions=spare)
        placed = embed(samples, 2000, 2, np.random.default_rng(0), schedule=schedule)
        medians.append(float(np.median(placed.relative_errors(samples))))
    assert medians[1] < 0.01
    assert medians[1] < medians[0] / 3


def test_embedding_tells_its_progress_and_counts_what_it_refused() -> None:
    _, samples = rectangle()
    broken = LatencySamples(
        nodes=np.append(samples.nodes, 0),
        peers=np.append(samples.peers, 1),
        rtt_ms=np.append(samples.rtt_ms, -1.0),
    )
    seen = list[int]()
    placed = embed(
        broken,
        60,
        2,
        np.random.default_rng(1),
        schedule=EmbeddingSteps(iterations=5),
        watch=lambda iteration, _: seen.append(iteration),
    )
    assert seen == [1, 2, 3, 4, 5]
    # Both ends refuse it, in each of five iterations.
    assert placed.rejected == 10


def test_node_without_samples_has_a_place_and_knows_nothing() -> None:
    _, samples = rectangle()
    placed = embed(samples, 61, 2, np.random.default_rng(1))
    assert np.isfinite(placed.positions_ms).all()
    assert placed.errors[60] == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EmbeddingSteps(start_iterations=0), "start_iterations 0 is not"),
        (lambda: EmbeddingSteps(iterations=1), "iterations 1 is not"),
        (lambda: EmbeddingSteps(spare_dimensions=-1), "spare_dimensions -1 is not"),
        (lambda: EmbeddingSteps(momentum=1.0), r"momentum 1\.0 is not"),
        (lambda: EmbeddingSteps(gain=0.0), r"gain 0\.0 is not"),
        (lambda: EmbeddingSteps(coarse_share=2.0), r"coarse_share 2\.0 is not"),
    ],
)
def test_schedule_out_of_range_is_named(make: Callable[[], EmbeddingSteps], message: str) -> None:
    with pytest.raises(BulkCoordinatesError, match=message):
        make()


def test_nothing_to_embed() -> None:
    _, samples = rectangle()
    with pytest.raises(BulkCoordinatesError, match="1 nodes in 2 dimensions"):
        embed(samples, 1, 2, np.random.default_rng(1))
    with pytest.raises(LatencySamplesError, match="a sample names node 59; there are 59"):
        embed(samples, 59, 2, np.random.default_rng(1))
