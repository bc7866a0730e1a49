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
