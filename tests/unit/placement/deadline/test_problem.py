"""What a deadline problem derives from its parts, and the parts that it refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from placement.deadline.errors import DeadlineProblemError
from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import Admitted, DeadlineNode, DeadlineOutput, DeadlineSource
from tests.unit.placement.deadline.two_nodes import chain, operator, problem

diamond = problem(
    [
        operator("root", 2, "in", outputs="left right"),
        operator("l", 3, "left"),
        operator("r", 1, "right"),
        operator("join", 4, "l.out r.out"),
    ],
    {"join.out": 40, "r.out": 6},
)


def test_proportional_sub_deadlines_divide_a_deadline_by_cost() -> None:
    """(1)."""
    proportional_ms = {(p.output, p.operator): p.proportional_ms for p in diamond.pairs}
    assert diamond.work_ms == {"join.out": 10, "r.out": 3}
    assert proportional_ms == {
        ("join.out", "root"): 8,
        ("join.out", "l"): 12,
        ("join.out", "r"): 4,
        ("join.out", "join"): 16,
        ("r.out", "root"): 4,
        ("r.out", "r"): 2,
    }


def test_pairs_come_by_proportional_sub_deadline_and_operators_count_from_their_first() -> None:
    proportional_ms = [pair.proportional_ms for pair in diamond.pairs]
    assert proportional_ms == sorted(proportional_ms)
    assert diamond.first == {"r": 0, "root": 1, "l": 4, "join": 5}


def test_equal_proportional_sub_deadlines_come_by_deadline() -> None:
    assert [(p.proportional_ms, p.output) for p in diamond.pairs][1:3] == [
        (4, "r.out"),
        (4, "join.out"),
    ]


def test_paths_and_their_number() -> None:
    paths = {("root", "l", "join"), ("root", "r", "join")}
    assert set(diamond.paths("join.out")) == paths
    assert diamond.count_paths("join.out") == 2
    assert diamond.needed["r.out"] == ("root", "r")


def test_an_order_in_which_producers_come_first() -> None:
    assert diamond.order == ("root", "l", "r", "join")
    assert diamond.upstream("join") == ("l", "r")
    assert diamond.consumers["left"] == ("l",)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: chain(1, 0, deadline_ms=10), "operator o1: cost_ms 0"),
        (lambda: chain(1, deadline_ms=-5), "output o0.out: deadline_ms -5"),
        (lambda: chain(1, deadline_ms=5, tied={"o0": "c"}), "operator o0: no node is named 'c'"),
        (
            lambda: problem([operator("o", 1, "other")], {"o.out": 5}),
            "'other' has no producer and no source",
        ),
        (lambda: problem([operator("o", 1, "in")], {"x": 5}), "output x: no operator makes it"),
        (
            lambda: problem([operator("o", 1, "in"), operator("p", 1, "in")], {"o.out": 5}),
            "operator p: no output needs it",
        ),
        (
            lambda: problem([operator("o", 1, "p.out"), operator("p", 1, "o.out")], {"o.out": 5}),
            "operators o, p: feed each other in a cycle",
        ),
        (
            lambda: problem([operator("o", 1, "in"), operator("o", 1, "in")], {"o.out": 5}),
            "operator o: occurs twice",
        ),
        (
            lambda: problem([operator("o", 1, "in", candidates=())], {"o.out": 5}),
            "operator o: names no node",
        ),
        (
            lambda: problem([operator("o", 1, "in")], {"o.out": 5}, speeds=(1, 0)),
            "node b: speed 0",
        ),
        (
            lambda: problem(
                [operator("o", 1, "in")],
                {"o.out": 5},
                admitted={"a": (Admitted(name="w", cost_ms=1, deadline_ms=0),)},
            ),
            "node a, admitted w: deadline_ms 0",
        ),
        (
            lambda: problem([operator("o", 1, "in")], {"o.out": 5}, rates_bytes_s={"x": 1}),
            "rate of stream x: there is no such stream",
        ),
    ],
)
def test_contradictions_are_refused(make: Callable[[], DeadlineProblem], told: str) -> None:
    with pytest.raises(DeadlineProblemError) as refusal:
        make()
    assert told in str(refusal.value)


@pytest.mark.parametrize(
    ("one_way_ms", "told"),
    [
        ([[0.0]], r"one_way_ms: shape \(1, 1\)"),
        ([[0.0, -1.0], [0.0, 0.0]], "latency a → b: -1.0"),
        ([[0.0, 1.0], [1.0, 2.0]], "latency b → b: 2.0"),
    ],
)
def test_latencies_are_checked(one_way_ms: list[list[float]], told: str) -> None:
    with pytest.raises(DeadlineProblemError, match=told):
        DeadlineProblem(
            nodes=(DeadlineNode(name="a"), DeadlineNode(name="b")),
            operators=(operator("o", 1, "in"),),
            sources=(DeadlineSource(stream="in", nodes=("a",)),),
            outputs=(DeadlineOutput(stream="o.out", deadline_ms=5, sink="a"),),
            one_way_ms=np.array(one_way_ms),
        )
