"""Fragments that have lost a replica.

Who changes a fragment's record, and when (C: coordinator, S: the secondary itself):

    primary   secondary   what happens
    alive     gone        C chooses another secondary at once; a node that comes back is just free
    gone      alive       S takes over and records it; C waits. If S has not within the grace:
                          C promotes a warm S, and starts over if S is not warm
    gone      gone        C starts over, with a new generation: at once if both are known to be
                          dead (their nodes have new lives), else after the grace, since a process
                          may live on without its session

Starting over loses the fragment's state, and the history says so.
"""

from __future__ import annotations

from ha.roles import ReplicaRole
from orchestrator.control.dataflow import InvalidQuery
from orchestrator.control.decision import PendingDecision
from orchestrator.control.placing import new_records, plan_query, put_retimed, retimed
from orchestrator.records import FragmentRecord
from placement.errors import PlacementError


def heal(pending: PendingDecision, name: str) -> None:
    """Do what a fragment needs, if it needs anything."""
    view, record = pending.view, pending.fragments[name]
    orphaned_us = pending.now_us - view.orphaned_since_us.get(name, pending.now_us)
    patient = orphaned_us < pending.settings.takeover_grace_us
    if view.alive(record.primary):
        if view.stepped_down(record) and not patient:
            _reinstate(pending, record)
        elif not view.alive(record.secondary):
            _replace_secondary(pending, record)
        return
    secondary = record.secondary
    if secondary is not None and view.alive(secondary):
        if patient:
            return
        status = view.status(secondary, record.fragment)
        if status is not None and status.role is not ReplicaRole.WARMING:
            _promote(pending, record, max(record.epoch + 1, status.epoch))
        else:
            _start_over(pending, record)
        return
    lost = [replica for replica in (record.primary, secondary) if replica is not None]
    if not patient or all(view.dead(replica) for replica in lost):
        _start_over(pending, record)


def _replace_secondary(pending: PendingDecision, record: FragmentRecord) -> None:
    before = "none" if record.secondary is None else record.secondary.node
    try:
        prefer = _with_replica(pending, record)
        found, problem = pending.planning.replace_secondary(record.query, record.fragment, prefer)
    except (PlacementError, InvalidQuery) as error:
        pending.problems.append(str(error))
        return
    detail = f"{before} → {found.node}, recovery {found.recovery.total_ms:.1f} ms"
    if problem is not None:
        pending.problems.append(problem)
        detail += f", bound not kept: {problem}"
    pending.change_fragment(
        record,
        "secondary replaced",
        detail,
        secondary=pending.view.replica(found.node),
        timing=pending.planning.running[record.fragment].timing,
    )


def _with_replica(pending: PendingDecision, record: FragmentRecord) -> str | None:
    """A node that runs a replica already, warm ones first, other than the primary's."""
    standing = {
        node: host.replicas[record.fragment].role
        for node, host in pending.view.executors.items()
        if record.fragment in host.replicas
        and node != record.primary.node
        and not pending.view.suspected(node)
    }
    warm = sorted(node for node, role in standing.items() if role is ReplicaRole.STANDBY)
    return next(iter(warm or sorted(standing)), None)


def _promote(pending: PendingDecision, record: FragmentRecord, epoch: int) -> None:
    assert record.secondary is not None
    detail = f"{record.primary.node} is gone and {record.secondary.node} has not recorded "
    detail += f"that it took over; epoch {epoch}"
    successor = {"primary": record.secondary, "secondary": None, "took_over": None}
    pending.change_fragment(record, "promoted", detail, epoch=epoch, **successor)


def _reinstate(pending: PendingDecision, record: FragmentRecord) -> None:
    """Make a primary act again that stepped down for a successor who has not come forward."""
    status = pending.view.status(record.primary, record.fragment)
    assert status is not None
    epoch = max(record.epoch, status.epoch) + 1
    detail = f"{record.primary.node} stepped down and nobody has taken its place; epoch {epoch}"
    pending.change_fragment(record, "reinstated", detail, epoch=epoch)


def _start_over(pending: PendingDecision, record: FragmentRecord) -> None:
    planning = pending.planning
    planning.running.pop(record.fragment, None)
    plan = plan_query(pending, record.query, relax=True)
    if plan is None:
        return
    epochs = {record.fragment: record.epoch + 1}
    put_retimed(pending, retimed(planning, epochs))
    (renewed,) = new_records(planning, plan, epochs)
    detail = f"{record.primary.node} is gone and nobody can take over; epoch {renewed.epoch} "
    detail += f"begins from nothing on {renewed.primary.node}"
    pending.change_fragment(renewed, "state lost", detail)
