"""Planning all queries of a cluster, one after the other, around what runs already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

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
from orchestrator.records import FragmentRecord, NodeKind, QueryRecord, StreamRecord
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.planner import plan
from placement.records import Plan
from placement.settings import Settings

PLANNING_SEED = 1
"""Relaxation starts at random places; the same start every time makes plans repeatable."""


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
        """The planner's, with the cluster's scale."""
        return Settings(cpu_scale_ms=self._view.settings.cpu_scale_ms)

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
        return network_view(self._view.hosts, copies)

    def place(self, query: str) -> Plan:
        """Place the fragments of a query that have no place, keep those that have.

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
                    record.deadline_ms,
                    record.recovery_bound_ms,
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


def running_places(fragments: Mapping[str, FragmentRecord]) -> dict[str, tuple[str, str | None]]:
    """Nodes of what runs, by fragment."""
    return {
        record.fragment: (record.primary.node, record.secondary.node if record.secondary else None)
        for record in fragments.values()
    }


def merged(plans: Sequence[Plan]) -> Plan:
    """Several plans as one."""
    return Plan(
        placements=tuple(placed for each in plans for placed in each.placements),
        queries=tuple(figures for each in plans for figures in each.queries),
    )
