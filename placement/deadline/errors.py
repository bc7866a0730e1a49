"""Errors of deadline placement: invalid problems, and valid problems without a placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement.errors import PlacementError


@dataclass(eq=False)
class DeadlineProblemError(PlacementError):
    """A deadline problem that contradicts itself.

    Attributes
    ----------
    subject, problem
        The wrong part (a node, an operator, a stream, an output), and what is wrong with it.
    """

    message = "{0.subject}: {0.problem}"
    subject: str
    problem: str


@dataclass(eq=False)
class TooManyPaths(PlacementError):
    """Too many paths for the paper's model, which has a row for every path."""

    message = (
        "output {0.output}: {0.paths} paths end in it, and the paper's model has a row for "
        "each, up to {0.limit}; use the solver's model"
    )
    output: str
    paths: int
    limit: int


class DeadlinesUnattainable(PlacementError):
    """No placement keeps all deadlines.

    Attributes
    ----------
    relaxation_ms
        Output stream → additional time that its deadline would need, ms; the least total that
        makes a placement possible. Empty if later deadlines would not help, because the admitted
        work leaves a node no time.
    excess_ms
        Node → work to take away from it if the deadlines stay, ms; the least total that makes a
        placement possible. Empty if less work would not help, because latencies alone exceed a
        deadline.
    advice
        Both as a phrase.
    """

    def __init__(self, relaxation_ms: Mapping[str, float], excess_ms: Mapping[str, float]) -> None:
        ways: list[str] = []
        if relaxation_ms:
            late = ", ".join(f"{name} by {ms:.3g} ms" for name, ms in relaxation_ms.items())
            ways.append(f"allow {late} more")
        if excess_ms:
            busy = ", ".join(f"{name} of {ms:.3g} ms" for name, ms in excess_ms.items())
            ways.append(f"relieve {busy} of work")
        self.advice = (
            ", or ".join(ways) or "nothing short of another network and less work would help"
        )
        super().__init__(f"no placement keeps all deadlines; {self.advice}")
        self.relaxation_ms = dict(relaxation_ms)
        self.excess_ms = dict(excess_ms)


class NoStandby(PlacementError):
    """No node can run an operator's secondary within the recovery bound, whatever its primary.

    Attributes
    ----------
    transfer_ms
        Largest latency from the feeding nodes that the recovery bound allows a secondary, ms.
    best_ms
        Latency of the nearest node in another failure domain, ms; None if there is no such node.
    """

    def __init__(self, operator: str, transfer_ms: float, best_ms: float | None) -> None:
        reason = (
            "there is no node in another failure domain than its candidates; add one"
            if best_ms is None
            else f"the nearest other node is {best_ms:.1f} ms from what feeds the operator; "
            "allow more time for recovery or nearer nodes"
        )
        super().__init__(
            f"operator {operator}: no secondary can be fed within {transfer_ms:g} ms: {reason}"
        )
        self.operator = operator
        self.transfer_ms = transfer_ms
        self.best_ms = best_ms
