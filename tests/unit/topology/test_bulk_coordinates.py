"""Many coordinates at once, moved by hand-made samples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from topology.bulk_coordinates import (
    BulkCoordinates,
    BulkCoordinatesError,
    unplaced,
    with_momentum,
)
from topology.bulk_steps import Averaged, Timestep, relax
from topology.coordinate import Coordinate
from topology.latency_samples import LatencySamples, LatencySamplesError
from topology.vivaldi import MAX_ERROR, AdaptiveTimestep, ConstantTimestep, Vivaldi, VivaldiError


def at(*places: tuple[float, ...], error: float = 0.5) -> BulkCoordinates:
    return BulkCoordinates(positions_ms=np.array(places, float), errors=np.full(len(places), error))


def measured(*samples: tuple[int, int, float]) -> LatencySamples:
    nodes, peers, rtt_ms = zip(*samples, strict=True)
    return LatencySamples(nodes=np.array(nodes), peers=np.array(peers), rtt_ms=np.array(rtt_ms))


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def standing_somewhere(timestep: AdaptiveTimestep | ConstantTimestep) -> list[Vivaldi]:
    """Single nodes that have each measured something, so that no two stand on one point."""
    nodes = [Vivaldi(2, np.random.default_rng(seed), timestep=timestep) for seed in range(3)]
    for i, node in enumerate(nodes):
        place = Coordinate(position_ms=(20.0 * i, -30.0), error=0.2 + 0.3 * i)
        node.observe("elsewhere", 45.0, place)
    return nodes


def together(nodes: list[Vivaldi]) -> BulkCoordinates:
    return BulkCoordinates(
        positions_ms=np.array([node.position_ms for node in nodes]),
        errors=np.array([node.error for node in nodes]),
    )


@pytest.mark.parametrize("timestep", [AdaptiveTimestep(), ConstantTimestep(delta=0.3, rest_ms=1.0)])
def test_one_round_is_what_each_node_would_have_observed(
    timestep: AdaptiveTimestep | ConstantTimestep,
) -> None:
    nodes = standing_somewhere(timestep)
    network, before = together(nodes), [node.coordinate for node in nodes]
    samples = measured((0, 1, 60.0), (1, 2, 50.5), (2, 0, 10.0))
    for i, j, rtt_ms in ((0, 1, 60.0), (1, 2, 50.5), (2, 0, 10.0)):
        nodes[i].observe("peer", rtt_ms, before[j])
    moved = relax(network, samples, rng=rng(), timestep=timestep)
    np.testing.assert_allclose(moved.positions_ms, together(nodes).positions_ms)
    np.testing.assert_allclose(moved.errors, together(nodes).errors)


def test_samples_of_one_node_follow_each_other_in_their_order() -> None:
    nodes = standing_somewhere(AdaptiveTimestep())
    network = together(nodes)
    for j, rtt_ms in ((1, 70.0), (2, 9.0)):
        nodes[0].observe(str(j), rtt_ms, nodes[j].coordinate)
    moved = relax(
        network, measured((0, 1, 70.0), (0, 2, 9.0)), rng=rng(), timestep=AdaptiveTimestep()
    )
    np.testing.assert_allclose(moved.positions_ms[0], nodes[0].position_ms)


def test_averaged_samples_that_contradict_each_other_move_nothing() -> None:
    moved = relax(
        at((0, 0), (10, 0)),
        measured((0, 1, 9.0), (0, 1, 11.0)),
        rng=rng(),
        timestep=Averaged(rtt_exponent=0),
    )
    np.testing.assert_allclose(moved.positions_ms[0], [0, 0], atol=1e-12)
    assert 0.09 < moved.errors[0] < 0.5


def test_averaged_corrects_its_gain_of_the_mean_stretch() -> None:
    moved = relax(
        at((0, 0), (10, 0)),
        measured((0, 1, 14.0), (0, 1, 18.0)),
        rng=rng(),
        timestep=Averaged(gain=0.5, rtt_exponent=0),
    )
    np.testing.assert_allclose(moved.positions_ms, [[-3, 0], [10, 0]])


def test_short_round_trips_pull_harder_with_a_larger_exponent() -> None:
    network = at((0, 0), (10, 0), (-100, 0))
    samples = measured((0, 1, 12.0), (0, 2, 102.0))
    by_exponent = [
        relax(network, samples, rng=rng(), timestep=Averaged(rtt_exponent=p)).positions_ms[0, 0]
        for p in (0.0, 1.0, 2.0)
    ]
    assert by_exponent[0] == pytest.approx(0)
    assert 0 > by_exponent[1] > by_exponent[2]


@pytest.mark.parametrize("timestep", [Averaged(), AdaptiveTimestep(), ConstantTimestep()])
@pytest.mark.parametrize("rtt_ms", [0.0, -1.0, float("nan"), float("inf"), 10_001.0])
def test_impossible_round_trip_is_refused_and_counted(timestep: Timestep, rtt_ms: float) -> None:
    network = at((0, 0), (30, 0))
    moved = relax(network, measured((0, 1, rtt_ms)), rng=rng(), timestep=timestep)
    assert moved.rejected == 1
    np.testing.assert_array_equal(moved.positions_ms, network.positions_ms)
    np.testing.assert_array_equal(moved.errors, network.errors)


def test_node_that_measured_itself_is_refused() -> None:
    assert relax(at((0, 0)), measured((0, 0, 1.0)), rng=rng()).rejected == 1


@pytest.mark.parametrize("timestep", [Averaged(), AdaptiveTimestep()])
def test_coordinate_that_is_no_number_starts_over_and_misleads_nobody(timestep: Timestep) -> None:
    network = at((float("nan"), 0), (30, 0), (0, 40))
    samples = measured((0, 1, 30.0), (1, 0, 99.0), (1, 2, 50.0))
    moved = relax(network, samples, rng=rng(), timestep=timestep)
    assert (moved.resets, moved.rejected) == (1, 1)
    assert np.isfinite(moved.positions_ms).all()
    np.testing.assert_allclose(moved.positions_ms[1], [30, 0])


@pytest.mark.parametrize("timestep", [Averaged(), AdaptiveTimestep()])
def test_overflowing_coordinate_starts_over(timestep: Timestep) -> None:
    moved = relax(at((1e300, 0), (-1e300, 0)), measured((0, 1, 5.0)), rng=rng(), timestep=timestep)
    assert moved.resets == 1
    assert moved.positions_ms[0].tolist() == [0, 0]
    assert moved.errors[0] == 1


def test_nodes_on_one_point_part() -> None:
    samples = measured((0, 1, 20.0)).both_ways()
    placed = unplaced(2, 3)
    for _ in range(30):
        placed = relax(placed, samples, rng=rng())
    assert placed.distances_ms(np.array([0]), np.array([1]))[0] == pytest.approx(20, abs=0.1)


@pytest.mark.parametrize("timestep", [Averaged(), AdaptiveTimestep()])
def test_peers_of_another_block_stay_and_are_not_returned(timestep: Timestep) -> None:
    whole = at((0, 0), (30, 0), (0, 40))
    samples = measured((0, 1, 50.0), (0, 2, 20.0))
    block = relax(whole, samples, rng=rng(), timestep=timestep, movable=1)
    assert len(block) == 1
    alone = relax(whole, samples, rng=rng(), timestep=timestep)
    np.testing.assert_array_equal(block.positions_ms, alone.positions_ms[:1])
    np.testing.assert_array_equal(block.errors, alone.errors[:1])


def test_what_is_handed_in_stays_as_it_is() -> None:
    network = at((0, 0), (30, 0))
    for timestep in (Averaged(), AdaptiveTimestep()):
        relax(network, measured((0, 1, 50.0)), rng=rng(), timestep=timestep)
    np.testing.assert_array_equal(network.positions_ms, [[0, 0], [30, 0]])
    np.testing.assert_array_equal(network.errors, [0.5, 0.5])


def test_no_samples_move_nothing() -> None:
    nothing = LatencySamples(nodes=np.array([], int), peers=np.array([], int), rtt_ms=np.array([]))
    for timestep in (Averaged(), AdaptiveTimestep()):
        moved = relax(at((0, 0)), nothing, rng=rng(), timestep=timestep)
        assert (moved.positions_ms.tolist(), moved.rejected, moved.resets) == ([[0, 0]], 0, 0)


def test_momentum_repeats_a_share_of_the_last_move() -> None:
    moved = with_momentum(at((0, 0)), at((10, 0)), at((12, 0)), 0.5)
    assert moved.positions_ms.tolist() == [[17, 0]]


def test_errors_stay_within_their_bounds() -> None:
    moved = relax(at((0, 0), (1000, 0)), measured(*[(0, 1, 1e-9)] * 20), rng=rng())
    assert moved.errors[0] <= MAX_ERROR


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Averaged(gain=0), "gain 0 is not in"),
        (lambda: Averaged(rtt_exponent=3), "rtt_exponent 3 is not in"),
        (lambda: AdaptiveTimestep(gain=float("nan")), "gain nan is not in"),
        (lambda: ConstantTimestep(delta=2), "delta 2 is not in"),
        (lambda: ConstantTimestep(rest_ms=-1), "rest_ms -1 is not"),
    ],
)
def test_timestep_out_of_range_is_named(make: Callable[[], Timestep], message: str) -> None:
    with pytest.raises(VivaldiError, match=message):
        make()


def test_other_parameters_out_of_range_are_named() -> None:
    network, samples = at((0, 0), (1, 1)), measured((0, 1, 1.0))
    with pytest.raises(VivaldiError, match=r"error_gain 1.5 is not in"):
        relax(network, samples, rng=rng(), error_gain=1.5)
    with pytest.raises(BulkCoordinatesError, match="movable 3 is not in"):
        relax(network, samples, rng=rng(), movable=3)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (measured((0, 2, 1.0)), "a sample names peer 2; there are 2"),
        (measured((-1, 0, 1.0)), "a sample names node -1; there are 2"),
    ],
)
def test_sample_of_a_node_that_does_not_exist(samples: LatencySamples, message: str) -> None:
    with pytest.raises(LatencySamplesError, match=message):
        relax(at((0, 0), (1, 1)), samples, rng=rng())


def test_arrays_that_do_not_fit() -> None:
    with pytest.raises(BulkCoordinatesError, match="2 nodes need as many error estimates"):
        BulkCoordinates(positions_ms=np.zeros((2, 2)), errors=np.ones(3))
    with pytest.raises(BulkCoordinatesError, match=r"shape \(2,\) are not"):
        BulkCoordinates(positions_ms=np.zeros(2), errors=np.ones(2))
