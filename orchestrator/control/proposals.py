"""Plans as records: what carries a plan out, what it rests on, and what has changed since.

A client that applies a query plans it and submits the plan; the leader plans queries that nobody
has planned. Both turn a plan into the same records, so that carrying out a submitted plan and one
of the leader's own are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping

import msgspec

from orchestrator.control.dataflow import Dataflow
from orchestrator.control.planning.planner import Planning
from orchestrator.control.view import ClusterView
from orchestrator.records import (
    FragmentRecord,
    PlanFigures,
    PlanRecord,
    QueryRecord,
    Record,
    StreamRecord,
)
from orchestrator.store.protocol import (
    CLUSTER,
    FRAGMENTS,
    NODES,
    QUERIES,
    STREAMS,
    encode,
    fragment_key,
)
from placement.records import Plan

Fragments = Mapping[str, FragmentRecord]
"""Records by `<query>.<fragment>`."""


def propose(
    view: ClusterView,
    planning: Planning,
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    fragments: Fragments,
    plan: Plan,
) -> PlanRecord:
    """The records that carry out the plan of one query.

    Parameters
    ----------
    planning
        That made the plan.
    streams, queries, fragments
        The records that the plan was made for.
    """
    (figures,) = plan.queries
    epochs = {
        placed.operator: 1
        for placed in plan.placements
        if f"{placed.query}.{placed.operator}" not in fragments
    }
    nodes = {node for placed in plan.placements for node in (placed.primary, placed.secondary)}
    nodes |= set(queries[figures.query].outputs.values())
    flow = planning.work.flow
    nodes |= {streams[stream].site for stream in flow.entering_streams(figures.query)}
    return PlanRecord(
        query=figures.query,
        basis=basis(view, flow, streams, queries, fragments, figures.query, nodes),
        updated=retimed(planning, fragments, epochs),
        created=new_records(view, planning, plan, epochs),
        figures=PlanFigures(
            latency_ms=figures.latency_ms,
            deadline_ms=figures.deadline_ms,
            recovery_ms=figures.recovery_ms,
            bound_ms=figures.bound_ms,
        ),
        submitted_us=0,
    )


def new_records(
    view: ClusterView, planning: Planning, plan: Plan, epochs: Mapping[str, int]
) -> tuple[FragmentRecord, ...]:
    """Records of the named fragments of a plan, whose state begins in these epochs."""
    return tuple(
        FragmentRecord(
            query=placed.query,
            fragment=placed.operator,
            epoch=epochs[placed.operator],
            generation=epochs[placed.operator],
            primary=view.replica(placed.primary),
            secondary=view.replica(placed.secondary),
            timing=planning.running[placed.operator].timing,
        )
        for placed in plan.placements
        if placed.operator in epochs
    )


def retimed(
    planning: Planning, fragments: Fragments, but: Collection[str]
) -> tuple[FragmentRecord, ...]:
    """Records of fragments that run, where the plan has given them another sub-deadline."""
    return tuple(
        msgspec.structs.replace(record, timing=running.timing)
        for record in fragments.values()
        if (running := planning.running.get(record.fragment)) is not None
        and record.fragment not in but
        and record.timing != running.timing
    )


def basis(
    view: ClusterView,
    flow: Dataflow,
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    fragments: Fragments,
    query: str,
    nodes: Iterable[str],
) -> dict[str, str]:
    """What the plan of a query rests on: path → digest, or incarnation of a node.

    These are the cluster's settings, all fragments that run, the query itself and the placed ones
    that share streams with it, the streams that all of these read, and the nodes and sites that the
    plan uses. Measurements are not part of it: they change all the time.
    """
    placed = {record.query for record in fragments.values()}
    connected = {name for name in flow.connected_queries(query) if name in placed or name == query}
    entering = {stream for name in connected for stream in flow.entering_streams(name)}
    records: dict[str, Record] = {QUERIES.key(name).path: queries[name] for name in connected}
    for name in entering:
        # When a stream starts changes no plan.
        records[STREAMS.key(name).path] = msgspec.structs.replace(streams[name], start_at_us=None)
    for name, record in fragments.items():
        records[FRAGMENTS.key(name).path] = record
    if view.cluster is not None:
        records[CLUSTER.path] = view.cluster.record
    incarnations = {
        NODES.key(name).path: view.nodes[name].record.incarnation
        for name in nodes
        if name in view.nodes and not view.suspected(name)
    }
    return {path: _digest(record) for path, record in records.items()} | incarnations


def changes_since(
    plan: PlanRecord,
    view: ClusterView,
    flow: Dataflow,
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    fragments: Fragments,
) -> list[str]:
    """Paths of what a submitted plan rests on and what is not as it was; empty: the plan holds.

    A fragment may also be as the plan makes it: then a leader has begun to carry the plan out.
    """
    prefix = f"{NODES.path}/"
    nodes = [path.removeprefix(prefix) for path in plan.basis if path.startswith(prefix)]
    now = basis(view, flow, streams, queries, fragments, plan.query, nodes)
    made = {
        fragment_key(record.query, record.fragment).path: _digest(record)
        for record in (*plan.updated, *plan.created)
    }
    return sorted(
        path
        for path in plan.basis.keys() | now.keys()
        if now.get(path) not in (plan.basis.get(path), made.get(path, plan.basis.get(path)))
    )


def _digest(record: Record) -> str:
    return hashlib.sha256(encode(record)).hexdigest()[:16]
