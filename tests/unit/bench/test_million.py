"""The network that a million coordinates are found for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bench.million import ACCESS_MS, MEASURED_PER_NODE, NOISE, REGIONS, MakeSamples, Noise, World

WORLD = World(nodes=2_000, seed=1)


def samples() -> pa.RecordBatch:
    parts = pa.RecordBatch.from_pydict({"id": [0]})
    (made,) = MakeSamples(world=WORLD)(iter([parts]))
    return made


def test_truth_follows_from_the_seed() -> None:
    assert samples().equals(WORLD.samples(0))
    assert not samples().equals(World(nodes=2_000, seed=2).samples(0))


def test_nodes_measure_others_a_quarter_of_them_nearby() -> None:
    nodes, peers, rtt_ms = (column.to_numpy() for column in samples().columns)
    assert len(nodes) > 0.99 * WORLD.nodes * MEASURED_PER_NODE
    assert np.all(nodes != peers)
    assert peers.min() >= 0
    assert peers.max() < WORLD.nodes
    near = nodes % REGIONS == peers % REGIONS
    assert 0.2 < near.mean() < 0.32
    assert np.median(rtt_ms[near]) < np.median(rtt_ms[~near]) / 2


def test_round_trip_is_distance_and_both_access_delays() -> None:
    positions_ms, access_ms = WORLD.places()
    assert abs(access_ms.mean() - ACCESS_MS) < 0.2
    (rtt_ms,) = WORLD.rtt_ms(np.array([3]), np.array([77]))
    distance_ms = np.linalg.norm(positions_ms[3] - positions_ms[77])
    assert rtt_ms == distance_ms + access_ms[3] + access_ms[77]


def test_noise_alone_is_as_large_as_it_is_made() -> None:
    (errors,) = Noise(world=WORLD)(iter([samples()]))
    # Half of all log-normal noise is within 0.674 of its deviation.
    assert abs(np.median(errors.column(0).to_numpy()) / NOISE - 0.674) < 0.02
