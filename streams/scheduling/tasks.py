"""Operators of a node → tasks, the units that its scheduler calls.

Each call costs time whatever it does, so operators that would run right after each other anyway
are called together. Deadline placement, §5.3, gives the rule: at first every operator is a task;
then

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

In deadline placement an operator has a stream for every successor. Here it has one stream that any
number of consumers take in, so its *branches* are counted instead: one for each consumer on this
node, and one for all sinks and consumers elsewhere together. No operator can be merged into the
latter: if it is the most urgent branch, the operator stays alone. Among equally urgent consumers
the operator is merged with the one of the smallest name that takes in nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from streams.scheduling.chains import merge_chains


class TaskError(ValueError):
    """Operators that cannot be the operators of one node.

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
    """An operator of a node, with the deadlines that decide whether it is merged.

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
        The least end-to-end deadline of the outputs that its stream reaches through a sink or a
        consumer on another node; None: all its consumers are on this node.
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
        Of the first operator, whose input is the task's input.
    operators
        In the order in which they are called; each but the first takes in only the stream of the
        operator before it.
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
        An operator occurs twice, has no input, or a deadline that is not a number above 0.

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

    def most_urgent(name: str, consumers: Sequence[str]) -> list[str]:
        elsewhere_ms = by_name[name].elsewhere_ms
        branches_ms = [by_name[consumer].deadline_ms for consumer in consumers]
        if elsewhere_ms is not None:
            branches_ms.append(elsewhere_ms)
        least_ms = min(branches_ms, default=0.0)
        return [each for each in consumers if by_name[each].deadline_ms == least_ms]

    inputs = {name: by_name[name].inputs for name in sorted(by_name)}
    return tuple(
        Task(
            name=chain[0],
            operators=chain,
            sub_deadline_ms=sum(by_name[name].sub_deadline_ms for name in chain),
        )
        for chain in sorted(merge_chains(inputs, most_urgent))
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
