"""The demand test and admission, on figures that can be added up by hand."""

from __future__ import annotations

import math

import pytest

from placement.deadline.demand import admit, demand_rows, tightest, work_of
from placement.deadline.records import Admitted, DeadlineNode
from tests.unit.placement.deadline.two_nodes import chain, operator, problem


def work(name: str, cost_ms: float, deadline_ms: float) -> Admitted:
    return Admitted(name=name, cost_ms=cost_ms, deadline_ms=deadline_ms)


old = (work("old", 4, 10), work("slow", 20, 60))
nodes = (DeadlineNode(name="a", admitted=old), DeadlineNode(name="b"))


def test_what_fits_is_admitted_with_its_slack() -> None:
    new = work("new", 6, 10)
    assert admit(nodes, {"a": (new,)})
    binding = tightest("a", (*old, new))
    assert binding is not None
    assert (binding.node, binding.slack_ms) == ("a", 0)


def test_what_makes_another_late_is_refused_with_node_and_slack() -> None:
    new = work("new", 7, 10)
    assert not admit(nodes, {"a": (new,), "b": (work("more", 1, 50),)})
    binding = tightest("a", (*old, new))
    assert binding is not None
    assert (binding.node, binding.deadline_ms, binding.demand_ms) == ("a", 10, 11)
    assert binding.slack_ms == -1


def test_work_with_a_later_deadline_does_not_count() -> None:
    assert admit(nodes, {"a": (work("new", 36, 60),)})
    refused = work("new", 37, 60)
    assert not admit(nodes, {"a": (refused,)})
    binding = tightest("a", (*old, refused))
    assert binding is not None
    assert binding.deadline_ms == 60


def test_an_empty_cluster_admits_nothing_at_all() -> None:
    assert admit((DeadlineNode(name="a"),), {})


def test_equal_deadlines_count_together() -> None:
    place = tightest("a", (work("x", 3, 5), work("y", 4, 5)))
    assert place is not None
    assert place.slack_ms == -2


def test_no_work_has_no_tightest_place() -> None:
    assert tightest("a", ()) is None


def test_work_is_by_node_and_as_fast_as_the_node() -> None:
    two = problem([operator("o", 6, "in"), operator("p", 2, "o.out")], {"p.out": 40}, speeds=(2, 1))
    found = work_of(two, {"o": "a", "p": "b"}, {"o": 30, "p": 10})
    assert found == {"a": (work("o", 3, 30),), "b": (work("p", 2, 10),)}


def test_rows_charge_an_operator_once_though_it_serves_two_outputs() -> None:
    """(6), the digest's reading: once per node, from its first pair."""
    shared = problem(
        [operator("o", 2, "in"), operator("p", 3, "o.out"), operator("q", 1, "o.out")],
        {"p.out": 50, "q.out": 6},
    )
    rows = [row for row in demand_rows(shared) if row.node == "a"]
    assert [dict(row.costs_ms) for row in rows] == [
        {"q": 1},
        {"q": 1, "o": 2},
        {"q": 1, "o": 2},
        {"q": 1, "o": 2, "p": 3},
    ]
    assert [row.room_ms for row in rows] == [0, 0, 0, 0]


def test_rows_of_what_runs_already() -> None:
    busy = problem(
        [operator("o", 2, "in")],
        {"o.out": 12},
        admitted={"a": (work("old", 4, 10), work("slow", 20, 60))},
    )
    rows = [row for row in demand_rows(busy) if row.node == "a"]
    assert [(dict(row.costs_ms), row.room_ms) for row in rows] == [
        # d_o ≥ 2 + 4, for the old work is due before 12 ms.
        ({"o": 2}, -4),
        ({}, 6),
        ({"o": 2}, 36),
    ]


def test_slack_of_nothing_is_infinite_not_an_error() -> None:
    two = chain(1, 1, deadline_ms=10)
    work_by_node = work_of(two, {"o0": "a", "o1": "a"}, {"o0": 5, "o1": 5})
    assert admit(two.nodes, work_by_node)
    assert work_by_node["b"] == ()
    binding = tightest("a", work_by_node["a"])
    assert binding is not None
    assert math.isclose(binding.slack_ms, 3)


@pytest.mark.parametrize(("excess_ms", "admitted"), [(1e-6, True), (1e-3, False)])
def test_rounding_does_not_refuse(excess_ms: float, admitted: bool) -> None:
    assert admit(nodes, {"b": (work("new", 5 + excess_ms, 5),)}) == admitted
