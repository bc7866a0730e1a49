"""Fragments whose records cannot be read, as the assignments of their hosts tell them.

A record may have been written by a newer version of the software, or be broken. Its replicas run,
and must not be stopped because of that. The assignments say which hosts run them in which role and
epoch. With these fragments the rest of the cluster is planned as with any other; only their own
records are not written.
"""

from __future__ import annotations

from orchestrator.control.observe.view import ClusterView
from orchestrator.records import FragmentAssignment, FragmentRecord, ReplicaId, ThirdReplica, Timing
from orchestrator.store.protocol import ASSIGNMENTS, FRAGMENTS


def reconstructed_fragments(view: ClusterView) -> dict[str, FragmentRecord]:
    """By `<query>.<fragment>`; those that no host runs are missing."""
    held: dict[str, list[tuple[ReplicaId, FragmentAssignment]]] = {}
    unreadable = view.broken(FRAGMENTS)
    for node, found in view.assignments.items() if unreadable else ():
        replica = ReplicaId(node=node, incarnation=found.record.incarnation)
        for assigned in found.record.fragments:
            key = f"{assigned.query}.{assigned.fragment}"
            if key in unreadable:
                held.setdefault(key, []).append((replica, assigned))
    return {key: _record(view, replicas) for key, replicas in held.items()}


def _record(view: ClusterView, held: list[tuple[ReplicaId, FragmentAssignment]]) -> FragmentRecord:
    """The record that these assignments follow from."""
    held = sorted(held, key=lambda each: -each[1].epoch)
    primary = next((each for each in held if each[1].role == "primary"), None)
    # Everybody but the primary's host names the primary as its peer replica, the third one too.
    further = () if primary is None else primary[1].further_replicas
    secondaries = [each for each in held if each[1].role == "secondary"]
    secondary = next((each for each in secondaries if each[0].node not in further), None)
    third = next((each for each in secondaries if each[0].node in further), None)
    told = (primary or held[0])[1]
    other = None if told.peer_replica is None else _peer(view, told)
    return FragmentRecord(
        query=told.query,
        fragment=told.fragment,
        epoch=told.epoch,
        generation=told.generation,
        primary=_peer(view, told) if primary is None else primary[0],
        secondary=other if secondary is None else secondary[0],
        timing=Timing(
            cost_ms=0.0,
            sub_deadline_ms=told.sub_deadline_ms,
            standby_lag_ms=told.standby_lag_ms,
            batch=told.batch,
            checkpoint_ms=told.checkpoint_ms,
            covered_ms=told.covered_ms,
            promised=told.promised,
        ),
        third=None if third is None else ThirdReplica(replica=third[0], becomes=None, since_us=0),
    )


def _peer(view: ClusterView, assigned: FragmentAssignment) -> ReplicaId:
    """The other replica, whose assignment is not there or cannot be read.

    If it is not there, the replica's process has ended: no incarnation of the node matches.
    """
    node = assigned.peer_replica or ""
    if node in view.broken(ASSIGNMENTS) and node in view.nodes:
        return view.replica(node)
    return ReplicaId(node=node, incarnation="")
