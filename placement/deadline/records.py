"""The parts of a deadline problem: nodes, operators, sources and outputs."""

from __future__ import annotations

from dataclasses import dataclass


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
