"""Mistakes in a planning problem, and reasons why a correct one has no solution.

`GraphError`, `NetworkError`, `SettingsError` and `RunningError` are mistakes in the input.
`NoNode`, `CapacityUnattainable`, `BoundUnattainable` and `DeadlineUnattainable` say that no plan
exists, with the figures that decide it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from placement.paths import way


class PlacementError(ValueError):
    """Base of everything this package raises.

    Attributes
    ----------
    message
        The text, a format of the error's own fields. Without one, the error is its argument.
    """

    message: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.message.format(self) if self.message else super().__str__()


class NetworkError(PlacementError):
    """A view of the network that contradicts itself."""


class SettingsError(PlacementError):
    """A setting outside its range."""


def check_numbers(settings: object, **limits: str) -> None:
    """See that some settings are finite numbers within their limits.

    Parameters
    ----------
    limits
        Name of a setting → "> 0", "≥ 1" and the like.

    Raises
    ------
    SettingsError
        With the name and value of the first that is not.
    """
    for name, limit in limits.items():
        value: float = getattr(settings, name)
        sign, least = limit.split()
        fits = value > float(least) if sign == ">" else value >= float(least)
        if not fits or math.isinf(value):
            kind = type(settings).__name__
            raise SettingsError(f"{kind}: {name} {value} is not a number {limit}")


@dataclass(eq=False)
class GraphError(PlacementError):
    """A query graph that cannot be placed as it stands.

    Attributes
    ----------
    subject, problem
        Where in the query it is (an operator, a link, a field), and what is wrong.
    """

    message = "query {0.query}, {0.subject}: {0.problem}"
    query: str
    subject: str
    problem: str


@dataclass(eq=False)
class NoNode(PlacementError):
    """There is no node at all that could take an operator."""

    message = "query {0.query}, operator {0.operator}: {0.reason}"
    query: str
    operator: str
    reason: str


@dataclass(eq=False, kw_only=True)
class BoundUnattainable(PlacementError):
    """No node can stand by for an operator within the query's recovery bound.

    The best node is the best for the primaries as placed.

    Attributes
    ----------
    inputs
        The operators upstream and their primaries' nodes.
    """

    message = (
        "query {0.query}, operator {0.operator}: no node can stand by within {0.bound_ms:g} ms; "
        "the best is {0.best_node} with {0.best_ms:.1f} ms (detection {0.detection_ms:.1f} + "
        "transfer {0.transfer_ms:.1f} + reprocessing {0.reprocess_ms:.1f}; "
        "input from {0.input_list})"
    )
    query: str
    operator: str
    bound_ms: float
    best_ms: float
    best_node: str
    detection_ms: float
    transfer_ms: float
    reprocess_ms: float
    inputs: tuple[str, ...]

    @property
    def input_list(self) -> str:
        """The inputs in one line."""
        return ", ".join(self.inputs)


@dataclass(eq=False, kw_only=True)
class DeadlineUnattainable(PlacementError):
    """No placement that was tried delivers a query's outputs in time.

    Attributes
    ----------
    best_ms
        Longest-path latency of the best placement found.
    path
        That path, as `operator @ node` from source to output.
    """

    message = (
        "query {0.query}: no placement tried delivers within {0.deadline_ms:g} ms; "
        "the best takes {0.best_ms:.1f} ms ({0.way})"
    )
    query: str
    deadline_ms: float
    best_ms: float
    path: tuple[str, ...]

    @property
    def way(self) -> str:
        """The path in one line."""
        return way(self.path)


@dataclass(eq=False)
class RunningError(PlacementError):
    """The running replicas that were given contradict the queries or the network."""

    message = "operator {0.operator}: {0.problem}"
    operator: str
    problem: str


class Stranded(RunningError):
    """A replica runs where none may: its node is gone, or takes no operators any more.

    The planner replaces such a replica; rebalancing only improves placements that are whole.
    """

    def __init__(self, operator: str, replica: str, node: str) -> None:
        super().__init__(
            operator,
            f"its {replica} is on {node!r}, which is gone or takes no operators; "
            "plan first, then rebalance what the plan keeps",
        )
        self.replica = replica
        self.node = node


@dataclass(eq=False, kw_only=True)
class RelaxationDiverges(PlacementError):
    """Relaxation (reliable placement, Algorithm 3) would move operators ever farther apart.

    Attributes
    ----------
    limit
        δ has to be less.
    """

    message = (
        "query {0.query}: with delta {0.delta:g} the bare force overshoots; "
        "choose one below {0.limit:.3g}, or do without paper_steps"
    )
    query: str
    delta: float
    limit: float


@dataclass(eq=False, kw_only=True)
class CapacityUnattainable(PlacementError):
    """A query's operators do not fit on their candidates together.

    Attributes
    ----------
    operators
        Those that do not fit: one that is too large for each of its candidates, else all.
    needed_cores, left_cores
        CPU that one replica of each needs, summed, and CPU left on all of their candidates, summed.
    """

    message = (
        "query {0.query}: {0.operator_list} need {0.needed_cores:.3g} cores and their "
        "candidates have {0.left_cores:.3g} left, in pieces too small; "
        "allow more candidates or free some capacity"
    )
    query: str
    operators: tuple[str, ...]
    needed_cores: float
    left_cores: float

    @property
    def operator_list(self) -> str:
        """The operators in one line."""
        return ", ".join(self.operators)


@dataclass(eq=False)
class SolverStopped(PlacementError):
    """A solver ended without a placement and without proof that there is none."""

    message = (
        "query {0.query}: the solver stopped without a placement ({0.reason}); "
        "allow it more time or fewer candidates"
    )
    query: str
    reason: str
