"""The problem that all three steps of planning work on: one query, around everything that runs.

The network is the one that the hosts report, in the planner's terms.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

import msgspec
import numpy as np

from orchestrator.control.observe.dataflow import Fragment
from orchestrator.control.planning.workload import Workload
from orchestrator.records import (
    FragmentRecord,
    NodeCoordinate,
    NodeKind,
    NodeRecord,
    QueryRecord,
    Timing,
)
from placement.graph import QueryGraph
from placement.network import NetworkView, Node
from placement.records import Keep, Request
from placement.settings import Settings

NO_LIMIT_MS = 1e9
"""Eleven days: longer than anything that is planned."""

NO_ROOM_CORES = 1e-9
"""Room of a full node: a capacity must be positive."""

UNSETTLED_ERROR = 0.4
UNSETTLED_ERROR_MS = 5.0
"""A host's place is not known well while both errors of its coordinate exceed these limits."""

MIN_EXECUTORS = 2
"""A primary and its secondary stand on different nodes."""


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
    ack_interval_ms
        Between two acknowledgements.
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
    ack_interval_ms: float = 50.0
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


def flowing(
    work: Workload, running: Mapping[str, RunningFragment], readers: Iterable[str]
) -> dict[str, frozenset[str]]:
    """Stream → nodes where all of it flows that some fragments use: its producer's, and those of
    replicas that need every tuple of it, and as many columns.

    Parameters
    ----------
    readers
        The fragments.
    """
    used: dict[str, set[str]] = defaultdict(set)
    for name in readers:
        for stream, columns in work.fragments[name].fragment.uses.items():
            used[stream] |= columns.keys()
    flows: dict[str, set[str]] = defaultdict(set)
    sent: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, each in running.items():
        if (made := work.fragments.get(name)) is None:
            continue
        flows[name].add(each.primary)
        whole = {each.primary}
        if each.secondary is not None and each.timing.batch == 1:
            whole.add(each.secondary)
        for stream, columns in made.fragment.uses.items():
            for node in whole:
                sent[stream, node] |= columns.keys()
                if used[stream] <= sent[stream, node]:
                    flows[stream].add(node)
    return {stream: frozenset(nodes) for stream, nodes in flows.items()}


def measured_pairs(nodes: Mapping[str, NodeRecord]) -> dict[tuple[str, str], float]:
    """Round trips among the given nodes, ms, as each of them measured."""
    return {
        (name, peer): rtt_ms
        for name, node in nodes.items()
        for peer, rtt_ms in node.latencies_ms.items()
        if peer in nodes and peer != name
    }


def spreads(nodes: Mapping[str, NodeRecord]) -> dict[tuple[str, str], float]:
    """By how much the last round trips among the given nodes differ, ms."""
    return {
        (name, peer): spread_ms
        for name, node in nodes.items()
        for peer, spread_ms in node.spreads_ms.items()
        if peer in nodes and peer != name
    }


def settled(nodes: Mapping[str, NodeRecord]) -> bool:
    """Whether the network is known well enough to plan.

    Every host must have a coordinate and have measured at least half of the others. If all were
    required, one broken link would stop planning.
    """
    measured = Counter(name for name, _ in measured_pairs(nodes))
    return all(
        node.coordinate is not None and 2 * measured[name] >= len(nodes) - 1
        for name, node in nodes.items()
    )


def unsettled(nodes: Mapping[str, NodeRecord]) -> list[str]:
    """Hosts whose place in the network is not known well yet: they have just started.

    Their first round trips are slow, because they load programs meanwhile.
    """
    return [
        name
        for name, node in sorted(nodes.items())
        if (place := node.coordinate) is None
        or (place.error > UNSETTLED_ERROR and place.error_ms > UNSETTLED_ERROR_MS)
    ]


def network_view(
    nodes: Mapping[str, NodeRecord],
    replicas: Counter[str],
    room_cores: Mapping[str, float] | None = None,
) -> NetworkView:
    """The hosts, those without a coordinate in the middle of the others.

    Nothing new is placed on these. They may run replicas: a host may report a coordinate that
    cannot be, or one with other dimensions than the others.

    Parameters
    ----------
    nodes
        Live executors and sites.
    replicas
        Replicas of fragments by node that are not part of the plan to be made.
    room_cores
        Node → processor time that the plan may take there; a node without has no limit.
    """
    room_cores = room_cores or {}
    told = {name: node.coordinate for name, node in nodes.items() if node.coordinate is not None}
    counts = Counter(len(each.position_ms) for each in told.values())
    dimensions = max(counts, key=lambda each: (counts[each], each), default=0)
    places = {name: each for name, each in told.items() if len(each.position_ms) == dimensions}
    if not places:
        return NetworkView(nodes=(), rtt_ms={})
    known = {name: nodes[name] for name in places}
    middle = NodeCoordinate(
        position_ms=tuple(np.mean([each.position_ms for each in places.values()], axis=0)),
        cpu_ms=fmean(each.cpu_ms for each in places.values()),
        error=1.0,
        error_ms=fmean(each.error_ms for each in places.values()),
    )
    return NetworkView(
        nodes=tuple(
            Node(
                name=name,
                position_ms=np.array(place.position_ms, dtype=np.float64),
                error_ms=place.error_ms,
                cpu_ms=place.cpu_ms,
                capacity_cores=max(room_cores.get(name, math.inf), NO_ROOM_CORES),
                **msgspec.structs.asdict(node.labels),
                hosts_operators=node.kind is NodeKind.EXECUTOR and name in places,
                operators=replicas[name],
            )
            for name, node in sorted(nodes.items())
            for place in (places.get(name, middle),)
        ),
        rtt_ms=measured_pairs(known),
        spread_ms=spreads(known),
    )


def without_hosts(network: NetworkView, avoid: Collection[str]) -> NetworkView:
    """The same network, in which nothing may be placed on some of the nodes."""
    if not any(node.hosts_operators and node.name in avoid for node in network.nodes):
        return network
    nodes = (
        replace(node, hosts_operators=node.hosts_operators and node.name not in avoid)
        for node in network.nodes
    )
    return NetworkView(nodes=tuple(nodes), rtt_ms=network.rtt_ms, spread_ms=network.spread_ms)


def wanted_functions(
    fragments: Iterable[Fragment], records: Mapping[str, FragmentRecord]
) -> dict[str, str]:
    """Function that a query calls → fingerprint of its code: as the fragment's record has it, else
    as this process has it.

    The two replicas of a fragment must give the same rows, so they need the same code.
    """
    wanted: dict[str, str] = {}
    for fragment in fragments:
        record = records.get(fragment.key)
        wanted |= fragment.functions if record is None else record.functions
    return wanted


def lacking(wanted: Mapping[str, str], hosts: Mapping[str, NodeRecord]) -> dict[str, str]:
    """Host → what is the matter with its functions; hosts of which all will do are left out."""
    if not wanted:
        return {}
    return {
        name: why
        for name, host in hosts.items()
        if (why := _lack(wanted, host.functions)) is not None
    }


def _lack(wanted: Mapping[str, str], there: Mapping[str, str]) -> str | None:
    for name, fingerprint in wanted.items():
        if name not in there:
            return f"lacks function {name}"
        if there[name] != fingerprint:
            return f"has function {name} with code {there[name]}, not {fingerprint}"
    return None
