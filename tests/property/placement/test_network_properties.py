"""Blocks of nodes and the arrays of latencies against going through all nodes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.network import NetworkView, Node
from tests.property.placement.random_problems import network

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(1, 60), st.integers(1, 4), st.integers(1, 70), st.floats(0, 200))
def test_the_nearest_are_those_of_brute_force(
    seed: int, hosts: int, dimensions: int, count: int, busiest_ms: float
):
    rng = np.random.default_rng(seed)
    view = NetworkView(
        nodes=tuple(
            Node(
                name=f"n{i:02}",
                position_ms=rng.uniform(0, 100, size=dimensions),
                hosts_operators=i < hosts,
            )
            for i in rng.permutation(hosts + 2)
        )
    )
    cpu_ms = rng.uniform(0, busiest_ms, size=len(view.nodes))
    point_ms = rng.uniform(-20, 120, size=dimensions)

    def distance_ms(index: int) -> float:
        node = view.nodes[index]
        reach_ms = float(np.linalg.norm(node.position_ms - point_ms))
        return float(np.hypot(reach_ms, cpu_ms[index]))

    expected = sorted(view.host_indices.tolist(), key=distance_ms)
    assert view.nearest(point_ms, cpu_ms, count).tolist() == expected[:count]
    assert view.nearest(point_ms, cpu_ms).tolist() == expected


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 12), st.integers(1, 30))
def test_on_a_grid_names_break_ties(seed: int, side: int, count: int):
    """Many nodes at the same distance: however few are asked for, the first by name come."""
    rng = np.random.default_rng(seed)
    shuffled: list[int] = rng.permutation(side**2).tolist()
    nodes = tuple(
        Node(
            name=f"{i // side:02}-{i % side:02}",
            position_ms=np.array([10.0 * (i // side), 10.0 * (i % side)]),
        )
        for i in shuffled
    )
    view = NetworkView(nodes=nodes)
    cpu_ms = np.where(rng.random(len(nodes)) < 0.5, 10.0, 0.0)
    at = nodes[0].position_ms

    def rank(index: int) -> tuple[float, str]:
        reach_ms = float(np.linalg.norm(nodes[index].position_ms - at))
        return float(np.hypot(reach_ms, cpu_ms[index])), nodes[index].name

    expected = sorted(range(len(nodes)), key=rank)[:count]
    assert view.nearest(at, cpu_ms, count).tolist() == expected


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 8))
def test_latencies_are_symmetric_and_those_measured_where_measured(seed: int, hosts: int):
    view = network(np.random.default_rng(seed), hosts)
    everywhere = np.arange(len(view.nodes))
    between_ms = view.one_way_between(everywhere, everywhere)
    assert np.array_equal(between_ms, between_ms.T)
    assert not between_ms.diagonal().any()
    for (i, x), (j, y) in product(enumerate(view.nodes), repeat=2):
        assert view.one_way_ms(x.name, y.name) == between_ms[i, j]
        samples = [
            view.rtt_ms[pair]
            for pair in ((x.name, y.name), (y.name, x.name))
            if pair in view.rtt_ms
        ]
        if x is not y:
            rtt_ms = np.mean(samples) if samples else np.linalg.norm(x.position_ms - y.position_ms)
            assert between_ms[i, j] == pytest.approx(float(rtt_ms) / 2)
