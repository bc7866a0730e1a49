"""The assignment of each host, derived from all other records in the store.

An assignment is never edited: it follows from fragments, queries, streams and live nodes, and is
written when it differs from the stored one.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.workload import NO_DEADLINE_MS, FragmentWork
from orchestrator.control.view import ClusterView
from orchestrator.records import (
    Assignment,
    ClusterRecord,
    DriverSpec,
    FragmentAssignment,
    FragmentRecord,
    NodeKind,
    NodeRecord,
    Peer,
    ReplicaId,
    SinkAssignment,
    SourceAssignment,
    StreamRecord,
)


def assignments(planning: Planning) -> dict[str, Assignment]:
    """The assignment of every live node, by the records as they will be."""
    return {name: _assignment(planning, name) for name in sorted(planning.view.nodes)}


def _assignment(planning: Planning, name: str) -> Assignment:
    view, work, fragments = planning.view, planning.work, planning.fragments
    node = view.nodes[name].record
    here = view.replica(name)
    running = tuple(
        _replica_in(work.fragments[record.fragment], record, here)
        for _, record in sorted(fragments.items())
        if here in (record.primary, record.secondary) and record.fragment in work.fragments
    )
    sinks = _sinks(view, node, fragments)
    read = {stream for replica in running for stream in replica.inputs} | {s.stream for s in sinks}
    return Assignment(
        incarnation=node.incarnation,
        fragments=running,
        sources=_sources(view, node, planning.streams),
        sinks=sinks,
        producers={stream: _holders(planning, stream) for stream in sorted(read)},
        peers=_peers(view, node),
    )


def _replica_in(work: FragmentWork, record: FragmentRecord, here: ReplicaId) -> FragmentAssignment:
    primary = record.primary == here
    peer_replica = record.secondary if primary else record.primary
    return FragmentAssignment(
        query=record.query,
        fragment=record.fragment,
        statement=work.fragment.statement,
        inputs={stream: dict(columns) for stream, columns in work.fragment.inputs.items()},
        role="primary" if primary else "secondary",
        epoch=record.epoch,
        generation=record.generation,
        # Named even when it is gone: a secondary learns from it whom to take over from.
        peer_replica=None if peer_replica is None else peer_replica.node,
        sub_deadline_ms=record.timing.sub_deadline_ms,
        standby_lag_ms=record.timing.standby_lag_ms,
        readers_ms=dict(work.readers_ms),
        cost_us=work.cost_us,
    )


def _sources(
    view: ClusterView, node: NodeRecord, streams: Mapping[str, StreamRecord]
) -> tuple[SourceAssignment, ...]:
    if node.kind is not NodeKind.SITE:
        return ()
    return tuple(
        SourceAssignment(
            stream=name,
            columns=stream.columns,
            source=stream.source,
            start_at_us=stream.start_at_us,
            shed=stream.shed,
            # Beginning anew is a change of the store, so a stream that is deleted and applied again
            # has a greater number than it ever had before.
            generation=view.streams[name].created + stream.generation,
        )
        for name, stream in sorted(streams.items())
        if stream.site == node.node
    )


def _sinks(
    view: ClusterView, node: NodeRecord, fragments: Mapping[str, FragmentRecord]
) -> tuple[SinkAssignment, ...]:
    placed = {record.fragment for record in fragments.values()}
    if node.kind is NodeKind.OBSERVER:
        wanted = set(node.wants) & view.dataflow.columns.keys()
    else:
        wanted = {
            stream
            for query in view.query_records.values()
            for stream, site in query.outputs.items()
            if site == node.node and stream in placed
        } & view.dataflow.fragments.keys()
    return tuple(
        SinkAssignment(
            stream=stream,
            columns=dict(view.dataflow.columns[stream]),
            deadline_ms=_deadline_ms(view, stream),
            sink=None if node.kind is NodeKind.OBSERVER else _sink(view, stream),
            life=0 if node.kind is NodeKind.OBSERVER else _life(view, stream),
        )
        for stream in sorted(wanted)
    )


def _sink(view: ClusterView, stream: str) -> DriverSpec | None:
    """The sink driver that the stream's own query names."""
    return view.query_records[view.dataflow.fragments[stream].query].sinks.get(stream)


def _life(view: ClusterView, stream: str) -> int:
    """Identifies the stream's own query."""
    return view.queries[view.dataflow.fragments[stream].query].created


def _deadline_ms(view: ClusterView, stream: str) -> float:
    """Deadline of the query that makes the stream, else the least of those that read it."""
    queries = view.query_records
    maker = view.dataflow.fragments.get(stream)
    if maker is not None:
        return queries[maker.query].deadline_of(stream)
    readers = {f.query for f in view.dataflow.fragments.values() if stream in f.inputs}
    return min((queries[query].deadline_ms for query in readers), default=NO_DEADLINE_MS)


def _holders(planning: Planning, stream: str) -> tuple[str, ...]:
    """Live nodes that hold a stream, primary first."""
    view = planning.view
    if stream in planning.streams:
        site = planning.streams[stream].site
        return (site,) if site in view.nodes else ()
    record = planning.fragments.get(view.dataflow.fragments[stream].key)
    if record is None:
        return ()
    replicas = (record.primary, record.secondary)
    return tuple(
        replica.node for replica in replicas if replica is not None and view.alive(replica)
    )


def _peers(view: ClusterView, node: NodeRecord) -> tuple[Peer, ...]:
    settings = view.settings
    return tuple(
        Peer(
            node=name,
            incarnation=found.record.incarnation,
            endpoint=found.record.endpoint,
            public_key=found.record.public_key,
            delay_ms=0.0 if name == node.node else _delay_ms(settings, node, found.record),
        )
        for name, found in sorted(view.nodes.items())
    )


def _delay_ms(settings: ClusterRecord, source: NodeRecord, target: NodeRecord) -> float:
    """Delay the link shaper adds; none for regions it was not told of, such as an observer's."""
    return settings.delays_ms.get(source.region, {}).get(target.region, 0.0)
