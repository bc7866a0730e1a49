"""How busy nodes are: replicas, the CPU axis that follows from them, and the room that is left.

The experiments of reliable placement count a node's operators as its CPU use (§5); a live node
also measures. Both are needed: a measurement knows nothing of an operator placed a moment ago. An
operator that already runs is therefore seen twice, in the measurement and in the count, which errs
towards spreading.

The *load price* turns the axis into the currency of plans. Putting a replica on a node costs
DR · (axis with that replica) / 1000 bytes: the same as if a stream of DR bytes/s had to travel
those milliseconds farther. So a byte of network usage and a busy node are weighed by one number,
the scaling function that the user gives (`topology.cpu`).

DR is the mean input rate of the query's operators, the same for all of them: a busy node delays the
query's results by its axis whichever operator it runs, and the axis counts operators. With each
operator's own rate, Σ W·axis would be least where operators with little input crowd some nodes and
few with much input have others: of input rates r, as many share a node as 1/√r.

All replicas together pay W·axis on each node:

=============  ====================  ============================================================
symbol         name here             meaning
=============  ====================  ============================================================
W              input_bytes_s         DR of all its replicas together, bytes/s
c              replicas              replicas, those outside the plan included
m              measured_ms           the CPU axis as measured, ms
axis           axis_ms               m + scaling(operator load · c), ms
=============  ====================  ============================================================

A replica that arrives is charged for its cost to the others there, too: a change's price is that of
the sum (`price_change`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from foundation.arrays import BoolArray, FloatArray, IntArray
from placement.graph import QueryGraph
from placement.network import NetworkView
from topology.cpu import Scaling

_Array = TypeVar("_Array", IntArray, FloatArray)

ROUNDING_CORES = 1e-9
"""Cores by which a sum of shares may exceed a capacity that it equals on paper."""


class LoadDelta(NamedTuple):
    """By how much placements (rows) change the load of nodes; each node at most once a row."""

    rows: IntArray
    nodes: IntArray
    replicas: IntArray
    input_bytes_s: FloatArray
    measured_ms: FloatArray
    cores: FloatArray

    def of(self, row: int) -> LoadDelta:
        """The changes of one placement."""
        found = self.rows == row
        return LoadDelta(
            rows=self.rows[found],
            nodes=self.nodes[found],
            replicas=self.replicas[found],
            input_bytes_s=self.input_bytes_s[found],
            measured_ms=self.measured_ms[found],
            cores=self.cores[found],
        )


class LoadFigures(NamedTuple):
    """What a load is made of, by node, shape (n,).

    Attributes
    ----------
    replicas
        Operators that run there.
    used_cores
        CPU that replicas of this plan need by their rates and costs, cores.
    input_bytes_s
        Their queries' mean input rates, summed.
    measured_ms
        The CPU axis besides them, ms.
    """

    replicas: IntArray
    used_cores: FloatArray
    input_bytes_s: FloatArray
    measured_ms: FloatArray


class Load:
    """The load of a network's nodes, by node, shape (n,). Changing it gives another load.

    Parameters
    ----------
    view
        Gives capacities, measured load and operators outside this plan.
    operator_load
        Cores that a replica of an operator is taken to use.
    cpu
        The milliseconds on the CPU axis that a load counts for.
    figures
        Of another load of the same network (`figures`); None: only what the view tells of.
    """

    def __init__(
        self,
        view: NetworkView,
        *,
        operator_load: float,
        cpu: Scaling,
        figures: LoadFigures | None = None,
    ) -> None:
        self.view = view
        self._operator_load = operator_load
        self._cpu = cpu
        if figures is None:
            figures = LoadFigures(
                replicas=np.array([node.operators for node in view.nodes], dtype=np.int64),
                used_cores=np.zeros(len(view.nodes)),
                input_bytes_s=np.zeros(len(view.nodes)),
                measured_ms=np.array([node.cpu_ms for node in view.nodes], dtype=np.float64),
            )
        self.replicas, self.used_cores, self.input_bytes_s, self.measured_ms = figures
        # Kept up to date where replicas change, since it is asked for far more often.
        self._axis_ms, self._price_ms = self.axis_ms(), self.axis_ms(1)

    @property
    def figures(self) -> LoadFigures:
        """All that sets this load apart from others of its network: what a process is sent."""
        return LoadFigures(self.replicas, self.used_cores, self.input_bytes_s, self.measured_ms)

    def with_replicas(
        self,
        nodes: Iterable[str],
        cores: float = 0.0,
        input_bytes_s: float = 0.0,
        *,
        count: int = 1,
    ) -> Load:
        """The load with one more replica on each of the given nodes.

        Parameters
        ----------
        cores, input_bytes_s
            CPU that each of them needs, and the mean input rate of its query.
        count
            −1: one less.
        """
        at = np.array([self.view.index[node] for node in nodes], dtype=np.int64)
        return self._plus(at, count, count * cores, count * input_bytes_s) if len(at) else self

    def with_operators(
        self, graph: QueryGraph, nodes: Mapping[str, Iterable[str | None]], *, count: int = 1
    ) -> Load:
        """The load with replicas of a query's operators to be placed.

        Parameters
        ----------
        nodes
            Operator → where it has replicas. None stands for no replica, and so does no entry.
        count
            −1: without them.
        """
        at: list[int] = []
        cores: list[float] = []
        input_bytes_s: list[float] = []
        for name in graph.to_place:
            found = [self.view.index[node] for node in nodes.get(name, ()) if node is not None]
            at += found
            cores += [count * graph.cores(name)] * len(found)
            input_bytes_s += [count * graph.mean_input_rate] * len(found)
        if not at:
            return self
        # At once: each change makes new figures of all nodes.
        return self._plus(
            np.array(at, dtype=np.int64), count, np.array(cores), np.array(input_bytes_s)
        )

    def with_expected(self, nodes: IntArray) -> Load:
        """The load with one more replica on nodes by index, each time it occurs, without room."""
        return self._plus(nodes, 1, 0.0)

    def with_delta(self, delta: LoadDelta) -> Load:
        """The load after the changes of a single placement."""
        return self._plus(
            delta.nodes, delta.replicas, delta.cores, delta.input_bytes_s, delta.measured_ms
        )

    def axis_ms(self, more: FloatArray | float = 0) -> FloatArray:
        """The CPU axis with so many replicas more on each node, ms."""
        return self.measured_ms + self._counted_ms(np.add(self.replicas, more))

    def price_ms(self) -> FloatArray:
        """The CPU axis that one more replica meets, itself included, ms; to be read only."""
        return self._price_ms

    def price_bytes(self, input_bytes_s: float) -> FloatArray:
        """By how much one more replica with that input rate changes the price of all, bytes."""
        others_bytes = self.input_bytes_s * (self._price_ms - self._axis_ms) / 1e3
        return input_bytes_s * self._price_ms / 1e3 + others_bytes

    def total_price_bytes(self) -> float:
        """Load prices of all replicas together, bytes."""
        return float(self.input_bytes_s @ self._axis_ms) / 1e3

    def price_change(self, delta: LoadDelta, rows: int) -> FloatArray:
        """By how much each row alone would change the total price, shape (rows,), bytes."""
        at = delta.nodes
        before = self.input_bytes_s[at] * self._axis_ms[at]
        axis_ms = self._counted_ms(self.replicas[at] + delta.replicas)
        axis_ms += self.measured_ms[at] + delta.measured_ms
        after = (self.input_bytes_s[at] + delta.input_bytes_s) * axis_ms
        change = np.bincount(delta.rows, (after - before) / 1e3, minlength=rows)
        return change.astype(np.float64)

    def price_of_replica(
        self, node: int, input_bytes_s: float, share_ms: float, nodes: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """What a replica that runs on `node` would pay on some nodes, and make the others pay.

        Parameters
        ----------
        share_ms
            Measured CPU axis that goes with the replica.

        Returns
        -------
        tuple
            Two arrays, bytes. Between two nodes their sum differs by as much as the total price.
        """
        here = nodes == node
        with_ms = np.where(here, self._axis_ms[nodes], self._price_ms[nodes] + share_ms)
        left_ms = self._axis_at(np.array([node]), -1) - share_ms
        without_ms = np.where(here, left_ms, self._axis_ms[nodes])
        others_bytes_s = self.input_bytes_s[nodes] - np.where(here, input_bytes_s, 0.0)
        return input_bytes_s * with_ms / 1e3, others_bytes_s * (with_ms - without_ms) / 1e3

    def has_room(self, cores: float) -> BoolArray:
        """Whether a replica that needs so many cores fits, by node."""
        return cores <= self.room_cores() + ROUNDING_CORES

    def room_cores(self) -> FloatArray:
        """CPU that is left, cores; below 0 where replicas need too much."""
        return self.view.capacity_cores - self.used_cores

    def has_room_for(self, delta: LoadDelta, rows: int) -> BoolArray:
        """Whether no node gets more than it has cores for, by placement, shape (rows,).

        While a replica moves, its target carries it and its source still does. So the target must
        have room as if no other replica left it. A node that is overfull already may stay so, but
        gets nothing more.
        """
        over = (delta.cores > 0) & (delta.cores > self.room_cores()[delta.nodes] + ROUNDING_CORES)
        return np.bincount(delta.rows, over, minlength=rows) == 0

    def _counted_ms(self, replicas: npt.NDArray[np.floating] | IntArray) -> FloatArray:
        load = np.asarray(self._operator_load * np.maximum(replicas, 0), dtype=np.float64)
        return self._cpu.axis_ms(load).astype(np.float64)

    def _axis_at(self, nodes: IntArray, more: FloatArray | int) -> FloatArray:
        """`axis_ms` of some nodes."""
        return self.measured_ms[nodes] + self._counted_ms(np.add(self.replicas[nodes], more))

    def _plus(
        self,
        at: IntArray,
        replicas: IntArray | int,
        cores: FloatArray | float,
        input_bytes_s: FloatArray | float = 0.0,
        measured_ms: FloatArray | float = 0.0,
    ) -> Load:
        """Another load with more on the given nodes; one may be given several times."""
        load = copy.copy(self)
        load.replicas = _added(self.replicas, at, replicas)
        load.used_cores = _added(self.used_cores, at, cores)
        load.input_bytes_s = _added(self.input_bytes_s, at, input_bytes_s)
        load.measured_ms = _added(self.measured_ms, at, measured_ms)
        load._axis_ms, load._price_ms = self._axis_ms.copy(), self._price_ms.copy()
        load._axis_ms[at] = load._axis_at(at, 0)
        load._price_ms[at] = load._axis_at(at, 1)
        return load


def _added(values: _Array, at: IntArray, more: IntArray | FloatArray | float) -> _Array:
    if isinstance(more, float) and not more:
        return values
    added = values.copy()
    np.add.at(added, at, more)
    return added
