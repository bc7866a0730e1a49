"""Queries that have no place yet: a proposal is carried out if it holds, else a plan is made.

The plan of a proposal was made before its queries were written. Queries of which nobody has made a
proposal are planned here. Both turn a plan into the same records (`placement`), so that carrying
out a proposal and a plan that is made now are the same.

Sub-deadlines of fragments that run are written before the records of new fragments: should another
change come first, all of it is decided again. That a proposal holds no longer is written before the
plan that is made instead. So every prefix of the writes is legal, and a successor finds either the
proposal or what it was to make.

The first epoch of a fragment is the store's number of its query's creation. Epochs and generations
of a query that was deleted and applied again are thus newer than all that it ever had before: a
host that has not heard of it, and runs the former query's replica, is fenced off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from orchestrator.control.decide.basis import UNISSUED, changes_since
from orchestrator.control.decide.beginning import begin_problem
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.planner import Planning, order
from orchestrator.control.planning.task import MIN_EXECUTORS, settled
from orchestrator.documents.units import figure
from orchestrator.records import (
    CheckpointsRecord,
    FragmentRecord,
    PlanFigures,
    QueryPlacement,
)
from orchestrator.store.protocol import (
    FRAGMENTS,
    PROPOSALS,
)
from placement.errors import PlacementError
from placement.records import Plan

SHARES = "for a query that shares its stream"
"""Why a fragment that runs gets another sub-deadline when a query is placed."""

PLANNED_AGAIN = "planned again"
"""Kind of the event that says why a submitted plan was not carried out."""


def place_new(pending: PendingDecision) -> None:
    """Place every query that lacks fragments."""
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
    if (name := pending.view.proposed_by(query)) is not None:
        found = pending.view.proposals[name]
        proposal = found.record
        changed = changes_since(pending.planning, proposal)
        made = proposal.placement(query)
        if not changed and made is not None:
            _carry_out(pending, made, proposal.checkpoints)
            return
        detail = f"{', '.join(changed)} changed after the plan was made"
        event = pending.event(PLANNED_AGAIN, query, detail)
        noted = msgspec.structs.replace(proposal, changed=tuple(changed))
        pending.write(PROPOSALS.key(name), noted, found.version, event)
    plan = plan_query(pending, query, relax=False)
    if plan is not None:
        made, checkpoints = _from_savepoint(pending.view, placement(pending.planning, plan))
        _carry_out(pending, made, checkpoints)


def _from_savepoint(
    view: ClusterView, plan: QueryPlacement
) -> tuple[QueryPlacement, tuple[CheckpointsRecord, ...]]:
    """A plan whose fragments go on from what a proposal says, although its plan does not hold."""
    proposal = view.accepted(plan.query)
    if proposal is None or not proposal.checkpoints:
        return plan, ()
    proposed = proposal.placement(plan.query)
    like = {} if proposed is None else {each.key: each for each in proposed.created}
    created = tuple(
        msgspec.structs.replace(
            like[record.key],
            primary=record.primary,
            secondary=record.secondary,
            timing=record.timing,
            lacked=record.lacked,
        )
        if record.key in like
        else record
        for record in plan.created
    )
    return msgspec.structs.replace(plan, created=created), proposal.checkpoints


def _carry_out(
    pending: PendingDecision,
    plan: QueryPlacement,
    checkpoints: Iterable[CheckpointsRecord] = (),
) -> None:
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
    # A fragment that is there without its checkpoint would begin from nothing.
    made = {record.key for record in created} - pending.fragments.keys()
    for listed in checkpoints:
        if listed.key in made:
            pending.put_checkpoints(listed)
    for record in created:
        pending.put_fragment(record, event if record is created[-1] else None)


def with_first_epochs(view: ClusterView, plan: QueryPlacement) -> tuple[FragmentRecord, ...]:
    """The new records of a plan in the epoch that the store has issued, once the query is there."""
    epoch = first_epoch(view, plan.query)
    return tuple(
        msgspec.structs.replace(
            record, epoch=epoch, generation=record.generation if _goes_on(record) else epoch
        )
        for record in plan.created
    )


def first_epoch(view: ClusterView, name: str) -> int:
    """The epoch in which fragments of a query begin that are created now."""
    query, running = view.queries.get(name), view.running_queries.get(name)
    epoch = UNISSUED if query is None else view.number_of(query)
    # A statement that is written again is newer than its former self.
    return epoch if running is None else max(epoch, running.record.change)


def _goes_on(record: FragmentRecord) -> bool:
    """Whether a new fragment has the state of a savepoint."""
    return record.paused and record.restart is None


def placement(planning: Planning, plan: Plan) -> QueryPlacement:
    """The records that carry out the plan of one query, which `planning` has made.

    The plan of a proposal comes before its query, so the first epochs are issued by the leader.
    """
    (figures,) = plan.queries
    epochs = {
        placed.operator: UNISSUED
        for placed in plan.placements
        if planning.flow.fragments[placed.operator].key not in planning.fragments
    }
    return QueryPlacement(
        query=figures.query,
        updated=retimed(planning, epochs),
        created=new_records(planning, plan, epochs),
        figures=msgspec.convert(figures, PlanFigures, from_attributes=True),
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
            functions=dict(planning.flow.fragments[placed.operator].functions),
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
        and record.key not in planning.reconstructed
        and record.timing != running.timing
    )
