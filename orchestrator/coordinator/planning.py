"""Planning all queries of a cluster, one after the other, around what runs already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from orchestrator.coordinator.dataflow import Dataflow, InvalidQuery
from orchestrator.coordinator.problem import (
    Places,
    detection_ms,
    network_view,
    query_graph,
    rates,
)
from orchestrator.coordinator.view import ClusterView
from orchestrator.records import NodeKind, QueryRecord, StreamRecord
from placement.errors import BoundUnattainable
from placement.evaluate import Recovery
from placement.graph import Operator, QueryGraph
from placement.load import Load
from placement.network import NetworkView
from placement.planner import plan
from placement.records import Plan
from placement.secondaries import StandbyTask, place_secondaries
from placement.settings import Settings

NO_LIMIT_MS = 1e9
"""Eleven days: longer than anything that is planned."""

PLANNING_SEED = 1
"""Relaxation starts at random places; the same start every time makes plans repeatable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandBy:
    """A secondary and what it promises; `problem` if that is less than was asked for."""

    node: str
    recovery: Recovery
    problem: str | None


class Planning:
    """A planning problem and the places found so far.

    Parameters
    ----------
    view
        Hosts and settings.
    streams, queries, flow
        What is to run: of the store, or with what is about to be applied.
    places
        Where fragments run now.
    """

    def __init__(
        self,
        view: ClusterView,
        streams: Mapping[str, StreamRecord],
        queries: Mapping[str, QueryRecord],
        flow: Dataflow,
        places: Places,
    ) -> None:
        self._view = view
        self._queries = queries
        self._flow = flow
        self._sites = {name: stream.site for name, stream in streams.items()}
        entering = {name: stream.rate_bytes_s for name, stream in streams.items()}
        self._rates = rates(flow, entering, queries)
        self.places: dict[str, tuple[str, str | None]] = dict(places)

    @property
    def settings(self) -> Settings:
        """The planner's, with the cluster's CPU scaling and batches."""
        cluster, default = self._view.settings, Settings()
        return Settings(cpu=cluster.cpu, hop_ms=default.hop_ms + cluster.batch_ms)

    def graph(self, query: str) -> QueryGraph:
        """The query's graph, with what it reads of other queries pinned where that runs."""
        record = self._queries[query]
        return query_graph(record, self._flow, self._rates, self._sites, self.places, self._queries)

    def network(self, query: str) -> NetworkView:
        """The network, loaded with all other queries."""
        own = {fragment.name for fragment in self._flow.of(query)}
        copies = Counter(
            node
            for fragment, nodes in self.places.items()
            if fragment not in own
            for node in nodes
            if node is not None
        )
        return network_view(self._view.trusted, copies)

    def place(self, query: str, *, relaxed: bool = False) -> Plan:
        """Place the fragments of a query that have no place, keep those that have.

        Parameters
        ----------
        relaxed
            Disregard deadline and bound: for a query that runs, late is better than never.

        Raises
        ------
        InvalidQuery
            Its sites are not there, or it reads a query that has no place yet.
        PlacementError
            It cannot be placed.
        """
        record = self._queries[query]
        self._check_ends(record)
        found = plan(
            [
                (
                    self.graph(query),
                    NO_LIMIT_MS if relaxed else record.deadline_ms,
                    NO_LIMIT_MS if relaxed else record.recovery_bound_ms,
                    detection_ms(self._view.settings),
                )
            ],
            self.network(query),
            keep={
                f.name: self.places[f.name] for f in self._flow.of(query) if f.name in self.places
            },
            settings=self.settings,
            rng=np.random.default_rng(PLANNING_SEED),
        )
        for placed in found.placements:
            self.places[placed.operator] = (placed.primary, placed.secondary)
        return found

    def stand_by(self, query: str, fragment: str, prefer: str | None) -> StandBy:
        """Choose a node to stand by for one fragment, everything else staying where it is.

        If no node keeps the bound, the best one is taken all the same: the query runs, and some
        protection is better than none.

        Parameters
        ----------
        prefer
            Node to take if it keeps the bound: one that has the state already.

        Raises
        ------
        InvalidQuery, PlacementError
            There is no node, or the query's ends are not there.
        """
        record = self._queries[query]
        self._check_ends(record)
        for each in self._flow.of(query):
            if each.name not in self.places:
                problem = "runs nowhere at present"
                raise InvalidQuery(query, "statements", each.name, problem, "It will start over.")
        graph, network, settings = self.graph(query), self.network(query), self.settings
        running = {f.name: self.places[f.name] for f in self._flow.of(query)}
        keep = {name: nodes[1] for name, nodes in running.items()} | {fragment: prefer}
        keep = {name: node if network.can_host(node) else None for name, node in keep.items()}
        task = StandbyTask(
            graph=graph,
            view=network,
            primaries={operator.name: self._at(operator) for operator in graph.operators},
            detection_ms=detection_ms(self._view.settings),
            bound_ms=record.recovery_bound_ms,
        )
        load = Load(network, operator_load=settings.operator_load, cpu=settings.cpu).with_copies(
            nodes[0] for nodes in running.values()
        )
        problem = None
        try:
            found = place_secondaries(task, load, keep)[fragment]
        except BoundUnattainable as error:
            problem = str(error)
            found = place_secondaries(replace(task, bound_ms=NO_LIMIT_MS), load, keep)[fragment]
        self.places[fragment] = (self.places[fragment][0], found.node)
        return StandBy(node=found.node, recovery=found.recovery, problem=problem)

    def _at(self, operator: Operator) -> str:
        """Where an operator is: pinned there, or its primary."""
        return operator.pinned if operator.pinned is not None else self.places[operator.name][0]

    def _check_ends(self, record: QueryRecord) -> None:
        sites = {n: node for n, node in self._view.hosts.items() if node.kind is NodeKind.SITE}
        wanted = [("outputs", site) for site in record.outputs.values()]
        for fragment in self._flow.of(record.name):
            for stream in fragment.inputs:
                if stream in self._sites:
                    wanted.append((f"statements (stream {stream} enters at)", self._sites[stream]))
                elif (
                    stream not in self.places and self._flow.fragments[stream].query != record.name
                ):
                    raise InvalidQuery(
                        record.name,
                        "statements",
                        stream,
                        "is made by a query that has no place yet",
                        f"It waits for query {self._flow.fragments[stream].query}.",
                    )
        for field, site in wanted:
            if site not in sites or sites[site].coordinate is None:
                problem = "is not a live site" if site not in sites else "has no coordinate yet"
                known = f"Live sites: {', '.join(sorted(sites)) or 'none'}."
                raise InvalidQuery(record.name, field, site, problem, known)


def order(flow: Dataflow, queries: Iterable[str]) -> list[str]:
    """Queries, those that others read first; ties by name.

    Queries that read each other keep their order by name; the planner will refuse them.
    """
    left = sorted(queries)
    ordered: list[str] = []
    while left:
        ready = [q for q in left if not (flow.upstream_queries(q) - {q}) & set(left)]
        ordered += ready or left
        left = [q for q in left if q not in ordered]
    return ordered


def living_places(view: ClusterView) -> dict[str, tuple[str, str | None]]:
    """Nodes of what runs, by fragment: live copies only, the secondary standing in for a primary
    that is gone, as it will."""
    places: dict[str, tuple[str, str | None]] = {}
    for found in view.fragments.values():
        record = found.record
        copies = [c for c in (record.primary, record.secondary) if c is not None and view.alive(c)]
        if copies:
            second = copies[1].node if len(copies) > 1 else None
            places[record.fragment] = (copies[0].node, second)
    return places


def merged(plans: Sequence[Plan]) -> Plan:
    """Several plans as one."""
    return Plan(
        placements=tuple(placed for each in plans for placed in each.placements),
        queries=tuple(figures for each in plans for figures in each.queries),
    )
