"""What moving costs in benchmark `rebalancing`, and that its drifts change what they say."""

from __future__ import annotations

import numpy as np
import pytest

from bench.placement_workload import paper_workload
from bench.rebalancing import STATE_S, Drift, Way
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.records import Request

NODES = ("a", "b", "c", "d")


def request() -> Request:
    operators = (
        Operator(name="source", pinned="a"),
        Operator(name="o"),
        Operator(name="sink", pinned="a"),
    )
    links = tuple(
        Link(source=source, target=target, rate_bytes_s=100.0, tuples_s=1.0)
        for source, target in (("source", "o"), ("o", "sink"))
    )
    return Request(QueryGraph(name="q", operators=operators, links=links), 1e9, 1e9, 0.0)


@pytest.mark.parametrize(
    ("after", "moves", "shipped", "disturbed_ms"),
    [
        (("a", "b"), 0, 0, 0.0),
        (("b", "a"), 1, 0, 8.0),
        (("a", "c"), 1, 1, 0.0),
        (("c", "b"), 1, 1, 8.0),
        (("c", "d"), 2, 2, 8.0),
        (("b", "c"), 1, 1, 8.0),
    ],
)
def test_moves_and_what_they_ship(
    after: tuple[str, str], moves: int, shipped: int, disturbed_ms: float
) -> None:
    view = NetworkView(
        nodes=tuple(Node(name=name, position_ms=np.zeros(2)) for name in NODES),
        rtt_ms={(x, y): 8.0 for x in NODES for y in NODES if x < y},
    )
    way = Way({"o": ("a", "b")})
    way.go({"o": after}, [request()], view)
    assert way.pairs == {"o": after}
    assert (way.moves, way.disturbed_ms) == (moves, disturbed_ms)
    assert way.moved_bytes == shipped * STATE_S * 100.0


@pytest.mark.slow
def test_a_drift_changes_latencies_rates_and_loads() -> None:
    start = paper_workload(0, queries=20)
    now = Drift(start, np.random.default_rng(0)).next()
    assert now.view.rtt_ms.keys() == start.view.rtt_ms.keys()
    changed = [now.view.rtt_ms[pair] != ms for pair, ms in start.view.rtt_ms.items()]
    assert 0.1 < np.mean(changed) < 0.3
    faster = [
        one.graph.links[0].rate_bytes_s != other.graph.links[0].rate_bytes_s
        for one, other in zip(now.requests, start.requests, strict=True)
    ]
    assert sum(faster) == 2
    assert 5 < sum(node.operators > 0 for node in now.view.nodes) <= 10
