"""Candidates beside which a secondary is possible."""

from __future__ import annotations

import numpy as np
import pytest

from placement.deadline.errors import NoStandby
from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import (
    DeadlineNode,
    DeadlineOperator,
    DeadlineOutput,
    DeadlineSource,
)
from placement.deadline.recovery import keep_recoverable, recoverable

NODES = ("a", "b", "c")
RACKS = {"a": (1,), "b": (1,), "c": (2,)}
REACH_MS = {"a": 1.0, "b": 2.0, "c": 9.0}


def test_a_candidate_needs_a_near_node_in_another_domain() -> None:
    """Within 5 ms only a and b: beside c there are two, beside them none in another rack."""
    assert recoverable("o", NODES, REACH_MS, RACKS, 5.0) == ("c",)


def test_with_more_time_all_are_kept() -> None:
    assert recoverable("o", NODES, REACH_MS, RACKS, 9.0) == NODES


def test_it_must_share_none_of_several_domains() -> None:
    """c alone has another machine, but it is in a's zone."""
    labels = {"a": (1, 1), "b": (1, 2), "c": (2, 1)}
    assert recoverable("o", NODES, REACH_MS, labels, 9.0) == ("b", "c")


def test_none_left_names_operator_and_the_nearest() -> None:
    with pytest.raises(NoStandby) as refusal:
        recoverable("o", ("a", "b"), REACH_MS, RACKS, 5.0)
    error = refusal.value
    assert (error.operator, error.transfer_ms, error.best_ms) == ("o", 5.0, 9.0)
    assert "operator o" in str(error)


def test_no_other_place_at_all_is_told() -> None:
    with pytest.raises(NoStandby) as refusal:
        recoverable("o", ("a",), {"a": 0.0}, {"a": (1,)}, 5.0)
    assert refusal.value.best_ms is None


def network() -> DeadlineProblem:
    """a and b beside each other, c 8 ms away; o → p."""
    one_way_ms = np.array([[0.0, 1.0, 8.0], [1.0, 0.0, 8.0], [8.0, 8.0, 0.0]])
    return DeadlineProblem(
        nodes=tuple(DeadlineNode(name=name) for name in NODES),
        operators=(
            DeadlineOperator(
                name="o", cost_ms=1, inputs=("in",), outputs=("o.out",), candidates=NODES
            ),
            DeadlineOperator(
                name="p", cost_ms=1, inputs=("o.out",), outputs=("p.out",), candidates=NODES
            ),
        ),
        sources=(DeadlineSource(stream="in", nodes=("a",)),),
        outputs=(DeadlineOutput(stream="p.out", deadline_ms=100, sink="a"),),
        one_way_ms=one_way_ms,
    )


def test_feeding_nodes_are_those_that_upstream_operators_may_still_take() -> None:
    """Secondaries of o have to be on a, so it may take c only; p is fed from there."""
    kept = keep_recoverable(network(), RACKS, {"o": 2.0, "p": 2.0})
    assert kept.by_name["o"].candidates == ("c",)
    # Near c there is only c itself.
    assert kept.by_name["p"].candidates == ("a", "b")
    with pytest.raises(NoStandby, match="operator p") as refusal:
        keep_recoverable(network(), RACKS, {"o": 2.0, "p": 2.0}, standbys=("a", "b"))
    assert refusal.value.best_ms == 8.0


def test_operators_without_a_bound_keep_their_candidates() -> None:
    kept = keep_recoverable(network(), RACKS, {"o": 2.0})
    assert kept.by_name["o"].candidates == ("c",)
    assert kept.by_name["p"].candidates == NODES
    assert kept.one_way_ms is not None
