"""Moves that clients ask for: whether they may be made, and with which figures.

They are checked one after the other, by the rules by which each is checked again before it begins
(`orchestrator.control.planning.relocation`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from orchestrator.control.decide.drain import drain_steps
from orchestrator.control.decide.move_steps import Places, after, reason
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.observe.named import check_node, fragment_named
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import relocate
from orchestrator.errors import Refused
from orchestrator.records import (
    DrainRequest,
    FragmentRecord,
    MoveRequest,
    MoveStep,
    PlannedMove,
    PlannedMoves,
    SwitchRequest,
)
from placement.errors import PlacementError
from placement.records import Plan


def plan_moves(
    view: ClusterView, wish: SwitchRequest | MoveRequest | DrainRequest, number: int
) -> PlannedMoves:
    """The moves that a wish consists of.

    Parameters
    ----------
    number
        Of the request: tells its plan of moves apart from others.

    Raises
    ------
    InvalidInput
        There is no such fragment or node.
    Refused
        It would break a promise, or there is no warm secondary; of a drain: some replica cannot go
        anywhere.
    """
    match wish:
        case DrainRequest():
            check_node(view, wish.node)
            steps, stuck = drain_steps(Planning.of(view), wish.node)
            if stuck:
                key, problem = next(iter(stuck.items()))
                problem = f"{key} cannot leave: {problem}"
                raise _refused(f"drain of {wish.node}", "node", wish.node, problem)
            return PlannedMoves(
                name=f"{wish.node}-{number}",
                moves=checked(view, steps),
                at_a_time=wish.at_a_time,
                keep_going=True,
                drains=wish.node,
                cordon_s=wish.cordon_s,
            )
        case MoveRequest():
            key = fragment_named(view, wish.fragment).key
            check_node(view, wish.node)
            step = MoveStep(fragment=key, role=wish.role, node=wish.node)
        case SwitchRequest():
            record = fragment_named(view, wish.fragment)
            key = record.key
            if record.secondary is None:
                problem = "it has no secondary at present"
                raise _refused(f"move of {key}", "secondary", None, problem)
            step = MoveStep(fragment=key, role="primary", node=record.secondary.node)
    return PlannedMoves(name=f"{key}-{number}", moves=checked(view, (step,)))


def checked(view: ClusterView, steps: Sequence[MoveStep]) -> tuple[PlannedMove, ...]:
    """Moves with their figures, each after those before it.

    Raises
    ------
    Refused
        One would break a promise.
    """
    planning = Planning.of(view)
    found: list[PlannedMove] = []
    for step in steps:
        record = planning.fragments.get(step.fragment)
        if record is None:
            subject = f"move of {step.fragment}"
            raise _refused(subject, "fragment", step.fragment, "it is not there")
        found.append(_planned(planning, record, step))
        _, primary = found[-1].primary
        _, secondary = found[-1].secondary
        moved = msgspec.structs.replace(
            record,
            primary=view.replica(primary),
            secondary=view.replica(secondary),
            timing=planning.running[record.fragment].timing,
        )
        planning.note(moved)
    return tuple(found)


def _planned(planning: Planning, record: FragmentRecord, step: MoveStep) -> PlannedMove:
    view, subject = planning.view, f"move of {step.fragment}"
    if record.stopped is not None:
        raise _refused(subject, step.role, step.node, f"it is stopped: {record.stopped}")
    places = after(record, step)
    if places is None or not view.protected(view.fragments[step.fragment].record):
        problem = "it has no warm secondary at present; `vivace status` tells why"
        raise _refused(subject, "secondary", None, problem)
    try:
        made = relocate(planning, step.fragment, places.primary, places.secondary)
    except (PlacementError, InvalidQuery) as error:
        raise _refused(subject, step.role, step.node, reason(error)) from None
    assert record.secondary is not None
    before, now = made.before[0], made.after[0]
    return PlannedMove(
        fragment=step.fragment,
        role=step.role,
        node=step.node,
        primary=(record.primary.node, places.primary),
        secondary=(record.secondary.node, places.secondary),
        recovery_ms=(_recovery(before, record), _recovery(now, record)),
        bound_ms=now.queries[0].bound_ms,
        latency_ms=(before.queries[0].latency_ms, now.queries[0].latency_ms),
        deadline_ms=now.queries[0].deadline_ms,
        state_bytes=_state_bytes(view, record, places),
    )


def _state_bytes(view: ClusterView, record: FragmentRecord, places: Places) -> float | None:
    """Of the state that goes along; None: nobody knows."""
    if {places.primary, places.secondary} <= {each.node for each in record.replicas}:
        return 0.0
    return view.state_bytes(view.fragments[record.key].record)


def _recovery(plan: Plan, record: FragmentRecord) -> float:
    return next(p.recovery_ms for p in plan.placements if p.operator == record.fragment)


def _refused(subject: str, field: str, value: object, problem: str) -> Refused:
    return Refused(subject, field, value, problem.rstrip("."), "", {})
