"""Queries that were placed while nodes of the manifest were missing are placed again with them.

Whoever loses both replicas, or is applied, while nodes are away is placed on those that are there
(`FragmentRecord.lacked`). When the others come back, they would stay idle: nothing that runs is
placed again by itself. So such a query is planned anew once all of its manifest's nodes are there
and measured, or when nothing more of them has come for a while, and its replicas are moved to where
that plan has them, as if an operator had asked for it (`moving`). Until that is done it is a
problem.

A fragment that is stopped runs nowhere, and is not moved.

One query is moved at a time. One whose moves are refused is tried again when the record of that
plan is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.control.decide.beginning import patient
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.move_steps import in_legal_order, steps_to
from orchestrator.control.decide.moving import KEPT_US
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.observe.readiness import names
from orchestrator.control.planning.planner import Planning, order
from orchestrator.records import FragmentRecord, MovePlan, MoveStep
from orchestrator.store.protocol import MOVES, Versioned
from placement.errors import PlacementError
from placement.records import Plan

AT_A_TIME = 2
"""Most fragments that move at once: nodes that have just come have other work to do."""

PLACED_AGAIN, COMPLETE = "placed again", "complete again"
"""Kinds of the events that a query's replicas begin to move, and that a fragment's place was chosen
with all nodes."""

PREFIX = "complete-"
"""Begins the names of these plans."""


def complete(pending: PendingDecision) -> None:
    """Place queries again that were placed without nodes which are there now."""
    view = pending.view
    short: dict[str, list[FragmentRecord]] = {}
    for key, record in pending.fragments.items():
        if record.lacked and record.stopped is None and key in view.fragments:
            short.setdefault(record.query, []).append(record)
    known = {query for query in short if query in view.queries}
    for query in order(view.dataflow, known):
        pending.attempt(
            f"query {query}", lambda query=query: _complete(pending, query, short[query])
        )


def _complete(pending: PendingDecision, query: str, records: Sequence[FragmentRecord]) -> None:
    view = pending.view
    lacked = [*dict.fromkeys(node for record in records for node in record.lacked)]
    absent = [node for node in view.lacked if node in lacked]
    told = f"query {query} was placed without {names(lacked)}"
    moves = _moves(pending, query)
    ended_us = None if moves is None else moves.record.ended_us
    if moves is not None and ended_us is None:
        pending.problems.append(f"{told}; its replicas are moving to where they belong")
    elif moves is not None and all(step.done for step in moves.record.steps):
        _note_complete(pending, records, absent)
        if ended_us is not None and pending.now_us - ended_us < KEPT_US:
            # It must not be taken for the plan of a later time.
            pending.write(MOVES.key(moves.record.name), None, moves.version)
    elif set(lacked) <= set(absent):
        pending.problems.append(
            f"{told}, which the manifest names: it shares the other nodes until they are there. "
            "Start them, or take them out of the Cluster manifest and start the cluster again"
        )
    elif view.incomplete is not None and patient(view.incomplete, pending.now_us):
        pending.problems.append(
            f"{told}; it is placed again once the others are there: {view.incomplete.now}"
        )
    elif moves is not None:
        step = next(step for step in moves.record.steps if step.failed is not None)
        pending.problems.append(
            f"{told}, and was not moved: {step.fragment}: {step.failed}. It is tried again every "
            f"minute; `vivace move {step.fragment.rpartition('.')[2]} {step.role} NODE` moves it "
            "to a node of your choice"
        )
    elif any(_under_way(found) for found in view.moves.values()):
        pending.problems.append(f"{told}; it is placed again when other moves have ended")
    elif all(
        record == view.fragments[record.key].record and view.protected(record) for record in records
    ):
        _place_again(pending, query, records, absent, told)
    else:
        pending.problems.append(f"{told}; it is placed again once it is protected")


def _moves(pending: PendingDecision, query: str) -> Versioned[MovePlan] | None:
    """The last plan of moves that was made here for a query."""
    found = [
        each
        for name, each in pending.view.moves.items()
        if name.startswith(PREFIX) and name.removeprefix(PREFIX).rpartition("-")[0] == query
    ]
    return max(found, key=lambda each: each.record.submitted_us, default=None)


def _under_way(found: Versioned[MovePlan]) -> bool:
    return found.record.ended_us is None


def _place_again(
    pending: PendingDecision,
    query: str,
    records: Sequence[FragmentRecord],
    absent: Sequence[str],
    told: str,
) -> None:
    """Submit the moves to where the query is placed with the nodes that are there now."""
    view = pending.view
    try:
        steps = _steps(Planning.of(view), query, records)
    except (PlacementError, InvalidQuery) as error:
        pending.problems.append(f"{told}, and cannot be placed again: {error}")
        return
    if not steps:
        _note_complete(pending, records, absent)
        return
    pending.problems.append(f"{told}; its replicas are moving to where they belong")
    name = f"{PREFIX}{query}-{pending.now_us}"
    plan = MovePlan(name=name, steps=steps, at_a_time=AT_A_TIME, submitted_us=pending.now_us)
    moved = ", ".join(f"{each.fragment} {each.role} → {each.node}" for each in steps)
    pending.write(MOVES.key(name), plan, None, pending.event(PLACED_AGAIN, query, moved))


def _note_complete(
    pending: PendingDecision, records: Sequence[FragmentRecord], absent: Sequence[str]
) -> None:
    """Note that fragments are placed with all nodes but those that are still absent."""
    for record in records:
        left = tuple(node for node in record.lacked if node in absent)
        found = [node for node in record.lacked if node not in absent]
        detail = f"its place was chosen again with {names(found)}"
        pending.change_fragment(record, COMPLETE, detail, lacked=left)


def _steps(
    planning: Planning, query: str, records: Sequence[FragmentRecord]
) -> tuple[MoveStep, ...]:
    """The moves from where fragments run to where they would be placed now.

    Those that break no promise come first, each after the ones before; the others are left for
    `moving` to refuse, with the reason.

    Raises
    ------
    PlacementError, InvalidQuery
        The query cannot be placed.
    """
    plan = _planned_anew(planning, query, {record.fragment for record in records})
    wanted = {each.operator: (each.primary, each.secondary) for each in plan.placements}
    steps = [s for r in records for s in steps_to(planning, r, wanted[r.fragment])]
    legal, refused = in_legal_order(planning, steps)
    return (*legal, *(step for step, _ in refused))


def _planned_anew(planning: Planning, query: str, fragments: set[str]) -> Plan:
    """Where some fragments of a query would be placed if they did not run and all others did."""
    running = dict(planning.running)
    for name in fragments:
        planning.running.pop(name, None)
    try:
        return planning.place(query)
    except (PlacementError, InvalidQuery):
        # It runs, and late is better than never, as when it was placed.
        planning.running = {n: each for n, each in running.items() if n not in fragments}
        return planning.place(query, relaxed=True)
    finally:
        planning.running = running
