"""Parts of a deadline problem: nodes, operators, sources, outputs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Work that a node runs already, under a deadline of its own.

    Attributes
    ----------
    cost_ms
        Time that one instance takes on this node, ms, > 0.
    deadline_ms
        From the arrival of its input, ms, > 0.
    """

    name: str
    cost_ms: float
    deadline_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineNode:
    """A single processor under EDF.

    Attributes
    ----------
    speed
        How much faster than the one on which costs are stated, > 0.
    admitted
        What it runs already.
    """

    name: str
    speed: float = 1.0
    admitted: tuple[Admitted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineOperator:
    """What is placed.

    Attributes
    ----------
    cost_ms
        Time for the input volume that is designed for, at speed 1, ms, > 0.
    inputs, outputs
        Names of streams.
    candidates
        Nodes it may take, at least one.
    weight
        How many operators it counts for in the objective, > 0.
    """

    name: str
    cost_ms: float
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    candidates: tuple[str, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineSource:
    """Where a stream enters, on one node or alike on several."""

    stream: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineOutput:
    """A stream that a sink waits for.

    Attributes
    ----------
    deadline_ms
        From the source to the sink, ms, > 0.
    sink
        The sink's node.
    """

    stream: str
    deadline_ms: float
    sink: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An output and an operator that it needs: what gets a sub-deadline.

    Attributes
    ----------
    proportional_ms
        d'_{s,o}, ms.
    """

    output: str
    operator: str
    proportional_ms: float
