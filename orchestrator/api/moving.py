"""Moving replicas on purpose: switchover, move, drain; and cordons, which keep nodes free.

Moves are a wish. The leader checks and proposes them; once a client has consented, it carries them
out, whatever becomes of the client.
"""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.api.proposals import ProposalClient
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.named import (
    check_node,
    cordon_ends,
    cordon_to_write,
    fragment_named,
)
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.errors import InvalidInput, Unreachable
from orchestrator.progress import Progress, silent
from orchestrator.records import (
    ApplyPlanRequest,
    DrainRequest,
    HistoryEvent,
    MoveRequest,
    MoveStep,
    PlannedMove,
    SwitchRequest,
)
from orchestrator.results.moves import CordonDocument, MoveDocument, MovesDocument
from orchestrator.store.overtaken import until_not_overtaken
from orchestrator.store.protocol import CORDONS, FRAGMENTS, LEADER, MOVES, Store

LOOK_EVERY_S = 0.1

STARTED_TIMEOUT_S = 15.0
"""How long nothing at all may happen to a plan of moves: a new leader may have to be elected."""

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

    def change() -> bool:
        view = read_view(store)
        check_node(view, node)
        wanted = cordon_to_write(view, node, for_s, cluster_now_us(view.cluster_clocks))
        if wanted is not None and not dry_run:
            record, detail = wanted
            if (found := view.cordons.get(node)) is None:
                store.create(CORDONS.key(node), record)
            else:
                store.update(CORDONS.key(node), record, found.version)
            _note(cluster, view, "cordoned", node, detail)
        return wanted is not None

    changed = until_not_overtaken(CORDONS.key(node).path, change)
    return CordonDocument(
        node=node,
        cordoned=not (dry_run and changed),
        changed=changed,
        replicas=_on(store, node),
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

    def change() -> tuple[bool, bool]:
        view = read_view(store)
        if node not in view.cordoned:
            check_node(view, node)
        changes = node in view.cordoned and (lasting or cordon_ends(view, node))
        if changes and not dry_run:
            for name, moves in view.moves.items():
                if moves.record.drains == node and moves.record.ended_us is None:
                    _withdraw(store, name)
            found = view.cordons.get(node) or view.broken(CORDONS)[node]
            store.delete(CORDONS.key(node), found.version)
            _note(cluster, view, "uncordoned", node, "it may be used again")
        return node in view.cordoned, changes

    cordoned, changed = until_not_overtaken(CORDONS.key(node).path, change)
    return CordonDocument(
        node=node,
        cordoned=cordoned and (dry_run or not changed),
        changed=changed,
        replicas=_on(store, node),
    )


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
    Unreachable
        Nobody leads.
    """
    return carry_out(cluster, SwitchRequest(fragment=fragment), dry_run, wait, on_progress)


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
    Unreachable
        Nobody leads.
    """
    if role not in ("primary", "secondary"):
        raise InvalidInput("", "role", role, "is no role", "primary or secondary.")
    wish = MoveRequest(fragment=fragment, role=role, node=node)
    return carry_out(cluster, wish, dry_run, wait, on_progress)


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
    Unreachable
        Nobody leads.
    """
    wish = DrainRequest(node=node, at_a_time=at_a_time, cordon_s=for_s)
    return carry_out(cluster, wish, dry_run, wait, on_progress)


def withdraw(cluster: Cluster, fragment: str) -> tuple[str, ...]:
    """Take back the moves of a fragment that are under way; returns the names of their plans.

    Raises
    ------
    InvalidInput
        There is no such fragment, or nothing moves it.
    """
    view = read_view(cluster.store)
    record = fragment_named(view, fragment)
    names = tuple(
        name
        for name, found in sorted(view.moves.items())
        if found.record.ended_us is None
        and any(step.fragment == record.key for step in found.record.steps)
    )
    if not names:
        raise InvalidInput("", "fragment", fragment, "is not being moved", "")
    for name in names:
        _withdraw(cluster.store, name)
    return names


def carry_out(
    cluster: Cluster,
    wish: SwitchRequest | MoveRequest | DrainRequest | ApplyPlanRequest,
    dry_run: bool,
    wait: bool,
    on_progress: Progress,
) -> MovesDocument:
    """Ask the leader, consent to the moves that it proposes, and see them through.

    Raises
    ------
    InvalidInput, Refused
        As the leader says.
    Unreachable
        Nobody leads.
    """
    store = cluster.store
    with ProposalClient(store, on_progress, cluster.by) as client:
        planned = client.ask(wish).moves
        assert planned is not None
        if not dry_run:
            client.consent()
    if dry_run or not planned.moves:
        return MovesDocument(
            name=None,
            moves=tuple(_outcome(each, None) for each in planned.moves),
            cordoned=planned.drains,
            done=not planned.moves,
        )
    steps = _await_end(store, planned.name, on_progress) if wait else ()
    moves = tuple(
        _outcome(each, steps[number] if steps else None)
        for number, each in enumerate(planned.moves)
    )
    return MovesDocument(
        name=planned.name,
        moves=moves,
        cordoned=planned.drains,
        remaining=() if planned.drains is None or not wait else _on(store, planned.drains),
        done=bool(steps) and all(step.done for step in steps),
    )


def _outcome(planned: PlannedMove, step: MoveStep | None) -> MoveDocument:
    here = all(before == after for before, after in (planned.primary, planned.secondary))
    failed = None if step is None else step.failed
    if here and failed is None:
        outcome = "unchanged"
    elif step is None or not (step.settled or step.begun_us is not None):
        outcome = "planned"
    else:
        outcome = "failed" if failed is not None else "done" if step.done else "begun"
    return MoveDocument(outcome=outcome, problem=failed, **msgspec.structs.asdict(planned))


def _await_end(store: Store, name: str, on_progress: Progress) -> tuple[MoveStep, ...]:
    """The steps of a plan of moves, once each is settled.

    Raises
    ------
    Unreachable
        No leader takes the plan up.
    """
    steps: tuple[MoveStep, ...] = ()
    changed_s = time.monotonic()
    while (found := store.get(MOVES.key(name))) is not None:
        if found.record.steps != steps:
            steps, changed_s = found.record.steps, time.monotonic()
        settled = f"{sum(step.settled for step in steps)} of {len(steps)} done"
        if found.record.ended_us is not None:
            on_progress("moving", settled)
            break
        current = ", ".join(s.fragment for s in steps if s.begun_us and not s.settled)
        on_progress("moving", f"{settled}; {current or 'waiting'}")
        waits_s = time.monotonic() - changed_s
        if waits_s > STARTED_TIMEOUT_S and store.get(LEADER) is None:
            raise Unreachable(
                "A coordinator",
                "the cluster",
                f"has not taken up the moves within {STARTED_TIMEOUT_S:g} s",
                "The next leader will; `vivace history` tells.",
            )
        time.sleep(LOOK_EVERY_S)
    return steps


def _withdraw(store: Store, name: str) -> None:
    """Have a plan withdrawn, whatever the leader writes meanwhile."""

    def change() -> None:
        found = store.get(MOVES.key(name))
        if found is not None and found.record.ended_us is None:
            record = msgspec.structs.replace(found.record, withdrawn=True)
            store.update(MOVES.key(name), record, found.version)

    until_not_overtaken(MOVES.key(name).path, change)


def _on(store: Store, node: str) -> tuple[str, ...]:
    """Fragments with a replica on a node."""
    fragments = store.list(FRAGMENTS).records
    return tuple(key for key, found in sorted(fragments.items()) if found.record.runs_on(node))


def _note(cluster: Cluster, view: ClusterView, kind: str, subject: str, detail: str) -> None:
    at_us = cluster_now_us(view.cluster_clocks)
    event = HistoryEvent(at_us=at_us, kind=kind, subject=subject, detail=detail, by=cluster.by)
    cluster.store.append_history(event)
