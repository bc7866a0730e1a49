"""Relaxation on random graphs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.relaxation import MIN_RATE_BYTES_S, relax
from tests.property.placement.random_problems import network, query

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(1, 6))
def test_no_force_is_left_where_operators_rest(seed: int, size: int):
    rng = np.random.default_rng(seed)
    view = network(rng, 2)
    graph = query(rng, "q", size)
    points_ms = {
        operator.name: view.node(operator.pinned).position_ms
        for operator in graph.operators
        if operator.pinned is not None
    }
    result = relax(graph, points_ms, rng.uniform(-500, 500, size=(size, 2)))
    points_ms |= result.points_ms
    weakest = min(max(link.rate_bytes_s, MIN_RATE_BYTES_S) for link in graph.links)
    for name in graph.to_place:
        force = np.zeros(2)
        for link in (*graph.inputs[name], *graph.outputs[name]):
            other = link.target if link.source == name else link.source
            force += max(link.rate_bytes_s, 1.0) * (points_ms[other] - points_ms[name])
        assert np.all(np.isfinite(points_ms[name]))
        assert float(np.linalg.norm(force)) < 2e-3 * weakest
