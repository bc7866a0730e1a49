"""Steps of moves, and the way to given places in steps, each of which leaves a legal state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import MoveRefused, Relocation, relocate
from orchestrator.records import FragmentRecord, MoveStep
from placement.errors import PlacementError
from placement.rebalancing.moves import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The nodes of a fragment's primary and secondary."""

    primary: str
    secondary: str

    def __str__(self) -> str:
        return f"{self.primary} and {self.secondary}"


def after(record: FragmentRecord, step: MoveStep) -> Places | None:
    """Where a fragment is once a step is done; None if it has no secondary that could stay."""
    if record.secondary is None:
        return None
    places = Places(primary=record.primary.node, secondary=record.secondary.node)
    return then(places, step)


def then(places: Places, step: MoveStep) -> Places:
    """Places once a step is done."""
    primary, secondary = places.primary, places.secondary
    if step.node in (primary, secondary):
        other = secondary if step.node == primary else primary
        primary, secondary = (step.node, other) if step.role == "primary" else (other, step.node)
    elif step.role == "primary":
        primary = step.node
    else:
        secondary = step.node
    return Places(primary=primary, secondary=secondary)


def steps_to(planning: Planning, record: FragmentRecord, wanted: tuple[str, str]) -> list[MoveStep]:
    """The moves of one fragment to these nodes of primary and secondary, its primary first.

    A replica that is there in the other role changes that, if it may: its state is not shipped.
    """
    assert record.secondary is not None, "a fragment that is protected has a secondary"
    now = (record.primary.node, record.secondary.node)
    steps: list[MoveStep] = []
    if (now[0] == wanted[1] or now[1] == wanted[0]) and _may_switch(planning, record.key, now):
        steps.append(MoveStep(fragment=record.key, role="primary", node=now[1]))
        now = now[::-1]
    if now[0] != wanted[0]:
        steps.append(MoveStep(fragment=record.key, role="primary", node=wanted[0]))
        now = (wanted[0], now[0] if now[1] == wanted[0] else now[1])
    if now[1] != wanted[1]:
        steps.append(MoveStep(fragment=record.key, role="secondary", node=wanted[1]))
    return steps


def _may_switch(planning: Planning, key: str, now: tuple[str, str]) -> bool:
    running = dict(planning.running)
    try:
        relocate(planning, key, *now[::-1])
    except (PlacementError, InvalidQuery):
        return False
    finally:
        planning.running = running
    return True


def relocated(planning: Planning, record: FragmentRecord, step: MoveStep) -> Relocation:
    """Have a step done in the planning problem, but for the fragment's record.

    Raises
    ------
    PlacementError, InvalidQuery
        It may not be done; the planning problem is as before.
    """
    places = after(record, step)
    if places is None:
        problem = "it has no secondary at present"
        raise MoveRefused(record.key, problem, Reason.UNPROTECTED)
    return relocate(planning, record.key, places.primary, places.secondary)


def make(planning: Planning, record: FragmentRecord, step: MoveStep) -> Relocation:
    """Note in the planning problem that a step is done; raises as `relocated`."""
    made = relocated(planning, record, step)
    running = planning.running[record.fragment]
    assert running.secondary is not None
    planning.note(
        msgspec.structs.replace(
            record,
            primary=planning.view.replica(running.primary),
            secondary=planning.view.replica(running.secondary),
            timing=running.timing,
        )
    )
    return made


def reason(error: Exception) -> str:
    """Why a step is refused, without its subject and full stop."""
    return (error.reason if isinstance(error, MoveRefused) else str(error)).rstrip(".")


def in_legal_order(
    planning: Planning, steps: Sequence[MoveStep]
) -> tuple[tuple[MoveStep, ...], tuple[tuple[MoveStep, str], ...]]:
    """Steps in an order in which each may be made after those before it, noted as made.

    Those of one fragment keep their order. Returned, too: the steps for which there is no such
    order, each with the reason.
    """
    left, legal = [*steps], list[MoveStep]()
    refused: dict[str, str] = {}
    while left:
        refused.clear()
        made = None
        for step in left:
            if step.fragment in refused:
                continue
            try:
                make(planning, planning.fragments[step.fragment], step)
            except (PlacementError, InvalidQuery) as error:
                refused[step.fragment] = reason(error)
                continue
            made = step
            break
        if made is None:
            break
        left.remove(made)
        legal.append(made)
    return tuple(legal), tuple((step, refused[step.fragment]) for step in left)
