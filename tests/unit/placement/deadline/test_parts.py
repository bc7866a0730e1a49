"""Parts of the decomposition: demand table, greedy placement, local search, lower bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placement.deadline.decomposed import place_in_parts
from placement.deadline.demand_table import DemandTable
from placement.deadline.errors import DeadlinesUnattainable
from placement.deadline.estimate import LowerBounds, queries
from placement.deadline.local_search import LocalSearch, place_greedily
from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import Admitted
from placement.deadline.solver_model import SolverSettings
from placement.program import MilpSettings
from tests.unit.placement.deadline.two_nodes import chain, operator, problem


def separate(*costs_ms: float, deadline_ms: float) -> DeadlineProblem:
    """Operators that each make an output; deadlines a little apart, so their order is told."""
    return problem(
        [operator(f"o{i}", cost_ms, "in") for i, cost_ms in enumerate(costs_ms)],
        {f"o{i}.out": deadline_ms + i / 1000 for i in range(len(costs_ms))},
    )


def test_demand_table_follows_operators_that_are_put_and_taken() -> None:
    three = separate(4, 3, 2, deadline_ms=10)
    demand_table = DemandTable(three, {"o0": "a", "o1": "b", "o2": "a"})
    assert demand_table.demand_ms.tolist() == [[4, 4, 6], [0, 3, 3]]
    assert demand_table.least_ms.tolist() == [4, 4, 6]
    assert demand_table.take("o0") == 0
    assert demand_table.least_ms.tolist() == [0, 3, 3]


def test_demand_table_includes_admitted_work() -> None:
    demand_table = DemandTable(
        problem(
            [operator("o", 5, "in")],
            {"o.out": 8},
            admitted={"a": (Admitted(name="old", cost_ms=6, deadline_ms=10),)},
        )
    )
    demand_table.put("o", 0)
    assert demand_table.overload_ms == 1
    demand_table.take("o")
    demand_table.put("o", 1)
    assert demand_table.overload_ms == 0


def test_demand_table_prices_demand_above_a_proportional_sub_deadline() -> None:
    """4 ms beside 4 ms, 5 ms each: the later one 3 ms too much, at 1/4 a ms."""
    demand_table = DemandTable(separate(4, 4, deadline_ms=5))
    demand_table.put("o0", 0)
    (here, _), (there, _) = demand_table.penalties("o1", [0, 1])
    assert here == pytest.approx((8 - 5.001) / 4)
    assert there == 0


def test_greedy_placement_separates_operators_that_do_not_fit_together() -> None:
    places = place_greedily(separate(4, 4, 1, deadline_ms=5))
    assert places["o0"] != places["o1"]


def test_local_search_moves_and_exchanges() -> None:
    """5 + 4 and 3 + 3 + 3 fit under 9 ms each; all of it on one node does not."""
    five = separate(5, 4, 3, 3, 3, deadline_ms=9)
    search = LocalSearch(five, dict.fromkeys(five.order, "a"), five.proportional_ms)
    places = search.improve(20)
    assert search.excess < 1e-9
    assert {n for name, n in places.items() if name in ("o0", "o1")} in ({"a"}, {"b"})


def test_local_search_exchanges_where_no_move_helps() -> None:
    """6 + 3 | 4 + 5 under 9: from 6 + 4 | 3 + 5 no single move lowers the sum."""
    four = separate(6, 4, 3, 5, deadline_ms=9)
    start = {"o0": "a", "o1": "a", "o2": "b", "o3": "b"}
    places = LocalSearch(four, start, four.proportional_ms).improve(20)
    assert places["o0"] == places["o2"]
    assert places["o1"] == places["o3"]


def test_lower_bounds_of_tied_work_and_of_work_spread_evenly() -> None:
    """9 ms of work on two nodes: 4.5 ms at least; the second alone takes 4 ms."""
    three = separate(3, 4, 2, deadline_ms=10)
    lower_bounds = LowerBounds(three)
    assert lower_bounds.least_ms.tolist() == [3, 4, 4]
    lower_bounds.raise_by_spreading()
    assert lower_bounds.least_ms == pytest.approx([3, 4, 4.5])


def test_lower_bounds_respect_speeds_and_admitted_work() -> None:
    busy = problem(
        [operator("o", 6, "in")],
        {"o.out": 20},
        speeds=(1, 2),
        admitted={"a": (Admitted(name="old", cost_ms=5, deadline_ms=10),)},
    )
    lower_bounds = LowerBounds(busy)
    # a is busy for 5 ms whatever o does; on b, o takes 3 ms.
    assert lower_bounds.least_ms.tolist() == [5]
    # At a price on a only, o costs nothing on b; at equal prices it is cheaper there.
    assert lower_bounds.lower_bound_ms(np.array([1.0, 0.0])).tolist() == [5]
    assert lower_bounds.lower_bound_ms(np.array([0.5, 0.5])).tolist() == [2.5 + 1.5]


def test_queries_that_share_an_operator_are_one() -> None:
    shared = problem(
        [
            operator("o", 1, "in"),
            operator("p", 1, "o.out"),
            operator("q", 1, "o.out"),
            operator("r", 1, "in"),
        ],
        {"p.out": 50, "q.out": 60, "r.out": 70},
    )
    assert list(queries(shared)) == [{"p.out", "q.out"}, {"r.out"}]


def test_regions_close_the_gap_of_a_tied_chain() -> None:
    """The chain of `test_models`: 1 is the optimum, and known to be."""
    found = place_in_parts(chain(4, 4, deadline_ms=12, tied={"o0": "a", "o1": "a"}))
    assert found.objective == pytest.approx(1)
    assert found.bound == pytest.approx(1)
    assert found.optimal


def test_a_query_without_a_placement_of_its_own_is_refused() -> None:
    with pytest.raises(DeadlinesUnattainable):
        place_in_parts(chain(4, 4, deadline_ms=7, tied={"o0": "a", "o1": "a"}))


def test_regions_improve_on_the_placement_of_single_queries() -> None:
    """Six operators under a curve that only one partition keeps: 5 + 5 + 2 | 4 + 4 + 4."""
    six = separate(5, 5, 4, 4, 4, 2, deadline_ms=12)
    found = place_in_parts(six, SolverSettings(milp=MilpSettings(gap=0.0)))
    assert found.objective == pytest.approx(0, abs=1e-6)
    at = found.places
    assert at["o2"] == at["o3"] == at["o4"]


def test_a_larger_weight_counts_more() -> None:
    one = chain(4, 4, deadline_ms=12, tied={"o0": "a", "o1": "a"})
    heavy = replace(one, operators=tuple(replace(o, weight=3.0) for o in one.operators))
    assert place_in_parts(heavy).objective == pytest.approx(3)
