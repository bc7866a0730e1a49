"""Proportional sub-deadlines of a placement, computed by hand."""

from __future__ import annotations

import pytest

from placement.deadline.records import DeadlineOperator
from placement.deadline.sub_deadlines import proportional_stretch, proportional_sub_deadlines
from tests.unit.placement.deadline.two_nodes import BOTH, chain, operator, problem


def test_without_latency_a_single_path_has_the_papers_sub_deadlines() -> None:
    loose = chain(2, 3, deadline_ms=50)
    found = proportional_sub_deadlines(loose, {"o0": "a", "o1": "b"})
    assert found == pytest.approx({pair.operator: pair.proportional_ms for pair in loose.pairs})
    assert found == pytest.approx({"o0": 20, "o1": 30})


def test_time_that_latency_leaves_is_divided_by_cost() -> None:
    """10 ms to the sink on b, or 30 if the second is there and the first goes back and forth."""
    far = chain(2, 3, deadline_ms=50, latency_ms=10)
    assert proportional_sub_deadlines(far, {"o0": "a", "o1": "a"}) == pytest.approx(
        {"o0": 16, "o1": 24}
    )
    assert proportional_sub_deadlines(far, {"o0": "b", "o1": "a"}) == pytest.approx(
        {"o0": 8, "o1": 12}
    )


def test_no_sub_deadlines_if_latency_takes_it_all() -> None:
    late = chain(2, 3, deadline_ms=10, latency_ms=10)
    assert proportional_sub_deadlines(late, {"o0": "a", "o1": "a"}) is None
    assert proportional_stretch(late, {"o0": "a", "o1": "a"}) == {"o1.out": 0.0}
    later = chain(2, 3, deadline_ms=5, latency_ms=10)
    assert proportional_stretch(later, {"o0": "a", "o1": "a"})["o1.out"] < 0


def join(cost_x_ms: float, cost_y_ms: float) -> list[DeadlineOperator]:
    """x and y side by side, then z."""
    return [
        operator("x", cost_x_ms, "in"),
        operator("y", cost_y_ms, "in"),
        operator("z", 1.0, "x.out y.out"),
    ]


def test_the_path_that_binds_decides() -> None:
    """By way of y 1 + 1 ms of work and 60 of latency; by way of x 9 + 1 ms of work and 20."""
    places = {"x": "a", "y": "b", "z": "a"}
    both = problem(join(9, 1), {"z.out": 100}, latency_ms=20)
    # x: (100 − 20) / 10 = 8; y: (100 − 60) / 2 = 20.
    assert proportional_stretch(both, places) == pytest.approx({"z.out": 8})
    near = problem(join(9, 1), {"z.out": 66}, latency_ms=20)
    # x: 46 / 10 = 4.6; y: 6 / 2 = 3.
    found = proportional_sub_deadlines(near, places)
    assert found == pytest.approx({"x": 27, "y": 3, "z": 3})


def test_an_operator_of_several_outputs_has_the_least_of_its_sub_deadlines() -> None:
    fork = problem(
        [operator("x", 2, "in"), operator("y", 2, "x.out"), operator("z", 8, "x.out")],
        {"y.out": 40, "z.out": 50},
    )
    places = dict.fromkeys("xyz", "b")
    assert proportional_stretch(fork, places) == pytest.approx({"y.out": 10, "z.out": 5})
    assert proportional_sub_deadlines(fork, places) == pytest.approx({"x": 10, "y": 20, "z": 40})


def test_one_output_without_time_leaves_no_sub_deadlines_at_all() -> None:
    pair = problem(
        [operator("x", 2, "in"), operator("y", 2, "in", candidates=BOTH)],
        {"x.out": 5, "y.out": 500},
        latency_ms=10,
    )
    assert proportional_sub_deadlines(pair, {"x": "b", "y": "a"}) is None
