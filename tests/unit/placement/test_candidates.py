"""Which nodes operators are considered for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placement.errors import NoNode
from placement.evaluation.load import Load
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.primaries import candidates
from tests.unit.placement.on_a_line import line, load_of, query

view = line({"n4": 40, "n3": 30, "n2": 20, "n1": 10, "n0": 0}, {"site": 15})
chain = query({"Sa": 1000, "ab": 1000}, {"S": "site"}, cost_us=10_000)


def found(
    a_ms: float,
    b_ms: float,
    count: int,
    *,
    graph: QueryGraph = chain,
    over: NetworkView = view,
    load: Load | None = None,
    keep: dict[str, str] | None = None,
) -> dict[str, str]:
    points_ms = {"a": np.array([2 * a_ms]), "b": np.array([2 * b_ms])}
    nodes = candidates(graph, points_ms, over, load or load_of(over), keep or {}, count)
    return {name: " ".join(over.names(indices)) for name, indices in nodes.items()}


def test_the_nearest_to_any_point_are_candidates_of_all_by_name():
    assert found(1, 39, 1) == {"a": "n0 n4", "b": "n0 n4"}
    assert found(1, 2, 2) == {"a": "n0 n1", "b": "n0 n1"}


def test_a_node_to_which_something_is_pinned_is_one_too():
    pinned = query({"Sa": 1000, "ab": 1000}, {"S": "n2"})
    assert found(1, 1, 1, graph=pinned)["a"] == "n0 n2"
    # On the site nothing can be placed.
    assert "site" not in found(15, 15, 5)["a"]


def flowing_to(*nodes: str) -> QueryGraph:
    """The chain, whose source flows to some nodes anyway."""
    operators = (
        replace(each, flows_to=frozenset(nodes)) if each.pinned else each
        for each in chain.operators
    )
    return QueryGraph(name="q", operators=tuple(operators), links=chain.links)


def test_nodes_to_which_its_source_flows_anyway_are_candidates_too():
    assert found(1, 1, 1, graph=flowing_to("n3", "site", "gone"))["a"] == "n0 n3"


def test_of_many_nodes_to_which_a_source_flows_those_nearest_to_any_point_are_candidates():
    assert found(1, 1, 1, graph=flowing_to("n2", "n3", "n4"))["a"] == "n0 n2"
    assert found(1, 39, 1, graph=flowing_to("n2", "n3"))["a"] == "n0 n3 n4"


def test_what_stays_has_its_node_only():
    assert found(1, 1, 1, keep={"b": "n3"}) == {"a": "n0", "b": "n3"}


def test_busy_nodes_are_farther():
    load = load_of(view, operator_load=1).with_replicas(["n0"] * 4)
    # 40 ms of CPU on n0; n1 is a round trip of 18 ms from the point.
    assert found(1, 1, 1, load=load)["a"] == "n1"


def test_full_nodes_are_none_and_far_ones_serve_instead():
    """Each operator needs 0.1 cores; near are n0 and n1."""
    roomy = dict.fromkeys(("n1", "n3"), 1.0)
    places = {f"n{i}": 10.0 * i for i in range(5)}
    full = dict.fromkeys(places, 0.05)
    one_left = line(places, {"site": 15}, capacity_cores=full | roomy)
    assert found(1, 1, 2, over=one_left)["a"] == "n1"
    assert found(1, 1, 1, over=one_left)["a"] == "n1 n3"


def test_without_room_anywhere_there_is_none():
    full = line({"n0": 0}, {"site": 0}, capacity_cores={"n0": 0.05})
    with pytest.raises(NoNode, match=r"query q, operator a: no node has the 0\.1 cores left"):
        found(0, 0, 1, over=full)


def test_without_hosts_there_is_none():
    with pytest.raises(NoNode, match="operator a: the network has no node that runs operators"):
        found(0, 0, 1, over=line({}, {"site": 0}))


def only_on(**allowed: str) -> QueryGraph:
    """The chain, with the nodes that some operators' primaries may take."""
    operators = tuple(
        replace(each, allowed=tuple(allowed.get(each.name, "").split())) for each in chain.operators
    )
    return QueryGraph(name="q", operators=operators, links=chain.links)


def test_an_operator_that_may_take_some_nodes_only_has_those_however_far():
    assert found(1, 1, 1, graph=only_on(a="n4 n3")) == {"a": "n3 n4", "b": "n0"}
    # A site is none, even if it is named.
    assert found(1, 1, 1, graph=only_on(a="site n3"))["a"] == "n3"


def test_what_stays_stays_where_it_may_not_begin():
    assert found(1, 1, 1, graph=only_on(a="n4"), keep={"a": "n1"})["a"] == "n1"


def test_without_room_on_the_nodes_it_may_take_there_is_none():
    places = {f"n{i}": 10.0 * i for i in range(5)}
    full = line(places, {"site": 15}, capacity_cores={"n4": 0.05})
    with pytest.raises(NoNode, match=r"none of the nodes that it may take \(n4\) is there and has"):
        found(1, 1, 1, graph=only_on(a="n4"), over=full)
    with pytest.raises(NoNode, match=r"may take \(gone\)"):
        found(1, 1, 1, graph=only_on(a="gone"))
