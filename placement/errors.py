"""What can be wrong with a planning problem, and why a right one may have no answer.

`GraphError` and `NetworkError` are mistakes in the input; `NoNode`, `BoundUnattainable` and
`DeadlineUnattainable` say that no plan exists, with the figures that decide it.
"""

from __future__ import annotations

from collections.abc import Sequence


class PlacementError(ValueError):
    """Base of everything this package raises."""


class GraphError(PlacementError):
    """A query graph that cannot be placed as it stands.

    Attributes
    ----------
    query, subject, problem
        Where it is, what is wrong (an operator, a link, a field), and how.
    """

    def __init__(self, query: str, subject: str, problem: str) -> None:
        super().__init__(f"query {query}, {subject}: {problem}")
        self.query = query
        self.subject = subject
        self.problem = problem


class NetworkError(PlacementError):
    """A view of the network that contradicts itself."""


class SettingsError(PlacementError):
    """A setting outside its range."""


class NoNode(PlacementError):
    """There is no node at all that could take an operator."""

    def __init__(self, query: str, operator: str, reason: str) -> None:
        super().__init__(f"query {query}, operator {operator}: {reason}")
        self.query = query
        self.operator = operator
        self.reason = reason


class BoundUnattainable(PlacementError):
    """No node can stand by for an operator within the query's recovery bound.

    The best node is the best for the primaries as placed; `inputs` says where they are.
    """

    def __init__(
        self,
        query: str,
        operator: str,
        *,
        bound_ms: float,
        best_ms: float,
        best_node: str,
        detection_ms: float,
        transfer_ms: float,
        reprocess_ms: float,
        inputs: Sequence[str],
    ) -> None:
        super().__init__(
            f"query {query}, operator {operator}: no node can stand by within {bound_ms:g} ms; "
            f"the best is {best_node} with {best_ms:.1f} ms (detection {detection_ms:.1f} + "
            f"transfer {transfer_ms:.1f} + reprocessing {reprocess_ms:.1f}; "
            f"input from {', '.join(inputs)})"
        )
        self.query = query
        self.operator = operator
        self.bound_ms = bound_ms
        self.best_ms = best_ms
        self.best_node = best_node
        self.detection_ms = detection_ms
        self.transfer_ms = transfer_ms
        self.reprocess_ms = reprocess_ms
        self.inputs = tuple(inputs)


class DeadlineUnattainable(PlacementError):
    """No placement that was tried delivers a query's outputs in time.

    Attributes
    ----------
    best_ms
        Longest-path latency of the best placement found.
    path
        That path, as `operator @ node` from source to output.
    """

    def __init__(
        self, query: str, *, deadline_ms: float, best_ms: float, path: Sequence[str]
    ) -> None:
        super().__init__(
            f"query {query}: no placement tried delivers within {deadline_ms:g} ms; "
            f"the best takes {best_ms:.1f} ms ({' → '.join(path)})"
        )
        self.query = query
        self.deadline_ms = deadline_ms
        self.best_ms = best_ms
        self.path = tuple(path)


class RunningError(PlacementError):
    """What is said to run contradicts the queries or the network.

    Attributes
    ----------
    operator, problem
        Of which operator, and what is wrong.
    """

    def __init__(self, operator: str, problem: str) -> None:
        super().__init__(f"operator {operator}: {problem}")
        self.operator = operator
        self.problem = problem


class Stranded(RunningError):
    """A copy runs where none may: its node is gone, or takes no operators any more.

    That is for the planner, which replaces what was lost; rebalancing improves what is whole.
    """

    def __init__(self, operator: str, replica: str, node: str) -> None:
        super().__init__(
            operator,
            f"its {replica} is on {node!r}, which is gone or takes no operators; "
            "plan first, then rebalance what the plan keeps",
        )
        self.replica = replica
        self.node = node


class RelaxationDiverges(PlacementError):
    """The paper's own step of relaxation would throw operators ever farther apart.

    Attributes
    ----------
    limit
        δ has to be less.
    """

    def __init__(self, query: str, *, delta: float, limit: float) -> None:
        super().__init__(
            f"query {query}: with delta {delta:g} the bare force overshoots; "
            f"choose one below {limit:.3g}, or do without literal"
        )
        self.query = query
        self.delta = delta
        self.limit = limit


class CapacityUnattainable(PlacementError):
    """A query's operators do not fit on their candidates together.

    Attributes
    ----------
    operators
        Those that do not fit: one that is too large for each of its candidates, else all.
    needed_cores, left_cores
        What a copy of each needs together, and what is left on all of their candidates together.
    """

    def __init__(
        self, query: str, operators: Sequence[str], *, needed_cores: float, left_cores: float
    ) -> None:
        super().__init__(
            f"query {query}: {', '.join(operators)} need {needed_cores:.3g} cores and their "
            f"candidates have {left_cores:.3g} left, in pieces too small; "
            "allow more candidates or free some capacity"
        )
        self.query = query
        self.operators = tuple(operators)
        self.needed_cores = needed_cores
        self.left_cores = left_cores


class SolverStopped(PlacementError):
    """A solver ended without a placement and without proof that there is none."""

    def __init__(self, query: str, reason: str) -> None:
        super().__init__(
            f"query {query}: the solver stopped without an answer ({reason}); "
            "allow it more time or fewer candidates"
        )
        self.query = query
        self.reason = reason
