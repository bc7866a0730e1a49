"""The parts of the benchmark of coordinates, on networks small enough for a test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bench.best_embedding import Embedding, RelativeErrors, relative_errors
from bench.coordinates import (
    GAIN,
    RTT_EXPONENTS,
    Network,
    Run,
    figures,
    measure,
    plot,
    read_own,
    updates_per_s,
)
from bench.networks.generators import TransitStub, transit_stub
from bench.registry import Settings
from orchestrator.errors import InvalidInput
from topology.bulk_steps import Averaged, relax
from topology.vivaldi import AdaptiveTimestep


def run(found: list[float], yardstick: list[float]) -> Run:
    best = Embedding(
        method="classical",
        positions_ms=np.zeros((2, 3)),
        errors=RelativeErrors(each=np.array(yardstick)),
    )
    errors = RelativeErrors(each=np.array(found))
    return Run(found=errors, live=errors, paper=errors, yardstick=best)


def test_nodes_measure_only_peers_that_they_can() -> None:
    table = np.array([[0, 5, np.nan], [5, 0, 7], [np.nan, 7, 0]])
    samples = Network(table, np.random.default_rng(1)).samples(20)
    assert samples.nodes.tolist() == [0] * 20 + [1] * 20 + [2] * 20
    assert set(zip(samples.nodes.tolist(), samples.peers.tolist(), strict=True)) == {
        (0, 1), (1, 0), (1, 2), (2, 1)
    }  # fmt: skip
    assert np.array_equal(samples.rtt_ms, table[samples.nodes, samples.peers])


@pytest.mark.slow
def test_points_in_space_are_found_even_if_some_pairs_cannot_measure_each_other() -> None:
    rng = np.random.default_rng(1)
    points_ms = rng.uniform(0, 100, size=(12, 3))
    truth_ms = cdist(points_ms, points_ms)
    known_ms = truth_ms.copy()
    known_ms[0, 1] = known_ms[1, 0] = np.nan
    network = Network(known_ms, rng)
    settled = network.settled(network.searched(300, AdaptiveTimestep(gain=GAIN)), 100)
    assert relative_errors(truth_ms, settled.positions_ms).p90 < 0.1


def test_by_the_paper_the_last_measurement_of_a_node_fits() -> None:
    """Two nodes have one round trip, which Algorithm 2 fits to its threshold e_t."""
    table = np.array([[0, 25.0], [25.0, 0]])
    positions_ms = Network(table, np.random.default_rng(1)).by_paper(3)
    assert abs(np.linalg.norm(positions_ms[0] - positions_ms[1]) - 25) < 0.1


@pytest.mark.slow
def test_settling_takes_the_weights_that_err_least() -> None:
    # Here the median pair joins two stubs, and weights that please the near pairs spoil it.
    rng = np.random.default_rng(3)
    rtt_ms = transit_stub(TransitStub(), np.random.default_rng(2)).rtt_ms
    network = Network(rtt_ms, rng)
    start = network.searched(200, AdaptiveTimestep(gain=GAIN))
    errors = list[float]()
    for exponent in RTT_EXPONENTS:
        placed = start
        for _ in range(100):
            timestep = Averaged(gain=0.1, rtt_exponent=exponent)
            placed = relax(placed, network.samples(8), rng=rng, timestep=timestep)
        errors.append(relative_errors(rtt_ms, placed.positions_ms).median)
    settled = relative_errors(rtt_ms, network.settled(start, 100).positions_ms).median
    assert max(errors) > 1.2 * min(errors)
    assert settled < 1.1 * min(errors)


@pytest.mark.slow
def test_equal_tables_share_their_yardstick(tmp_path: Path) -> None:
    points_ms = np.random.default_rng(2).uniform(0, 100, size=(8, 3))
    table = cdist(points_ms, points_ms)
    settings = Settings(quick=True, folder=tmp_path, say=lambda phrase: None)
    first, second = measure("matrix", [table, table], settings)
    assert first.yardstick is second.yardstick
    # Planar points fit exactly, so only the protocol errs, and another seed errs otherwise.
    assert first.yardstick.errors.median < 1e-6 < first.found.median
    assert first.found.median != second.found.median


def test_figures_are_means_over_runs_and_the_worst_ratio() -> None:
    flat = figures("matrix", [run([0.2, 0.2], [0.1]), run([0.4, 0.4], [0.4])])
    assert flat["matrix.median_relative_error"] == pytest.approx(0.3)
    assert flat["matrix.p90_relative_error"] == pytest.approx(0.3)
    assert flat["matrix.mds_median_relative_error"] == pytest.approx(0.25)
    assert flat["matrix.ratio_to_mds"] == pytest.approx(1.5)
    assert flat["matrix.ratio_to_mds_max"] == pytest.approx(2.0)


def test_a_users_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_text("a b 10\nb c 20\n")
    assert np.nanmax(read_own(tmp_path / "pairs.txt")) == 20


def test_a_file_without_a_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rtt.txt").write_text("0 fast\n1 0\n")
    with pytest.raises(InvalidInput, match=r"rtt\.txt.*'fast'"):
        read_own(tmp_path / "rtt.txt")
    with pytest.raises(InvalidInput, match=r"cannot be read: No such file"):
        read_own(tmp_path / "none.npy")


@pytest.mark.slow
def test_updates_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.coordinates.SPEED_NODES", 100)
    monkeypatch.setattr("bench.coordinates.SPEED_SAMPLES", 1_000)
    assert updates_per_s(AdaptiveTimestep(), 0.01) > 0


@pytest.mark.slow
def test_plot_of_two_networks(tmp_path: Path) -> None:
    runs = {"transit_stub": [run([0.1, 0.2], [0.05])], "matrix": [run([0.3], [0.2, 0.4])]}
    plot(runs, tmp_path / "errors.png")
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")
