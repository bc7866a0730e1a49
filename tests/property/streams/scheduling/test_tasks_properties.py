"""Tasks of random plans against merging by hand, pair by pair."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.scheduling.tasks import TaskOperator, extract_tasks


@st.composite
def plans(draw: st.DrawFn) -> list[TaskOperator]:
    """Acyclic plans of one node; streams named x… come from elsewhere."""
    count = draw(st.integers(1, 9))
    names = draw(st.permutations([f"o{number}" for number in range(count)]))
    inputs: dict[str, tuple[str, ...]] = {}
    for at, name in enumerate(names):
        streams = [*names[:at], "x0", "x1"]
        chosen = draw(st.lists(st.sampled_from(streams), min_size=1, max_size=3))
        inputs[name] = tuple(chosen)
    consumers = {name: [other for other in names if name in inputs[other]] for name in names}
    elsewhere_ms: dict[str, float | None] = {}
    deadline_ms: dict[str, float] = {}
    for name in reversed(names):
        deadlines = st.sampled_from([30.0, 300.0, 3000.0, math.inf])
        elsewhere_ms[name] = draw(st.none() | deadlines if consumers[name] else deadlines)
        branches = [deadline_ms[other] for other in consumers[name]]
        own_ms = elsewhere_ms[name]
        deadline_ms[name] = min([*branches, *([] if own_ms is None else [own_ms])])
    return [
        TaskOperator(
            name=name,
            inputs=inputs[name],
            sub_deadline_ms=draw(st.integers(1, 50)),
            deadline_ms=deadline_ms[name],
            elsewhere_ms=elsewhere_ms[name],
        )
        for name in names
    ]


def merged_by_hand(operators: list[TaskOperator]) -> set[tuple[str, ...]]:
    """§5.3 as it is written: as long as two tasks can be merged, merge them."""
    by_name = {operator.name: operator for operator in operators}
    outputs: dict[str, list[str | None]] = {}
    for name, operator in by_name.items():
        outputs[name] = [None] if operator.elsewhere_ms is not None else []
        outputs[name] += [other.name for other in operators if name in other.inputs]

    def leads_to_ms(name: str, branch: str | None) -> float:
        if branch is not None:
            return min(leads_to_ms(branch, further) for further in outputs[branch])
        own_ms = by_name[name].elsewhere_ms
        assert own_ms is not None
        return own_ms

    def merges(name: str, other: str) -> bool:
        if other not in outputs[name] or set(by_name[other].inputs) != {name}:
            return False
        branches = outputs[name]
        return len(branches) == 1 or leads_to_ms(name, other) == min(
            leads_to_ms(name, branch) for branch in branches
        )

    tasks: list[tuple[str, ...]] = [(name,) for name in by_name]
    while True:
        pairs = [(a, b) for a in tasks for b in tasks if a != b and merges(a[-1], b[0])]
        if not pairs:
            return set(tasks)
        first, second = min(pairs, key=lambda pair: (pair[0], pair[1][0]))
        tasks = [*(one for one in tasks if one not in (first, second)), first + second]


@settings(max_examples=200, deadline=None)
@given(plans())
def test_tasks_are_those_of_merging_pair_by_pair(operators: list[TaskOperator]) -> None:
    tasks = extract_tasks(operators)
    assert {task.operators for task in tasks} == merged_by_hand(operators)


@settings(max_examples=100, deadline=None)
@given(plans())
def test_every_operator_is_in_one_task_with_its_sub_deadline(
    operators: list[TaskOperator],
) -> None:
    tasks = extract_tasks(operators)
    sub_deadline_ms = {operator.name: operator.sub_deadline_ms for operator in operators}
    placed = [name for task in tasks for name in task.operators]
    assert sorted(placed) == sorted(sub_deadline_ms)
    for task in tasks:
        assert task.name == task.operators[0]
        assert task.sub_deadline_ms == sum(sub_deadline_ms[name] for name in task.operators)
    assert extract_tasks(operators[::-1]) == tasks
