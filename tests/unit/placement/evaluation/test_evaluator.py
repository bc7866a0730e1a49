"""Equations (1) and (2) of reliable placement, and the longest path, against hand computation.

Line of nodes with coordinates in ms: one-way latency is half the distance.
"""

from __future__ import annotations

import numpy as np
import pytest

from placement.errors import NetworkError
from placement.evaluation.evaluator import Evaluator
from placement.evaluation.single import (
    Places,
    as_batch,
    longest_path,
    primary_usage,
    standby_usage,
    with_nodes,
)
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.records import Recovery

view = NetworkView(
    nodes=tuple(
        Node(name=name, position_ms=np.array([x]))
        for name, x in (("s", 0.0), ("t", 20.0), ("a", 10.0), ("b", 40.0), ("d", 60.0))
    )
)
join = QueryGraph(
    name="q",
    operators=(
        Operator(name="S", pinned="s"),
        Operator(name="T", pinned="t"),
        Operator(name="J", cost_us=500),
        Operator(name="D", pinned="d"),
    ),
    links=(
        Link(source="S", target="J", rate_bytes_s=2000, tuples_s=100),
        Link(source="T", target="J", rate_bytes_s=1000, tuples_s=50),
        Link(source="J", target="D", rate_bytes_s=100, tuples_s=5),
    ),
)
places = {"S": "s", "T": "t", "J": "a", "D": "d"}


def catch_up_ms(
    graph: QueryGraph, primaries: Places, secondaries: Places, *, batch_size: int = 1
) -> dict[str, float]:
    evaluator = Evaluator(graph, view.one_way_of, batch_size=batch_size)
    batch = as_batch(graph, view, primaries, secondaries)
    return dict(zip(graph.order, evaluator.catch_up_ms(batch)[0].tolist(), strict=True))


def test_equation_1_catching_up_is_transfer_and_reprocessing():
    # s → b is 20 ms and t → b 10 ms one way; each input holds back 4 tuples at most.
    found_ms = catch_up_ms(join, places, {"J": "b"}, batch_size=5)
    assert found_ms["J"] == pytest.approx(20 + 2 * 4 * 0.5)


def test_equation_1_recovery_is_detection_and_catching_up():
    parts = Recovery(detection_ms=7, transfer_ms=20, reprocess_ms=4)
    assert parts.catch_up_ms == pytest.approx(24)
    assert parts.total_ms == pytest.approx(31)


def test_active_standby_holds_nothing_back():
    assert catch_up_ms(join, places, {"J": "b"}) == {"S": 0, "T": 0, "J": 20, "D": 0}


def test_transfers_to_many_nodes_are_those_to_each():
    everywhere = np.arange(len(view.nodes))
    evaluator = Evaluator(join, view.one_way_of)
    none_ms = np.zeros((1, len(join.order)))
    together = evaluator.transfer_ms(
        evaluator.column["J"], as_batch(join, view, places), everywhere, none_ms
    )
    # The farther of s at 0 and t at 20, one way.
    assert together.tolist() == [10, 10, 5, 20, 30]
    for node, transfer_ms in zip(view.nodes, together, strict=True):
        assert catch_up_ms(join, places, {"J": node.name})["J"] == transfer_ms


def test_an_unknown_node_is_refused():
    with pytest.raises(NetworkError, match="no node is named 'e'"):
        as_batch(join, view, places, {"J": "e"})


def test_an_operator_that_dies_with_its_upstream_is_fed_by_the_secondary_upstream():
    """Filter and join die with node a; the filter's secondary on t catches up first."""
    graph = QueryGraph(
        name="q",
        operators=(
            Operator(name="S", pinned="s"),
            Operator(name="F", cost_us=1000),
            Operator(name="J", cost_us=500),
        ),
        links=(
            Link(source="S", target="F", rate_bytes_s=1000, tuples_s=100),
            Link(source="F", target="J", rate_bytes_s=1000, tuples_s=100),
        ),
    )
    together = {"S": "s", "F": "a", "J": "a"}
    secondaries = {"F": "t", "J": "b"}
    found_ms = catch_up_ms(graph, together, secondaries, batch_size=2)
    assert found_ms["F"] == pytest.approx(10 + 1)
    assert found_ms["J"] == pytest.approx(11 + 10 + 0.5)
    apart_ms = catch_up_ms(graph, together | {"J": "d"}, secondaries)
    assert apart_ms["J"] == pytest.approx(15)


def test_equation_2_network_usage_is_rate_times_latency():
    # 2000 · 5 ms + 1000 · 5 ms + 100 · 25 ms
    assert primary_usage(join, places, view) == pytest.approx(10 + 5 + 2.5)


def test_active_standby_sends_every_input_once_more():
    # 2000 · 20 ms + 1000 · 10 ms
    assert standby_usage(join, places, {"J": "b"}, view) == pytest.approx(50)


def test_the_slowest_source_decides_the_latency():
    path = longest_path(join, places | {"J": "b"}, view, hop_overhead_ms=2)
    # s → b 20, hop 2, cost 0.5, b → d 10, hop 2
    assert path.latency_ms == pytest.approx(34.5)
    assert path.operators == ("S", "J", "D")
    assert with_nodes(path.operators, places | {"J": "b"}) == ("S @ s", "J @ b", "D @ d")


def test_a_graph_without_links_takes_no_time():
    lone = QueryGraph(name="q", operators=(Operator(name="S", pinned="s"),), links=())
    assert longest_path(lone, {"S": "s"}, view, hop_overhead_ms=2).latency_ms == 0
