"""Moves that nobody asks for: what the leader proposes by itself, and when it makes them.

The leader is a client of itself. It writes a request, which is answered beside its decisions like
any other (`orchestrator.control.answering`); from the answer it makes the one proposal of moves
(`/proposal`) that people may look at and apply. If it is to apply moves itself, it asks for the
proposal to be carried out, and consents. Each step follows from records alone, so another leader
goes on where one has stopped.

    there is                                      what is written
    reasons, and nothing else under way           the request to look for moves
    its answer with moves                         the proposal, in place of the one before
    its answer without                            nothing would be worth it: the proposal ends
    a proposal that is to be applied              the request to apply it
    its answer with moves                         the consent
    its answer without, or what has become of it  nothing more; the proposal ends if it was refused
    a proposal that has drifted or is too old     it ends
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.plan_files import differences
from orchestrator.control.decide.steadiness import AUTOMATION, HOUR_US
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import (
    ApplyPlanRequest,
    AutomaticRequest,
    AutomationMode,
    PlanFile,
    ProposalRecord,
    ProposedMoves,
    RebalanceLimits,
    RebalancePlan,
    RequestRecord,
    Wish,
)
from orchestrator.store.protocol import PROPOSAL, PROPOSALS, REQUESTS, Versioned

PROPOSED, OVER = "moves proposed", "proposal ended"
"""Kinds of events."""

REQUEST, ANSWER = REQUESTS.key(AUTOMATION), PROPOSALS.key(AUTOMATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveBudget:
    """Moves, and bytes of state; None: any number."""

    moves: int
    bytes: float | None

    def covers(self, plan: RebalancePlan) -> bool:
        """Whether its moves are within it; states of unknown size count as its search took them."""
        shipped = sum(each.bytes_to_ship for each in plan.moves)
        return len(plan.moves) <= self.moves and (self.bytes is None or shipped <= self.bytes)


def spent(view: ClusterView, now_us: int) -> MoveBudget:
    """What was moved within the last hour without being asked for, or will be now."""
    steps = [
        step
        for found in view.moves.values()
        if found.record.by == AUTOMATION
        for step in found.record.steps
        if now_us - (now_us if step.begun_us is None else step.begun_us) < HOUR_US
        and not (step.begun_us is None and step.settled)
    ]
    shipped = sum(max(step.moved_bytes, step.state_bytes or 0.0) for step in steps)
    return MoveBudget(moves=len(steps), bytes=shipped)


def left(view: ClusterView, now_us: int) -> MoveBudget:
    """What may still be moved without being asked for."""
    settings, used = view.automation, spent(view, now_us)
    most = settings.bytes_an_hour
    return MoveBudget(
        moves=max(settings.moves_an_hour - used.moves, 0),
        bytes=None if most is None else max(most - (used.bytes or 0.0), 0.0),
    )


def automate(pending: PendingDecision) -> None:
    """Take the next step, if there is one."""
    view, now_us = pending.view, pending.now_us
    for broken in view.invalid:
        if broken.path.rpartition("/")[2] == PROPOSAL.path:
            pending.write(PROPOSAL, None, broken.version)
            return
    if view.proposed is not None and (why := _over(pending, view.proposed.record)) is not None:
        _end(pending, view.proposed, why)
        return
    resting = view.automation.rests(now_us)
    if (asked := view.requests.get(AUTOMATION)) is not None:
        answer = view.proposals.get(AUTOMATION)
        is_answered = answer is not None and answer.record.request == asked.created
        if answer is not None and is_answered:
            may_move = view.automation.bars_moves(now_us) is None
            _go_on(pending, asked, answer, may_move=may_move)
        elif resting is not None:
            pending.write(REQUEST, None, asked.version)
        return
    if resting is not None or any(found.record.ended_us is None for found in view.moves.values()):
        return
    budget = left(view, now_us)
    if view.occasions and budget.moves:
        limits = RebalanceLimits(max_moves=budget.moves, max_bytes=budget.bytes)
        wish = AutomaticRequest(limits=limits, reasons=view.occasions, asked_us=now_us)
        _ask(pending, wish)
    elif view.proposed is not None and view.automation.mode is AutomationMode.APPLY:
        plan = view.proposed.record.file
        if plan.rebalancing is not None and budget.covers(plan.rebalancing):
            _ask(pending, ApplyPlanRequest(plan=plan))


def _ask(pending: PendingDecision, wish: Wish) -> None:
    pending.write(REQUEST, RequestRecord(wish=wish, by=AUTOMATION), None)


def _over(pending: PendingDecision, proposed: ProposedMoves) -> str | None:
    """Why a proposal ends; None: it stands."""
    made = next(
        (
            name
            for name, found in pending.view.moves.items()
            if found.record.digest == proposed.file.digest
            and found.record.submitted_us >= proposed.made_us
        ),
        None,
    )
    if made is not None:
        return f"it is carried out as {made}"
    if pending.view.automation.mode is AutomationMode.OFF:
        return "automation is off"
    changed = next(differences(pending.planning, proposed.file.basis), None)
    if changed is not None:
        return "{} was {}, and is {}".format(*changed)
    if pending.now_us >= proposed.until_us:
        return f"nobody has applied it within {(proposed.until_us - proposed.made_us) / 60e6:g} min"
    return None


def _end(pending: PendingDecision, proposed: Versioned[ProposedMoves], why: str) -> None:
    event = pending.event(OVER, proposed.record.file.digest, why)
    pending.write(PROPOSAL, None, proposed.version, event)


def _go_on(
    pending: PendingDecision,
    asked: Versioned[RequestRecord],
    answer: Versioned[ProposalRecord],
    *,
    may_move: bool,
) -> None:
    """What follows from an answer."""
    found, wish, proposed = answer.record, asked.record.wish, pending.view.proposed
    if isinstance(wish, AutomaticRequest):
        if found.file is not None and found.file.moves:
            _propose(pending, found.file, wish)
        elif found.refusal is None and proposed is not None:
            _end(pending, proposed, "nothing would be worth it any more")
    elif found.refusal is not None and proposed is not None:
        _end(pending, proposed, found.refusal.problem)
    elif found.moves is not None and may_move and not found.consented:
        pending.write(ANSWER, msgspec.structs.replace(found, consented=True), answer.version)
        return
    elif found.consented and not (found.created or found.changed):
        return
    pending.write(REQUEST, None, asked.version)


def _propose(pending: PendingDecision, plan: PlanFile, wish: AutomaticRequest) -> None:
    record = ProposedMoves(file=plan, reasons=wish.reasons, made_us=pending.now_us)
    before = pending.view.proposed
    version = None if before is None else before.version
    event = pending.event(PROPOSED, plan.digest, told_of(record))
    pending.write(PROPOSAL, record, version, event)


def told_of(proposed: ProposedMoves) -> str:
    """A proposal in one line, with its figures."""
    moves, plan = proposed.file.moves, proposed.file.rebalancing
    sizes = [each.state_bytes for each in moves]
    shipped = "an unknown number of"
    if None not in sizes:
        shipped = f"{sum(size or 0.0 for size in sizes):,.0f}"
    parts = [f"{len(moves)} {'move' if len(moves) == 1 else 'moves'} of {shipped} bytes"]
    if plan is not None:
        before, after = plan.cost_bytes
        gain, price, uncertainty = (
            sum(values)
            for values in zip(
                *((e.gain_bytes, e.price_bytes, e.uncertainty_bytes) for e in plan.changes),
                strict=True,
            )
        )
        parts.append(f"cost {before:,.0f} → {after:,.0f} bytes")
        parts.append(f"gain {gain:,.0f}, price {price:,.0f}, uncertainty {uncertainty:,.0f} bytes")
        parts += [
            f"{each.fragment} {each.role} → {each.target} takes back {each.undoes}"
            for each in plan.moves
            if each.undoes
        ]
    return f"{'; '.join(parts)}; because {', '.join(proposed.reasons)}"
