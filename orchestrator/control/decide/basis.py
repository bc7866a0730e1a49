"""What a proposal rests on, and whether that is still so.

A basis names records by their paths, with a digest of each; of a node, its incarnation; of what was
decided of a stream, the site that feeds it. A digest tells versions apart also if a record is
deleted and created again, when ZooKeeper's own number begins anew. Measurements are no part of it:
they change all the time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.planner import Planning
from orchestrator.records import (
    Deletion,
    FragmentRecord,
    PlannedMove,
    ProposalRecord,
    QueryPlacement,
    Record,
)
from orchestrator.store.protocol import (
    CLUSTER,
    FRAGMENTS,
    NODES,
    QUERIES,
    RUNNING_STREAMS,
    SAVEPOINTS,
    STREAMS,
    encode,
)

UNISSUED = 1
"""The epoch of a fragment in a plan that is not carried out yet."""


def under_queries(planning: Planning, new: Iterable[str]) -> set[str]:
    """Paths of what the placement of new queries rests on, but for the nodes that it uses.

    These are the cluster's settings, all fragments that run, the placed queries that share streams
    with new ones, and the streams that all of these read.
    """
    flow, new = planning.flow, [*new]
    placed = {record.query for record in planning.fragments.values()}
    connected = {each for name in new for each in flow.connected_queries(name)} & placed
    entering = {s for name in (*connected, *new) for s in flow.entering_streams(name)}
    paths = {CLUSTER.path, *_running(planning), *(QUERIES.key(name).path for name in connected)}
    # When a stream starts, waits or begins anew changes no plan; which of its sites it enters at
    # does.
    known = [name for name in entering if name in planning.view.streams]
    return paths | {each.key(name).path for name in known for each in (STREAMS, RUNNING_STREAMS)}


def under_nodes(planning: Planning, placements: Iterable[QueryPlacement]) -> set[str]:
    """Paths of the nodes and sites that new queries use."""
    nodes: set[str] = set()
    for made in placements:
        nodes |= {replica.node for record in made.created for replica in record.replicas}
        nodes.update(planning.queries[made.query].outputs.values())
        streams = planning.flow.entering_streams(made.query)
        nodes.update(planning.work.sites[stream] for stream in streams)
    return {NODES.key(name).path for name in nodes}


def under_moves(moves: Iterable[PlannedMove]) -> set[str]:
    """Paths of what moves rest on: where else fragments run, and by when they must be done, may
    change meanwhile. The leader checks each step again before it begins.
    """
    moves = [*moves]
    paths = {CLUSTER.path, *(FRAGMENTS.key(each.fragment).path for each in moves)}
    return paths | {NODES.key(each.node).path for each in moves}


def under_deletion(view: ClusterView, deletion: Deletion) -> set[str]:
    """Paths of what is deleted, and of the queries and streams that depend on it or share it."""
    flow = view.dataflow
    queries = {each for name in deletion.queries for each in flow.connected_queries(name)}
    shared = {stream for name in deletion.queries for stream in flow.entering_streams(name)}
    shared.update(deletion.streams)
    queries |= {name for name in view.queries if shared & flow.entering_streams(name)}
    streams = shared | {n for n, found in view.streams.items() if found.record.beside in shared}
    paths = {QUERIES.key(name).path for name in queries | {*deletion.queries}}
    return paths | {STREAMS.key(name).path for name in streams}


def digests(planning: Planning, paths: Iterable[str], *, timed: bool = True) -> dict[str, str]:
    """Path → digest, of what is there.

    Parameters
    ----------
    timed
        Whether of fragments also their timing counts, or only where they are.
    """
    found = {path: _digest_of(planning, path, timed=timed) for path in paths}
    return {path: digest for path, digest in found.items() if digest is not None}


def changes_since(planning: Planning, proposal: ProposalRecord) -> list[str]:
    """Paths of what a proposal rests on and what is not as it was; empty: it holds.

    A fragment may also be as the proposal makes it: then a leader has begun to carry it out.
    """
    rests_on = proposal.basis
    made = {
        (FRAGMENTS.key(record.key).path, digest(_placed(record)))
        for each in proposal.placements
        for record in (*each.updated, *each.created)
    }
    made |= {(QUERIES.key(a.query.name).path, digest(a.query)) for a in proposal.alterations}
    paths = {*rests_on}
    if proposal.plan is not None:
        paths |= _running(planning)
    if proposal.deletion is not None:
        paths |= under_deletion(planning.view, proposal.deletion)
    # Moves that come with a plan rest on all of it.
    timed = proposal.moves is None or proposal.plan is not None
    now = digests(planning, paths, timed=timed)
    return sorted(
        path
        for path in paths
        if now.get(path) != rests_on.get(path) and (path, now.get(path)) not in made
    )


def _running(planning: Planning) -> set[str]:
    return {FRAGMENTS.key(name).path for name in planning.fragments}


def _digest_of(planning: Planning, path: str, *, timed: bool) -> str | None:
    """The digest of a record that plans rest on; None if it is not there, or cannot be used."""
    view = planning.view
    if path == CLUSTER.path:
        return None if view.cluster is None else digest(view.cluster.record)
    folder, name = path.split("/")
    if folder == NODES.path:
        usable = name in view.nodes and not view.suspected(name) and name not in view.closed
        return view.nodes[name].record.incarnation if usable else None
    if folder == FRAGMENTS.path:
        if (fragment := planning.fragments.get(name)) is None:
            return None
        if not timed:
            return " ".join(each.node for each in (fragment.primary, fragment.secondary) if each)
        return digest(_placed(fragment))
    if folder == RUNNING_STREAMS.path:
        stream = planning.streams.get(name)
        return None if stream is None else stream.feeding_site
    if folder == SAVEPOINTS.path:
        kept = view.savepoints.get(name)
        # Carrying a proposal out may be what departs from it.
        return None if kept is None else digest(msgspec.structs.replace(kept.record, departed={}))
    found = view.queries.get(name) if folder == QUERIES.path else view.streams.get(name)
    return None if found is None else digest(found.record)


def _placed(record: FragmentRecord) -> FragmentRecord:
    """A fragment's place and timing: plans rest on no epoch, measurement or note of a failure."""
    return msgspec.structs.replace(
        record,
        epoch=UNISSUED,
        generation=UNISSUED,
        timing=msgspec.structs.replace(record.timing, cost_ms=0.0),
        took_over=None,
        losses=(),
        restarts=None,
        told_cost_us=None,
        begins=None,
        counts_from_ms=None,
        ended_ms=None,
        former=(),
        restart=None,
        functions={},
    )


def digest(record: Record) -> str:
    """A record in a few letters, which tell it from any other."""
    return hashlib.sha256(encode(record)).hexdigest()[:16]
