"""How busy nodes become while a plan is being made: the CPU axis during planning.

The paper's experiments count a node's operators as its CPU use (reliable placement, §5); a live
node also measures. Both are needed: a measurement knows nothing of an operator placed a moment
ago. An operator that already runs is therefore seen twice, in the measurement and in the count,
which errs towards spreading.

The *load price* turns the axis into the currency of plans. Putting a copy on a node costs
DR · (axis with that copy) / 1000 bytes, DR being the copy's input rate in bytes/s: the same as if
its input had to travel those milliseconds farther. So a byte of network usage and a busy node are
weighed by one number, the scaling function that the user gives (`topology.cpu`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from placement.network import NetworkView
from topology.arrays import FloatArray, IntArray
from topology.cpu import Scaling

ROUNDING_CORES = 1e-9
"""Cores by which a sum of shares may exceed a capacity that it equals on paper."""


class Load:
    """Copies of operators by node, and the CPU axis that follows from them.

    Parameters
    ----------
    view
        Gives measured load and operators outside this plan.
    operator_load
        Cores that a copy of an operator is taken to use.
    cpu
        What a load counts for on the CPU axis.
    copies
        Copies by node, shape (n,); those that the view tells of, if None.
    used_cores
        CPU that these copies need by their rates and costs, cores, shape (n,); none, if None.
    """

    def __init__(
        self,
        view: NetworkView,
        *,
        operator_load: float,
        cpu: Scaling,
        replicas: IntArray | None = None,
        used_cores: FloatArray | None = None,
    ) -> None:
        self._view = view
        self._operator_load = operator_load
        self._cpu = cpu
        self._measured_ms = np.array([node.cpu_ms for node in view.nodes], dtype=np.float64)
        if replicas is None:
            replicas = np.array([node.operators for node in view.nodes], dtype=np.int64)
        self.replicas_by_node: IntArray = replicas
        self.used_cores: FloatArray = (
            np.zeros(len(view.nodes)) if used_cores is None else used_cores
        )

    def with_replicas(self, nodes: Iterable[str], cores: float = 0.0) -> Load:
        """The load with one more copy on each of the given nodes.

        Parameters
        ----------
        cores
            What each of them needs.
        """
        return self._changed(nodes, 1, cores)

    def without_replicas(self, nodes: Iterable[str], cores: float = 0.0) -> Load:
        """The load with one copy less on each of the given nodes."""
        return self._changed(nodes, -1, cores)

    def with_counts(self, replicas: IntArray, cores: FloatArray | None = None) -> Load:
        """The load with so many more copies on each node.

        Parameters
        ----------
        copies
            Shape (n,).
        cores
            What those on each node need together, shape (n,); nothing, if None.
        """
        load = self._same()
        load.replicas_by_node = self.replicas_by_node + replicas
        if cores is not None:
            load.used_cores = self.used_cores + cores
        return load

    def replicas(self, node: str) -> int:
        """Copies of operators on a node."""
        return int(self.replicas_by_node[self._view.index[node]])

    def cpu_ms(self) -> FloatArray:
        """The CPU axis by node, shape (n,), ms."""
        return self._axis_ms(self.replicas_by_node)

    def price_ms(self, together: IntArray | None = None) -> FloatArray:
        """The CPU axis that one more copy on a node meets, itself included, shape (n,), ms.

        Parameters
        ----------
        together
            Copies that are put on each node at once, shape (n,): the axis is then what they meet
            on average. One or none: a single copy.
        """
        ahead = 0.0 if together is None else (np.maximum(together, 1) - 1) / 2
        return self._axis_ms(self.replicas_by_node + 1 + ahead)

    def price_bytes(self, rate_bytes_s: float) -> FloatArray:
        """The load price of a copy with that input rate, by node, shape (n,), bytes."""
        return rate_bytes_s * self.price_ms() / 1e3

    def has_room(self, cores: float) -> npt.NDArray[np.bool_]:
        """Whether a copy that needs so many cores fits, by node, shape (n,)."""
        return cores <= self.room_cores() + ROUNDING_CORES

    def room_cores(self) -> FloatArray:
        """CPU that is left by node, cores, shape (n,); below 0 where copies need too much."""
        return self._view.capacity_cores - self.used_cores

    def _axis_ms(self, replicas: npt.NDArray[np.floating] | IntArray) -> FloatArray:
        return self._measured_ms + self._cpu.axis_ms(self._operator_load * np.maximum(replicas, 0))

    def _changed(self, nodes: Iterable[str], by: int, cores: float) -> Load:
        at = np.array([self._view.index[node] for node in nodes], dtype=np.int64)
        if not len(at):
            return self
        load = self._same()
        load.replicas_by_node = self.replicas_by_node.copy()
        np.add.at(load.replicas_by_node, at, by)
        if cores:
            load.used_cores = self.used_cores.copy()
            np.add.at(load.used_cores, at, by * cores)
        return load

    def _same(self) -> Load:
        """Another load that shares this one's arrays, to be given others."""
        load = object.__new__(Load)
        load._view, load._cpu = self._view, self._cpu
        load._operator_load, load._measured_ms = self._operator_load, self._measured_ms
        load.replicas_by_node, load.used_cores = self.replicas_by_node, self.used_cores
        return load
