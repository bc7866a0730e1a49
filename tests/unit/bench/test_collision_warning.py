"""The paper's use case, placed by deadline and by traffic (deadline placement, §4 and §6)."""

from __future__ import annotations

import pytest

from bench.collision_warning import collision_warning
from bench.traffic_baseline import place_by_traffic
from placement.deadline.contraction import contract
from placement.deadline.errors import DeadlinesUnattainable
from placement.deadline.paper_model import place_by_paper_model
from placement.deadline.result import DeadlinePlacement
from placement.deadline.solver import place_by_deadline
from tests.contractions import expand


def by_deadline(v2v_tuples: float) -> DeadlinePlacement:
    contraction = contract(collision_warning(v2v_tuples))
    return expand(contraction, place_by_deadline(contraction.problem))


def test_twenty_one_operators_three_outputs_two_nodes() -> None:
    problem = collision_warning(20)
    assert (len(problem.operators), len(problem.outputs), len(problem.nodes)) == (21, 3, 2)
    assert {name for name, o in problem.by_name.items() if len(o.candidates) == 2} == {"O3"}
    # "20 × 2 + 10 × 16", "10" and (100 tuples through two operators) "200 ms".
    assert sorted(problem.work_ms.values()) == [10, 20 * 2 + 10 * 16, 200]


@pytest.mark.parametrize("v2v_tuples", [15.0, 20.0])
def test_deadline_placement_puts_o3_on_node_2(v2v_tuples: float) -> None:
    assert by_deadline(v2v_tuples).places["O3"] == "node2"
    whole = contract(collision_warning(v2v_tuples)).problem
    assert place_by_paper_model(whole).places["O3"] == "node2"


def test_at_20_tuples_it_only_just_fits() -> None:
    """§4.1: 20 + 10 ms on node 1 are the 30 ms of vehicle control, exactly."""
    found = by_deadline(20)
    assert found.sub_deadlines_ms["O1"] == pytest.approx(30)
    assert found.sub_deadlines_ms["O2"] == pytest.approx(30)
    assert found.objective == pytest.approx(0, abs=1e-6)
    assert by_deadline(21).objective > 0.01


@pytest.mark.parametrize("v2v_tuples", [5.0, 15.0, 20.0])
def test_existing_allocation_puts_o3_on_node_1(v2v_tuples: float) -> None:
    """ "Less traffic, and node 1 has fewer operators." """
    found = place_by_traffic(collision_warning(v2v_tuples), lender=by_deadline(v2v_tuples))
    assert found.places["O3"] == "node1"
    assert found.sub_deadlines_ms == by_deadline(v2v_tuples).sub_deadlines_ms


def test_operator_by_operator_there_is_no_solution() -> None:
    """Sixteen operators in a row on node 2 count against each other in (6)."""
    with pytest.raises(DeadlinesUnattainable) as refusal:
        place_by_deadline(collision_warning(15))
    # 7.5 + 15 + … + 120 for O4 and O7 to O21, and before them what O2 and O3 need.
    assert refusal.value.relaxation_ms["O21.out"] > 7.5 * 136 - 300
