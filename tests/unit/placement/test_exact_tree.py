"""The dynamic programme on trees small enough to see the answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from placement.exact_tree import ExactTask, StandbyTerms, is_tree, place_tree
from placement.graph import QueryGraph
from placement.network import NetworkView
from tests.unit.placement.on_a_line import line, nodes, query

view = line({f"n{i}": 10.0 * i for i in range(5)}, {"s": 0, "t": 40})
ends = {"S": "s", "R": "s", "T": "t"}


def solved(
    graph: QueryGraph,
    where: str = "n0 n1 n2 n3 n4",
    *,
    over: NetworkView = view,
    price_ms: dict[str, float] | None = None,
    catch_up_ms: float | None = None,
    batch_size: int = 1,
    apart: bool = False,
    crossing_ms: float = 0.0,
) -> tuple[str, float]:
    """Places of the operators in the order of their names, and the cost."""
    prices_ms = np.array([(price_ms or {}).get(node.name, 0.0) for node in over.nodes])
    standby = None
    if catch_up_ms is not None:
        standby = StandbyTerms(
            nodes=over.host_indices, catch_up_ms=catch_up_ms, batch_size=batch_size
        )
    found = place_tree(
        ExactTask(
            graph=graph,
            view=over,
            candidates={name: nodes(over, where) for name in graph.to_place},
            price_bytes=graph.mean_input_rate * prices_ms / 1e3,
            standby=standby,
            apart=apart,
            crossing_ms=crossing_ms,
        )
    )
    assert found.primaries == found.primaries | graph.pinned
    return " ".join(found.primaries[name] for name in sorted(graph.to_place)), found.cost


def test_an_operator_that_thins_its_stream_stands_at_the_source():
    assert solved(query({"Sa": 1000, "aT": 10}, ends)) == ("n0", pytest.approx(0.4))


def test_an_operator_that_multiplies_its_stream_stands_at_the_sink():
    assert solved(query({"Sa": 10, "aT": 1000}, ends)) == ("n4", pytest.approx(0.4))


def test_only_candidates_are_taken():
    # 1000 · 20 ms + 10 · 20 ms
    assert solved(query({"Sa": 1000, "aT": 10}, ends), "n2 n3") == ("n2", pytest.approx(20.2))


def test_a_busy_node_is_left_for_one_farther_away():
    """§4.2: 11 ms of CPU on n0 are dearer than 10 ms of way to n1, 9 are not."""
    graph = query({"Sa": 1000, "aT": 0}, ends)
    assert solved(graph, price_ms={"n0": 11}) == ("n1", pytest.approx(10))
    assert solved(graph, price_ms={"n0": 9}) == ("n0", pytest.approx(9))


def test_operators_stay_together_unless_the_way_is_dearer_than_the_crossing():
    graph = query({"Sa": 1000, "ab": 500, "bT": 1000}, ends)
    # b may be anywhere from n0 to n4: 500 bytes/s less go its way, 1000 more.
    busy = {"n0": 4.0, "n1": 0.0}
    assert solved(graph, "n0 n1", price_ms=busy)[0] == "n0 n1"
    # Apart, one more link crosses: 500 · 3 ms of crossing, 1500 bytes/s of load price.
    assert solved(graph, "n0 n1", price_ms=busy, crossing_ms=30)[0] == "n1 n1"


def test_the_secondary_is_paid_where_the_primary_is_chosen():
    """n0 and n1 take the two replicas of a; the output decides which is which."""
    graph = query({"Sa": 1000, "aT": 10}, ends)
    # Primary on n1: 10 + 0.3; secondary on n0: 0.
    assert solved(graph, catch_up_ms=100) == ("n1", pytest.approx(10.3))


def test_the_bound_keeps_primaries_off_the_secondarys_node():
    """Within 5 ms of the source there is n0 alone."""
    graph = query({"Sa": 1000, "aT": 0}, ends)
    where, cost = solved(graph, catch_up_ms=5)
    assert (where, cost) == ("n1", pytest.approx(10))
    assert solved(graph, "n0", catch_up_ms=5)[1] == math.inf


def test_the_secondary_is_in_another_failure_domain():
    domains = {"n0": "a", "n1": "a", "n2": "a", "n3": "b", "n4": "b"}
    over = line({f"n{i}": 10.0 * i for i in range(5)}, {"s": 0, "t": 40}, domains=domains)
    # Replicas on n0 and n3: 30, and 0.4 from n0 to the sink or 0.1 from n3.
    graph = query({"Sa": 1000, "aT": 10}, ends)
    assert solved(graph, over=over, catch_up_ms=100) == ("n3", pytest.approx(30.1))


def test_a_secondary_is_fed_by_primaries():
    """b's secondary wants to be where a's primary is, so a's is not where b's primary is."""
    graph = query({"Sa": 100, "ab": 1000, "bT": 1000}, ends)
    where, cost = solved(graph, catch_up_ms=100)
    a, b = where.split()
    # Both on n4: 4 + 40 for the sink's sake are dearer than the ways that are split here.
    assert (a, b) == ("n3", "n4")
    # S→a 3, S→a's secondary 0, a→b 10, a→b's secondary 0, b→T 0.
    assert cost == pytest.approx(13)


def test_reprocessing_leaves_less_time_for_the_transfer():
    """Batches of 6 hold back 5 tuples of 2 ms: 10 ms less."""
    graph = query({"Sa": 10, "aT": 1000}, ends, cost_us=2000)
    for catch_up_ms in (20, 30, 39, 40, 50):
        batched = solved(graph, "n4 n3", catch_up_ms=catch_up_ms, batch_size=6)
        assert batched == solved(graph, "n4 n3", catch_up_ms=catch_up_ms - 10)
    assert solved(graph, "n4", catch_up_ms=9, batch_size=6)[1] == math.inf
    assert math.isfinite(solved(graph, "n4", catch_up_ms=10, batch_size=6)[1])


def test_linked_operators_apart():
    graph = query({"Sa": 1000, "ab": 10, "bT": 1}, ends)
    assert solved(graph) == ("n0 n0", pytest.approx(0.04))
    assert solved(graph, apart=True) == ("n0 n1", pytest.approx(0.1 + 0.03))
    assert solved(graph, "n2", apart=True)[1] == math.inf


def test_one_operator_feeds_two():
    """a stands where its three links balance: two of three towards the sink."""
    graph = query({"Sa": 1000, "ab": 600, "ac": 600, "bT": 600, "cT": 600}, ends)
    # All of them on n4: 1000 · 40 ms; on n0: 1200 · 40 ms.
    assert solved(graph) == ("n4 n4 n4", pytest.approx(40))


def test_a_sink_fed_by_an_operator_and_its_consumer():
    """The links to a pinned sink close no circle: a → b → T and a → T."""
    graph = query({"Sa": 1000, "ab": 500, "aT": 300, "bT": 300}, ends)
    assert is_tree(graph)
    # Moving both away from the source saves 600 a millisecond and costs 1000.
    assert solved(graph) == ("n0 n0", pytest.approx(24))


def test_many_inputs_need_no_table_of_all_of_them():
    """Twelve operators feed one: 5¹³ places, or twelve tables of 5²."""
    inputs = "bcdefghijklm"
    rates = {f"S{name}": 10.0 for name in inputs} | {f"{name}a": 100.0 for name in inputs}
    graph = query(rates | {"aT": 1500}, ends)
    # At the sink all twelve inputs come 40 ms for 10 bytes/s each.
    assert solved(graph) == (" ".join(["n4"] * 13), pytest.approx(12 * 0.4))
    where, cost = solved(graph, catch_up_ms=1000)
    assert where.split()[0] == "n4"
    assert math.isfinite(cost)


def test_operators_that_nothing_connects_are_placed_each_for_itself():
    graph = query({"Sa": 1000, "aT": 10, "Rb": 10, "bT": 1000}, ends)
    assert solved(graph) == ("n0 n4", pytest.approx(0.8))


def test_pinned_links_are_in_the_cost():
    assert solved(query({"ST": 1000, "Sa": 0}, ends))[1] == pytest.approx(40)


@pytest.mark.parametrize(
    ("links", "tree"),
    [
        ("Sa ab bT", True),
        ("Sa Rb ac bc", True),
        ("Sa ab ac", True),
        ("Sa ab ac bd cd", False),
        ("Sa ab ac bc", False),
        ("Sa Sb aT bT", True),
    ],
)
def test_circles_among_operators_to_be_placed_are_no_trees(links: str, tree: bool):
    assert is_tree(query(dict.fromkeys(links.split(), 1.0), ends)) is tree
