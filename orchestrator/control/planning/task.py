"""The problem that all three steps of planning work on: one query, around everything that runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.control.planning.workload import Workload
from orchestrator.records import QueryRecord, Timing
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.records import Keep, Request
from placement.settings import Settings

NO_LIMIT_MS = 1e9
"""Eleven days: longer than anything that is planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningFragment:
    """A fragment that runs, or would: its nodes, and by when it must be done.

    Attributes
    ----------
    primary, secondary
        Nodes of live replicas; no secondary while none lives.
    """

    primary: str
    secondary: str | None
    timing: Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTask:
    """One query to be planned.

    Attributes
    ----------
    query, graph
        Deadline, recovery bound and sites; its fragments between pinned sources and sinks.
    work
        Of all fragments.
    running
        Fragments of all queries that run, by name. Those of this query keep their places.
    network
        Loaded with the replicas of all other queries.
    detection_ms
        Longest time until a silent death is noticed.
    relaxed
        Whether deadline and bound are disregarded: for a query that runs, late is better than
        never.
    """

    query: QueryRecord
    graph: QueryGraph
    work: Workload
    running: Mapping[str, RunningFragment]
    network: NetworkView
    settings: Settings
    detection_ms: float
    relaxed: bool = False

    @property
    def request(self) -> Request:
        """The owner's requirements. The latest of the deadlines: no output may be later."""
        deadline_ms = max(map(self.query.deadline_of, self.query.outputs))
        return Request(
            graph=self.graph,
            deadline_ms=NO_LIMIT_MS if self.relaxed else deadline_ms,
            recovery_bound_ms=NO_LIMIT_MS if self.relaxed else self.query.recovery_bound_ms,
            detection_ms=self.detection_ms,
        )

    @property
    def kept(self) -> Keep:
        """Nodes of this query's fragments that run."""
        return {
            name: (self.running[name].primary, self.running[name].secondary)
            for name in self.graph.to_place
            if name in self.running
        }

    @property
    def pinned(self) -> dict[str, str]:
        """Nodes of sources and sinks."""
        return {o.name: o.pinned for o in self.graph.operators if o.pinned is not None}
