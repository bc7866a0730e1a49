"""A whole placement in figures, against hand computation."""

from __future__ import annotations

import pytest

from bench.placement_assessment import Scheme, assess
from placement.graph import QueryGraph
from placement.records import Request
from tests.unit.placement.on_a_line import line, query

view = line({"n0": 0, "n1": 10, "n2": 20}, {"s": 0, "t": 30})
ends = {"S": "s", "T": "t"}
chain = query({"Sa": 4000, "ab": 2000, "bT": 100}, ends, cost_us=1000)
"""40, 20 and 1 tuples/s."""
replicas = {"a": ("n0", "n1"), "b": ("n1", "n2")}


def request(graph: QueryGraph = chain, bound_ms: float = 50) -> Request:
    return Request(graph, 1000, bound_ms, 10)


def test_usage_of_primaries_and_of_secondaries():
    found = assess([request()], replicas, view)
    # S→a 0, a→b 2000 · 10 ms, b→T 100 · 20 ms; S→a' 4000 · 10 ms, a→b' 2000 · 20 ms.
    assert found.primary_usage == pytest.approx([22])
    assert found.standby_usage == pytest.approx([80])
    assert found.network_usage == pytest.approx([102])


def test_recovery_is_that_of_the_slowest_operator():
    found = assess(
        [request(bound_ms=30), request(query({"Sc": 100}, ends), bound_ms=29)],
        {**replicas, "c": ("n0", "n2")},
        view,
    )
    assert found.recovery_ms == pytest.approx([10 + 20, 10 + 20])
    assert found.bound_kept.tolist() == [True, False]


def test_operators_and_cores_by_node():
    found = assess([request()], replicas, view)
    assert found.operators.tolist() == [1, 2, 1, 0, 0]
    # 40 tuples/s · 1 ms for a, 20 for b.
    assert found.cores == pytest.approx([0.04, 0.06, 0.02, 0, 0])


def test_traffic_by_link_with_none_within_a_node():
    together = {"a": ("n0", "n1"), "b": ("n0", "n1")}
    found = assess(
        [request(), request(query({"Sc": 500}, ends))], {**together, "c": ("n0", "n1")}, view
    )
    assert found.link_bytes_s == pytest.approx(
        {
            ("s", "n0"): 4000 + 500,
            ("s", "n1"): 4000 + 500,
            ("n0", "n1"): 2000,
            ("n0", "t"): 100,
        }
    )


def test_adaptive_batches_spend_the_slack_and_save_traffic():
    # 20 ms to spare for a and 10 for b allow more than the 8 and 4 tuples of an interval: from
    # batches of 10 and 6 on, nothing is ever sent.
    found = assess([request(bound_ms=40)], replicas, view, scheme=Scheme.ADAPTIVE)
    assert found.standby_usage == pytest.approx([0])
    # 10 + 10 + 9 for a, 10 + 20 + 5 for b.
    assert found.recovery_ms == pytest.approx([35])
    assert found.link_bytes_s["s", "n1"] == 0


def test_adaptive_batches_are_as_large_as_the_bound_allows():
    # 2 ms to spare for b: three of four tuples are sent. 12 ms for a: none of eight.
    found = assess([request(bound_ms=32)], replicas, view, scheme=Scheme.ADAPTIVE)
    assert found.standby_usage == pytest.approx([40 * 3 / 4])
    assert found.recovery_ms == pytest.approx([32])
    assert found.bound_kept.all()


def test_those_that_die_together_wait_for_each_other():
    together = {"a": ("n0", "n1"), "b": ("n0", "n2")}
    # a' has caught up after 10 ms and is 10 ms from b'.
    assert assess([request()], together, view).recovery_ms == pytest.approx([10 + 20])
    farther = {"a": ("n0", "n2"), "b": ("n0", "n1")}
    assert assess([request()], farther, view).recovery_ms == pytest.approx([10 + 20 + 10])
    papers = assess([request()], farther, view, dying_together=False)
    assert papers.recovery_ms == pytest.approx([10 + 20])


def test_an_operator_that_others_wait_for_leaves_them_the_slack():
    farther = {"a": ("n0", "n2"), "b": ("n0", "n1")}
    # b has 3 ms to spare; batches of a would take them from it.
    found = assess([request(bound_ms=43)], farther, view, scheme=Scheme.ADAPTIVE)
    assert found.recovery_ms == pytest.approx([43])
    # All of a's input, and of b's four tuples one batch of four.
    assert found.standby_usage == pytest.approx([80 + 20])


def test_a_secondary_beside_its_primary_costs_little_and_keeps_no_bound():
    """Some baselines have it so. It dies with the primary, whatever the recovery time."""
    beside = request(query({"Sa": 1000}, ends))
    apart = request(query({"Sb": 1000}, ends))
    found = assess([beside, apart], {"a": ("n1", "n1"), "b": ("n1", "n0")}, view)
    assert found.operators.tolist() == [1, 3, 0, 0, 0]
    assert found.network_usage == pytest.approx([20, 10])
    assert found.unprotected.tolist() == [1, 0]
    assert (found.recovery_ms <= 50).all()
    assert found.bound_kept.tolist() == [False, True]


def test_no_queries_have_no_figures():
    found = assess([], {}, view)
    assert found.network_usage.shape == found.recovery_ms.shape == (0,)
    assert found.operators.sum() == 0


def test_a_query_of_pinned_operators_recovers_at_once():
    found = assess([request(query({"ST": 1000}, ends))], {}, view)
    assert found.recovery_ms.tolist() == [0]
    assert found.primary_usage == pytest.approx([30])
    assert found.standby_usage.tolist() == [0]
