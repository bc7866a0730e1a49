"""Sub-deadlines of given placements."""

from __future__ import annotations

import pytest

from placement.deadline.records import Admitted
from placement.deadline.result import DeadlinePlacement, deviation
from placement.deadline.sub_deadlines import best_sub_deadlines
from tests.unit.placement.deadline.two_nodes import chain, operator, problem


def test_proportional_sub_deadlines_if_they_fit() -> None:
    loose = chain(2, 3, deadline_ms=50)
    pair_deadlines_ms = best_sub_deadlines(loose, {"o0": "a", "o1": "b"})
    assert pair_deadlines_ms == {("o1.out", "o0"): 20, ("o1.out", "o1"): 30}
    assert pair_deadlines_ms is not None
    assert deviation(loose, pair_deadlines_ms) == 0


def test_one_operator_gives_the_time_that_another_needs() -> None:
    """Both of 4 ms on a: the second is due after 8 ms, of 12 there are; the first has 4 left."""
    tight = chain(4, 4, deadline_ms=12)
    pair_deadlines_ms = best_sub_deadlines(tight, {"o0": "a", "o1": "a"})
    assert pair_deadlines_ms == pytest.approx({("o1.out", "o0"): 4, ("o1.out", "o1"): 8})
    assert pair_deadlines_ms is not None
    assert deviation(tight, pair_deadlines_ms) == pytest.approx(2 / 4 + 2 / 4)


def test_none_if_the_demand_is_too_large() -> None:
    assert best_sub_deadlines(chain(4, 4, deadline_ms=11.9), {"o0": "a", "o1": "a"}) is None


def test_latency_reduces_sub_deadlines() -> None:
    """10 ms to the sink of 50: the reduction is where it is cheapest, at the larger cost."""
    far = chain(2, 3, deadline_ms=50, latency_ms=10)
    pair_deadlines_ms = best_sub_deadlines(far, {"o0": "a", "o1": "a"})
    assert pair_deadlines_ms == pytest.approx({("o1.out", "o0"): 20, ("o1.out", "o1"): 20})


def test_none_if_latency_uses_up_the_deadline() -> None:
    assert (
        best_sub_deadlines(chain(2, 3, deadline_ms=14, latency_ms=10), {"o0": "a", "o1": "b"})
        is None
    )


def test_none_if_admitted_work_would_be_late() -> None:
    busy = problem(
        [operator("o", 5, "in")],
        {"o.out": 8},
        admitted={"a": (Admitted(name="old", cost_ms=6, deadline_ms=10),)},
    )
    assert best_sub_deadlines(busy, {"o": "a"}) is None
    assert best_sub_deadlines(busy, {"o": "b"}) is not None


def test_the_nearest_node_with_the_source_counts() -> None:
    far = chain(1, deadline_ms=50, latency_ms=10)
    assert far.source_latency_ms("in", 0) == 0
    assert far.source_latency_ms("in", 1) == 10


def test_an_operator_for_two_outputs_is_due_by_the_earlier() -> None:
    """§5.2.6: the minimum."""
    found = DeadlinePlacement(
        places={"o": "a"},
        pair_deadlines_ms={("x", "o"): 5, ("y", "o"): 3},
        objective=2.0,
        bound=1.5,
        optimal=False,
    )
    assert found.sub_deadlines_ms == {"o": 3}
    assert found.gap == 0.25
