"""The running queries with their places, and the load that their replicas make.

*A measured load moves along.* The load that a node measures comes from the replicas that it runs.
If it stayed behind when they leave, every busy node would look worth leaving and every idle one
worth going to, until the next measurement says the opposite. So each replica has a share of its
node's measured axis, by the CPU that it needs (equal shares if nothing is known), and takes it to
its next node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from foundation.arrays import FloatArray, IntArray
from placement.errors import RunningError, Stranded
from placement.evaluation.cost import Reader, StandbyRates
from placement.evaluation.evaluator import PlacementBatch
from placement.evaluation.load import Load
from placement.network import NetworkView
from placement.records import Pairs, Request, check_requests
from placement.settings import Settings


@dataclass(slots=True, kw_only=True)
class RunningQuery:
    """A query and where its operators are now.

    Attributes
    ----------
    places
        Operator → indices of its primary's and secondary's nodes, in topological order.
    standbys
        Operator → what its secondary is sent; everything if it is not there.
    readers
        Of its streams in other queries.
    movable
        Operators that may move; None: all.
    is_measured
        Whether the load that nodes measured contains that of its replicas: not of those that were
        placed a moment ago.
    shares_ms
        Operator → measured CPU axis that goes with its primary and its secondary, ms.
    points_ms
        Operator → where it would be if nodes were everywhere, shape (d,), ms; None: not known yet.
    """

    request: Request
    places: dict[str, tuple[int, int]]
    standbys: Mapping[str, StandbyRates] = field(default_factory=dict[str, StandbyRates])
    readers: Sequence[Reader] = ()
    movable: Collection[str] | None = None
    is_measured: bool = True
    shares_ms: dict[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    points_ms: Mapping[str, FloatArray] | None = None

    def may_move(self, operator: str) -> bool:
        """Whether that operator may."""
        return self.movable is None or operator in self.movable

    def shares_of(self, operator: str) -> tuple[float, float]:
        """Measured CPU axis that goes with its replicas, ms."""
        return self.shares_ms.get(operator, (0.0, 0.0))

    def nodes(self, view: NetworkView) -> IntArray:
        """Indices of all nodes that it has to do with: of its replicas, pinned ones, readers."""
        here = [i for pair in self.places.values() for i in pair]
        here += [view.index[node] for node in self.request.graph.pinned.values()]
        here += [view.at(reader.node) for reader in self.readers]
        return np.unique(np.array(here, dtype=np.int64))

    def settle(self, batch: PlacementBatch, row: int) -> None:
        """Have its replicas where one of some placements has them."""
        for o, name in enumerate(self.request.graph.order):
            if name not in self.places:
                continue
            primary, secondary = self.places[name]
            after = int(batch.primaries[row, o]), int(batch.secondaries[row, o])
            # A replica that comes takes over the measured share of the one that leaves.
            if after[0] == secondary or after[1] == primary:
                primary_ms, secondary_ms = self.shares_of(name)
                self.shares_ms[name] = secondary_ms, primary_ms
            self.places[name] = after

    def as_batch(self, view: NetworkView) -> PlacementBatch:
        """Where it runs, as a single row."""
        graph = self.request.graph
        pinned = {name: (view.index[node],) * 2 for name, node in graph.pinned.items()}
        pairs = pinned | self.places
        rows = np.array([pairs[name] for name in graph.order], dtype=np.int64).reshape(-1, 2).T
        return PlacementBatch(rows[:1], rows[1:])


def running_load(view: NetworkView, settings: Settings, queries: Sequence[RunningQuery]) -> Load:
    """The load of all that runs; shares of the measured load are set in the queries."""
    load = Load(view, operator_load=settings.operator_load, cpu=settings.cpu)
    foreign = load.replicas
    for query in queries:
        graph = query.request.graph
        for name, pair in query.places.items():
            load = load.with_replicas(view.names(pair), graph.cores(name), graph.mean_input_rate)
    own = np.maximum(load.replicas - foreign, 1)
    known = load.used_cores > 0
    # Operators outside the plan count as much as the average one within.
    whole = np.where(known, load.used_cores, own) * (own + foreign) / own
    for query in queries:
        for name, pair in query.places.items():
            cores = query.request.graph.cores(name)
            primary_ms, secondary_ms = (
                float(load.measured_ms[i] * (cores if known[i] else 1.0) / whole[i]) for i in pair
            )
            if query.is_measured:
                query.shares_ms[name] = primary_ms, secondary_ms
    return load


def as_running(
    requests: Sequence[Request], running: Pairs, view: NetworkView
) -> list[RunningQuery]:
    """The running queries, checked and sorted by name.

    Raises
    ------
    GraphError
        If queries contradict each other or the network.
    RunningError
        If an operator of the queries does not run, or one runs that is in none; or a secondary is
        on its primary's node.
    Stranded
        If a replica's node is gone or takes no operators.
    """
    check_requests(requests, view)
    queries: list[RunningQuery] = []
    for request in sorted(requests, key=lambda request: request.graph.name):
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
