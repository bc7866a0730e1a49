"""The parts of a deadline problem: nodes, operators, sources and outputs, and their checks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray
from placement.deadline.errors import DeadlineProblemError


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Work that a node already runs and that keeps its own sub-deadline.

    Attributes
    ----------
    cost_ms
        Processing time of one instance on this node, ms, > 0.
    deadline_ms
        Sub-deadline, counted from the arrival of the instance's input, ms, > 0.
    """

    name: str
    cost_ms: float
    deadline_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineNode:
    """A single processor that schedules by earliest deadline first (EDF).

    Attributes
    ----------
    speed
        Speed relative to the node for which operator costs are stated, > 0.
    admitted
        Work that the node already runs.
    """

    name: str
    speed: float = 1.0
    admitted: tuple[Admitted, ...] = ()

    def admitted_ms(self, due_ms: float) -> float:
        """Cost of the admitted work whose sub-deadline is at most `due_ms`, ms."""
        return sum(work.cost_ms for work in self.admitted if work.deadline_ms <= due_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineOperator:
    """An operator to be placed.

    Attributes
    ----------
    cost_ms
        Processing time of the design input volume on a node of speed 1, ms, > 0.
    inputs, outputs
        Names of streams.
    candidates
        Nodes on which the operator may run, at least one.
    weight
        Number of operators that this one stands for in objective (3), > 0.
    """

    name: str
    cost_ms: float
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    candidates: tuple[str, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineSource:
    """A source stream and the nodes that supply it; several nodes supply identical tuples."""

    stream: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineOutput:
    """An output stream and the sink that receives it.

    Attributes
    ----------
    deadline_ms
        End-to-end deadline from the source to the sink, ms, > 0.
    sink
        Node of the sink.
    """

    stream: str
    deadline_ms: float
    sink: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An output stream and an operator that contributes to it; each pair has a sub-deadline.

    Attributes
    ----------
    proportional_ms
        Proportional sub-deadline d'_{s,o}, ms.
    """

    output: str
    operator: str
    proportional_ms: float


def check_parts(
    nodes: Sequence[DeadlineNode],
    operators: Sequence[DeadlineOperator],
    sources: Sequence[DeadlineSource],
    outputs: Sequence[DeadlineOutput],
) -> None:
    """Raise `DeadlineProblemError` for the first invalid node, operator, source or output."""
    _distinct("node", [node.name for node in nodes])
    _distinct("operator", [operator.name for operator in operators])
    _distinct("output", [output.stream for output in outputs])
    produced = [stream for operator in operators for stream in operator.outputs]
    _distinct("stream", [source.stream for source in sources] + produced)
    streams = {source.stream for source in sources}.union(produced)
    known = {node.name for node in nodes}
    for node in nodes:
        _positive(f"node {node.name}", speed=node.speed)
        for work in node.admitted:
            subject = f"node {node.name}, admitted {work.name}"
            _positive(subject, cost_ms=work.cost_ms, deadline_ms=work.deadline_ms)
    for operator in operators:
        subject = f"operator {operator.name}"
        _positive(subject, cost_ms=operator.cost_ms, weight=operator.weight)
        _nodes(subject, operator.candidates, known)
        if not operator.inputs:
            raise DeadlineProblemError(subject, "has no input")
        for stream in operator.inputs:
            if stream not in streams:
                raise DeadlineProblemError(
                    subject, f"its input {stream!r} has no producer and no source"
                )
    for source in sources:
        _nodes(f"source {source.stream}", source.nodes, known)
    for output in outputs:
        subject = f"output {output.stream}"
        _positive(subject, deadline_ms=output.deadline_ms)
        _nodes(subject, (output.sink,), known)
        if output.stream not in produced:
            raise DeadlineProblemError(subject, "no operator makes it")


def check_rates(rates_bytes_s: Mapping[str, float], streams: Iterable[str]) -> None:
    """Raise `DeadlineProblemError` for the first rate that is negative or of no stream."""
    known = set(streams)
    for stream, rate in rates_bytes_s.items():
        if stream not in known:
            raise DeadlineProblemError(f"rate of stream {stream}", "there is no such stream")
        if not (math.isfinite(rate) and rate >= 0):
            raise DeadlineProblemError(f"rate of stream {stream}", f"{rate} is not a number ≥ 0")


def check_latencies(one_way_ms: FloatArray, nodes: Sequence[DeadlineNode]) -> None:
    """Raise `DeadlineProblemError` for a wrong shape or the first invalid latency."""
    n = len(nodes)
    if one_way_ms.shape != (n, n):
        raise DeadlineProblemError("one_way_ms", f"shape {one_way_ms.shape}, not {(n, n)}")
    wrong = ~(np.isfinite(one_way_ms) & (one_way_ms >= 0))
    wrong |= np.eye(n, dtype=np.bool_) & (one_way_ms != 0)
    if wrong.any():
        source, target = (int(at) for at in np.argwhere(wrong)[0])
        raise DeadlineProblemError(
            f"latency {nodes[source].name} → {nodes[target].name}",
            f"{one_way_ms[source, target]} is not a number ≥ 0, and 0 within a node",
        )


def _distinct(kind: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise DeadlineProblemError(f"{kind} {twice}", "occurs twice")


def _positive(subject: str, **values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise DeadlineProblemError(subject, f"{name} {value} is not a number > 0")


def _nodes(subject: str, names: Sequence[str], known: set[str]) -> None:
    if not names:
        raise DeadlineProblemError(subject, "names no node")
    _distinct(f"{subject}, node", names)
    for name in names:
        if name not in known:
            raise DeadlineProblemError(subject, f"no node is named {name!r}")
