"""Moving replicas on purpose: switchover, move, drain; and cordons, which keep nodes free.

Everything is checked before anything is written, by the same rules as the leader's, which checks
again before each step. What is written is a wish (`MovePlan`); the leader carries it out, whatever
becomes of the client.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from foundation.suggestions import nearest
from orchestrator.api.connection import Cluster
from orchestrator.control.decide.drain import drain_steps
from orchestrator.control.decide.moving import after
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import MoveRefused, relocate
from orchestrator.errors import InvalidInput, Refused, Unreachable
from orchestrator.progress import Progress, silent
from orchestrator.records import (
    CordonRecord,
    FragmentRecord,
    HistoryEvent,
    MovePlan,
    MoveStep,
    NodeKind,
)
from orchestrator.results.moves import CordonDocument, MoveDocument, MovesDocument
from orchestrator.store.protocol import CORDONS, LEADER, MOVES, Store, VersionConflict, Versioned
from placement.errors import PlacementError
from placement.records import Plan

LOOK_EVERY_S = 0.1

STARTED_TIMEOUT_S = 15.0
"""How long nothing at all may happen to a plan of moves: a new leader may have to be elected."""

ATTEMPTS = 8
"""Attempts to change a record that the leader writes too."""

Role = Literal["primary", "secondary"]


def cordon(
    cluster: Cluster, node: str, *, dry_run: bool = False, for_s: float | None = None
) -> CordonDocument:
    """Have nothing new placed on a node. What runs there stays, and may still take over.

    Parameters
    ----------
    for_s
        When the cordon ends by itself; None: it does not, although it once was to.

    Raises
    ------
    InvalidInput
        There is no such node.
    """
    store = cluster.store
    view = read_view(store)
    _check_node(view, node)
    found = view.cordons.get(node)
    changed = node not in view.cordoned or (for_s is None and _ends(found))
    if changed and not dry_run:
        now_us = cluster_now_us(view.cluster_clocks)
        until_us = None if for_s is None else now_us + round(for_s * 1e6)
        record = CordonRecord(node=node, since_us=now_us, until_us=until_us)
        if found is None:
            store.create(CORDONS.key(node), record)
        else:
            store.update(CORDONS.key(node), record, found.version)
        most = "" if for_s is None else f", for {for_s:g} s at most"
        _note(store, view, "cordoned", node, f"nothing new is placed there{most}")
    return CordonDocument(
        node=node, cordoned=not dry_run or not changed, changed=changed, replicas=_on(view, node)
    )


def uncordon(
    cluster: Cluster, node: str, *, dry_run: bool = False, lasting: bool = True
) -> CordonDocument:
    """Let a node be used again. A drain of it that is under way is withdrawn.

    Parameters
    ----------
    lasting
        Whether a cordon that does not end by itself is taken away, too.

    Raises
    ------
    InvalidInput
        There is no such node, and no cordon of one.
    """
    store = cluster.store
    view = read_view(store)
    if node not in view.cordoned:
        _check_node(view, node)
    found = view.cordons.get(node)
    changed = node in view.cordoned and (lasting or _ends(found))
    if changed and not dry_run:
        for name, moves in view.moves.items():
            if moves.record.drains == node and moves.record.ended_us is None:
                _withdraw(store, name)
        version = view.broken(CORDONS)[node].version if found is None else found.version
        store.delete(CORDONS.key(node), version)
        _note(store, view, "uncordoned", node, "it may be used again")
    return CordonDocument(
        node=node,
        cordoned=node in view.cordoned and (dry_run or not changed),
        changed=changed,
        replicas=_on(view, node),
    )


def _ends(found: Versioned[CordonRecord] | None) -> bool:
    """Whether there is a cordon that ends by itself."""
    return found is not None and found.record.until_us is not None


def switch(
    cluster: Cluster,
    fragment: str,
    *,
    dry_run: bool = False,
    wait: bool = True,
    on_progress: Progress = silent,
) -> MovesDocument:
    """Have primary and secondary of a fragment change roles.

    Raises
    ------
    InvalidInput
        There is no such fragment.
    Refused
        It would break a promise, or there is no warm secondary.
    """
    view = read_view(cluster.store)
    record = _fragment(view, fragment)
    if record.secondary is None:
        raise _refusal(record.key, "secondary", None, "it has no secondary at present")
    step = MoveStep(fragment=record.key, role="primary", node=record.secondary.node)
    return _carry_out(cluster, view, (step,), dry_run, wait, on_progress)


def move(
    cluster: Cluster,
    fragment: str,
    role: Role,
    node: str,
    *,
    dry_run: bool = False,
    wait: bool = True,
    on_progress: Progress = silent,
) -> MovesDocument:
    """Bring one replica of a fragment to another node.

    Raises
    ------
    InvalidInput
        There is no such fragment, node or role.
    Refused
        It would break a promise.
    """
    view = read_view(cluster.store)
    record = _fragment(view, fragment)
    if role not in ("primary", "secondary"):
        raise InvalidInput("command line", "ROLE", role, "is no role", "primary or secondary.")
    _check_node(view, node)
    step = MoveStep(fragment=record.key, role=role, node=node)
    return _carry_out(cluster, view, (step,), dry_run, wait, on_progress)


def drain(
    cluster: Cluster,
    node: str,
    *,
    at_a_time: int = 1,
    dry_run: bool = False,
    wait: bool = True,
    on_progress: Progress = silent,
    for_s: float | None = None,
) -> MovesDocument:
    """Cordon a node, and bring every replica on it to other nodes.

    Parameters
    ----------
    for_s
        When the cordon ends by itself.

    Raises
    ------
    InvalidInput
        There is no such node.
    Refused
        Some replica cannot go anywhere; nothing is changed then.
    """
    view = read_view(cluster.store)
    _check_node(view, node)
    planning = _planning(view)
    steps, stuck = drain_steps(planning, node)
    if stuck:
        subject, problem = next(iter(stuck.items()))
        raise _refusal(subject, "node", node, problem, f"drain of {node}")
    return _carry_out(
        cluster,
        view,
        steps,
        dry_run,
        wait,
        on_progress,
        drains=node,
        at_a_time=at_a_time,
        for_s=for_s,
    )


def withdraw(cluster: Cluster, fragment: str) -> tuple[str, ...]:
    """Take back the moves of a fragment that are under way; returns the names of their plans.

    Raises
    ------
    InvalidInput
        There is no such fragment, or nothing moves it.
    """
    view = read_view(cluster.store)
    record = _fragment(view, fragment)
    names = tuple(
        name
        for name, found in sorted(view.moves.items())
        if found.record.ended_us is None
        and any(step.fragment == record.key for step in found.record.steps)
    )
    if not names:
        raise InvalidInput("command line", "FRAGMENT", fragment, "is not being moved", "")
    for name in names:
        _withdraw(cluster.store, name)
    return names


def _carry_out(
    cluster: Cluster,
    view: ClusterView,
    steps: Sequence[MoveStep],
    dry_run: bool,
    wait: bool,
    on_progress: Progress,
    *,
    drains: str | None = None,
    for_s: float | None = None,
    at_a_time: int = 1,
) -> MovesDocument:
    """Check the steps one after the other, submit them, and see them through.

    A node that they drain is cordoned once they are found to be legal.
    """
    planned = _checked(view, steps)
    if drains is not None and not dry_run:
        cordon(cluster, drains, for_s=for_s)
    if dry_run or not steps:
        return MovesDocument(name=None, moves=planned, cordoned=drains, done=not steps)
    store = cluster.store
    now_us = cluster_now_us(view.cluster_clocks)
    name = f"{drains or steps[0].fragment}-{now_us}"
    plan = MovePlan(
        name=name, steps=tuple(steps), at_a_time=at_a_time, drains=drains, submitted_us=now_us
    )
    store.create(MOVES.key(name), plan)
    if wait:
        plan = _await_end(store, plan, on_progress)
    moves = tuple(_outcome(each, step) for each, step in zip(planned, plan.steps, strict=True))
    return MovesDocument(
        name=name,
        moves=moves,
        cordoned=drains,
        remaining=() if drains is None or not wait else _on(read_view(store), drains),
        done=all(step.done for step in plan.steps),
    )


def _checked(view: ClusterView, steps: Sequence[MoveStep]) -> tuple[MoveDocument, ...]:
    """The moves with their figures, each after those before it.

    Raises
    ------
    Refused
        One of them would break a promise.
    """
    planning = _planning(view)
    found: list[MoveDocument] = []
    for step in steps:
        record = planning.fragments[step.fragment]
        if record.stopped is not None:
            raise _refusal(step.fragment, step.role, step.node, f"it is stopped: {record.stopped}")
        places = after(record, step)
        if places is None or not view.protected(view.fragments[step.fragment].record):
            problem = "it has no warm secondary at present; `vivace status` tells why"
            raise _refusal(step.fragment, "secondary", None, problem)
        try:
            made = relocate(planning, step.fragment, places.primary, places.secondary)
        except (PlacementError, InvalidQuery) as error:
            problem = error.reason if isinstance(error, MoveRefused) else str(error)
            raise _refusal(step.fragment, step.role, step.node, problem) from None
        assert record.secondary is not None
        here = places.primary == record.primary.node and places.secondary == record.secondary.node
        before, now = made.before[0], made.after[0]
        found.append(
            MoveDocument(
                fragment=step.fragment,
                role=step.role,
                node=step.node,
                outcome="unchanged" if here else "planned",
                primary=(record.primary.node, places.primary),
                secondary=(record.secondary.node, places.secondary),
                recovery_ms=(_recovery(before, record), _recovery(now, record)),
                bound_ms=now.queries[0].bound_ms,
                latency_ms=(before.queries[0].latency_ms, now.queries[0].latency_ms),
                deadline_ms=now.queries[0].deadline_ms,
            )
        )
        moved = msgspec.structs.replace(
            record,
            primary=view.replica(places.primary),
            secondary=view.replica(places.secondary),
            timing=planning.running[record.fragment].timing,
        )
        planning.note(moved)
    return tuple(found)


def _recovery(plan: Plan, record: FragmentRecord) -> float:
    return next(p.recovery_ms for p in plan.placements if p.operator == record.fragment)


def _outcome(planned: MoveDocument, step: MoveStep) -> MoveDocument:
    if planned.outcome == "unchanged" and not step.failed:
        return planned
    outcome = "done" if step.done else "failed" if step.failed else "begun"
    if step.begun_us is None and not step.settled:
        outcome = "planned"
    return msgspec.structs.replace(planned, outcome=outcome, problem=step.failed)


def _await_end(store: Store, plan: MovePlan, on_progress: Progress) -> MovePlan:
    """Wait until every step is settled.

    Raises
    ------
    Unreachable
        No leader takes the plan up.
    """
    seen, changed_s = plan, time.monotonic()
    while True:
        found = store.get(MOVES.key(plan.name))
        if found is None:
            return seen
        if found.record != seen:
            seen, changed_s = found.record, time.monotonic()
        if seen.ended_us is not None:
            return seen
        settled = sum(step.settled for step in seen.steps)
        current = ", ".join(s.fragment for s in seen.steps if s.begun_us and not s.settled)
        on_progress("moving", f"{settled} of {len(seen.steps)} done; {current or 'waiting'}")
        waits_s = time.monotonic() - changed_s
        if waits_s > STARTED_TIMEOUT_S and store.get(LEADER) is None:
            raise Unreachable(
                "A coordinator",
                "the cluster",
                f"has not taken up the moves within {STARTED_TIMEOUT_S:g} s",
                "The next leader will; `vivace history` tells.",
            )
        time.sleep(LOOK_EVERY_S)


def _withdraw(store: Store, name: str) -> None:
    """Have a plan withdrawn, whatever the leader writes meanwhile."""
    for _ in range(ATTEMPTS):
        found = store.get(MOVES.key(name))
        if found is None or found.record.ended_us is not None:
            return
        record = msgspec.structs.replace(found.record, withdrawn=True)
        try:
            store.update(MOVES.key(name), record, found.version)
        except VersionConflict:
            continue
        return
    raise VersionConflict(MOVES.key(name).path, f"was changed by others {ATTEMPTS} times in a row")


def _planning(view: ClusterView) -> Planning:
    return Planning.of(view)


def _fragment(view: ClusterView, name: str) -> FragmentRecord:
    """A fragment by its own name, or with that of its query in front."""
    for key, found in view.fragments.items():
        if name in (key, found.record.fragment):
            return found.record
    known: Mapping[str, object] = {f.record.fragment: f for f in view.fragments.values()}
    hint = nearest(name, known)
    raise InvalidInput("command line", "FRAGMENT", name, "is not a fragment that runs here", hint)


def _check_node(view: ClusterView, node: str) -> None:
    if node in view.executors:
        return
    kind = view.hosts[node].kind if node in view.hosts else None
    if kind is NodeKind.SITE:
        problem = "is a site, which runs no fragment"
    else:
        problem = "is not a live node here"
    raise InvalidInput("command line", "NODE", node, problem, nearest(node, view.executors))


def _on(view: ClusterView, node: str) -> tuple[str, ...]:
    """Fragments with a replica on a node."""
    return tuple(key for key, found in sorted(view.fragments.items()) if found.record.runs_on(node))


def _refusal(
    key: str, field: str, value: object, problem: str, subject: str | None = None
) -> Refused:
    problem = problem if subject is None else f"{key} cannot leave: {problem}"
    return Refused(subject or f"move of {key}", field, value, problem.rstrip("."), "", {})


def _note(store: Store, view: ClusterView, kind: str, subject: str, detail: str) -> None:
    at_us = cluster_now_us(view.cluster_clocks)
    store.append_history(HistoryEvent(at_us=at_us, kind=kind, subject=subject, detail=detail))
