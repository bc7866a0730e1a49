"""Many coordinates at once: they converge, come out the same, and never stop being numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.bulk_coordinates import BulkCoordinates
from topology.bulk_embedding import embed
from topology.bulk_steps import Averaged, Timestep, relax
from topology.latency_samples import LatencySamples
from topology.vivaldi import MAX_ERROR, MIN_ERROR, AdaptiveTimestep, ConstantTimestep

TIMESTEPS = [
    Averaged(),
    Averaged(gain=1, rtt_exponent=2),
    AdaptiveTimestep(),
    ConstantTimestep(delta=1),
]


def planar_net(nodes: int, peers: int, seed: int, noise: float = 0.0) -> LatencySamples:
    """Each node measures random peers on a plane of 100 ms × 100 ms."""
    rng = np.random.default_rng(seed)
    points_ms = rng.uniform(0, 100, (nodes, 2))
    measuring = np.repeat(np.arange(nodes), peers)
    measured = (measuring + rng.integers(1, nodes, len(measuring))) % nodes
    rtt_ms = np.linalg.norm(points_ms[measuring] - points_ms[measured], axis=1)
    rtt_ms *= np.exp(rng.normal(scale=noise, size=len(rtt_ms)))
    return LatencySamples(nodes=measuring, peers=measured, rtt_ms=rtt_ms)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_unmeasured_pairs_of_a_plane_are_predicted(seed: int) -> None:
    samples = planar_net(400, 10, seed)
    held_out = np.random.default_rng(seed).random(len(samples)) < 0.05
    placed = embed(samples.take(~held_out), 400, 2, np.random.default_rng(seed))
    assert np.median(placed.relative_errors(samples.take(held_out))) < 0.01


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_prediction_is_as_good_as_noise_allows(seed: int) -> None:
    noise = 0.1
    samples = planar_net(400, 10, seed, noise)
    held_out = np.random.default_rng(seed).random(len(samples)) < 0.05
    placed = embed(samples.take(~held_out), 400, 2, np.random.default_rng(seed))
    # Half of all log-normal noise is within 0.67 of its deviation; as much again is allowed.
    assert np.median(placed.relative_errors(samples.take(held_out))) < 2 * 0.67 * noise


@pytest.mark.parametrize("timestep", [AdaptiveTimestep(), ConstantTimestep(delta=0.1)])
def test_protocol_converges_from_position_zero_with_all_pairs(timestep: Timestep) -> None:
    points_ms = np.random.default_rng(1).uniform(0, 100, (12, 2))
    nodes, peers = np.nonzero(~np.eye(12, dtype=bool))
    rtt_ms = np.linalg.norm(points_ms[nodes] - points_ms[peers], axis=1)
    samples = LatencySamples(nodes=nodes, peers=peers, rtt_ms=rtt_ms)
    rng = np.random.default_rng(2)
    placed = BulkCoordinates(positions_ms=np.zeros((12, 2)), errors=np.ones(12))
    for _ in range(40):
        placed = relax(
            placed, samples.take(rng.permutation(len(samples))), rng=rng, timestep=timestep
        )
    assert np.median(placed.relative_errors(samples)) < 0.02


def test_error_estimates_tell_who_is_badly_placed() -> None:
    samples = planar_net(200, 10, 1)
    spoilt = (samples.nodes < 20) | (samples.peers < 20)
    factor = np.where(spoilt, np.exp(np.random.default_rng(5).normal(size=len(samples))), 1)
    worse = LatencySamples(nodes=samples.nodes, peers=samples.peers, rtt_ms=samples.rtt_ms * factor)
    errors = embed(worse, 200, 2, np.random.default_rng(1)).errors
    assert np.median(errors[:20]) > 2 * np.median(errors[20:])


def test_same_seed_same_coordinates_to_the_last_bit() -> None:
    samples = planar_net(100, 8, 1)
    one, other = (embed(samples, 100, 3, np.random.default_rng(9)) for _ in range(2))
    assert one.positions_ms.tobytes() == other.positions_ms.tobytes()
    assert one.errors.tobytes() == other.errors.tobytes()


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(30)), st.sampled_from(TIMESTEPS), st.integers(0, 99))
def test_permuted_node_numbers_change_nothing_but_numbers(
    order: list[int], timestep: Timestep, seed: int
) -> None:
    samples, new = planar_net(30, 5, seed), np.array(order)
    rng = np.random.default_rng(seed)
    before = BulkCoordinates(positions_ms=rng.normal(size=(30, 2)), errors=rng.uniform(0.1, 1, 30))
    old_place = np.argsort(new)
    renamed = BulkCoordinates(
        positions_ms=before.positions_ms[old_place], errors=before.errors[old_place]
    )
    permuted = LatencySamples(
        nodes=new[samples.nodes], peers=new[samples.peers], rtt_ms=samples.rtt_ms
    )
    moved = relax(before, samples, rng=rng, timestep=timestep)
    moved_renamed = relax(renamed, permuted, rng=rng, timestep=timestep)
    np.testing.assert_allclose(moved_renamed.positions_ms[new], moved.positions_ms, atol=1e-9)
    np.testing.assert_allclose(moved_renamed.errors[new], moved.errors)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 999), st.integers(1, 12), st.sampled_from(TIMESTEPS))
def test_blocks_against_the_same_peers_are_the_whole(
    seed: int, cut: int, timestep: Timestep
) -> None:
    samples = planar_net(13, 4, seed)
    rng = np.random.default_rng(seed)
    whole = BulkCoordinates(positions_ms=rng.normal(size=(13, 2)), errors=rng.uniform(0.1, 1, 13))
    if not isinstance(timestep, Averaged):
        # The protocol's later rounds look at peers that have moved: only a first round is cut.
        samples = samples.take(np.unique(samples.nodes, return_index=True)[1])
    together = relax(whole, samples, rng=rng, timestep=timestep)
    first = relax(whole, samples.take(samples.nodes < cut), rng=rng, timestep=timestep, movable=cut)
    np.testing.assert_allclose(first.positions_ms, together.positions_ms[:cut])
    np.testing.assert_allclose(first.errors, together.errors[:cut])


floats = st.floats(allow_nan=True, allow_infinity=True)
indices = st.integers(0, 3)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(indices, indices, floats), max_size=30),
    st.lists(st.tuples(floats, floats, floats), min_size=4, max_size=4),
    st.sampled_from(TIMESTEPS),
)
def test_is_never_anything_but_numbers(
    given_samples: list[tuple[int, int, float]],
    places: list[tuple[float, float, float]],
    timestep: Timestep,
) -> None:
    rows = np.array(given_samples, float).reshape(-1, 3)
    samples = LatencySamples(
        nodes=rows[:, 0].astype(int), peers=rows[:, 1].astype(int), rtt_ms=rows[:, 2]
    )
    table = np.array(places)
    placed = BulkCoordinates(positions_ms=table[:, :2], errors=table[:, 2])
    for _ in range(3):
        placed = relax(placed, samples, rng=np.random.default_rng(0), timestep=timestep)
        assert np.isfinite(placed.positions_ms).all()
        assert np.all((placed.errors >= MIN_ERROR) & (placed.errors <= MAX_ERROR))
    assert placed.rejected <= 3 * len(samples)
