"""What runs on hosts that are about to end goes elsewhere.

A host leaves if it says so (`NodeRecord.leaving`), or if the process that it ends with has the
maintenance slot (`maintenance`). Nothing new is placed on it, in this incarnation: what is started
in its place under the same name is used at once. An operator's cordon is something else, and stays.

First each primary there changes roles with its warm standby, although that should break a promise:
the standby would take over in any case once the host has ended. Then what is left goes to other
nodes by the rules of a drain, a plan of moves at a time. A fragment that can go nowhere is a step
of the plan that has failed, and a problem. It is tried again for a while.

    there is                              what is written
    a primary, and its standby elsewhere  the two change roles, as soon as the standby is warm
    a replica, and no plan                a plan of moves of all those that are protected
    a plan that has ended                 another one after a rest, if there was anything that it
                                          could not move, for `PATIENT_US` at most; and one for
                                          what it has not tried, at any time
    nothing that could go                 that the host may end (`Assignment.may_end`)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.drain import drain_steps, that_stay
from orchestrator.control.decide.moving import ENDED, change_primary, is_steady
from orchestrator.control.decide.stream_sites import stays
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import relocate
from orchestrator.records import FragmentRecord, MovePlan, MoveStep, NodeKind
from orchestrator.store.protocol import MOVES
from placement.errors import PlacementError

AT_A_TIME = 4
"""Most fragments of a host that move at once: its end is near."""

REST_US = 3_000_000
"""Time between two plans of a host, if the first one could not move everything."""

PATIENT_US = 10_000_000
"""How long it is tried to move what can go nowhere: latencies and loads may change."""

LEAVES = "leaves"
"""Kind of the event that replicas begin to go."""

PREFIX = "leave-"
"""Begins the names of these plans."""

NO_STANDBY_SITE = "results leave at one site only"


def empty_leaving_hosts(pending: PendingDecision) -> None:
    """Have what runs on leaving hosts go elsewhere."""
    view = pending.view
    for node in sorted(view.leaving):
        if node in view.executors:
            pending.attempt(f"node {node}", lambda node=node: _give_way(pending, node))
    planned: list[Planning] = []
    for node in sorted(view.leaving):
        if node in view.executors:
            pending.attempt(f"node {node}", lambda node=node: _move(pending, node, planned))


def remaining(pending: PendingDecision, node: str) -> dict[str, str]:
    """What ends with a leaving host, fragments and streams → why; empty: it is about to go."""
    view = pending.view
    if view.nodes[node].record.kind is NodeKind.SITE:
        return _at_site(pending, node)
    stuck = _stuck(pending, node, _last_plan(pending, node))
    is_final = stuck and _is_final(pending, node)
    return {key: why if is_final else "" for key, why in stuck.items()}


def may_end(remaining: Mapping[str, str]) -> bool:
    """Whether nothing of what remains can still go elsewhere."""
    return all(remaining.values())


def _here(pending: PendingDecision, node: str) -> list[FragmentRecord]:
    """Fragments with a replica on the host that leaves."""
    me = pending.view.replica(node)
    found = pending.fragments.values()
    return [each for each in found if me in each.replicas and each.stopped is None]


def _stuck(pending: PendingDecision, node: str, last: MovePlan | None) -> dict[str, str]:
    """What is left on a host, as fragment → why the newest plan could not move it, or empty."""
    steps = () if last is None or last.ended_us is None else last.steps
    failed = {step.fragment: step.failed or "" for step in steps}
    return {record.key: failed.get(record.key, "") for record in _here(pending, node)}


def _at_site(pending: PendingDecision, site: str) -> dict[str, str]:
    view = pending.view
    is_late = pending.now_us - view.leaving[site] >= PATIENT_US
    queries = view.query_records.values()
    outputs = sorted({s for query in queries for s, at in query.outputs.items() if at == site})
    found = dict.fromkeys(outputs, NO_STANDBY_SITE)
    for name, stream in pending.planning.streams.items():
        if (why := stays(view, name, stream, site)) is not None:
            found[name] = why or ("its other site has not taken over" if is_late else "")
    return found


def _is_final(pending: PendingDecision, node: str) -> bool:
    """Whether nothing is tried any more."""
    view = pending.view
    is_late = pending.now_us - view.leaving[node] >= PATIENT_US
    return is_late or not view.executors.keys() - view.closed


def _last_plan(pending: PendingDecision, node: str) -> MovePlan | None:
    """The newest plan by which replicas leave a host, in its present incarnation."""
    since_us = pending.view.leaving[node]
    found = [
        each.record
        for name, each in pending.view.moves.items()
        if name.startswith(PREFIX)
        and each.record.drains == node
        and each.record.submitted_us >= since_us
    ]
    return max(found, key=lambda each: each.submitted_us, default=None)


def _give_way(pending: PendingDecision, node: str) -> None:
    """Have primaries change roles with standbys that are warm, and stay."""
    for record in _here(pending, node):
        if record.primary.node == node and _has_heir(pending, record) and _rests(pending, record):
            assert record.secondary is not None
            _swap(pending, record)
            change_primary(pending, record, record.secondary, third=None)


def _has_heir(pending: PendingDecision, record: FragmentRecord) -> bool:
    """Whether the standby stays."""
    return record.secondary is not None and record.secondary.node not in pending.view.leaving


def _rests(pending: PendingDecision, record: FragmentRecord) -> bool:
    return (
        record.key in pending.view.fragments and record.third is None and is_steady(pending, record)
    )


def _swap(pending: PendingDecision, record: FragmentRecord) -> None:
    """Note in the planning problem that roles change, with sub-deadlines for that if there are."""
    assert record.secondary is not None
    primary, secondary = record.secondary.node, record.primary.node
    try:
        relocate(pending.planning, record.key, primary, secondary)
    except (PlacementError, InvalidQuery):
        running = pending.planning.running
        swapped = replace(running[record.fragment], primary=primary, secondary=secondary)
        running[record.fragment] = swapped


def _move(pending: PendingDecision, node: str, planned: list[Planning]) -> None:
    """Submit the moves of what is left on a host, if it is time to.

    Parameters
    ----------
    planned
        The planning problem of all leaving hosts, made with the first that needs it.
    """
    here, last = _here(pending, node), _last_plan(pending, node)
    left = _stuck(pending, node, last)
    for key, why in left.items():
        if why:
            pending.problems.append(f"{node} leaves, and {key} cannot: {why}")
    if last is not None:
        if last.ended_us is None or (all(left.values()) and _is_final(pending, node)):
            return
        if pending.now_us - last.ended_us < REST_US and not all(s.done for s in last.steps):
            return
    moving = {
        step.fragment
        for found in pending.view.moves.values()
        if found.record.ended_us is None
        for step in found.record.steps
    }
    ready = {
        record.key
        for record in here
        if record.key not in moving
        and _rests(pending, record)
        and not (record.primary.node == node and _has_heir(pending, record))
    }
    if not ready:
        return
    if not planned:
        planned.append(Planning.of(pending.view))
    steps, stuck = drain_steps(planned[0], node, ready)
    _submit(pending, node, steps, stuck)


def _submit(
    pending: PendingDecision, node: str, steps: tuple[MoveStep, ...], stuck: Mapping[str, str]
) -> None:
    last = _last_plan(pending, node)
    at_us = pending.now_us if last is None else max(pending.now_us, last.submitted_us + 1)
    plan = MovePlan(
        name=f"{PREFIX}{node}-{at_us}",
        steps=(*steps, *that_stay(pending.fragments, node, stuck)),
        at_a_time=AT_A_TIME,
        keep_going=True,
        drains=node,
        submitted_us=at_us,
        ended_us=None if steps else pending.now_us,
    )
    if steps:
        moved = ", ".join(f"{each.fragment} {each.role} → {each.node}" for each in steps)
        event = pending.event(LEAVES, node, moved)
    else:
        event = pending.event(ENDED, plan.name, plan.outcome)
        event = msgspec.structs.replace(event, moves=plan)
    pending.write(MOVES.key(plan.name), plan, None, event)
