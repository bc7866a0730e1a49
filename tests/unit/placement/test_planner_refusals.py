"""What a planner refuses: bounds and deadlines out of reach, input that contradicts itself."""

from __future__ import annotations

import math

import pytest

from placement.errors import (
    BoundUnattainable,
    DeadlineUnattainable,
    GraphError,
    NoNode,
    SettingsError,
)
from placement.graph import Link, Operator, QueryGraph
from placement.settings import Settings
from tests.unit.placement.europe import (
    europe,
    idle,
    nodes_of,
    papers_own,
    planned,
    proximity,
    regions,
)


def test_an_unattainable_deadline_says_what_is_best():
    with pytest.raises(DeadlineUnattainable) as raised:
        planned(deadline_ms=15)
    error = raised.value
    assert error.best_ms > 15
    assert error.path[-1] == "centre @ centre"
    assert "query proximity: no placement tried delivers within 15 ms; the best" in str(error)
    # The south receiver alone is 10 ms from the centre, and four hops cost 2 ms each.
    assert planned(deadline_ms=error.best_ms).queries[0].latency_ms == pytest.approx(error.best_ms)


def test_an_unattainable_bound_says_what_is_best():
    """The paper's primary takes the only node within 5 ms of the receiver."""
    with pytest.raises(BoundUnattainable) as raised:
        planned(bound_ms=155, settings=papers_own())
    error = raised.value
    assert error.operator == "north_tracks"
    assert error.best_node == "germany-west-central"
    assert error.best_ms == 150 + 6
    assert str(error) == (
        "query proximity, operator north_tracks: no node can stand by within 155 ms; the best is "
        "germany-west-central with 156.0 ms (detection 150.0 + transfer 6.0 + reprocessing 0.0; "
        "input from north @ north)"
    )


def test_the_exact_placer_attains_a_bound_that_nearest_nodes_miss():
    places = nodes_of(planned(bound_ms=155, settings=idle))
    assert places["north_tracks"][1] == "west-europe"
    with pytest.raises(BoundUnattainable, match=r"within 150\.4 ms"):
        planned(bound_ms=150.4, settings=idle)


def test_a_single_node_cannot_protect_anything():
    with pytest.raises(NoNode, match="west-europe runs it and no second node could stand by"):
        planned(view=europe(without=regions[:-1]))


def test_sites_alone_host_nothing():
    with pytest.raises(NoNode, match=r"query proximity, operator .*: the network has no node"):
        planned(view=europe(without=regions))


def test_a_pinned_operator_needs_its_node():
    with pytest.raises(GraphError, match="operator north: cannot be pinned: no node is named"):
        planned(view=europe(sites=False))


def test_an_operator_is_placed_by_one_query():
    with pytest.raises(GraphError, match=r"query q, operator .* placed with query p already"):
        planned(proximity("p"), proximity("q"))
    with pytest.raises(GraphError, match="is given to two queries"):
        planned(proximity("p", "a."), proximity("p", "b."))


@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
def test_times_are_checked(value: float):
    with pytest.raises(GraphError, match="query proximity, deadline_ms"):
        planned(deadline_ms=value)
    with pytest.raises(GraphError, match="query proximity, recovery_bound_ms"):
        planned(bound_ms=value)


def test_a_query_of_pinned_operators_only_has_figures():
    relay = QueryGraph(
        name="relay",
        operators=(Operator(name="S", pinned="south"), Operator(name="D", pinned="centre")),
        links=(Link(source="S", target="D", rate_bytes_s=1000, tuples_s=10),),
    )
    result = planned(relay)
    assert result.placements == ()
    assert result.queries[0].latency_ms == pytest.approx(10 + 2)
    assert result.queries[0].recovery_ms == 0


def test_settings_are_checked():
    with pytest.raises(SettingsError, match="hop_overhead_ms -1"):
        Settings(hop_overhead_ms=-1)
    with pytest.raises(SettingsError, match="candidates 0"):
        Settings(candidates=0)
