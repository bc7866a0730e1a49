"""Whatever the parameters, networks that are drawn are connected and metric."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.networks.generators import (
    TransitStub,
    grid,
    line,
    ring,
    transit_stub,
    transit_stub_graph,
    two_clusters,
)
from topology.latency import LatencyMatrix

parameters = st.builds(
    TransitStub,
    transit_domains=st.integers(1, 3),
    transit_nodes=st.integers(1, 4),
    stubs_per_transit_node=st.integers(2, 3),
    stub_nodes=st.integers(1, 4),
    domain_edge=st.floats(0, 1),
    transit_edge=st.floats(0, 1),
    stub_edge=st.floats(0, 1),
    extra_transit_stub=st.integers(0, 3),
    extra_stub_stub=st.integers(0, 3),
    transit_extent_ms=st.floats(1, 200),
    stub_distance_ms=st.floats(1, 100),
    stub_extent_ms=st.floats(0.1, 50),
)
seeds = st.integers(0, 2**32 - 1)
counts = st.integers(1, 6)
steps_ms = st.floats(0.1, 100)


def check_metric(matrix: LatencyMatrix) -> None:
    """Symmetric, zero on the diagonal only, no pair farther apart than by way of a third node."""
    rtt_ms = matrix.rtt_ms
    assert np.all(np.isfinite(rtt_ms))
    assert np.array_equal(rtt_ms, rtt_ms.T)
    assert np.array_equal(rtt_ms == 0, np.eye(len(rtt_ms), dtype=bool))
    detours_ms = (rtt_ms[:, :, None] + rtt_ms[None]).min(axis=1)
    assert np.all(rtt_ms <= detours_ms * (1 + 1e-9))


@settings(max_examples=60, deadline=None)
@given(parameters, seeds)
def test_transit_stub_networks_are_connected_and_metric(parameters: TransitStub, seed: int):
    graph = transit_stub_graph(parameters, np.random.default_rng(seed))
    assert graph.is_connected()
    assert len(graph.names) == parameters.nodes
    check_metric(graph.latency_matrix())


@settings(max_examples=20, deadline=None)
@given(parameters, seeds)
def test_a_seed_draws_the_same_network_again(parameters: TransitStub, seed: int):
    once, again = (transit_stub(parameters, np.random.default_rng(seed)) for _ in range(2))
    assert once.names == again.names
    assert np.array_equal(once.rtt_ms, again.rtt_ms)


@settings(max_examples=30, deadline=None)
@given(counts, counts, steps_ms, st.floats(0.01, 2))
def test_lattices_and_clusters_are_metric(rows: int, columns: int, step_ms: float, near: float):
    check_metric(line(rows, step_ms))
    check_metric(ring(rows, step_ms))
    check_metric(grid(rows, columns, step_ms))
    check_metric(two_clusters(rows, near * step_ms, step_ms))
