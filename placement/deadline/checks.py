"""Whether the parts of a deadline problem agree with each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from placement.deadline.errors import DeadlineProblemError
from placement.deadline.records import DeadlineOperator

if TYPE_CHECKING:
    from placement.deadline.problem import DeadlineProblem


def check(problem: DeadlineProblem) -> None:
    """Raise `DeadlineProblemError` for the first part that contradicts another."""
    _once("node", [node.name for node in problem.nodes])
    _once("operator", [operator.name for operator in problem.operators])
    _once("output", [output.stream for output in problem.outputs])
    origins = [s.stream for s in problem.sources]
    origins += [stream for operator in problem.operators for stream in operator.outputs]
    _once("stream", origins)
    for node in problem.nodes:
        _positive(f"node {node.name}", "speed", node.speed)
        for work in node.admitted:
            _positive(f"node {node.name}, admitted {work.name}", "cost_ms", work.cost_ms)
            _positive(f"node {node.name}, admitted {work.name}", "deadline_ms", work.deadline_ms)
    for operator in problem.operators:
        _check_operator(problem, operator)
    for source in problem.sources:
        _known_nodes(problem, f"source {source.stream}", source.nodes)
    for output in problem.outputs:
        subject = f"output {output.stream}"
        _positive(subject, "deadline_ms", output.deadline_ms)
        _known_nodes(problem, subject, (output.sink,))
        if output.stream not in problem.producer:
            raise DeadlineProblemError(subject, "no operator makes it")
    _check_network(problem)


def _check_operator(problem: DeadlineProblem, operator: DeadlineOperator) -> None:
    subject = f"operator {operator.name}"
    _positive(subject, "cost_ms", operator.cost_ms)
    _positive(subject, "weight", operator.weight)
    _known_nodes(problem, subject, operator.candidates)
    if not operator.inputs:
        raise DeadlineProblemError(subject, "has no input")
    for stream in operator.inputs:
        if stream not in problem.producer and stream not in problem.source:
            raise DeadlineProblemError(subject, f"its input {stream!r} has no origin")


def _check_network(problem: DeadlineProblem) -> None:
    origins = {*problem.producer, *problem.source}
    for stream, rate in problem.rates_bytes_s.items():
        if stream not in origins:
            raise DeadlineProblemError(f"rate of stream {stream}", "there is no such stream")
        if not (math.isfinite(rate) and rate >= 0):
            raise DeadlineProblemError(f"rate of stream {stream}", f"{rate} is not a number ≥ 0")
    if problem.one_way_ms is None:
        return
    n = len(problem.nodes)
    if problem.one_way_ms.shape != (n, n):
        raise DeadlineProblemError("one_way_ms", f"shape {problem.one_way_ms.shape}, not {(n, n)}")
    wrong = ~(np.isfinite(problem.one_way_ms) & (problem.one_way_ms >= 0))
    wrong |= np.eye(n, dtype=np.bool_) & (problem.one_way_ms != 0)
    if wrong.any():
        source, target = (int(at) for at in np.argwhere(wrong)[0])
        raise DeadlineProblemError(
            f"latency {problem.nodes[source].name} → {problem.nodes[target].name}",
            f"{problem.one_way_ms[source, target]} is not a number ≥ 0, and 0 within a node",
        )


def _once(kind: str, names: list[str]) -> None:
    seen = set[str]()
    for name in names:
        if name in seen:
            raise DeadlineProblemError(f"{kind} {name}", "occurs twice")
        seen.add(name)


def _positive(subject: str, name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise DeadlineProblemError(subject, f"{name} {value} is not a number > 0")


def _known_nodes(problem: DeadlineProblem, subject: str, names: tuple[str, ...]) -> None:
    if not names:
        raise DeadlineProblemError(subject, "names no node")
    _once(f"{subject}, node", list(names))
    for name in names:
        if name not in problem.node_index:
            raise DeadlineProblemError(subject, f"no node is named {name!r}")
