"""The demand of (6) as arrays, kept up to date while operators are moved.

==========================  ================  ==============================================
symbol                      name here         meaning
==========================  ================  ==============================================
Σ_{l'≤l} z_{n,o_l'}·c_o_l'  demand_ms[n, l]   work on n that is due by the l-th pair, ms
max_n demand                least_ms[l]       what (6) asks of d_{s_l,o_l}
d'_{s_l,o_l}                proportional_ms[l]        its fair share
==========================  ================  ==============================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from placement.deadline.problem import DeadlineProblem
from topology.arrays import FloatArray


class DemandTable:
    """Demand on every node as operators come and go.

    Attributes
    ----------
    proportional_ms
        d' by pair, shape (l,), ms.
    price
        What 1 ms more or less than the fair share costs in (3), by pair, shape (l,), 1/ms.
    demand_ms
        Shape (n, l), ms; what runs already included.
    at
        Operator → index of its node, of those placed.
    """

    def __init__(self, problem: DeadlineProblem) -> None:
        self._problem = problem
        self._speeds: FloatArray = np.array(
            [node.speed for node in problem.nodes], dtype=np.float64
        )
        self.proportional_ms: FloatArray = np.array(
            [pair.proportional_ms for pair in problem.pairs]
        )
        self.price: FloatArray = np.array(
            [
                problem.by_name[pair.operator].weight / problem.cost_ms(pair.operator)
                for pair in problem.pairs
            ]
        )
        self.demand_ms: FloatArray = np.zeros((len(problem.nodes), len(problem.pairs)))
        for n, node in enumerate(problem.nodes):
            for work in node.admitted:
                self.demand_ms[n, self.proportional_ms >= work.deadline_ms] += work.cost_ms
        # By node: deadlines of what runs there, and the time left until each.
        self._deadlines_ms: list[FloatArray] = []
        self._left_ms: list[FloatArray] = []
        for node in problem.nodes:
            due = np.array([work.deadline_ms for work in node.admitted], dtype=np.float64)
            cost_ms = np.array([work.cost_ms for work in node.admitted], dtype=np.float64)
            self._deadlines_ms.append(due)
            self._left_ms.append(due - (due[:, None] >= due) @ cost_ms)
        self.at: dict[str, int] = {}

    @property
    def least_ms(self) -> FloatArray:
        """What (6) asks of each sub-deadline, shape (l,), ms."""
        return self.demand_ms.max(axis=0)

    @property
    def overload_ms(self) -> float:
        """Work that makes what runs already late, summed over its deadlines, ms."""
        return float(sum(np.maximum(-left_ms, 0).sum() for left_ms in self._left_ms))

    def put(self, operator: str, node: int) -> None:
        """Place an operator that is nowhere."""
        self.at[operator] = node
        self._change(operator, node, 1.0)

    def take(self, operator: str) -> int:
        """Take an operator away; where it was."""
        node = self.at.pop(operator)
        self._change(operator, node, -1.0)
        return node

    def put_all(self, places: Mapping[str, str]) -> None:
        """Place operators by the names of their nodes."""
        for name, node in places.items():
            self.put(name, self._problem.node_index[node])

    def penalties(self, operator: str, nodes: Iterable[int]) -> list[tuple[float, float]]:
        """What it would cost to put an operator on each of some nodes.

        Returns
        -------
        list of tuple of float
            By node: how far (6) would push sub-deadlines above their fair shares, in units of
            (3), what runs already made late included; and the largest share that demand would
            have of a fair share on that node, from where the operator counts.
        """
        first = self._problem.first[operator]
        proportional_ms, price = self.proportional_ms[first:], self.price[first:]
        # Only the two largest demands matter: the node's own and the largest of the others.
        least_ms = self.demand_ms[:, first:].max(axis=0)
        before = float(price @ np.maximum(least_ms - proportional_ms, 0))
        found: list[tuple[float, float]] = []
        for node in nodes:
            cost_ms = self._problem.cost_ms(operator) / self._speeds[node]
            own_ms = self.demand_ms[node, first:] + cost_ms
            after = float(price @ np.maximum(np.maximum(least_ms, own_ms) - proportional_ms, 0))
            late = self._deadlines_ms[node] >= self.proportional_ms[first]
            excess_ms = float(np.maximum(cost_ms - self._left_ms[node][late], 0).sum())
            full = float((own_ms / proportional_ms).max())
            found.append((after - before + excess_ms / cost_ms * len(price), full))
        return found

    def _change(self, operator: str, node: int, sign: float) -> None:
        first = self._problem.first[operator]
        cost_ms = sign * self._problem.cost_ms(operator) / float(self._speeds[node])
        self.demand_ms[node, first:] += cost_ms
        late = self._deadlines_ms[node] >= self.proportional_ms[first]
        self._left_ms[node][late] -= cost_ms
