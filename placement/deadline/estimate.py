"""A good placement and a lower bound of (3), without a program of the whole problem.

*Lower bound.* Queries affect each other only through the nodes they share. The effect of all other
queries on one query is bounded by lower bounds of its sub-deadlines (`LowerBounds`). Each query
alone, with these lower bounds, is a small program. The sum of their optima bounds (3) for all
queries together, because queries share no pair (s, o) and a placement of all queries satisfies the
rows of each:

    (3)  ≥  Σ_q min { Σ_{(s,o) of q} weight_o·(up + down)/c_o :  (4)-(6) for q alone,  d ≥ bound }

*Placement.* Local search (`placement.deadline.local_search`) improves the greedy placement, and
also the placement in which every query has the nodes it would take alone.

*Lower bounds of sub-deadlines*, valid for every placement. (6) asks d_l ≥ max_n W_n(l), where
W_n(l) is the work of node n that is due by the l-th pair. For any prices π_n ≥ 0 with Σ_n π_n = 1
the maximum is at least the mean with these weights, and each operator costs at least as much as on
its cheapest candidate:

    max_n W_n(l)  ≥  Σ_n π_n·W_n(l)  ≥  Σ_{o charged by l} min_{n∈Node(o)} π_n·c_o/speed_n
                                        + Σ_n π_n·admitted_n(l)

Every π gives a bound for all l at once. Good prices are the dual values of the linear program
that spreads the work due by some l over the nodes as evenly as possible, with divisible operators:

    min λ    Σ_n z_{o,n} = 1,   Σ_o z_{o,n}·c_o/speed_n + admitted_n(l) ≤ λ    for every n

Two bounds need no program: the work that can run on one node only, and the cost of the largest
single operator, which is not divisible after all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack

from foundation.arrays import FloatArray, IntArray
from placement.deadline.demand_table import DemandTable
from placement.deadline.errors import DeadlinesUnattainable
from placement.deadline.local_search import LocalSearch, place_greedily
from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import (
    LEAST_OBJECTIVE,
    DeadlinePlacement,
    deviation,
    network_usage,
)
from placement.deadline.solver_model import SolverModel, SolverSettings
from placement.deadline.sub_deadlines import best_sub_deadlines
from placement.program import MilpSettings

SPREADS = 12
"""Linear programs that are solved for prices: the first for the last pair, the others for the pairs
whose bound is largest relative to the proportional sub-deadline."""


class LowerBounds:
    """Lower bounds of a problem, which rise with each set of prices that is tried.

    Attributes
    ----------
    least_ms
        Lower bound by pair, shape (l,), ms.
    """

    def __init__(self, problem: DeadlineProblem) -> None:
        self._proportional_ms = problem.proportional_ms
        self._admitted_ms = DemandTable(problem).demand_ms
        self._first: IntArray = np.array([problem.first[name] for name in problem.charged])
        # Cost of every operator on every node, infinite where it may not run.
        self._cost_ms: FloatArray = np.full((len(problem.charged), len(problem.nodes)), np.inf)
        for at, name in enumerate(problem.charged):
            for node in problem.by_name[name].candidates:
                n = problem.node_index[node]
                self._cost_ms[at, n] = problem.cost_ms(name) / problem.nodes[n].speed
        self.least_ms: FloatArray = self._without_prices()

    def raise_by_spreading(self, spreads: int = SPREADS) -> None:
        """Try the prices of up to so many linear programs."""
        tried = set[int]()
        at = len(self._proportional_ms) - 1
        for _ in range(spreads):
            tried.add(at)
            prices = self._prices(at)
            if prices is not None:
                self.least_ms = np.maximum(self.least_ms, self.lower_bound_ms(prices))
            tightness = self.least_ms / self._proportional_ms
            tightness[list(tried)] = -np.inf
            at = int(tightness.argmax())
            if at in tried:
                return

    def lower_bound_ms(self, prices: FloatArray) -> FloatArray:
        """The bound that prices of shape (n,) give, shape (l,), ms."""
        charged_ms = np.zeros(len(self._proportional_ms))
        possible = np.isfinite(self._cost_ms)
        priced = np.where(possible, np.where(possible, self._cost_ms, 0.0) * prices, np.inf)
        np.add.at(charged_ms, self._first, priced.min(axis=1))
        return np.cumsum(charged_ms) + prices @ self._admitted_ms

    def _without_prices(self) -> FloatArray:
        """The work that can run on one node only, and single operators, shape (l,), ms."""
        bound_ms = np.zeros_like(self._admitted_ms)
        for at in np.flatnonzero(np.isfinite(self._cost_ms).sum(axis=1) == 1):
            n = int(np.isfinite(self._cost_ms[at]).argmax())
            bound_ms[n, self._first[at]] += self._cost_ms[at, n]
        demand_ms = self._admitted_ms + np.cumsum(bound_ms, axis=1)
        single_ms = np.zeros(len(self._proportional_ms))
        np.maximum.at(single_ms, self._first, self._cost_ms.min(axis=1))
        return np.maximum(demand_ms.max(axis=0), np.maximum.accumulate(single_ms))

    def _prices(self, upto: int) -> FloatArray | None:
        """Dual values of spreading the work due by a pair, shape (n,), with sum 1."""
        due = int(np.searchsorted(self._first, upto, side="right"))
        operators, nodes = np.nonzero(np.isfinite(self._cost_ms[:due]))
        width, count = len(operators), self._cost_ms.shape[1]
        columns: IntArray = np.arange(width, dtype=np.int64)
        # Σ_o z_{o,n}·c_o/speed_n − λ ≤ −admitted_n
        spread = csr_array((self._cost_ms[operators, nodes], (nodes, columns)), (count, width))
        full = hstack((spread, csr_array(np.full((count, 1), -1.0))), format="csr")
        # Σ_n z_{o,n} = 1
        whole = csr_array((np.ones(width), (operators, columns)), shape=(due, width + 1))
        cost = np.zeros(width + 1)
        cost[width] = 1.0
        # Through Any, since linprog's annotations know dense matrices only.
        found = linprog(
            cost,
            A_ub=cast("Any", full),
            b_ub=-self._admitted_ms[:, upto],
            A_eq=cast("Any", whole),
            b_eq=np.ones(due),
            method="highs",
        )
        if found.x is None:
            return None
        prices = np.maximum(-np.asarray(found.ineqlin.marginals, dtype=np.float64), 0.0)
        total = float(prices.sum())
        return prices / total if total > 0 else None


ROUNDS = 30
"""Limit of the rounds of local search, which converges long before."""

QUERY_LIMIT_S = 1.0
"""Time limit of the program of one query; its bound at that time is still valid."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundedPlacement:
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


def estimate(problem: DeadlineProblem, settings: SolverSettings) -> BoundedPlacement:
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
        return BoundedPlacement(placement=best, bound=0.0, limit_ms=limit_ms, places=places)
    lower_bounds.raise_by_spreading()
    limit_ms = np.maximum(limit_ms, lower_bounds.least_ms)
    bound, alone = bound_by_queries(problem, lower_bounds.least_ms, settings)
    for start in (places, places | alone) if alone else (places,):
        improved = LocalSearch(problem, start, limit_ms).improve(ROUNDS)
        better = with_sub_deadlines(problem, improved, settings)
        if best is None or (better is not None and better.objective < best.objective):
            best, places = better, improved
    return BoundedPlacement(placement=best, bound=bound, limit_ms=limit_ms, places=places)


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
