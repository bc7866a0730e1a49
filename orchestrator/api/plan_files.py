"""Plans of moves as documents: planned, applied exactly, taken back, and followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orchestrator.api.connection import Cluster
from orchestrator.api.moving import carry_out
from orchestrator.api.proposals import ProposalClient
from orchestrator.control.decide.plan_files import drifted
from orchestrator.errors import InvalidInput, Outdated, Refused
from orchestrator.progress import Progress, silent
from orchestrator.records import (
    ApplyPlanRequest,
    MovePlan,
    MoveStep,
    PlanFile,
    RebalanceLimits,
    RebalanceRequest,
    UndoRequest,
)
from orchestrator.results.moves import (
    MovePlansDocument,
    MovePlanStatus,
    MovesDocument,
    MoveStepStatus,
)
from orchestrator.store.protocol import MOVES, Store

ATTEMPTS = 3
"""How often a plan is looked at again of which something changes as it is consented to."""


def rebalance(
    cluster: Cluster,
    goals: tuple[str, ...] = (),
    limits: RebalanceLimits | None = None,
    on_progress: Progress = silent,
) -> PlanFile:
    """The moves that are worth it. Changes nothing.

    Raises
    ------
    InvalidInput
        There is no such goal, query or node.
    Unreachable
        Nobody leads.
    """
    wish = RebalanceRequest(goals=goals, limits=limits or RebalanceLimits())
    return _planned(cluster, wish, on_progress)


def undo(cluster: Cluster, plan: str | None = None, on_progress: Progress = silent) -> PlanFile:
    """The way back of a plan of moves. Changes nothing.

    Parameters
    ----------
    plan
        Its name. None: the newest that has moved something, is no way back itself, and was not
        taken back.

    Raises
    ------
    InvalidInput
        There is no such plan.
    Refused
        It is under way.
    Unreachable
        Nobody leads.
    """
    plans = _plans(cluster.store)
    if plan is None:
        found = next(
            (
                each
                for each in plans.values()
                if each.undo_of is None
                and _taken_back_by(each.name, plans) is None
                and any(step.done for step in each.steps)
            ),
            None,
        )
        if found is None:
            problem = "there is no plan of moves to take back"
            raise InvalidInput("", "plan", None, problem, "`vivace moves` lists them.")
    elif (found := plans.get(plan)) is None:
        problem = "is no plan of moves that is known"
        raise InvalidInput("", "plan", plan, problem, "`vivace moves` lists them.")
    return _planned(cluster, UndoRequest(plan=found), on_progress)


def apply_plan(
    cluster: Cluster,
    wish: ApplyPlanRequest,
    *,
    dry_run: bool = False,
    wait: bool = True,
    on_progress: Progress = silent,
) -> MovesDocument:
    """Carry out exactly this plan.

    Parameters
    ----------
    dry_run
        Compare it with what there is now, but change nothing.
    wait
        Until it has ended.

    Raises
    ------
    Drifted
        It no longer holds; nothing was changed.
    InvalidInput
        It is no plan of this cluster, or was changed.
    Unreachable
        Nobody leads.
    """
    for _ in range(ATTEMPTS):
        try:
            return carry_out(cluster, wish, dry_run, wait, on_progress)
        except Outdated as error:
            # The leader then says exactly what has changed, unless that does not matter.
            if type(error) is not Outdated:
                raise
    raise drifted([("the cluster", "as planned", "changes all the time")])


def move_plans(cluster: Cluster) -> MovePlansDocument:
    """Plans of moves under way and ended, the newest first, with how far they are."""
    plans = _plans(cluster.store)
    return MovePlansDocument(plans=tuple(_status(each, plans) for each in plans.values()))


def _planned(
    cluster: Cluster, wish: RebalanceRequest | UndoRequest, on_progress: Progress
) -> PlanFile:
    with ProposalClient(cluster.store, on_progress, cluster.by) as client:
        file = client.ask(wish).file
    if file is None:
        problem, remedy = "was answered by another version", "Update the coordinators."
        raise Refused("the plan", "leader", None, problem, remedy, {})
    return file


def _plans(store: Store) -> dict[str, MovePlan]:
    """All plans by name, the newest first: from their records, and from the history."""
    found = {name: each.record for name, each in store.list(MOVES).records.items()}
    for entry in store.history():
        if (ended := entry.event.moves) is not None:
            found.setdefault(ended.name, ended)
    plans = sorted(found.values(), key=lambda each: (-each.submitted_us, each.name))
    return {each.name: each for each in plans}


def _taken_back_by(name: str, plans: Mapping[str, MovePlan]) -> str | None:
    """The way back that is under way, or was gone to its end and not taken back itself."""
    return next(
        (
            each.name
            for each in plans.values()
            if each.undo_of == name
            and (each.ended_us is None or all(step.done for step in each.steps))
            and _taken_back_by(each.name, plans) is None
        ),
        None,
    )


def _status(plan: MovePlan, plans: Mapping[str, MovePlan]) -> MovePlanStatus:
    steps = tuple(_steps(plan))
    sizes = [each.state_bytes for each in steps]
    known = [size for size in sizes if size is not None]
    return MovePlanStatus(
        name=plan.name,
        under_way=plan.ended_us is None,
        outcome=plan.outcome,
        by=plan.by,
        submitted_us=plan.submitted_us,
        ended_us=plan.ended_us,
        at_a_time=plan.at_a_time,
        keep_going=plan.keep_going,
        throttle_bytes_s=plan.throttle_bytes_s,
        undo_of=plan.undo_of,
        undone_by=_taken_back_by(plan.name, plans),
        digest=plan.digest,
        moved_bytes=sum(each.moved_bytes for each in steps),
        state_bytes=sum(known) if len(known) == len(sizes) else None,
        steps=steps,
    )


def _steps(plan: MovePlan) -> Iterator[MoveStepStatus]:
    for step in plan.steps:
        yield MoveStepStatus(
            fragment=step.fragment,
            role=step.role,
            node=step.node,
            was=step.was,
            outcome=_outcome(step),
            problem=step.failed,
            # Hosts report every second or two how much they have sent.
            moved_bytes=max(step.moved_bytes, (step.state_bytes or 0) if step.done else 0),
            state_bytes=step.state_bytes,
        )


def _outcome(step: MoveStep) -> str:
    if step.failed is not None:
        return "failed"
    return "done" if step.done else "planned" if step.begun_us is None else "begun"
