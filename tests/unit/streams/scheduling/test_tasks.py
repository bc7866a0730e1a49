"""Task extraction by §5.3 of deadline placement."""

from __future__ import annotations

import math

import pytest

from streams.scheduling.tasks import Task, TaskError, TaskOperator, extract_tasks


def operator(
    name: str,
    *inputs: str,
    deadline_ms: float = 300,
    elsewhere_ms: float | None = None,
    sub_deadline_ms: float = 1,
) -> TaskOperator:
    return TaskOperator(
        name=name,
        inputs=inputs,
        sub_deadline_ms=sub_deadline_ms,
        deadline_ms=deadline_ms,
        elsewhere_ms=elsewhere_ms,
    )


def paths(*operators: TaskOperator) -> list[tuple[str, ...]]:
    return [task.operators for task in extract_tasks(operators)]


def test_no_operators_no_tasks() -> None:
    assert extract_tasks(()) == ()


def test_chain_is_one_task_and_its_sub_deadlines_add_up() -> None:
    chain = [
        operator("c", "b", sub_deadline_ms=4, elsewhere_ms=300),
        operator("a", "sensors", sub_deadline_ms=1),
        operator("b", "a", sub_deadline_ms=2),
    ]
    (task,) = extract_tasks(chain)
    assert task == Task(name="a", operators=("a", "b", "c"), sub_deadline_ms=7)


def test_operator_with_two_inputs_begins_a_task() -> None:
    made = paths(
        operator("left", "x"),
        operator("right", "y"),
        operator("join", "left", "right"),
        operator("after", "join", elsewhere_ms=300),
    )
    assert made == [("join", "after"), ("left",), ("right",)]


def test_operator_with_an_input_from_another_node_besides_begins_a_task() -> None:
    made = paths(operator("a", "x"), operator("b", "a", "from_another_node", elsewhere_ms=300))
    assert made == [("a",), ("b",)]


def test_self_join_has_one_input_stream() -> None:
    assert paths(operator("a", "x"), operator("b", "a", "a", elsewhere_ms=9)) == [("a", "b")]


def test_operator_with_several_outputs_is_merged_into_the_most_urgent_branch() -> None:
    made = paths(
        operator("fork", "x", deadline_ms=30),
        operator("slow", "fork", deadline_ms=3000, elsewhere_ms=3000),
        operator("urgent", "fork", deadline_ms=30, elsewhere_ms=30),
    )
    assert made == [("fork", "urgent"), ("slow",)]


def test_most_urgent_branch_with_two_inputs_leaves_the_operator_alone() -> None:
    made = paths(
        operator("fork", "x", deadline_ms=30),
        operator("slow", "fork", deadline_ms=3000, elsewhere_ms=3000),
        operator("urgent", "fork", "y", deadline_ms=30, elsewhere_ms=30),
    )
    assert made == [("fork",), ("slow",), ("urgent",)]


def test_more_urgent_consumer_elsewhere_leaves_the_operator_alone() -> None:
    made = paths(
        operator("control", "sensors", deadline_ms=30, elsewhere_ms=30),
        operator("warn", "control", deadline_ms=300, elsewhere_ms=300),
    )
    assert made == [("control",), ("warn",)]


def test_less_urgent_consumer_elsewhere_does_not_keep_operators_apart() -> None:
    made = paths(
        operator("fork", "x", deadline_ms=30, elsewhere_ms=3000),
        operator("urgent", "fork", deadline_ms=30, elsewhere_ms=30),
    )
    assert made == [("fork", "urgent")]


def test_equally_urgent_branches_go_by_name_and_within_the_node() -> None:
    made = paths(
        operator("fork", "x", elsewhere_ms=300),
        operator("two", "fork", elsewhere_ms=300),
        operator("one", "fork", "y", elsewhere_ms=300),
        operator("three", "fork", elsewhere_ms=300),
    )
    assert made == [("fork", "three"), ("one",), ("two",)]


def test_without_deadlines_operators_are_merged_all_the_same() -> None:
    made = paths(
        operator("a", "x", deadline_ms=math.inf),
        operator("b", "a", deadline_ms=math.inf, elsewhere_ms=math.inf),
    )
    assert made == [("a", "b")]


def test_operators_that_only_feed_each_other_are_cut_at_the_smallest_name() -> None:
    assert paths(operator("b", "a"), operator("c", "b"), operator("a", "c")) == [("a", "b", "c")]


def test_collision_warning_with_o3_on_node_2() -> None:
    """Fig. 2, proposed placement: O4 joins O3's output with data of the own vehicle."""
    rest = [f"o{number}" for number in range(7, 22)]
    chain = ["o4", *rest]
    made = paths(
        operator("o3", "o2"),
        operator("o4", "o3", "o1"),
        *(operator(name, before) for before, name in zip(chain, rest[:-1], strict=False)),
        operator("o21", "o20", elsewhere_ms=300),
    )
    assert made == [("o3",), tuple(chain)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([operator("a", "x"), operator("a", "y")], "operator a: occurs twice"),
        ([operator("a")], "operator a: has no input"),
        ([operator("a", "x", sub_deadline_ms=0)], "sub-deadline is 0 ms"),
        ([operator("a", "x", sub_deadline_ms=math.nan)], "sub-deadline is nan ms"),
        ([operator("a", "x", deadline_ms=-1)], "end-to-end deadline is -1 ms"),
        ([operator("a", "x", elsewhere_ms=math.nan)], "end-to-end deadline is nan ms"),
    ],
)
def test_says_which_operator_is_wrong(wrong: list[TaskOperator], said: str) -> None:
    with pytest.raises(TaskError, match=said):
        extract_tasks(wrong)
