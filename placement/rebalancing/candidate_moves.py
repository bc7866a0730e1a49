"""Placements one change away from the one that runs.

For every operator: its primary elsewhere, its secondary elsewhere, both roles swapped, and a swap
after which one of them goes elsewhere. The last two are how a pair turns round when there are only
two failure domains: no copy can cross alone.

For several at once: operators of a query that share a node hold each other there, since each link
that becomes one between nodes costs its rate times the way. So connected groups of them go
together: all that hang together on a node; and each operator with those upstream of it there, or
with those downstream. A member whose secondary is in the way (on the target, or in the target's
failure domain while the primary is not) swaps roles first. Secondaries need no groups: they have
no links among each other.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.rebalancing.batch_evaluation import BatchEvaluation, PlacementBatch, stacked
from placement.rebalancing.move_evaluation import LEGAL, MoveEvaluation
from placement.rebalancing.moves import MovedRole, RebalanceSettings
from placement.rebalancing.running import NodeLoad, RunningQuery
from placement.rebalancing.traffic_terms import traffic_terms_at, usage_by_host
from placement.settings import Settings
from topology.arrays import FloatArray, IntArray

Group = tuple[str, ...]


class CandidateMoves:
    """A query, the nodes worth trying for it, and its neighbouring placements.

    Parameters
    ----------
    running
        The query as it runs.
    crowd
        What nodes carry, for the order of candidates if they are limited.
    """

    def __init__(
        self,
        running: RunningQuery,
        node_load: NodeLoad,
        view: NetworkView,
        state_bytes: Mapping[str, float],
        settings: Settings,
        rebalancing: RebalanceSettings,
    ) -> None:
        graph = running.request.graph
        self.graph = graph
        self._primary = _costs_by_host(running, node_load, view, MovedRole.PRIMARY)
        self._secondary = _costs_by_host(running, node_load, view, MovedRole.SECONDARY)
        self._hosts = view.host_indices
        self._limit = rebalancing.candidates
        self.groups = colocated(graph, {name: pair[0] for name, pair in running.places.items()})
        singles = [(name,) for name in graph.to_place]
        self._elsewhere = {g: self._cheapest(g) for g in (*singles, *self.groups)}
        self._standing_by = {name: self._first(self._secondary[name]) for name in graph.to_place}
        tried = [*self._elsewhere.values(), *self._standing_by.values()]
        here = [i for pair in running.places.values() for i in pair]
        here += [view.index[o.pinned] for o in graph.operators if o.pinned is not None]
        nodes = np.unique(np.concatenate([np.array(here, dtype=np.int64), *tried]))
        self.batch_evaluation = BatchEvaluation(
            running.request, view, nodes, settings.hop_overhead_ms
        )
        self.evaluation = MoveEvaluation(
            running, self.batch_evaluation, view, state_bytes, rebalancing
        )

    def rows(self) -> PlacementBatch:
        """All neighbouring placements; the one that runs comes first."""
        parts = [self.evaluation.base, *(self.elsewhere(o) for o in self.batch_evaluation.placed)]
        swaps = self.swaps()
        # Unless roles may be swapped, nothing may come after the swap.
        legal = self.evaluation.evaluate(swaps).findings == LEGAL
        parts.append(swaps)
        swappable: list[int] = np.flatnonzero(legal).tolist()
        parts += [
            self.elsewhere(self.batch_evaluation.placed[row], swaps.take(slice(row, row + 1)))
            for row in swappable
        ]
        parts += [self._together(group) for group in self.groups]
        return stacked(parts)

    def elsewhere(self, o: int, start: PlacementBatch | None = None) -> PlacementBatch:
        """One copy of an operator on every other node that is worth trying; primary first."""
        start = start or self.evaluation.base
        name = self.graph.order[o]
        taken = [start.primaries[0, o], start.secondaries[0, o]]
        primary = np.setdiff1d(self.batch_evaluation.local(self._elsewhere[(name,)]), taken)
        secondary = np.setdiff1d(self.batch_evaluation.local(self._standing_by[name]), taken)
        rows = start.repeated(len(primary) + len(secondary))
        rows.primaries[: len(primary), o] = primary
        rows.secondaries[len(primary) :, o] = secondary
        return rows

    def swaps(self) -> PlacementBatch:
        """Roles of one operator swapped; a row for each in topological order."""
        placed = self.batch_evaluation.placed
        rows = self.evaluation.base.repeated(len(placed))
        at = np.arange(len(placed))
        rows.primaries[at, placed] = self.evaluation.base.secondaries[0, placed]
        rows.secondaries[at, placed] = self.evaluation.base.primaries[0, placed]
        return rows

    def _together(self, group: Group) -> PlacementBatch:
        """The primaries of a group on every other node that is worth trying."""
        base, domains = self.evaluation.base, self.evaluation.domains
        columns = [self.batch_evaluation.column[name] for name in group]
        a = base.primaries[0, columns[0]]
        target = np.setdiff1d(self.batch_evaluation.local(self._elsewhere[group]), [a])
        rows = base.repeated(len(target))
        for o in columns:
            s = base.secondaries[0, o]
            in_the_way = (domains[target] == domains[s]) & (domains[a] != domains[s])
            rows.primaries[:, o] = target
            rows.secondaries[:, o] = np.where(in_the_way | (target == s), a, s)
        return rows

    def _cheapest(self, group: Group) -> IntArray:
        return self._first(np.sum([self._primary[name] for name in group], axis=0))

    def _first(self, cost: FloatArray) -> IntArray:
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
    for name in graph.to_place:
        for directions in ((True, True), (True, False), (False, True)):
            groups[reach(name, *directions)] = None
    return tuple(group for group in groups if len(group) > 1)


def _costs_by_host(
    running: RunningQuery, node_load: NodeLoad, view: NetworkView, replica: MovedRole
) -> dict[str, FloatArray]:
    """What that copy of each operator would cost on each host, all else as it is, bytes."""
    graph = running.request.graph
    price_s = node_load.axis_ms(1)[view.host_indices] / 1e3
    return {
        name: graph.input_rate(name) * price_s
        + usage_by_host(traffic_terms_at(running, view, name, replica), view)
        for name in graph.to_place
    }
