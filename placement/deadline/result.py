"""A deadline placement, its sub-deadlines, and the measures by which placements are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement.deadline.problem import DeadlineProblem

LEAST_OBJECTIVE = 1e-6
"""An objective below this counts as 0, since HiGHS keeps rows only to 10⁻⁶."""

PairDeadlines = Mapping[tuple[str, str], float]
"""Output and operator → sub-deadline d_{s,o}, ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlinePlacement:
    """Nodes and sub-deadlines of all operators.

    Attributes
    ----------
    places
        Operator → node.
    pair_deadlines_ms
        Sub-deadline d_{s,o} by output and operator, ms.
    objective
        Deviation (3), plus the weighted network usage if the settings ask for it.
    bound
        Proven lower bound of the objective of any placement.
    optimal
        Whether the gap that was asked for is proven; False if a limit came first.
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
        """min_s d_{s,o} by operator, ms (§5.2.6): the sub-deadlines that EDF uses."""
        return least_by_operator(self.pair_deadlines_ms)


def least_by_operator(pair_deadlines_ms: PairDeadlines) -> dict[str, float]:
    """min_s d_{s,o} by operator, ms."""
    least: dict[str, float] = {}
    for (_, name), ms in pair_deadlines_ms.items():
        least[name] = min(ms, least.get(name, ms))
    return least


def deviation(problem: DeadlineProblem, pair_deadlines_ms: PairDeadlines) -> float:
    """(3): deviation of the normalised laxity ratios from their output's mean, over all pairs."""
    return sum(
        problem.by_name[pair.operator].weight
        * abs(pair.proportional_ms - pair_deadlines_ms[pair.output, pair.operator])
        / problem.cost_ms(pair.operator)
        for pair in problem.pairs
    )


def network_usage(problem: DeadlineProblem, places: Mapping[str, str]) -> float:
    """Σ_l DR(l)·Lat(l) (reliable placement, (2)), bytes (bytes/s × s).

    The links l include those from sources and to sinks.
    """
    at = {name: problem.node_index[node] for name, node in places.items()}
    ms, rates = problem.latency_ms, problem.rates_bytes_s
    total = 0.0
    for name in problem.order:
        for stream in problem.by_name[name].inputs:
            if stream in problem.producer:
                link_ms = float(ms[at[problem.producer[stream]], at[name]])
            else:
                link_ms = problem.source_latency_ms(stream, at[name])
            total += rates.get(stream, 0.0) * link_ms
    for output in problem.outputs:
        link_ms = ms[at[problem.producer[output.stream]], problem.node_index[output.sink]]
        total += rates.get(output.stream, 0.0) * float(link_ms)
    return total / 1e3
