"""Placements one change away from the running one.

For every operator: its primary elsewhere, its secondary elsewhere, both roles swapped, and a swap
after which one of them goes elsewhere. With the last two, a pair of replicas can turn round when
there are only two failure domains: no replica can cross alone.

For several operators at once: operators of a query that share a node hold each other there, since
each link that becomes one between nodes costs its rate times its latency. So connected groups of
them move together: all that are connected on a node; and each operator with those upstream of it
there, or with those downstream. A member whose secondary is in the way (on the target, or in the
target's failure domain while the primary is not) swaps roles first. Secondaries need no groups:
they have no links among each other.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from foundation.arrays import FloatArray, IntArray
from placement.evaluation.cost import TrafficCost
from placement.evaluation.evaluator import PlacementBatch, stacked
from placement.evaluation.load import Load
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.rebalancing.move_evaluation import LEGAL, MoveEvaluation
from placement.rebalancing.moves import RebalanceSettings
from placement.rebalancing.running import RunningQuery
from placement.settings import Settings

Group = tuple[str, ...]


class CandidateMoves:
    """The nodes worth trying for a query, and its placements with one change.

    Parameters
    ----------
    running
        The query as it runs.
    load
        Of all that runs: orders the nodes if their number is limited.

    Attributes
    ----------
    evaluation
        Compares the placements with the running one.
    """

    def __init__(
        self,
        running: RunningQuery,
        load: Load,
        view: NetworkView,
        state_bytes: Mapping[str, float],
        settings: Settings,
        rebalancing: RebalanceSettings,
    ) -> None:
        graph = running.request.graph
        self._graph = graph
        self._hosts = view.host_indices
        self._limit = rebalancing.candidates
        movable = set(graph.to_place if running.movable is None else running.movable)
        self._movable = [name for name in graph.to_place if name in movable]
        primary = _costs_by_host(running, load, view, secondary=False)
        secondary = _costs_by_host(running, load, view, secondary=True)
        primaries = {name: pair[0] for name, pair in running.places.items() if name in movable}
        self._groups = colocated(graph, primaries)
        singles = [(name,) for name in graph.to_place]
        self._elsewhere = {
            group: self._cheapest(np.sum([primary[name] for name in group], axis=0))
            for group in (*singles, *self._groups)
        }
        self._standing_by = {name: self._cheapest(secondary[name]) for name in graph.to_place}
        tried = [*self._elsewhere.values(), *self._standing_by.values()]
        here = [i for pair in running.places.values() for i in pair]
        here += [view.index[o.pinned] for o in graph.operators if o.pinned is not None]
        here += [view.at(reader.node) for reader in running.readers]
        nodes = np.unique(np.concatenate([np.array(here, dtype=np.int64), *tried]))
        self.evaluation = MoveEvaluation(running, view, nodes, state_bytes, settings, rebalancing)

    def batch(self) -> PlacementBatch:
        """All placements with one change, after the running one."""
        base, placed = self.evaluation.base, self._columns
        swaps = self.swaps()
        # Unless roles may be swapped, nothing may come after the swap.
        swappable: list[int] = np.flatnonzero(self.evaluation.findings(swaps) == LEGAL).tolist()
        return stacked(
            [
                base,
                *(self.elsewhere(o, base) for o in placed),
                swaps,
                *(self.elsewhere(placed[i], swaps.take(slice(i, i + 1))) for i in swappable),
                *(self._together(group) for group in self._groups),
            ]
        )

    @property
    def _columns(self) -> list[int]:
        """Of the operators that may move."""
        return [self.evaluation.evaluator.column[name] for name in self._movable]

    def elsewhere(self, o: int, start: PlacementBatch) -> PlacementBatch:
        """One replica of an operator on every other node that is worth trying; primary first."""
        name = self._graph.order[o]
        taken = [start.primaries[0, o], start.secondaries[0, o]]
        primary = np.setdiff1d(self._elsewhere[(name,)], taken)
        secondary = np.setdiff1d(self._standing_by[name], taken)
        batch = start.repeated(len(primary) + len(secondary))
        batch.primaries[: len(primary), o] = primary
        batch.secondaries[len(primary) :, o] = secondary
        return batch

    def swaps(self) -> PlacementBatch:
        """Roles of one operator swapped; a row for each in topological order."""
        base, placed = self.evaluation.base, self._columns
        batch = base.repeated(len(placed))
        at = np.arange(len(placed))
        batch.primaries[at, placed] = base.secondaries[0, placed]
        batch.secondaries[at, placed] = base.primaries[0, placed]
        return batch

    def _together(self, group: Group) -> PlacementBatch:
        """The primaries of a group on every other node that is worth trying."""
        base, domains = self.evaluation.base, self.evaluation.domains
        columns = [self.evaluation.evaluator.column[name] for name in group]
        a = base.primaries[0, columns[0]]
        target = np.setdiff1d(self._elsewhere[group], [a])
        batch = base.repeated(len(target))
        for o in columns:
            s = base.secondaries[0, o]
            in_the_way = (domains[target] == domains[s]) & (domains[a] != domains[s])
            batch.primaries[:, o] = target
            batch.secondaries[:, o] = np.where(in_the_way | (target == s), a, s)
        return batch

    def _cheapest(self, cost: FloatArray) -> IntArray:
        """The hosts of least cost, by name."""
        return self._hosts[np.sort(np.argsort(cost, kind="stable")[: self._limit])]


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


def _costs_by_host(
    running: RunningQuery, load: Load, view: NetworkView, *, secondary: bool
) -> dict[str, FloatArray]:
    """Cost of each operator's primary or secondary on each host, all else as it is, bytes."""
    graph, hosts = running.request.graph, view.host_indices
    traffic = TrafficCost(graph, view, standbys=running.standbys, readers=running.readers)
    everywhere = running.as_batch(view).repeated(len(hosts))
    found: dict[str, FloatArray] = {}
    for name in graph.to_place:
        replicas = everywhere.secondaries if secondary else everywhere.primaries
        before = replicas[:, traffic.column[name]].copy()
        replicas[:, traffic.column[name]] = hosts
        usage = traffic.of(everywhere, traffic.touching(name, secondary=secondary))
        found[name] = load.price_bytes(graph.input_rate(name))[hosts] + usage
        replicas[:, traffic.column[name]] = before
    return found
