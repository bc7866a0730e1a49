"""A first placement, and the local search that improves it.

*First placement.* Objective (3) is 0 if no demand of (6) exceeds a proportional sub-deadline and no
path of proportional sub-deadlines and latencies exceeds its deadline. The first condition is a
packing problem: each operator, in the order of (6), takes the node on which demand stays farthest
below the proportional sub-deadlines. Then operators are moved one at a time while a move lowers
the penalty.

*Local search.* Objective (3) depends, at each pair, on the node with the largest demand. Where
several nodes have too much demand, no single move lowers (3), and a search that looked at (3) would
stop. Compared with a given limit T_l, every node counts by itself:

    excess = Σ_n Σ_l penalty_l·max(W_n(l) − T_l, 0)

Operators leave the nodes with excess, the largest first, for other candidates, or are exchanged
with operators there, if this lowers the excess. The limits are the proportional sub-deadlines or
the lower bounds (`placement.deadline.estimate`), whichever is larger, since demand below them
costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from foundation.arrays import FloatArray
from placement.deadline.demand_table import DemandTable
from placement.deadline.problem import DeadlineProblem


def place_greedily(problem: DeadlineProblem, rounds: int = 4) -> dict[str, str]:
    """Place all operators.

    Parameters
    ----------
    rounds
        Limit of the passes over the operators that try single moves, ≥ 0.

    Returns
    -------
    dict of str to str
        Operator → node. The placement may have no sub-deadlines that keep the deadlines
        (`placement.deadline.sub_deadlines`).
    """
    demand = DemandTable(problem)
    # Operators with one candidate come first, since the others must adapt to them.
    choice = {name: len(problem.by_name[name].candidates) > 1 for name in problem.charged}
    names = sorted(problem.charged, key=choice.__getitem__)
    for name in names:
        demand.put(name, _best(problem, demand, name))
    for _ in range(rounds):
        moved = False
        for name in names:
            if choice[name]:
                before = demand.take(name)
                now = _best(problem, demand, name, stay=before)
                demand.put(name, now)
                moved = moved or now != before
        if not moved:
            break
    return demand.places()


def _best(problem: DeadlineProblem, demand: DemandTable, name: str, stay: int | None = None) -> int:
    """The candidate with the least penalty for demand and delay; if equal, the least full."""
    nodes = [problem.node_index[node] for node in problem.by_name[name].candidates]
    found = {
        node: (round(penalty + _delay(problem, demand, name, node), 9), ratio)
        for node, (penalty, ratio) in zip(nodes, demand.penalties(name, nodes), strict=True)
    }
    best = min(nodes, key=lambda node: (*found[node], node))
    if stay is not None and found[stay][0] <= found[best][0] + NEGLIGIBLE:
        return stay
    return best


def _delay(problem: DeadlineProblem, demand: DemandTable, name: str, node: int) -> float:
    """Latency to placed neighbours in units of (3), as if sub-deadlines had to absorb all of it."""
    if problem.one_way_ms is None:
        return 0.0
    ms = 0.0
    for stream in problem.by_name[name].inputs:
        if stream in problem.source:
            ms += problem.source_latency_ms(stream, node)
        elif problem.producer[stream] in demand.at:
            ms += float(problem.one_way_ms[demand.at[problem.producer[stream]], node])
    for stream in problem.by_name[name].outputs:
        targets = [demand.at[other] for other in problem.consumers[stream] if other in demand.at]
        if stream in problem.output:
            targets.insert(0, problem.node_index[problem.output[stream].sink])
        for target in targets:
            ms += float(problem.one_way_ms[node, target])
    return ms / problem.cost_ms(name)


NEGLIGIBLE = 1e-9
"""A smaller decrease of the excess, or of the greedy placement's penalty in units of (3), does not
count as an improvement."""


class LocalSearch:
    """A placement that is improved step by step.

    Parameters
    ----------
    problem
        The problem to place.
    places
        Operator → node, the start of the search.
    limit_ms
        T by pair, shape (l,), ms.
    """

    def __init__(
        self, problem: DeadlineProblem, places: Mapping[str, str], limit_ms: FloatArray
    ) -> None:
        self._problem = problem
        self._demand = DemandTable(problem, places)
        self._limit_ms = limit_ms
        self._candidates = {
            operator.name: [problem.node_index[node] for node in operator.candidates]
            for operator in problem.operators
            if len(operator.candidates) > 1
        }
        # The operators with a choice, by the node on which they are.
        self._movable: list[set[str]] = [set() for _ in problem.nodes]
        for name in self._candidates:
            self._movable[self._demand.at[name]].add(name)
        self._excess = [self._of(demand_ms) for demand_ms in self._demand.demand_ms]

    @property
    def excess(self) -> float:
        """Excess of all nodes."""
        return sum(self._excess)

    def improve(self, rounds: int) -> dict[str, str]:
        """Search for at most so many rounds; operator → node."""
        for _ in range(rounds):
            before = self.excess
            for node in sorted(range(len(self._excess)), key=lambda n: -self._excess[n]):
                if self._excess[node] <= NEGLIGIBLE:
                    break
                self._relieve(node)
            if self.excess > before - NEGLIGIBLE:
                break
        return self._demand.places()

    def _relieve(self, node: int) -> None:
        for name in sorted(self._movable[node]):
            if self._excess[node] <= NEGLIGIBLE:
                return
            target = self._best_move(name, node)
            if target is not None:
                self._move(name, target)
                continue
            other = self._best_exchange(name, node)
            if other is not None:
                self._move(name, self._demand.at[other])
                self._move(other, node)

    def _best_move(self, name: str, node: int) -> int | None:
        demand_ms, added_ms = self._demand.demand_ms, self._demand.added_ms
        without = self._of(demand_ms[node] - added_ms(name, node))
        best, least = None, -NEGLIGIBLE
        for target in self._candidates[name]:
            if target == node:
                continue
            after = self._of(demand_ms[target] + added_ms(name, target))
            change = without + after - self._excess[node] - self._excess[target]
            if change < least:
                best, least = target, change
        return best

    def _best_exchange(self, name: str, node: int) -> str | None:
        demand_ms, added_ms = self._demand.demand_ms, self._demand.added_ms
        without_ms = demand_ms[node] - added_ms(name, node)
        best, least = None, -NEGLIGIBLE
        for target in self._candidates[name]:
            if target == node:
                continue
            with_ms = demand_ms[target] + added_ms(name, target)
            for other in sorted(self._movable[target]):
                if node not in self._candidates[other]:
                    continue
                here = self._of(without_ms + added_ms(other, node))
                if here >= self._excess[node] + self._excess[target]:
                    continue
                there = self._of(with_ms - added_ms(other, target))
                change = here + there - self._excess[node] - self._excess[target]
                if change < least:
                    best, least = other, change
        return best

    def _move(self, name: str, target: int) -> None:
        node = self._demand.take(name)
        self._demand.put(name, target)
        self._movable[node].remove(name)
        self._movable[target].add(name)
        for n in (node, target):
            self._excess[n] = self._of(self._demand.demand_ms[n])

    def _of(self, demand_ms: FloatArray) -> float:
        """Excess of a node with this demand."""
        return float(self._problem.penalty_per_ms @ np.maximum(demand_ms - self._limit_ms, 0.0))
