"""What can be wrong with a deadline problem, and why a right one may have no answer."""

from __future__ import annotations

from collections.abc import Mapping

from placement.errors import PlacementError


class DeadlineProblemError(PlacementError):
    """A problem that contradicts itself.

    Attributes
    ----------
    subject, problem
        Where it is (a node, an operator, a stream, an output), and what is wrong.
    """

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")
        self.subject = subject
        self.problem = problem


class TooManyPaths(PlacementError):
    """The literal model has a row for every path, and there are too many to write down."""

    def __init__(self, output: str, paths: int, limit: int) -> None:
        super().__init__(
            f"output {output}: {paths} paths end in it, and the literal model writes a row for "
            f"each, up to {limit}; take the production model"
        )
        self.output = output
        self.paths = paths
        self.limit = limit


class DeadlinesUnattainable(PlacementError):
    """No placement keeps all deadlines.

    Attributes
    ----------
    relaxation_ms
        Output stream → by how much its deadline would have to be later, ms: together the least
        with which there is a placement. Empty if no deadline of an output would help, since
        work that runs already leaves a node no time.
    excess_ms
        Node → work that it would have to be relieved of with the deadlines as they are, ms:
        together the least with which there is a placement. Empty if less work would not help,
        since latencies alone take too long.
    advice
        The same as a phrase.
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
    """No node could take an operator's secondary, wherever its primary runs.

    Attributes
    ----------
    transfer_ms
        How far, at most, a secondary may be from what feeds the operator, ms.
    best_ms
        How far the nearest node in another place is, ms; None if there is no other place.
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
