"""The demand of (6) as an array that is updated while operators are placed and moved.

==========================  ==================  ============================================
symbol                      name here           meaning
==========================  ==================  ============================================
Σ_{l'≤l} z_{n,o_l'}·c_o_l'  demand_ms[n, l]     work on n that is due by the l-th pair, ms
max_n demand                least_ms[l]         least d_{s_l,o_l} that (6) allows, ms
==========================  ==================  ============================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from foundation.arrays import FloatArray
from placement.deadline.problem import DeadlineProblem


class DemandTable:
    """Demand on every node for the operators placed so far.

    Attributes
    ----------
    demand_ms
        Shape (n, l), ms, including admitted work.
    at
        Placed operator → index of its node.
    """

    def __init__(self, problem: DeadlineProblem, places: Mapping[str, str] | None = None) -> None:
        self._problem = problem
        shape = len(problem.nodes), len(problem.pairs)
        self.demand_ms: FloatArray = np.zeros(shape)
        # Of the admitted work of each node: sub-deadlines, and the slack of each.
        self._deadlines_ms: list[FloatArray] = []
        self._slack_ms: list[FloatArray] = []
        for n, node in enumerate(problem.nodes):
            for work in node.admitted:
                self.demand_ms[n, problem.proportional_ms >= work.deadline_ms] += work.cost_ms
            due_ms = np.array([work.deadline_ms for work in node.admitted], dtype=np.float64)
            cost_ms = np.array([work.cost_ms for work in node.admitted], dtype=np.float64)
            self._deadlines_ms.append(due_ms)
            self._slack_ms.append(due_ms - (due_ms[:, None] >= due_ms) @ cost_ms)
        self.at: dict[str, int] = {}
        for name, node in (places or {}).items():
            self.put(name, problem.node_index[node])

    @property
    def least_ms(self) -> FloatArray:
        """Least sub-deadline of each pair that (6) allows, shape (l,), ms."""
        return self.demand_ms.max(axis=0)

    @property
    def overload_ms(self) -> float:
        """Negative slack of admitted work, summed over its sub-deadlines, ms, ≥ 0."""
        return float(sum(np.maximum(-slack_ms, 0).sum() for slack_ms in self._slack_ms))

    def put(self, operator: str, node: int) -> None:
        """Place an operator that is not placed yet."""
        self.at[operator] = node
        self._change(operator, node, 1.0)

    def take(self, operator: str) -> int:
        """Remove an operator; the node on which it was."""
        node = self.at.pop(operator)
        self._change(operator, node, -1.0)
        return node

    def places(self) -> dict[str, str]:
        """Operator → node, of the placed ones in the problem's order."""
        nodes = self._problem.nodes
        return {n: nodes[self.at[n]].name for n in self._problem.order if n in self.at}

    def added_ms(self, operator: str, node: int) -> FloatArray:
        """Demand that an operator adds to a node, shape (l,), ms."""
        added: FloatArray = np.zeros(len(self._problem.pairs))
        added[self._problem.first[operator] :] = self._cost_ms(operator, node)
        return added

    def penalties(self, operator: str, nodes: Iterable[int]) -> list[tuple[float, float]]:
        """Penalty for placing an operator on each of some nodes.

        Returns
        -------
        list of tuple of float
            By node, first the amount by which (6) would raise sub-deadlines above d', in units of
            (3), with a surcharge for admitted work that would be late; second the largest ratio of
            demand to d' on that node, over the pairs that charge the operator.
        """
        first = self._problem.first[operator]
        proportional_ms = self._problem.proportional_ms[first:]
        per_ms = self._problem.penalty_per_ms[first:]
        # Only two demands matter: that of the node itself and the largest of all nodes.
        least_ms = self.demand_ms[:, first:].max(axis=0)
        before = float(per_ms @ np.maximum(least_ms - proportional_ms, 0))
        found: list[tuple[float, float]] = []
        for node in nodes:
            cost_ms = self._cost_ms(operator, node)
            own_ms = self.demand_ms[node, first:] + cost_ms
            after = float(per_ms @ np.maximum(np.maximum(least_ms, own_ms) - proportional_ms, 0))
            due = self._deadlines_ms[node] >= proportional_ms[0]
            late_ms = float(np.maximum(cost_ms - self._slack_ms[node][due], 0).sum())
            ratio = float((own_ms / proportional_ms).max())
            found.append((after - before + late_ms / cost_ms * len(per_ms), ratio))
        return found

    def _cost_ms(self, operator: str, node: int) -> float:
        return self._problem.cost_ms(operator) / self._problem.nodes[node].speed

    def _change(self, operator: str, node: int, sign: float) -> None:
        first = self._problem.first[operator]
        cost_ms = sign * self._cost_ms(operator, node)
        self.demand_ms[node, first:] += cost_ms
        due = self._deadlines_ms[node] >= self._problem.proportional_ms[first]
        self._slack_ms[node][due] -= cost_ms
