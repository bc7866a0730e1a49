"""Where the replicas of a node go when it is drained.

Each replica leaves in one move, to the node where the query's traffic costs least among those that
break no promise. A primary that no other node may take changes roles with its secondary first. A
fragment that is stopped runs nowhere: nothing of it leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from orchestrator.control.decide.move_steps import make, reason, relocated
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import MoveRefused
from orchestrator.records import FragmentRecord, MoveStep
from placement.errors import PlacementError
from placement.rebalancing.moves import Reason


def drain_steps(
    planning: Planning, node: str, among: Collection[str] | None = None
) -> tuple[tuple[MoveStep, ...], dict[str, str]]:
    """The moves that leave a node without replicas, and fragments that cannot go → why.

    The moves are noted in the planning problem, so that later ones rest on earlier ones.

    Parameters
    ----------
    among
        The fragments that are to go; None: all.
    """
    steps: list[MoveStep] = []
    stuck: dict[str, str] = {}
    # Producers first: where they are decides where their consumers stand.
    for fragment in planning.flow.fragments.values():
        record = planning.fragments.get(fragment.key)
        if record is None or not record.runs_on(node):
            continue
        if among is not None and record.key not in among:
            continue
        try:
            steps += _leave(planning, record, node)
        except (PlacementError, InvalidQuery) as error:
            stuck[record.key] = reason(error)
    return tuple(steps), stuck


def that_stay(
    fragments: Mapping[str, FragmentRecord], node: str, stuck: Mapping[str, str]
) -> tuple[MoveStep, ...]:
    """What cannot leave a node, as steps that have failed.

    Parameters
    ----------
    stuck
        Keys of fragments → why.
    """
    return tuple(
        MoveStep(
            fragment=key,
            role="primary" if fragments[key].primary.node == node else "secondary",
            node=node,
            failed=why,
        )
        for key, why in sorted(stuck.items())
    )


def _leave(planning: Planning, record: FragmentRecord, node: str) -> list[MoveStep]:
    if record.primary.node != node:
        return [_cheapest(planning, record, node)]
    try:
        return [_cheapest(planning, record, node)]
    except (PlacementError, InvalidQuery):
        if record.secondary is None:
            raise
    switch = MoveStep(fragment=record.key, role="primary", node=record.secondary.node)
    make(planning, record, switch)
    return [switch, _cheapest(planning, planning.fragments[record.key], node)]


def _cheapest(planning: Planning, record: FragmentRecord, node: str) -> MoveStep:
    """The cheapest move of a replica away from a node, which is noted.

    Raises
    ------
    PlacementError, InvalidQuery
        There is none; the reason of the last node that was tried.
    """
    best: tuple[float, str, MoveStep] | None = None
    refused: Exception = MoveRefused(record.key, _nowhere(planning, record), Reason.NOT_THERE)
    for step in _steps(planning, record, node):
        running = dict(planning.running)
        try:
            made = relocated(planning, record, step)
        except (PlacementError, InvalidQuery) as error:
            refused = error
            continue
        finally:
            planning.running = running
        usage = sum(plan.queries[0].network_usage for plan in made.after)
        if best is None or (usage, step.node) < best[:2]:
            best = usage, step.node, step
    if best is None:
        raise refused
    make(planning, record, best[2])
    return best[2]


def _nowhere(planning: Planning, record: FragmentRecord) -> str:
    """Why there is no node to try."""
    view = planning.view
    taken = {replica.node for replica in record.replicas}
    closed = sorted((view.executors.keys() - taken) & view.closed)
    if not closed:
        return "there is no other live node"
    if view.leaving.keys() & set(closed):
        return f"every other live node is cordoned, or leaves ({', '.join(closed)})"
    return f"every other live node is cordoned ({', '.join(closed)}); `vivace uncordon` opens one"


def _steps(planning: Planning, record: FragmentRecord, node: str) -> Iterator[MoveStep]:
    view = planning.view
    taken = {replica.node for replica in record.replicas}
    role = "primary" if record.primary.node == node else "secondary"
    for target in sorted(view.executors.keys() - taken - view.closed):
        if not view.suspected(target):
            yield MoveStep(fragment=record.key, role=role, node=target)
