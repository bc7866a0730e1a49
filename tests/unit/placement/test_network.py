from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from placement.errors import NetworkError
from placement.load import Load
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


def names(nodes: tuple[Node, ...]) -> list[str]:
    return [node.name for node in nodes]


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
    assert names(view.nearest(np.zeros(2), {"a": 1, "b": 0, "site": 0})) == ["b", "a"]
    assert names(view.nearest(np.zeros(2), {"a": 0, "b": 1, "site": 0})) == ["a", "b"]


def test_the_cpu_axis_is_perpendicular_to_latency():
    view = NetworkView(nodes=(node("near", 3, 0), node("far", 4.9, 0)))
    assert names(view.nearest(np.zeros(2), {"near": 4, "far": 0})) == ["far", "near"]
    assert names(view.nearest(np.zeros(2), {"near": 3.8, "far": 0})) == ["near", "far"]


def test_load_counts_what_is_measured_what_runs_and_what_is_placed():
    view = NetworkView(nodes=(node("a", 0, cpu_ms=3, operators=2), node("b", 1)))
    load = Load(view, operator_load=0.2, scale_ms=10)
    assert load.cpu_ms() == pytest.approx({"a": 7, "b": 0})
    assert load.with_copies(("b", "b", "a")).cpu_ms() == pytest.approx({"a": 9, "b": 4})
    assert load.copies("b") == 0


@pytest.mark.parametrize(
    ("nodes", "rtt_ms", "message"),
    [
        ((node("a", 0), node("a", 1)), {}, "node 'a' occurs twice"),
        ((node("a", 0), node("b", 1, 2)), {}, r"node 'b' has a coordinate of shape \(2,\)"),
        ((node("a", math.nan),), {}, "node 'a' has coordinate"),
        ((node("a", 0, cpu_ms=-1),), {}, "node 'a' has cpu_ms -1"),
        ((node("a", 0, operators=-1),), {}, "node 'a' has -1 operators"),
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
    with pytest.raises(NetworkError, match="'wes-europe'; did you mean 'west-europe'"):
        NetworkView(nodes=(node("west-europe", 0),)).node("wes-europe")
