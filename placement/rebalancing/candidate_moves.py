"""Placements one change away from the running one.

For every operator: its primary elsewhere, its secondary elsewhere, both roles swapped, and a swap
after which one of them goes elsewhere. With the last two, a pair of replicas can turn round when
there are only two failure domains: no replica can cross alone.

For several operators at once: operators of a query that share a node hold each other there, since
each link that becomes one between nodes costs its rate times its latency. So connected groups of
them move together: all that are connected on a node; and each operator with those upstream of it
there, or with those downstream. A member whose secondary is in the way (on the target, or closer to
it by failure domains than to the primary) swaps roles first. Secondaries need no groups: they have
no links among each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from foundation.arrays import FloatArray, IntArray
from placement.equilibrium import least_usage
from placement.evaluation.evaluator import PlacementBatch, stacked
from placement.evaluation.load import Load
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.primaries import nodes_near
from placement.rebalancing.move_evaluation import MoveEvaluation
from placement.rebalancing.running import RunningQuery
from placement.settings import Settings

Group = tuple[str, ...]

ROUNDING = 1e-9
"""Share of the whole cost by which sums of doubles may be off; a smaller gain is none."""


class CandidateMoves:
    """The placements of a query with one change.

    Parameters
    ----------
    running
        The query as it runs.
    evaluation
        Compares placements with the running one.
    targets
        Indices of the hosts that its replicas may go to.
    load
        Of all that runs; may be replaced as the query changes.
    """

    def __init__(
        self, running: RunningQuery, evaluation: MoveEvaluation, targets: IntArray, load: Load
    ) -> None:
        self._running, self._evaluation, self._targets = running, evaluation, targets
        self.load = load

    def singles(self) -> list[Group]:
        """The operators that may move, each alone."""
        return [(name,) for name in self._running.places if self._running.may_move(name)]

    def groups(self) -> list[Group]:
        """Operators that may move and are together at present."""
        primaries = {name: self._running.places[name][0] for (name,) in self.singles()}
        return list(colocated(self._running.request.graph, primaries))

    def every(self) -> tuple[PlacementBatch, FloatArray, FloatArray]:
        """All placements, and by how much they lower the cost of traffic, and of all, bytes."""
        found = [self.of(group) for group in (*self.singles(), *self.groups())]
        if not found:
            return self._evaluation.base.take(slice(0)), np.empty(0), np.empty(0)
        parts, usage, gains = zip(*found, strict=True)
        return stacked(list(parts)), np.concatenate(usage), np.concatenate(gains)

    def of(self, group: Group) -> tuple[PlacementBatch, FloatArray, FloatArray]:
        """Those placements in which only these operators differ."""
        columns = [self._evaluation.evaluator.column[name] for name in group]
        if len(group) == 1:
            batch, change = self._single(group[0], columns[0])
        else:
            batch = self._together(columns)
            change = self._evaluation.load_change(batch, self.load)
        usage = self._evaluation.usage_gain(batch, columns)
        return batch, usage, usage - change

    def _single(self, name: str, o: int) -> tuple[PlacementBatch, FloatArray]:
        """Placements of one operator, and by how much they change the price of all load.

        The swap; the primary elsewhere, and the secondary; both again after the swap.
        """
        a, s = self._running.places[name]
        target = self._targets[(self._targets != a) & (self._targets != s)]
        count = len(target)
        batch = self._evaluation.base.repeated(4 * count + 1)
        p, q = batch.primaries[:, o], batch.secondaries[:, o]
        p[0], q[0] = s, a
        p[1 : count + 1] = target
        q[count + 1 : 2 * count + 1] = target
        p[2 * count + 1 : 3 * count + 1], q[2 * count + 1 : 3 * count + 1] = target, a
        p[3 * count + 1 :], q[3 * count + 1 :] = s, target
        primary, secondary = (self._load_change(name, i, target) for i in (0, 1))
        # After a swap, the primary that leaves is a replica from where the secondary was.
        return batch, np.concatenate([np.zeros(1), primary, secondary, secondary, primary])

    def _load_change(self, name: str, replica: int, target: IntArray) -> FloatArray:
        """By how much the price of all load changes if a replica goes to some nodes, bytes."""
        at = self._running.places[name][replica]
        share_ms = self._running.shares_of(name)[replica]
        rate = self._running.request.graph.mean_input_rate
        nodes = np.append(target, at)
        price = np.add(*self.load.price_of_replica(at, rate, share_ms, nodes))
        return price[:-1] - price[-1]

    def _together(self, columns: Sequence[int]) -> PlacementBatch:
        """The primaries of a group on every other node."""
        base, looseness = self._evaluation.base, self._evaluation.domains.looseness_between
        a = base.primaries[0, columns[0]]
        target = self._targets[self._targets != a]
        batch = base.repeated(len(target))
        for o in columns:
            s = base.secondaries[0, o]
            in_the_way = looseness(target, s) > looseness(a, s)
            batch.primaries[:, o] = target
            batch.secondaries[:, o] = np.where(in_the_way | (target == s), a, s)
        return batch


def hosts_near(
    running: RunningQuery, load: Load, view: NetworkView, settings: Settings
) -> IntArray:
    """Indices of the hosts that a query's replicas may go to.

    All of them on a network of `Settings.exact_hosts`. On a larger one, as many for each operator
    as the planner chooses among, near where it would be if nodes were everywhere.
    """
    if len(view.hosts) <= settings.exact_hosts:
        return view.host_indices
    graph = running.request.graph
    if running.points_ms is None:
        pinned_ms = {name: view.node(node).position_ms for name, node in graph.pinned.items()}
        (found,) = least_usage([graph], [pinned_ms], settings.usage)
        running.points_ms = found.points_ms
    return nodes_near(graph, running.points_ms, view, load, settings.candidates)


def colocated(graph: QueryGraph, primaries: Mapping[str, int]) -> tuple[Group, ...]:
    """Connected groups of two or more operators on one node, in topological order."""

    def reach(name: str, upstream: bool, downstream: bool) -> Group:
        found = {name}
        waiting = [name]
        while waiting:
            at = waiting.pop()
            nearby = [link.source for link in graph.inputs[at] if upstream]
            nearby += [link.target for link in graph.outputs[at] if downstream]
            for other in nearby:
                if primaries.get(other) == primaries[name] and other not in found:
                    found.add(other)
                    waiting.append(other)
        return tuple(o for o in graph.order if o in found)

    groups: dict[Group, None] = {}
    for name in filter(primaries.__contains__, graph.to_place):
        for directions in ((True, True), (True, False), (False, True)):
            groups[reach(name, *directions)] = None
    return tuple(group for group in groups if len(group) > 1)
