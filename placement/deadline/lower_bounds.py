"""What sub-deadlines have to be at least, wherever operators are placed: prices on shared nodes.

(6) asks d_l ≥ max_n W_n(l), the work on the fullest node of all that is due by the l-th pair. For
any prices π_n ≥ 0 with Σ_n π_n = 1 the largest is no less than the mean that they weigh, and each
operator pays no less than on its cheapest candidate:

    max_n W_n(l)  ≥  Σ_n π_n·W_n(l)  ≥  Σ_{o charged by l} min_{n∈Node(o)} π_n·c_o/speed_n
                                        + Σ_n π_n·running_n(l)

Every π gives such a *floor* for all l at once. Good ones are the dual values of the linear
program that spreads the work due by some l over nodes as evenly as can be, operators in pieces:

    min λ    Σ_n z_{o,n} = 1,   Σ_o z_{o,n}·c_o/speed_n + running_n(l) ≤ λ    every n

All of the price on one node gives what is tied to that node. An operator in one piece asks for
its own time besides.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from placement.deadline.demand_table import DemandTable
from placement.deadline.problem import DeadlineProblem
from topology.arrays import FloatArray, IntArray

SPREADS = 12
"""Linear programs solved for prices: at the last pair, then where floors are highest above or
least below fair shares."""


class LowerBounds:
    """Floors of a problem, higher with all prices that are tried.

    Attributes
    ----------
    least_ms
        Floor by pair, shape (l,), ms.
    """

    def __init__(self, problem: DeadlineProblem) -> None:
        empty = DemandTable(problem)
        self._proportional_ms = empty.proportional_ms
        self._running_ms = empty.demand_ms
        self._charged = sorted(problem.order, key=problem.first.__getitem__)
        self._first: IntArray = np.array([problem.first[name] for name in self._charged])
        # Time of every operator on every node, infinite where it may not run.
        self._cost_ms: FloatArray = np.full((len(self._charged), len(problem.nodes)), np.inf)
        for at, name in enumerate(self._charged):
            for node in problem.by_name[name].candidates:
                n = problem.node_index[node]
                self._cost_ms[at, n] = problem.cost_ms(name) / problem.nodes[n].speed
        self.least_ms: FloatArray = self._alone()

    def raise_by_spreading(self, spreads: int = SPREADS) -> None:
        """Try the prices of some linear programs."""
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
        """The floor of some prices, shape (l,), ms."""
        paid_ms = np.zeros(len(self._proportional_ms))
        priced = np.where(np.isfinite(self._cost_ms), self._cost_ms, 0.0) * prices
        priced[~np.isfinite(self._cost_ms)] = np.inf
        np.add.at(paid_ms, self._first, priced.min(axis=1))
        return np.cumsum(paid_ms) + prices @ self._running_ms

    def _alone(self) -> FloatArray:
        """What is tied to single nodes, and operators in one piece."""
        tied_ms = np.zeros_like(self._running_ms)
        tied = np.isfinite(self._cost_ms).sum(axis=1) == 1
        for at in np.flatnonzero(tied):
            n = int(np.isfinite(self._cost_ms[at]).argmax())
            tied_ms[n, self._first[at]] += self._cost_ms[at, n]
        demand_ms = self._running_ms + np.cumsum(tied_ms, axis=1)
        piece_ms = np.zeros(len(self._proportional_ms))
        np.maximum.at(piece_ms, self._first, self._cost_ms.min(axis=1))
        return np.maximum(demand_ms.max(axis=0), np.maximum.accumulate(piece_ms))

    def _prices(self, upto: int) -> FloatArray | None:
        """Dual values of spreading what is due by a pair, shape (n,), their sum 1."""
        due = int(np.searchsorted(self._first, upto, side="right"))
        operators, nodes = np.nonzero(np.isfinite(self._cost_ms[:due]))
        width, count = len(operators), self._cost_ms.shape[1]
        columns: IntArray = np.arange(width, dtype=np.int64)
        every: IntArray = np.arange(count, dtype=np.int64)
        # Σ_o z_{o,n}·c_o/speed_n − λ ≤ −running_n
        full = csr_array(
            (
                np.concatenate((self._cost_ms[operators, nodes], np.full(count, -1.0))),
                (
                    np.concatenate((nodes, every)),
                    np.concatenate((columns, np.full(count, width))),
                ),
            ),
            shape=(count, width + 1),
        )
        # Σ_n z_{o,n} = 1
        whole = csr_array((np.ones(width), (operators, columns)), shape=(due, width + 1))
        cost = np.zeros(width + 1)
        cost[width] = 1.0
        # Through Any, for its annotations know dense matrices only.
        found = linprog(
            cost,
            A_ub=cast("Any", full),
            b_ub=-self._running_ms[:, upto],
            A_eq=cast("Any", whole),
            b_eq=np.ones(due),
            method="highs",
        )
        if found.x is None:
            return None
        prices = np.maximum(-np.asarray(found.ineqlin.marginals, dtype=np.float64), 0.0)
        total = float(prices.sum())
        return prices / total if total > 0 else None
