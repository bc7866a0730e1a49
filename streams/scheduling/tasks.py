"""Operators of a node → tasks, the units that its scheduler calls.

Each call costs time whatever it does, so operators that would run right after each other anyway
are called together. Which ones is said in deadline placement, §5.3: at first every operator is a
task; then

- an operator with one output stream is merged with the operator that takes it in, if that has
  one input stream;
- an operator with several is merged, in the same way, into the branch that leads to the output
  with the least end-to-end deadline, and into no other: results that are less urgent must not
  hold up the urgent one.

===========  ======================  ======================================================
symbol       name here               meaning
===========  ======================  ======================================================
o            TaskOperator            an operator that runs on this node
d_o          sub_deadline_ms         min over outputs s of d_{s,o}, ms
d_s          deadline_ms             least end-to-end deadline of the outputs that need o, ms
T            Task                    operators that are called together, in order
d_T          Task.sub_deadline_ms    Σ of d_o over o in T, ms
===========  ======================  ======================================================

In the paper an operator has a stream for every successor. Here it has one stream that any number
of consumers take in, so its *branches* are counted instead: a branch for each consumer on this
node, and one for all consumers elsewhere and sinks together, which no operator can be merged into.
If that one is the most urgent, the operator stands alone. Of equally urgent branches it takes one
that it can be merged into, by the smallest name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class TaskError(ValueError):
    """Operators that no plan of one node would hold.

    Attributes
    ----------
    operator, problem
        Which one, and what is wrong with it.
    """

    def __init__(self, operator: str, problem: str) -> None:
        super().__init__(f"operator {operator}: {problem}")
        self.operator = operator
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOperator:
    """An operator of a node, with what decides whether it is merged.

    Attributes
    ----------
    name
        Its own and its output stream's.
    inputs
        Streams that it takes in, at least one, from this node or elsewhere.
    sub_deadline_ms
        From the arrival of its input to its output, ms, > 0.
    deadline_ms
        The least end-to-end deadline of the outputs that need it, ms, > 0; infinite if none has
        a deadline.
    elsewhere_ms
        The same of those outputs that its stream reaches by a sink or a consumer on another node;
        None: there are no such, all its consumers are on this node.
    """

    name: str
    inputs: tuple[str, ...]
    sub_deadline_ms: float
    deadline_ms: float
    elsewhere_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Operators that are called one after the other.

    Attributes
    ----------
    name
        Of the first operator: what enters it enters the task.
    operators
        In the order in which they are called; each but the first takes in only what the one
        before it gives.
    sub_deadline_ms
        d_T, ms.
    """

    name: str
    operators: tuple[str, ...]
    sub_deadline_ms: float


def extract_tasks(operators: Sequence[TaskOperator]) -> tuple[Task, ...]:
    """Merge the operators of one node into tasks.

    Parameters
    ----------
    operators
        All that run on the node, in any order.

    Returns
    -------
    tuple of Task
        By name; every operator is in exactly one.

    Raises
    ------
    TaskError
        An operator occurs twice, has no input, or a deadline that is none.

    Examples
    --------
    >>> one = TaskOperator(name="one", inputs=("s",), sub_deadline_ms=1, deadline_ms=10)
    >>> two = TaskOperator(
    ...     name="two", inputs=("one",), sub_deadline_ms=2, deadline_ms=10, elsewhere_ms=10
    ... )
    >>> extract_tasks([two, one])
    (Task(name='one', operators=('one', 'two'), sub_deadline_ms=3),)
    """
    by_name: dict[str, TaskOperator] = {}
    for operator in operators:
        _check(operator)
        if operator.name in by_name:
            raise TaskError(operator.name, "occurs twice on one node")
        by_name[operator.name] = operator
    consumers: dict[str, list[TaskOperator]] = {name: [] for name in by_name}
    for name in sorted(by_name):
        for stream in set(by_name[name].inputs) & by_name.keys():
            consumers[stream].append(by_name[name])
    merged = {
        name: successor
        for name, operator in by_name.items()
        if (successor := _merged_with(operator, consumers[name])) is not None
    }
    return tuple(
        Task(
            name=path[0],
            operators=path,
            sub_deadline_ms=sum(by_name[name].sub_deadline_ms for name in path),
        )
        for path in _paths(by_name, merged)
    )


def _check(operator: TaskOperator) -> None:
    if not operator.inputs:
        raise TaskError(operator.name, "has no input")
    if not (math.isfinite(operator.sub_deadline_ms) and operator.sub_deadline_ms > 0):
        raise TaskError(
            operator.name, f"its sub-deadline is {operator.sub_deadline_ms} ms; give a number > 0"
        )
    for deadline_ms in (operator.deadline_ms, operator.elsewhere_ms):
        if deadline_ms is not None and not deadline_ms > 0:
            raise TaskError(
                operator.name, f"an end-to-end deadline is {deadline_ms} ms; give a number > 0"
            )


def _merged_with(operator: TaskOperator, consumers: Sequence[TaskOperator]) -> str | None:
    """The consumer on this node, of those given by name, that is called right after."""
    branches_ms = [consumer.deadline_ms for consumer in consumers]
    if operator.elsewhere_ms is not None:
        branches_ms.append(operator.elsewhere_ms)
    least_ms = min(branches_ms, default=0.0)
    for consumer in consumers:
        if consumer.deadline_ms == least_ms and len(set(consumer.inputs)) == 1:
            return consumer.name
    return None


def _paths(names: Mapping[str, TaskOperator], merged: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Who is merged with whom, followed from each beginning.

    An operator is merged with at most one before it, the only one that it takes input from, and
    with at most one after it; so these are paths, or cycles that nothing enters.
    """
    followers = set(merged.values())
    beginnings = sorted(names.keys() - followers)
    paths: list[tuple[str, ...]] = []
    seen: set[str] = set()
    # Whoever is not seen from a beginning is in a cycle; it is cut before its smallest name.
    for name in (*beginnings, *sorted(followers)):
        path: list[str] = []
        at: str | None = name
        while at is not None and at not in seen:
            seen.add(at)
            path.append(at)
            at = merged.get(at)
        if path:
            paths.append(tuple(path))
    return sorted(paths)
