"""Queries that have no place yet: a submitted plan is carried out if it holds, else one is made.

A client that applies a query plans it and submits the plan; the leader plans queries that nobody
has planned. Both turn a plan into the same records (`propose`), so that carrying out a submitted
plan and one of the leader's own are the same.

Sub-deadlines of fragments that run are written before the records of new fragments: should another
change come first, all of it is decided again. A submitted plan is deleted after its records are
written, or before the leader's own plan is. So every prefix of the writes is legal, and a successor
finds either the plan or what it was to make.

The first epoch of a fragment is the store's number of its query's creation. Epochs and generations
of a query that was deleted and applied again are thus newer than all that it ever had before: a
host that has not heard of it, and runs the former query's replica, is fenced off.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping

import msgspec

from orchestrator.control.decide.beginning import begin_problem
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.planner import Planning, order
from orchestrator.control.planning.task import MIN_EXECUTORS, settled
from orchestrator.documents.units import figure
from orchestrator.records import FragmentRecord, PlanFigures, PlanRecord, Record
from orchestrator.store.protocol import (
    CLUSTER,
    FRAGMENTS,
    NODES,
    PLANS,
    QUERIES,
    RUNNING_STREAMS,
    STREAMS,
    encode,
)
from placement.errors import PlacementError
from placement.records import Plan

UNISSUED = 1
"""The epoch of a fragment in a plan that is not carried out yet."""

SHARES = "for a query that shares its stream"
"""Why a fragment that runs gets another sub-deadline when a query is placed."""

PLANNED_AGAIN = "planned again"
"""Kind of the event that says why a submitted plan was not carried out."""


def place_new(pending: PendingDecision) -> None:
    """Place every query that lacks fragments, and delete plans that nobody waits for."""
    view = pending.view
    flow = view.dataflow
    # A record that cannot be read stands in the way of a new one of its name.
    unreadable = view.broken(FRAGMENTS)
    missing = [
        query
        for query in order(flow, {fragment.query for fragment in flow.fragments.values()})
        if any(fragment.key not in pending.fragments for fragment in flow.of(query))
        and not any(fragment.key in unreadable for fragment in flow.of(query))
    ]
    known = len(view.executors) >= MIN_EXECUTORS and settled(view.hosts) and not view.begins
    if (problem := begin_problem(view)) is not None:
        pending.problems.append(problem)
    elif missing and not known:
        pending.problems.append(f"queries {', '.join(missing)} wait until the network is known")
    placed = [query for query in missing if known]
    for query in placed:
        pending.attempt(f"query {query}", lambda name=query: _place(pending, name))
    patience_us = pending.settings.submission_grace_us
    for query, found in view.plans.items():
        awaited = query not in view.queries and pending.now_us < (
            found.record.submitted_us + patience_us
        )
        if not awaited and query not in missing:
            pending.write(PLANS.key(query), None, found.version)
    for name, broken in view.broken(PLANS).items():
        pending.write(PLANS.key(name), None, broken.version)


def plan_query(pending: PendingDecision, query: str, *, relax: bool) -> Plan | None:
    """Plan a query, or note why that cannot be done.

    Parameters
    ----------
    relax
        Whether to do without its sites if they are not there, and to disregard deadline and bound
        if they cannot be kept: for a query that runs.
    """
    for relaxed in (False, True) if relax else (False,):
        try:
            return pending.planning.place(query, relaxed=relaxed, without_sites=relax)
        except (PlacementError, InvalidQuery) as error:
            pending.problems.append(str(error))
    return None


def put_retimed(pending: PendingDecision, records: Iterable[FragmentRecord], why: str) -> None:
    """Write fragments that run with the sub-deadlines that a plan has given them."""
    for record in records:
        before = pending.fragments[record.key]
        if record == before:
            continue
        old, new = (figure(each.timing.sub_deadline_ms) for each in (before, record))
        event = None
        if old != new:
            event = pending.event("sub-deadline changed", record.key, f"{old} → {new} ms, {why}")
        pending.put_fragment(record, event)


def _place(pending: PendingDecision, query: str) -> None:
    submitted = pending.view.plans.get(query)
    if submitted is not None:
        changed = changes_since(pending.planning, submitted.record)
        if not changed:
            _carry_out(pending, submitted.record)
            pending.write(PLANS.key(query), None, submitted.version)
            return
        detail = f"{', '.join(changed)} changed after the plan was made"
        event = pending.event(PLANNED_AGAIN, query, detail)
        pending.write(PLANS.key(query), None, submitted.version, event)
    plan = plan_query(pending, query, relax=False)
    if plan is not None:
        _carry_out(pending, propose(pending.planning, plan))


def _carry_out(pending: PendingDecision, plan: PlanRecord) -> None:
    figures = plan.figures
    event = pending.event(
        "planned",
        plan.query,
        f"latency {figure(figures.latency_ms)} of {figure(figures.deadline_ms)} ms, "
        f"recovery {figure(figures.recovery_ms)} of {figure(figures.bound_ms)} ms",
    )
    put_retimed(pending, plan.updated, SHARES)
    # Another leader may have begun to carry the plan out.
    issued = with_first_epochs(pending.view, plan)
    created = [record for record in issued if pending.fragments.get(record.key) != record]
    for record in created:
        pending.put_fragment(record, event if record is created[-1] else None)


def with_first_epochs(view: ClusterView, plan: PlanRecord) -> tuple[FragmentRecord, ...]:
    """The new records of a plan in the epoch that the store has issued, once the query is there."""
    query = view.queries.get(plan.query)
    epoch = UNISSUED if query is None else query.created
    return tuple(
        msgspec.structs.replace(record, epoch=epoch, generation=epoch) for record in plan.created
    )


def propose(planning: Planning, plan: Plan) -> PlanRecord:
    """The records that carry out the plan of one query, which `planning` has made.

    The plan of a client comes before its query, so the first epochs are issued by the leader.
    """
    (figures,) = plan.queries
    query, flow = figures.query, planning.flow
    epochs = {
        placed.operator: UNISSUED
        for placed in plan.placements
        if flow.fragments[placed.operator].key not in planning.fragments
    }
    nodes = {node for placed in plan.placements for node in (placed.primary, placed.secondary)}
    nodes.update(planning.queries[query].outputs.values())
    nodes.update(planning.work.sites[stream] for stream in flow.entering_streams(query))
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
            lacked=planning.view.lacked,
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
        and record.key not in planning.remembered
        and record.timing != running.timing
    )


def basis(planning: Planning, query: str, nodes: Iterable[str]) -> dict[str, str]:
    """The basis of a query's plan: path → digest, or a node's incarnation, or a stream's site.

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
        **{
            FRAGMENTS.key(name).path: _placed(record) for name, record in planning.fragments.items()
        },
        **{STREAMS.key(name).path: planning.streams[name].spec for name in entering},
    }
    if view.cluster is not None:
        records[CLUSTER.path] = view.cluster.record
    incarnations = {
        NODES.key(name).path: view.nodes[name].record.incarnation
        for name in nodes
        if name in view.nodes and not view.suspected(name) and name not in view.cordoned
    }
    # When a stream starts, waits or begins anew changes no plan; which of its sites it enters at
    # does.
    sites = {
        RUNNING_STREAMS.key(name).path: planning.streams[name].feeding_site for name in entering
    }
    digests = {path: _digest(record) for path, record in records.items()}
    return digests | incarnations | sites


def changes_since(planning: Planning, plan: PlanRecord) -> list[str]:
    """Paths of what a submitted plan rests on and what is not as it was; empty: the plan holds.

    A fragment may also be as the plan makes it: then a leader has begun to carry the plan out.
    """
    prefix = f"{NODES.path}/"
    nodes = [path.removeprefix(prefix) for path in plan.basis if path.startswith(prefix)]
    now = basis(planning, plan.query, nodes)
    made = {FRAGMENTS.key(r.key).path: _digest(_placed(r)) for r in (*plan.updated, *plan.created)}
    return sorted(
        path
        for path in plan.basis.keys() | now.keys()
        if now.get(path) not in (plan.basis.get(path), made.get(path, plan.basis.get(path)))
    )


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
    )


def _digest(record: Record) -> str:
    return hashlib.sha256(encode(record)).hexdigest()[:16]
