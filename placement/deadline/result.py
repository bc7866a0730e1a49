"""What a deadline model answers with."""

from __future__ import annotations

from dataclasses import dataclass

from placement.deadline.problem import DeadlineProblem

LEAST_OBJECTIVE = 1e-6
"""Below this the objective counts as 0: HiGHS keeps rows to 10⁻⁶."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlinePlacement:
    """Nodes and sub-deadlines.

    Attributes
    ----------
    places
        Operator → node.
    pair_deadlines_ms
        d_{s,o} by output and operator, ms.
    objective
        (3), and the weighted network usage where it was asked for.
    bound
        No placement has a smaller one.
    optimal
        Whether the gap is the one asked for; False if a limit came first.
    """

    places: dict[str, str]
    pair_deadlines_ms: dict[tuple[str, str], float]
    objective: float
    bound: float
    optimal: bool

    @property
    def gap(self) -> float:
        """(objective − bound) / objective."""
        if self.objective <= LEAST_OBJECTIVE:
            return 0.0
        return max(self.objective - self.bound, 0.0) / self.objective

    @property
    def sub_deadlines_ms(self) -> dict[str, float]:
        """min_s d_{s,o} by operator, ms: what EDF goes by."""
        least: dict[str, float] = {}
        for (_, name), ms in self.pair_deadlines_ms.items():
            least[name] = min(ms, least.get(name, ms))
        return least


def deviation(problem: DeadlineProblem, pair_deadlines_ms: dict[tuple[str, str], float]) -> float:
    """(3): how far the normalised laxity ratios are from equal, summed over pairs."""
    return sum(
        problem.by_name[pair.operator].weight
        * abs(pair.proportional_ms - pair_deadlines_ms[pair.output, pair.operator])
        / problem.cost_ms(pair.operator)
        for pair in problem.pairs
    )
