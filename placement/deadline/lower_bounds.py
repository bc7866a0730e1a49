"""Lower bounds of all sub-deadlines, valid for every placement.

(6) asks d_l ≥ max_n W_n(l), where W_n(l) is the work of node n that is due by the l-th pair. For
any prices π_n ≥ 0 with Σ_n π_n = 1 the maximum is at least the mean with these weights, and each
operator costs at least as much as on its cheapest candidate:

    max_n W_n(l)  ≥  Σ_n π_n·W_n(l)  ≥  Σ_{o charged by l} min_{n∈Node(o)} π_n·c_o/speed_n
                                        + Σ_n π_n·admitted_n(l)

Every π gives a bound for all l at once. Good prices are the dual values of the linear program
that spreads the work due by some l over the nodes as evenly as possible, with divisible operators:

    min λ    Σ_n z_{o,n} = 1,   Σ_o z_{o,n}·c_o/speed_n + admitted_n(l) ≤ λ    for every n

Two bounds need no program: the work that can run on one node only, and the cost of the largest
single operator, which is not divisible after all.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack

from placement.deadline.demand_table import DemandTable
from placement.deadline.problem import DeadlineProblem
from topology.arrays import FloatArray, IntArray

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
