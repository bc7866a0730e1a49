"""Queries that have no place yet: a submitted plan is carried out if it holds, else one is made.

Sub-deadlines of fragments that run are written before the records of new fragments: should another
change come first, all of it is decided again. A submitted plan is deleted after its records are
written, or before the leader's own plan is. So every prefix of the writes is legal, and a successor
finds either the plan or what it was to make.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.control.dataflow import InvalidQuery
from orchestrator.control.decision import PendingDecision
from orchestrator.control.planning.network import MIN_EXECUTORS, settled
from orchestrator.control.planning.planner import order
from orchestrator.control.proposals import changes_since, propose
from orchestrator.records import FragmentRecord, PlanRecord
from orchestrator.store.protocol import PLANS
from placement.errors import PlacementError
from placement.records import Plan

PLANNED_AGAIN = "planned again"
"""Kind of the event that says why a submitted plan was not carried out."""


def place_new(pending: PendingDecision) -> None:
    """Place every query that lacks fragments, and delete plans that nobody waits for."""
    view = pending.view
    flow = view.dataflow
    missing = [
        query
        for query in order(flow, {fragment.query for fragment in flow.fragments.values()})
        if any(fragment.key not in pending.fragments for fragment in flow.of(query))
    ]
    known = len(view.executors) >= MIN_EXECUTORS and settled(view.hosts)
    if missing and not known:
        pending.problems.append(f"queries {', '.join(missing)} wait until the network is known")
    placed = [query for query in missing if known]
    for query in placed:
        _place(pending, query)
    patience_us = pending.settings.submission_grace_us
    for query, found in view.plans.items():
        awaited = query not in view.queries and pending.now_us < (
            found.record.submitted_us + patience_us
        )
        if not awaited and query not in missing:
            pending.write(PLANS.key(query), None, found.version)
    for broken in view.invalid:
        folder, _, name = broken.path.rpartition("/")
        if folder.endswith(PLANS.path):
            pending.write(PLANS.key(name), None, broken.version)


def plan_query(pending: PendingDecision, query: str, *, relax: bool) -> Plan | None:
    """Plan a query, or note why that cannot be done.

    Parameters
    ----------
    relax
        Whether to disregard deadline and bound if they cannot be kept.
    """
    for relaxed in (False, True) if relax else (False,):
        try:
            return pending.planning.place(query, relaxed=relaxed)
        except (PlacementError, InvalidQuery) as error:
            pending.problems.append(str(error))
    return None


def put_retimed(pending: PendingDecision, records: Iterable[FragmentRecord]) -> None:
    """Write fragments that run with the sub-deadlines that a plan has given them."""
    for record in records:
        before = pending.fragments[record.key]
        if record != before:
            detail = (
                f"{before.timing.sub_deadline_ms:.3g} → {record.timing.sub_deadline_ms:.3g} ms, "
                "for a query that shares its stream"
            )
            pending.put_fragment(record, pending.event("sub-deadline changed", record.key, detail))


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
        f"latency {figures.latency_ms:.1f} of {figures.deadline_ms:g} ms, "
        f"recovery {figures.recovery_ms:.1f} of {figures.bound_ms:g} ms",
    )
    put_retimed(pending, plan.updated)
    # Another leader may have begun to carry the plan out.
    created = [record for record in plan.created if pending.fragments.get(record.key) != record]
    for record in created:
        pending.put_fragment(record, event if record is created[-1] else None)
