"""A good placement and a lower bound of (3), without a program of the whole problem.

*Lower bound.* Queries affect each other only through the nodes they share. The effect of all other
queries on one query is bounded by lower bounds of its sub-deadlines
(`placement.deadline.lower_bounds`). Each query alone, with these lower bounds, is a small program.
The sum of their optima bounds (3) for all queries together, because queries share no pair (s, o)
and a placement of all queries satisfies the rows of each:

    (3)  ≥  Σ_q min { Σ_{(s,o) of q} weight_o·(up + down)/c_o :  (4)-(6) for q alone,  d ≥ bound }

*Placement.* Local search (`placement.deadline.local_search`) improves the greedy placement, and
also the placement in which every query has the nodes it would take alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from placement.deadline.errors import DeadlinesUnattainable
from placement.deadline.heuristic import place_greedily
from placement.deadline.local_search import LocalSearch
from placement.deadline.lower_bounds import LowerBounds
from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import (
    LEAST_OBJECTIVE,
    DeadlinePlacement,
    deviation,
    network_usage,
)
from placement.deadline.settings import SolverSettings
from placement.deadline.solver_model import SolverModel
from placement.deadline.sub_deadlines import best_sub_deadlines
from placement.program import MilpSettings
from topology.arrays import FloatArray

ROUNDS = 30
"""Limit of the rounds of local search, which converges long before."""

QUERY_LIMIT_S = 1.0
"""Time limit of the program of one query; its bound at that time is still valid."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """A placement and a lower bound of the objective.

    Attributes
    ----------
    placement
        None if no placement that was tried has sub-deadlines.
    bound
        Lower bound of the objective of any placement.
    limit_ms
        Lower bound or proportional sub-deadline, whichever is larger, by pair, shape (l,), ms.
    places
        Operator → node in the best placement, even if it has no sub-deadlines.
    """

    placement: DeadlinePlacement | None
    bound: float
    limit_ms: FloatArray
    places: dict[str, str]


def estimate(problem: DeadlineProblem, settings: SolverSettings) -> Estimate:
    """The placement that local search finds, and the lower bound from single queries.

    Raises
    ------
    DeadlinesUnattainable
        If a query has no placement even alone.
    """
    places = place_greedily(problem)
    best = with_sub_deadlines(problem, places, settings)
    lower_bounds = LowerBounds(problem)
    limit_ms = np.maximum(problem.proportional_ms, lower_bounds.least_ms)
    if best is not None and best.objective <= LEAST_OBJECTIVE:
        return Estimate(placement=best, bound=0.0, limit_ms=limit_ms, places=places)
    lower_bounds.raise_by_spreading()
    limit_ms = np.maximum(limit_ms, lower_bounds.least_ms)
    bound, alone = bound_by_queries(problem, lower_bounds.least_ms, settings)
    for start in (places, places | alone) if alone else (places,):
        improved = LocalSearch(problem, start, limit_ms).improve(ROUNDS)
        better = with_sub_deadlines(problem, improved, settings)
        if best is None or (better is not None and better.objective < best.objective):
            best, places = better, improved
    return Estimate(placement=best, bound=bound, limit_ms=limit_ms, places=places)


def bound_by_queries(
    problem: DeadlineProblem, lower_bounds_ms: FloatArray, settings: SolverSettings
) -> tuple[float, dict[str, str]]:
    """Solve each query alone, with lower bounds of its sub-deadlines.

    Returns
    -------
    float
        Sum of the least objectives, a lower bound of (3) for all queries together.
    dict of str to str
        Operator → node that it would take alone, for queries whose objective may exceed 0.
    """
    milp = MilpSettings(gap=settings.milp.gap / 10, time_limit_s=QUERY_LIMIT_S)
    total = 0.0
    alone: dict[str, str] = {}
    for query in queries(problem):
        own = {key: at for key, at in problem.pair_index.items() if key[0] in query}
        at = list(own.values())
        if problem.one_way_ms is None and np.all(
            lower_bounds_ms[at] <= problem.proportional_ms[at]
        ):
            # The proportional sub-deadlines satisfy all bounds, so the bound of this query is 0.
            continue
        model = SolverModel(
            _query(problem, query),
            usage_weight=settings.usage_weight,
            lower_bounds_ms={key: float(lower_bounds_ms[at]) for key, at in own.items()},
        )
        result = model.program.solve(milp)
        if result.infeasible:
            raise DeadlinesUnattainable({}, {})
        total += max(result.bound, 0.0)
        if result.x is not None:
            alone |= model.places(result.x.tolist())
    return total, alone


def queries(problem: DeadlineProblem) -> Iterator[set[str]]:
    """Groups of outputs that share operators; outputs of different groups share none."""
    left = list(problem.output)
    while left:
        query, names = {left[0]}, set(problem.needed[left[0]])
        while more := {s for s in left if s not in query and names & set(problem.needed[s])}:
            query |= more
            names.update(name for s in more for name in problem.needed[s])
        left = [s for s in left if s not in query]
        yield query


def with_sub_deadlines(
    problem: DeadlineProblem, places: Mapping[str, str], settings: SolverSettings
) -> DeadlinePlacement | None:
    """Places with their best sub-deadlines; None if no sub-deadlines keep the deadlines."""
    pair_deadlines_ms = best_sub_deadlines(problem, places)
    if pair_deadlines_ms is None:
        return None
    usage = settings.usage_weight * network_usage(problem, places)
    return DeadlinePlacement(
        places=dict(places),
        pair_deadlines_ms=pair_deadlines_ms,
        objective=deviation(problem, pair_deadlines_ms) + usage,
        bound=0.0,
        optimal=False,
    )


def bounded(placement: DeadlinePlacement, bound: float, gap: float) -> DeadlinePlacement:
    """A placement with the bound that was proven for it."""
    known = replace(placement, bound=min(max(bound, placement.bound), placement.objective))
    return replace(known, optimal=is_closed(known, known.bound, gap))


def is_closed(placement: DeadlinePlacement, bound: float, gap: float) -> bool:
    """Whether a placement is within the gap of a bound."""
    excess = placement.objective - bound
    return placement.objective <= LEAST_OBJECTIVE or excess <= gap * placement.objective


def _query(problem: DeadlineProblem, query: set[str]) -> DeadlineProblem:
    """The part of the problem that concerns these outputs."""
    names = {name for stream in query for name in problem.needed[stream]}
    operators = tuple(operator for operator in problem.operators if operator.name in names)
    outputs = tuple(output for output in problem.outputs if output.stream in query)
    return problem.part(operators, outputs)
