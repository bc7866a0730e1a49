"""What runs: queries with their places, and how crowded nodes are with their copies.

The load price of a plan is what all copies pay together: Σ over copies of DR · (CPU axis of the
copy's node) / 1000 bytes (`placement.load`). Per node that is W·axis, with

=============  ====================  ============================================================
symbol         name here             meaning
=============  ====================  ============================================================
W              rate_bytes_s          input rates of all its copies together, bytes/s
c              copies                copies, those outside the plan included
m              measured_ms           the CPU axis as measured
axis           axis_ms               m + scaling(operator load · c), ms
=============  ====================  ============================================================

A copy that comes is therefore charged for what it does to the others there, and a move's gain is
what the sum falls by.

*A measured load moves along.* What a node measures comes from the copies that it runs. If it stayed
behind when they leave, every busy node would look worth leaving and every idle one worth going to,
until the next measurement says the opposite. So each copy has a share of its node's measured axis,
by the CPU that it needs (equal shares if nothing is known), and takes it to its next node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from placement.assess import Pairs
from placement.errors import RunningError, Stranded
from placement.network import NetworkView
from placement.planner import check_requests
from placement.records import Request
from placement.settings import Settings
from topology.arrays import BoolArray, FloatArray, IntArray


@dataclass(slots=True, kw_only=True)
class RunningQuery:
    """A query and where its operators are now.

    Attributes
    ----------
    places
        Operator → indices of its primary's and secondary's nodes, in topological order.
    shares_ms
        Operator → measured CPU axis that goes with its primary and its secondary, ms.
    """

    request: Request
    places: dict[str, tuple[int, int]]
    shares_ms: dict[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )


class LoadDelta(NamedTuple):
    """By how much placements (rows) change what nodes carry; each node at most once a row."""

    rows: IntArray
    nodes: IntArray
    replicas: IntArray
    rate_bytes_s: FloatArray
    measured_ms: FloatArray
    cores: FloatArray


class NodeLoad:
    """What nodes carry; arrays of shape (n,) in the order of the view's nodes.

    Parameters
    ----------
    view
        Gives measured load, capacities and operators outside the plan.
    settings
        Scaling function and load of a copy.
    queries
        What runs. Shares of the measured load are set in them.
    """

    def __init__(
        self, view: NetworkView, settings: Settings, queries: Sequence[RunningQuery]
    ) -> None:
        self._scaling = settings.cpu
        self._operator_load = settings.operator_load
        self._capacity_cores = view.capacity_cores
        self.replicas = np.array([node.operators for node in view.nodes], dtype=np.int64)
        self.measured_ms = np.array([node.cpu_ms for node in view.nodes], dtype=np.float64)
        self.rate_bytes_s = np.zeros(len(view.nodes))
        self.cores = np.zeros(len(view.nodes))
        for query in queries:
            graph = query.request.graph
            for name, pair in query.places.items():
                self.replicas[list(pair)] += 1
                self.rate_bytes_s[list(pair)] += graph.input_rate(name)
                self.cores[list(pair)] += graph.cores(name)
        self._share_out(view, queries)

    def axis_ms(self, more: int = 0) -> FloatArray:
        """The CPU axis with so many copies more (or less) on each node, ms."""
        return self.measured_ms + self._counted_ms(self.replicas + more)

    def price(self) -> float:
        """Load prices of all copies together, bytes."""
        return float(self.rate_bytes_s @ self.axis_ms()) / 1e3

    def price_of_replica(
        self, node: int, rate_bytes_s: float, share_ms: float
    ) -> tuple[FloatArray, FloatArray]:
        """What a copy that runs on `node` would pay on each node, and what it costs others there.

        Returns
        -------
        tuple
            Two arrays of shape (n,), bytes. Between two nodes their sum differs by as much as
            `price` does.
        """
        replicas, rates = self.replicas.copy(), self.rate_bytes_s.copy()
        measured_ms = self.measured_ms.copy()
        replicas[node] -= 1
        rates[node] -= rate_bytes_s
        measured_ms[node] -= share_ms
        without_ms = measured_ms + self._counted_ms(replicas)
        with_ms = measured_ms + share_ms + self._counted_ms(replicas + 1)
        return rate_bytes_s * with_ms / 1e3, rates * (with_ms - without_ms) / 1e3

    def price_change(self, load_delta: LoadDelta, rows: int) -> FloatArray:
        """By how much the price would change with each row alone, shape (rows,), bytes."""
        at = load_delta.nodes
        before = self.rate_bytes_s[at] * self.axis_ms()[at]
        axis_ms = self._counted_ms(self.replicas[at] + load_delta.replicas)
        axis_ms += self.measured_ms[at] + load_delta.measured_ms
        after = (self.rate_bytes_s[at] + load_delta.rate_bytes_s) * axis_ms
        change = np.bincount(load_delta.rows, (after - before) / 1e3, minlength=rows)
        return change.astype(np.float64)

    def has_room(self, load_delta: LoadDelta, rows: int) -> BoolArray:
        """Whether no node gets more than it has cores for, shape (rows,).

        While a copy moves, its target carries it and its source still does; so the target must
        have room as if nothing else left in its favour. A node that is overfull already may stay
        so, but gets nothing more.
        """
        cores = self.cores[load_delta.nodes] + load_delta.cores
        over = (load_delta.cores > 0) & (cores > self._capacity_cores[load_delta.nodes])
        return np.bincount(load_delta.rows, over, minlength=rows) == 0

    def apply(self, load_delta: LoadDelta) -> None:
        """Make the changes of a single row."""
        self.replicas[load_delta.nodes] += load_delta.replicas
        self.rate_bytes_s[load_delta.nodes] += load_delta.rate_bytes_s
        self.measured_ms[load_delta.nodes] += load_delta.measured_ms
        self.cores[load_delta.nodes] += load_delta.cores

    def _counted_ms(self, replicas: IntArray) -> FloatArray:
        # Settings may be whole numbers, and the product with them too.
        load = np.asarray(self._operator_load * np.maximum(replicas, 0), dtype=np.float64)
        return self._scaling.axis_ms(load).astype(np.float64)

    def _share_out(self, view: NetworkView, queries: Sequence[RunningQuery]) -> None:
        foreign = np.array([node.operators for node in view.nodes], dtype=np.float64)
        own = np.maximum(self.replicas - foreign, 1)
        known = self.cores > 0
        # Operators outside the plan count as much as the average one within.
        whole = np.where(known, self.cores, own) * (own + foreign) / own
        for query in queries:
            for name, pair in query.places.items():
                cores = query.request.graph.cores(name)
                primary_ms, secondary_ms = (
                    float(self.measured_ms[i] * (cores if known[i] else 1.0) / whole[i])
                    for i in pair
                )
                query.shares_ms[name] = (primary_ms, secondary_ms)


def as_running(
    requests: Sequence[Request], running: Pairs, view: NetworkView
) -> list[RunningQuery]:
    """What runs, checked, by name of the query: the order of the input does not matter.

    Raises
    ------
    GraphError
        If queries contradict each other or the network.
    RunningError
        If an operator of the queries does not run, or one runs that is in none; or a secondary is
        on its primary's node.
    Stranded
        If a copy's node is gone or takes no operators.
    """
    checked = [Request(*request) for request in requests]
    check_requests(checked, view)
    queries: list[RunningQuery] = []
    for request in sorted(checked, key=lambda request: request.graph.name):
        graph = request.graph
        places: dict[str, tuple[int, int]] = {}
        for name in graph.to_place:
            if name not in running:
                raise RunningError(name, f"query {graph.name} needs it and it does not run")
            places[name] = _pair(name, running[name], view)
        queries.append(RunningQuery(request=request, places=places))
    needed = {name for query in queries for name in query.places}
    for name in running:
        if name not in needed:
            raise RunningError(name, "runs, but is in none of the queries given")
    return queries


def _pair(name: str, pair: tuple[str, str], view: NetworkView) -> tuple[int, int]:
    primary, secondary = pair
    for replica, node in (("primary", primary), ("secondary", secondary)):
        if not view.can_host(node):
            raise Stranded(name, replica, node)
    if primary == secondary:
        raise RunningError(name, f"its secondary is on its primary's node {primary}")
    return view.index[primary], view.index[secondary]
