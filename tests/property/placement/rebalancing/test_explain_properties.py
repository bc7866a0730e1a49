"""What every explanation says is so, on random networks, queries and running placements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.rebalancing.explain import explain
from placement.rebalancing.moves import Reason
from tests.property.placement.rebalancing.running_problems import (
    PLANNER,
    asking,
    bounds_ms,
    cores_by_node,
    deadlines_ms,
    objective,
    path_ms,
    problem,
    recoveries_ms,
    seeds,
    sizes,
)


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(3, 8), sizes, bounds_ms, deadlines_ms)
def test_explanations_tell_what_moving_would_cost_and_break(
    seed: int, hosts: int, size: int, bound_ms: float, deadline_ms: float
):
    rng = np.random.default_rng(seed)
    view, graphs, places = problem(rng, hosts, 2, size)
    graph, name = graphs[0], graphs[0].to_place[-1]
    answer = explain(asking(graphs, bound_ms, deadline_ms), places, view, name, settings=PLANNER)
    here = objective(graphs, places, view)
    for column, replica in enumerate((answer.primary, answer.secondary)):
        assert [c.node for c in replica.candidates if c.obstacle is None] == [replica.node]
        assert {c.node for c in replica.candidates} == {node.name for node in view.hosts}
        totals = {candidate.node: candidate.total for candidate in replica.candidates}
        assert list(totals.values()) == sorted(totals.values())
        assert sum(force.usage for force in replica.forces) == pytest.approx(
            sum(c.usage + c.standby for c in replica.candidates if c.node == replica.node)
        )
        for candidate in replica.candidates:
            pair = list(places[name])
            pair[column] = candidate.node
            if candidate.obstacle is None or pair[0] == pair[1]:
                continue
            after = places | {name: (pair[0], pair[1])}
            difference = totals[candidate.node] - totals[replica.node]
            assert objective(graphs, after, view) - here == pytest.approx(
                difference, abs=1e-9 * here
            )
            value, limit = candidate.obstacle.value, candidate.obstacle.limit
            if candidate.obstacle.reason is Reason.RECOVERY_BOUND:
                operator = candidate.obstacle.subject
                assert value == pytest.approx(recoveries_ms(graph, after, view)[operator])
                assert value is not None
                assert limit is not None
                assert value > limit >= bound_ms
            elif candidate.obstacle.reason is Reason.DEADLINE:
                assert value == pytest.approx(path_ms(graph, after, view))
                assert value is not None
                assert limit is not None
                assert value > limit >= deadline_ms
            elif candidate.obstacle.reason is Reason.CAPACITY:
                assert value == pytest.approx(cores_by_node(graphs, after)[candidate.node])
                assert limit == view.node(candidate.node).capacity_cores
