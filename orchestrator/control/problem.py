"""The planning problem of a cluster: its network and its queries in the planner's terms.

Until they are measured, figures follow from the manifests: a stream brings the rate it declares; a
fragment turns it into `selectivity` bytes out per byte in; tuples are counted by the width of
their rows, for which strings are taken to be `STRING_BYTES` long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from orchestrator.control.dataflow import Columns, Dataflow, Fragment
from orchestrator.records import (
    ClusterRecord,
    Estimate,
    NodeKind,
    NodeRecord,
    QueryRecord,
    StreamRecord,
)
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node

STRING_BYTES = 16
"""Identifiers and call signs with Arrow's offsets; longer texts are rare in sensor streams."""

_type_bytes = {"int": 8, "float": 8, "bool": 1, "string": STRING_BYTES}

TIMESTAMP_BYTES = 8

Places = Mapping[str, tuple[str, str | None]]
"""Fragment → nodes of its primary and secondary."""


def row_bytes(columns: Columns) -> int:
    """Expected width of a row."""
    return TIMESTAMP_BYTES + sum(_type_bytes[kind] for kind in columns.values())


def detection_ms(cluster: ClusterRecord) -> float:
    """Longest time until a silent death is noticed.

    Silence is suspected after a fixed time, and looked for at every heartbeat. A crash that
    breaks its connections is noticed sooner.
    """
    return cluster.suspect_after_ms + cluster.heartbeat_ms


def measured_pairs(nodes: Mapping[str, NodeRecord]) -> dict[tuple[str, str], float]:
    """Round trips among the given nodes, ms, as each of them measured."""
    return {
        (name, peer): rtt_ms
        for name, node in nodes.items()
        for peer, rtt_ms in node.latencies_ms.items()
        if peer in nodes and peer != name
    }


def settled(nodes: Mapping[str, NodeRecord]) -> bool:
    """Whether the network is known well enough to plan: each host has a coordinate, and has
    measured at least half of the others. (All of them would let one broken link stop planning.)
    """
    measured = Counter(name for name, _ in measured_pairs(nodes))
    return all(
        node.coordinate is not None and 2 * measured[name] >= len(nodes) - 1
        for name, node in nodes.items()
    )


def network_view(nodes: Mapping[str, NodeRecord], replicas: Counter[str]) -> NetworkView:
    """The hosts that have a coordinate.

    Parameters
    ----------
    nodes
        Live executors and sites.
    copies
        Copies of fragments by node that are not part of the plan to be made.
    """
    located = {name: node for name, node in nodes.items() if node.coordinate is not None}
    dimensions = max(
        (len(n.coordinate.position_ms) for n in located.values() if n.coordinate), default=0
    )
    return NetworkView(
        nodes=tuple(
            Node(
                name=name,
                position_ms=np.array(node.coordinate.position_ms, dtype=np.float64),
                error_ms=node.coordinate.error_ms,
                cpu_ms=node.coordinate.cpu_ms,
                domain=node.domain,
                hosts_operators=node.kind is NodeKind.EXECUTOR,
                operators=replicas[name],
            )
            for name, node in sorted(located.items())
            if node.coordinate is not None and len(node.coordinate.position_ms) == dimensions
        ),
        rtt_ms=measured_pairs(located),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How much of a stream there is.

    Attributes
    ----------
    burst
        Tuples that come at once.
    """

    bytes_s: float
    tuples_s: float
    burst: float


def rates(
    flow: Dataflow,
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    batch_ms: float,
) -> dict[str, Rate]:
    """Expected rate of every stream.

    Parameters
    ----------
    batch_ms
        What comes within it is taken together.
    """
    found = {name: _entering(stream, batch_ms) for name, stream in streams.items()}
    for fragment in flow.fragments.values():
        taken = taken_by(fragment, found)
        given_bytes_s = taken.bytes_s * estimate(queries, fragment).selectivity
        tuples_s = given_bytes_s / row_bytes(fragment.columns)
        burst = taken.burst * tuples_s / taken.tuples_s if taken.tuples_s else 0.0
        found[fragment.name] = Rate(bytes_s=given_bytes_s, tuples_s=tuples_s, burst=burst)
    return found


def taken_by(fragment: Fragment, stream_rates: Mapping[str, Rate]) -> Rate:
    """What a fragment takes in, of all its inputs together."""
    inputs = [stream_rates[stream] for stream in fragment.inputs]
    return Rate(
        bytes_s=sum(rate.bytes_s for rate in inputs),
        tuples_s=sum(rate.tuples_s for rate in inputs),
        burst=sum(rate.burst for rate in inputs),
    )


def _entering(stream: StreamRecord, batch_ms: float) -> Rate:
    tuples_s = stream.rate_bytes_s / row_bytes(stream.columns)
    burst = stream.burst
    if burst is None:
        together_ms = max(batch_ms, stream.source.together_ms if stream.source else 0.0)
        burst = max(tuples_s * together_ms / 1e3, 1.0)
    return Rate(bytes_s=stream.rate_bytes_s, tuples_s=tuples_s, burst=burst)


def estimate(queries: Mapping[str, QueryRecord], fragment: Fragment) -> Estimate:
    """What the query's owner expects of a fragment."""
    return queries[fragment.query].estimates.get(fragment.name, Estimate())


def query_graph(
    query: QueryRecord,
    flow: Dataflow,
    stream_rates: Mapping[str, Rate],
    sites: Mapping[str, str],
    places: Places,
    queries: Mapping[str, QueryRecord],
) -> QueryGraph:
    """The graph of one query: its fragments between pinned sources and sinks.

    Parameters
    ----------
    sites
        Stream that enters from outside → its site.
    places
        Where fragments run that this query reads of other queries; those are pinned there.
    """
    fragments = flow.of(query.name)
    own = {fragment.name for fragment in fragments}
    operators = [
        Operator(
            name=f.name,
            cost_us=estimate(queries, f).cost_us,
            allowed=query.primaries.get(f.name, ()),
        )
        for f in fragments
    ]
    inputs = sorted({stream for f in fragments for stream in f.inputs} - own)
    operators += [Operator(name=s, pinned=sites[s] if s in sites else places[s][0]) for s in inputs]
    links = [
        Link(
            source=stream,
            target=fragment.name,
            rate_bytes_s=stream_rates[stream].bytes_s,
            tuples_s=stream_rates[stream].tuples_s,
        )
        for fragment in fragments
        for stream in fragment.inputs
    ]
    for stream, site in query.outputs.items():
        sink = f"{stream} at {site}"
        operators.append(Operator(name=sink, pinned=site))
        rate = stream_rates[stream]
        links.append(
            Link(source=stream, target=sink, rate_bytes_s=rate.bytes_s, tuples_s=rate.tuples_s)
        )
    return QueryGraph(name=query.name, operators=tuple(operators), links=tuple(links))
