"""Plans as records: what carries a plan out, what it rests on, and what has changed since.

A client that applies a query plans it and submits the plan; the leader plans queries that nobody
has planned. Both turn a plan into the same records, so that carrying out a submitted plan and one
of the leader's own are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping

import msgspec

from orchestrator.control.planning.planner import Planning
from orchestrator.records import FragmentRecord, PlanFigures, PlanRecord, Record
from orchestrator.store.protocol import CLUSTER, FRAGMENTS, NODES, QUERIES, STREAMS, encode
from placement.records import Plan


def propose(planning: Planning, plan: Plan) -> PlanRecord:
    """The records that carry out the plan of one query, which `planning` has made."""
    (figures,) = plan.queries
    query, flow = figures.query, planning.flow
    epochs = {
        placed.operator: 1
        for placed in plan.placements
        if flow.fragments[placed.operator].key not in planning.fragments
    }
    nodes = {node for placed in plan.placements for node in (placed.primary, placed.secondary)}
    nodes.update(planning.queries[query].outputs.values())
    nodes.update(planning.streams[stream].site for stream in flow.entering_streams(query))
    return PlanRecord(
        query=query,
        basis=basis(planning, query, nodes),
        updated=retimed(planning, epochs),
        created=new_records(planning, plan, epochs),
        figures=msgspec.convert(figures, PlanFigures, from_attributes=True),
        submitted_us=0,
    )


def new_records(
    planning: Planning, plan: Plan, epochs: Mapping[str, int]
) -> tuple[FragmentRecord, ...]:
    """Records of the named fragments of a plan, whose state begins in these epochs."""
    return tuple(
        FragmentRecord(
            query=placed.query,
            fragment=placed.operator,
            epoch=epochs[placed.operator],
            generation=epochs[placed.operator],
            primary=planning.view.replica(placed.primary),
            secondary=planning.view.replica(placed.secondary),
            timing=planning.running[placed.operator].timing,
        )
        for placed in plan.placements
        if placed.operator in epochs
    )


def retimed(planning: Planning, but: Collection[str]) -> tuple[FragmentRecord, ...]:
    """Records of fragments that run, where the last plan has given them another sub-deadline."""
    return tuple(
        msgspec.structs.replace(record, timing=running.timing)
        for record in planning.fragments.values()
        if (running := planning.running.get(record.fragment)) is not None
        and record.fragment not in but
        and record.timing != running.timing
    )


def basis(planning: Planning, query: str, nodes: Iterable[str]) -> dict[str, str]:
    """The basis of a query's plan: path → digest, or incarnation of a node.

    These are the cluster's settings, all fragments that run, the query itself and the placed ones
    that share streams with it, the streams that all of these read, and the nodes and sites that the
    plan uses. Measurements are not part of it: they change all the time.
    """
    view, flow = planning.view, planning.flow
    placed = {record.query for record in planning.fragments.values()} | {query}
    connected = flow.connected_queries(query) & placed
    entering = {stream for name in connected for stream in flow.entering_streams(name)}
    records: dict[str, Record] = {
        **{QUERIES.key(name).path: planning.queries[name] for name in connected},
        **{FRAGMENTS.key(name).path: record for name, record in planning.fragments.items()},
    }
    for name in entering:
        # When a stream starts changes no plan.
        stream = msgspec.structs.replace(planning.streams[name], start_at_us=None)
        records[STREAMS.key(name).path] = stream
    if view.cluster is not None:
        records[CLUSTER.path] = view.cluster.record
    incarnations = {
        NODES.key(name).path: view.nodes[name].record.incarnation
        for name in nodes
        if name in view.nodes and not view.suspected(name)
    }
    return {path: _digest(record) for path, record in records.items()} | incarnations


def changes_since(planning: Planning, plan: PlanRecord) -> list[str]:
    """Paths of what a submitted plan rests on and what is not as it was; empty: the plan holds.

    A fragment may also be as the plan makes it: then a leader has begun to carry the plan out.
    """
    prefix = f"{NODES.path}/"
    nodes = [path.removeprefix(prefix) for path in plan.basis if path.startswith(prefix)]
    now = basis(planning, plan.query, nodes)
    made = {FRAGMENTS.key(r.key).path: _digest(r) for r in (*plan.updated, *plan.created)}
    return sorted(
        path
        for path in plan.basis.keys() | now.keys()
        if now.get(path) not in (plan.basis.get(path), made.get(path, plan.basis.get(path)))
    )


def _digest(record: Record) -> str:
    return hashlib.sha256(encode(record)).hexdigest()[:16]
