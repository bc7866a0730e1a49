"""Exact placement of trees and other graphs, on nodes that have room for a few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placement.errors import NoNode
from placement.evaluation.load import Load
from placement.exact import place_exactly
from placement.exact_tree import ExactTask, StandbyTerms
from placement.graph import QueryGraph
from placement.network import NetworkView
from tests.unit.placement.on_a_line import line, load_of, nodes, query

ends = {"S": "s", "T": "s"}
hosts = {"n0": 0.0, "n1": 10.0, "n2": 20.0}


def network(**capacity_cores: float) -> NetworkView:
    return line(hosts, {"s": 0}, capacity_cores=capacity_cores)


def fan(*names: str) -> QueryGraph:
    """Operators side by side that need half a core each."""
    rates = {f"S{name}": 5000.0 for name in names}
    return query(rates, ends, cost_us=10_000)


def task(graph: QueryGraph, view: NetworkView, **candidates: str) -> ExactTask:
    where = {name: candidates.get(name, "n0 n1 n2") for name in graph.to_place}
    return ExactTask(
        graph=graph,
        view=view,
        candidates={name: nodes(view, names) for name, names in where.items()},
        price_bytes=np.zeros(len(view.nodes)),
    )


def places(task: ExactTask, load: Load | None = None) -> str:
    found = place_exactly(task, load or load_of(task.view))
    return " ".join(found.primaries[name] for name in task.graph.to_place)


def test_without_limits_all_share_the_best_node():
    assert places(task(fan("a", "b", "c"), network())) == "n0 n0 n0"


def test_a_full_node_sends_the_rest_to_the_next():
    assert places(task(fan("a", "b", "c"), network(n0=1))) == "n0 n0 n1"
    assert places(task(fan("a", "b", "c"), network(n0=0.5, n1=0.5))) == "n0 n1 n2"


def test_room_that_others_take_is_gone():
    view = network(n0=1)
    load = load_of(view).with_replicas(("n0",), cores=0.5)
    assert places(task(fan("a", "b", "c"), view), load) == "n0 n1 n1"


def test_three_tenths_fill_a_node_of_three_tenths():
    graph = query({"Sa": 1000, "Sb": 1000, "Sc": 1000}, ends, cost_us=10_000)
    assert places(task(graph, network(n0=0.3))) == "n0 n0 n0"


def test_what_stays_takes_room_first():
    graph, view = fan("a", "b"), network(n0=0.5)
    kept = replace(task(graph, view, b="n0"), staying={"b": "n0"})
    assert places(kept) == "n1 n0"


def test_what_stays_needs_no_room():
    """It runs there already: an overfull node is for rebalancing to relieve."""
    graph, view = fan("a", "b"), network(n0=0.1)
    kept = replace(task(graph, view, a="n0", b="n0"), staying={"a": "n0", "b": "n0"})
    assert places(kept) == "n0 n0"


def test_a_lone_candidate_without_room_for_both_is_refused():
    graph, view = fan("a", "b"), network(n0=0.5)
    with pytest.raises(NoNode, match=r"query q, operator b: its candidates have no 0\.5 cores"):
        places(task(graph, view, a="n0", b="n0"))


def test_all_nodes_full_is_refused():
    with pytest.raises(NoNode) as raised:
        places(task(fan("a", "b", "c", "d"), network(n0=0.5, n1=0.5, n2=0.5)))
    assert raised.value.query == "q"
    assert raised.value.operator == "d"


def test_graphs_with_circles_are_placed_too():
    rates = {"Sa": 5000, "ab": 5000, "ac": 5000, "bd": 5000, "cd": 5000, "dT": 10}
    diamond = query(rates, ends, cost_us=10_000)
    assert places(task(diamond, network())) == "n0 n0 n0 n0"
    # Half a core for a, b and c each, one for d.
    limited = places(task(diamond, network(n0=1))).split()
    cores = (0.5, 0.5, 0.5, 1)
    used = sum(need for node, need in zip(limited, cores, strict=True) if node == "n0")
    assert used <= 1
    apart = places(replace(task(diamond, network()), apart=True)).split()
    assert apart[0] not in apart[1:3]
    assert apart[3] not in apart[1:3]


def test_a_bound_that_none_keeps_costs_infinitely_much():
    view = network()
    unattainable = replace(
        task(fan("a"), view), standby=StandbyTerms(nodes=view.host_indices, catch_up_ms=-1)
    )
    assert place_exactly(unattainable, load_of(view)).cost == np.inf
