from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from placement.errors import NetworkError
from placement.network import NetworkView, Node


def node(
    name: str, *position_ms: float, hosts: bool = True, cpu_ms: float = 0, operators: int = 0
) -> Node:
    return Node(
        name=name,
        position_ms=np.array(position_ms),
        hosts_operators=hosts,
        cpu_ms=cpu_ms,
        operators=operators,
    )


def ranked(view: NetworkView, *cpu_ms: float, count: int | None = None) -> str:
    """Nodes nearest to the zero point first, with that CPU axis by node."""
    zero_ms = np.zeros(view.positions_ms.shape[1])
    return " ".join(view.names(view.nearest(zero_ms, np.array(cpu_ms), count)))


def test_one_way_is_half_a_measured_round_trip_else_half_the_distance():
    nodes = (node("a", 0, 0), node("b", 3, 4), node("c", 6, 8))
    view = NetworkView(nodes=nodes, rtt_ms={("a", "b"): 12, ("c", "b"): 8, ("b", "c"): 10})
    assert view.one_way_ms("a", "b") == view.one_way_ms("b", "a") == 6
    assert view.one_way_ms("b", "c") == 4.5
    assert view.one_way_ms("a", "c") == 5
    assert view.one_way_ms("a", "a") == 0


def test_of_two_equally_near_nodes_the_idle_one_is_nearer():
    """Reliable placement §4.2, the CPU axis."""
    view = NetworkView(nodes=(node("a", 0, 5), node("b", 0, -5), node("site", 0, 0, hosts=False)))
    assert ranked(view, 1, 0, 0) == "b a"
    assert ranked(view, 0, 1, 0) == "a b"


def test_the_cpu_axis_is_perpendicular_to_latency():
    view = NetworkView(nodes=(node("near", 3, 0), node("far", 4.9, 0)))
    # hypot(3, 4) = 5 > 4.9 > hypot(3, 3.8)
    assert ranked(view, 4, 0) == "far near"
    assert ranked(view, 3.8, 0) == "near far"


def test_of_nodes_that_are_equally_far_names_decide():
    view = NetworkView(nodes=(node("c", 0, 5), node("a", 3, 4), node("b", -4, 3)))
    assert ranked(view, 0, 0, 0) == "a b c"
    assert ranked(view, 0, 0, 0, count=1) == "a"


def test_a_node_far_down_the_tree_is_found_if_all_nearer_ones_are_busy():
    """The tree knows no CPU axis: what it gives first may be last."""
    nodes = tuple(node(f"n{i:02}", i) for i in range(40))
    cpu_ms = [1000.0] * 39 + [0.0]
    assert ranked(NetworkView(nodes=nodes), *cpu_ms, count=2) == "n39 n00"


def test_without_hosts_none_is_nearest():
    assert ranked(NetworkView(nodes=(node("site", 0, hosts=False),)), 0) == ""


def test_nodes_have_the_places_they_are_given_in():
    nodes = (node("b", 1), node("site", 2, hosts=False), node("a", 3))
    view = NetworkView(nodes=nodes)
    assert view.index == {"b": 0, "site": 1, "a": 2}
    assert view.positions_ms.tolist() == [[1], [2], [3]]
    assert view.host_indices.tolist() == [2, 0]
    assert view.can_host("a")
    assert not view.can_host("site")
    assert not view.can_host("elsewhere")
    assert not view.can_host(None)


def test_latencies_of_many_pairs_are_those_of_each():
    nodes = (node("a", 0, 0), node("b", 3, 4), node("c", 6, 8))
    view = NetworkView(nodes=nodes, rtt_ms={("a", "b"): 12, ("x", "a"): 1})
    between = view.one_way_between(np.array([0, 2]), np.array([1, 2, 0]))
    assert between.tolist() == [[6, 5, 0], [2.5, 0, 5]]


def test_only_what_was_not_measured_is_uncertain():
    errors_ms = {"a": 1, "b": 2, "c": 4}
    nodes = tuple(replace(node(name, 0, 0), error_ms=e) for name, e in errors_ms.items())
    all_three = np.arange(3)
    view = NetworkView(nodes=nodes, rtt_ms={("b", "a"): 12, ("x", "a"): 1})
    between = view.uncertainty_of(all_three[:, None], all_three[1:])
    assert between.tolist() == [[0, 5], [0, 6], [6, 0]]
    between = NetworkView(nodes=nodes).uncertainty_of(all_three[:1, None], all_three)
    assert between.tolist() == [[0, 3, 5]]


def test_of_what_was_measured_half_the_spread_is_uncertain():
    nodes = tuple(replace(node(name, 0, 0), error_ms=8) for name in "abc")
    spread_ms = {("a", "b"): 6.0, ("b", "a"): 2.0, ("a", "c"): 9.0}
    view = NetworkView(nodes=nodes, rtt_ms={("a", "b"): 12, ("b", "c"): 3}, spread_ms=spread_ms)
    between = view.uncertainty_of(np.arange(3)[:, None], np.arange(3))
    # The mean of both directions; nobody has measured a and c, and b and c once.
    assert between.tolist() == [[0, 2, 16], [2, 0, 0], [16, 0, 0]]


@pytest.mark.parametrize(
    ("nodes", "rtt_ms", "message"),
    [
        ((node("a", 0), node("a", 1)), {}, "node 'a' occurs twice"),
        ((node("a", 0), node("b", 1, 2)), {}, r"node 'b' has a coordinate of shape \(2,\)"),
        ((node("a", math.nan),), {}, "node 'a' has coordinate"),
        ((node("a", 0, cpu_ms=-1),), {}, "node 'a' has cpu_ms -1"),
        ((node("a", 0, operators=-1),), {}, "node 'a' has -1 operators"),
        (
            (Node(name="a", position_ms=np.zeros(1), error_ms=math.inf),),
            {},
            "node 'a' has error_ms inf",
        ),
        (
            (Node(name="a", position_ms=np.zeros(1), error_ms=-2),),
            {},
            "node 'a' has error_ms -2",
        ),
        (
            (Node(name="a", position_ms=np.zeros(1), capacity_cores=0),),
            {},
            "node 'a' has capacity_cores 0, not > 0",
        ),
        (
            (Node(name="a", position_ms=np.zeros(1), capacity_cores=math.nan),),
            {},
            "node 'a' has capacity_cores nan",
        ),
        ((node("a", 0),), {("a", "b"): -4}, "a to b: -4 is no round-trip time"),
        ((node("a", 0),), {("a", "b"): math.nan}, "a to b: nan is no round-trip time"),
    ],
)
def test_a_view_that_contradicts_itself_is_refused(
    nodes: tuple[Node, ...], rtt_ms: Mapping[tuple[str, str], float], message: str
):
    with pytest.raises(NetworkError, match=message):
        NetworkView(nodes=nodes, rtt_ms=rtt_ms)


def test_an_unknown_node_is_answered_with_the_nearest_name():
    with pytest.raises(NetworkError, match="'wes-europe'; did you mean west-europe"):
        NetworkView(nodes=(node("west-europe", 0),)).node("wes-europe")
