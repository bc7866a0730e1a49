"""Chains bound to one node as one operator."""

from __future__ import annotations

import pytest

from placement.deadline.contraction import contract
from placement.deadline.errors import DeadlinesUnattainable
from placement.deadline.result import deviation
from placement.deadline.solver import place_by_deadline
from tests.contractions import expand
from tests.unit.placement.deadline.two_nodes import chain, operator, problem


def test_a_chain_on_one_node_is_one_operator() -> None:
    contraction = contract(
        chain(1, 2, 3, 4, deadline_ms=100, tied={"o1": "a", "o2": "a", "o3": "a"})
    )
    assert contraction.parts == {"o0": ("o0",), "o1…o3": ("o1", "o2", "o3")}
    whole = contraction.problem.by_name["o1…o3"]
    assert (whole.cost_ms, whole.weight, whole.candidates) == (9, 3, ("a",))
    assert (whole.inputs, whole.outputs) == (("o0.out",), ("o3.out",))


def test_chains_part_where_nodes_differ_or_are_free() -> None:
    mixed = chain(1, 1, 1, deadline_ms=100, tied={"o0": "a", "o1": "b"})
    assert set(contract(mixed).parts) == {"o0", "o1", "o2"}


def test_chains_part_where_streams_are_read_twice_joined_or_delivered() -> None:
    on_a = ("a",)
    graph = problem(
        [
            operator("o", 1, "in", candidates=on_a),
            operator("p", 1, "o.out", candidates=on_a),
            operator("q", 1, "o.out", candidates=on_a),
            operator("join", 1, "p.out q.out", candidates=on_a),
            operator("after", 1, "join.out", candidates=on_a),
        ],
        {"join.out": 50, "after.out": 60},
    )
    assert len(contract(graph).parts) == 5


def test_only_as_one_operator_a_long_chain_fits() -> None:
    """Five times 4 ms on a: 4 + 8 + … + 20 = 60 ms one by one, 20 ms as one."""
    five = {f"o{i}": "a" for i in range(5)}
    tight = chain(*[4.0] * 5, deadline_ms=30, tied=five)
    with pytest.raises(DeadlinesUnattainable):
        place_by_deadline(tight)
    contraction = contract(tight)
    found = expand(contraction, place_by_deadline(contraction.problem))
    assert found.places == five
    assert found.sub_deadlines_ms == pytest.approx(dict.fromkeys(five, 6.0))


def test_expanding_leaves_the_objective_as_it_was() -> None:
    """Beside 9 ms of something else on a, due after 12 ms, the chain of 6 ms is done after 15."""
    tight = chain(2, 4, 4, deadline_ms=22, tied={"o0": "a", "o1": "a", "o2": "b"})
    two = problem(
        [*tight.operators, operator("other", 9, "in", candidates=("a",))],
        {"o2.out": 22, "other.out": 12},
    )
    contraction = contract(two)
    found = place_by_deadline(contraction.problem)
    whole = expand(contraction, found)
    assert found.objective > 0.1
    assert deviation(two, whole.pair_deadlines_ms) == pytest.approx(found.objective)


def test_rates_within_a_chain_go_with_it() -> None:
    rated = problem(
        [operator("o", 1, "in", candidates=("a",)), operator("p", 1, "o.out", candidates=("a",))],
        {"p.out": 50},
        rates_bytes_s={"in": 3.0, "o.out": 2.0, "p.out": 1.0},
    )
    assert contract(rated).problem.rates_bytes_s == {"in": 3.0, "p.out": 1.0}


def test_operators_that_move_together_are_contracted_although_they_have_a_choice() -> None:
    line = chain(1, 2, 3, deadline_ms=100)
    assert set(contract(line).parts) == {"o0", "o1", "o2"}
    contraction = contract(line, lambda _, consumer: consumer != "o2")
    assert contraction.parts == {"o0…o1": ("o0", "o1"), "o2": ("o2",)}
    assert contraction.problem.by_name["o0…o1"].candidates == ("a", "b")
    assert contraction.shares("o0…o1", 30.0) == pytest.approx({"o0": 10.0, "o1": 20.0})
