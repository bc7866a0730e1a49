"""A placement whose demand stays below a curve: moves and exchanges, node by node.

(3) rises with the fullest node at each deadline, so where several nodes are too full no single
move lowers it, and a search by (3) stands still. Against a given curve T every node can be judged
by itself:

    excess = Σ_n Σ_l price_l·max(W_n(l) − T_l, 0)

Operators leave nodes with excess, the fullest first, for other candidates, or change places with
operators there, whatever lowers the sum. Fair shares or floors (`placement.deadline.lower_bounds`),
whichever is higher, are the curve: below it nothing can be gained.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from placement.deadline.demand_table import DemandTable
from placement.deadline.problem import DeadlineProblem
from topology.arrays import FloatArray

NEGLIGIBLE = 1e-9
"""Excess lowered by less is no improvement."""


class LocalSearch:
    """Demand by node against a curve.

    Parameters
    ----------
    problem
        What is placed.
    places
        Where it is to begin with.
    curve_ms
        T by pair, shape (l,), ms.
    """

    def __init__(
        self, problem: DeadlineProblem, places: Mapping[str, str], curve_ms: FloatArray
    ) -> None:
        self._problem = problem
        self._demand_table = DemandTable(problem)
        self._demand_table.put_all(places)
        self._curve_ms = curve_ms
        self._free = {name for name in problem.order if len(problem.by_name[name].candidates) > 1}
        self._nodes = {
            name: [problem.node_index[node] for node in problem.by_name[name].candidates]
            for name in self._free
        }
        self._speeds = [node.speed for node in problem.nodes]
        self._on: list[set[str]] = [set() for _ in problem.nodes]
        for name, node in self._demand_table.at.items():
            self._on[node].add(name)
        self._excess = [self._of(n, self._demand_table.demand_ms[n]) for n in range(len(self._on))]

    @property
    def excess(self) -> float:
        """Over all nodes."""
        return sum(self._excess)

    def level(self, rounds: int) -> dict[str, str]:
        """Move and exchange; operator → node."""
        for _ in range(rounds):
            before = self.excess
            for node in sorted(range(len(self._on)), key=lambda n: -self._excess[n]):
                if self._excess[node] <= NEGLIGIBLE:
                    break
                self._relieve(node)
            if self.excess > before - NEGLIGIBLE:
                break
        at = self._demand_table.at
        return {name: self._problem.nodes[at[name]].name for name in self._problem.order}

    def _relieve(self, node: int) -> None:
        for name in sorted(self._on[node] & self._free):
            if self._excess[node] <= NEGLIGIBLE:
                return
            there = self._best_move(name, node)
            if there is not None:
                self._put(name, there)
                continue
            other = self._best_exchange(name, node)
            if other is not None:
                there = self._demand_table.at[other]
                self._put(name, there)
                self._put(other, node)

    def _best_move(self, name: str, node: int) -> int | None:
        without = self._of(node, self._demand_table.demand_ms[node] - self._curve(name, node))
        best, least = None, -NEGLIGIBLE
        for there in self._nodes[name]:
            if there == node:
                continue
            with_it = self._of(
                there, self._demand_table.demand_ms[there] + self._curve(name, there)
            )
            change = without + with_it - self._excess[node] - self._excess[there]
            if change < least:
                best, least = there, change
        return best

    def _best_exchange(self, name: str, node: int) -> str | None:
        best, least = None, -NEGLIGIBLE
        demand_ms = self._demand_table.demand_ms
        without_ms = demand_ms[node] - self._curve(name, node)
        for there in self._nodes[name]:
            if there == node:
                continue
            with_it_ms = demand_ms[there] + self._curve(name, there)
            for other in sorted(self._on[there] & self._free):
                if node not in self._nodes[other]:
                    continue
                here = self._of(node, without_ms + self._curve(other, node))
                if here >= self._excess[node] + self._excess[there]:
                    continue
                beyond = self._of(there, with_it_ms - self._curve(other, there))
                change = here + beyond - self._excess[node] - self._excess[there]
                if change < least:
                    best, least = other, change
        return best

    def _put(self, name: str, there: int) -> None:
        node = self._demand_table.take(name)
        self._demand_table.put(name, there)
        self._on[node].remove(name)
        self._on[there].add(name)
        for n in (node, there):
            self._excess[n] = self._of(n, self._demand_table.demand_ms[n])

    def _curve(self, name: str, node: int) -> FloatArray:
        """What an operator adds to the demand of a node, shape (l,), ms."""
        added: FloatArray = np.zeros(len(self._curve_ms))
        added[self._problem.first[name] :] = self._problem.cost_ms(name) / self._speeds[node]
        return added

    def _of(self, node: int, demand_ms: FloatArray) -> float:
        return float(self._demand_table.price @ np.maximum(demand_ms - self._curve_ms, 0.0))
