"""How busy nodes become while a plan is being made: the CPU axis during planning.

The paper's experiments count a node's operators as its CPU use (reliable placement, §5); a live
node also measures. Both are needed: a measurement knows nothing of an operator placed a moment
ago. An operator that already runs is therefore seen twice, in the measurement and in the count,
which errs towards spreading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from placement.network import NetworkView
from topology import cpu


class Load:
    """Copies of operators by node, and the CPU axis that follows from them.

    Parameters
    ----------
    view
        Gives measured load and operators outside this plan.
    operator_load
        Cores that a copy of an operator is taken to use.
    scale_ms
        What one fully used core counts for on the CPU axis, ms.
    """

    def __init__(self, view: NetworkView, *, operator_load: float, scale_ms: float) -> None:
        self._view = view
        self._operator_load = operator_load
        self._scale_ms = scale_ms
        self._copies: Counter[str] = Counter({node.name: node.operators for node in view.nodes})

    def with_copies(self, nodes: Iterable[str]) -> Load:
        """The load with one more copy on each of the given nodes."""
        load = Load(self._view, operator_load=self._operator_load, scale_ms=self._scale_ms)
        load._copies = self._copies + Counter(nodes)
        return load

    def copies(self, node: str) -> int:
        """Copies of operators on a node."""
        return self._copies[node]

    def cpu_ms(self) -> dict[str, float]:
        """The CPU axis by node, ms."""
        return {
            node.name: node.cpu_ms
            + cpu.linear(self._operator_load * self._copies[node.name], self._scale_ms)
            for node in self._view.nodes
        }
