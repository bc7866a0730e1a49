"""Processes that are told to end do so one after the other.

Whatever restarts a cluster tells several processes at once to end: all Spark applications and sites
in a rolling upgrade. Each of them leaves a turn (`TurnRecord`), and waits for the *maintenance
slot*. The leader gives it to the one that has waited longest, once everything is protected:

    the slot        the process     the rest                    what is written
    is free         waits           everything is protected     the slot, which names its hosts
    names it        lives           they leave (`leaving`)      their incarnations; that it may
                                                                end, once nothing can go any more
    names it        has ended                                   that it has
    names it        has ended       its successor's hosts are   the slot is free
                                    there, and everything is
                                    protected
    names it        has ended       10 minutes have passed      the same

The turn is ephemeral, and tells whether the process lives. That of a process that was killed stays
for seconds; it names the hosts that end with it, which are those of no successor. One that waits
for too long ends all the same: what ran there then fails over. A coordinator that ends takes no
turn: it resigns.
"""

from __future__ import annotations

import msgspec

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.leaving import may_end, remaining
from orchestrator.control.decide.stream_sites import is_protected
from orchestrator.control.observe.readiness import names
from orchestrator.control.observe.view import SLOT
from orchestrator.records import SlotRecord, TurnRecord
from orchestrator.store.protocol import FRAGMENTS, MAINTENANCE, MOVES, Versioned

SUCCESSOR_US = 600_000_000
"""How long a process's successor is awaited."""

BEGINS, OVER, GIVEN_UP = "maintenance", "maintenance over", "maintenance given up"
"""Kinds of the events that a process has its turn, that it was replaced, and that it was not."""

BROKEN = "maintenance broken"
"""Kind of the event that somebody has taken the slot from a process."""


def keep_slot(pending: PendingDecision) -> None:
    """Give the slot to the next process, say how far that is, and take it back."""
    view = pending.view
    if view.broken(MAINTENANCE):
        return
    if view.slot is None:
        _grant(pending)
    elif view.slot.record.turn in view.turns:
        _see_off(pending, view.slot)
    else:
        _await_successor(pending, view.slot)


def _grant(pending: PendingDecision) -> None:
    """Give the slot to the process that has waited longest."""
    turns = {n: e for n, e in pending.view.turns.items() if _may_live(pending, e.record)}
    first = min(turns, key=lambda name: turns[name].created, default=None)
    if first is None:
        return
    turn = turns[first].record
    if (why := _unprotected(pending)) is not None:
        pending.problems.append(f"{turn.owner} waits until it may end: {why}")
        return
    slot = SlotRecord(
        turn=first, owner=turn.owner, nodes=turn.nodes, lives=turn.lives,
        since_us=pending.now_us,
    )  # fmt: skip
    event = pending.event(BEGINS, turn.owner, f"may leave with {names(turn.nodes)}")
    pending.write(SLOT, slot, None, event)


def _see_off(pending: PendingDecision, found: Versioned[SlotRecord]) -> None:
    """Note which hosts end with a process, and whether they have done all that can be done."""
    slot = found.record
    left = {
        name: why
        for node in slot.nodes
        if node in pending.view.leaving
        for name, why in remaining(pending, node).items()
    }
    after = msgspec.structs.replace(
        slot,
        lives={**slot.lives, **pending.view.turns[slot.turn].record.lives},
        may_end=slot.may_end or may_end(left),
        ended_us=None,
    )
    event = None
    if after.may_end and not slot.may_end:
        after = msgspec.structs.replace(after, stays=left)
        stays = "; ".join(f"{name}: {why}" for name, why in sorted(left.items()))
        event = pending.event(BEGINS, slot.owner, f"may end{': ' if stays else ''}{stays}")
    if after != slot:
        pending.write(SLOT, after, found.version, event)


def _await_successor(pending: PendingDecision, found: Versioned[SlotRecord]) -> None:
    slot, now_us = found.record, pending.now_us
    if slot.ended_us is None:
        pending.write(SLOT, msgspec.structs.replace(slot, ended_us=now_us), found.version)
        return
    absent = _absent(pending, slot)
    why = f"{names(absent)} not there" if absent else _unprotected(pending)
    if why is None:
        lasted_ms = (now_us - slot.since_us) / 1000
        event = pending.event(OVER, slot.owner, "it was replaced, and everything is protected")
        event = msgspec.structs.replace(event, lasted_ms=lasted_ms)
        pending.write(SLOT, None, found.version, event)
    elif now_us - slot.ended_us >= SUCCESSOR_US:
        waited = f"after {SUCCESSOR_US / 60e6:g} min: {why}"
        pending.write(SLOT, None, found.version, pending.event(GIVEN_UP, slot.owner, waited))


def _may_live(pending: PendingDecision, turn: TurnRecord) -> bool:
    """Whether the process of a turn may live: none of its hosts has a successor."""
    now = _lives(pending, turn.nodes)
    return all(now[node] == turn.lives.get(node) for node in now)


def _lives(pending: PendingDecision, nodes: tuple[str, ...]) -> dict[str, str]:
    there = pending.view.nodes
    return {node: there[node].record.incarnation for node in nodes if node in there}


def _absent(pending: PendingDecision, slot: SlotRecord) -> list[str]:
    """Hosts of a process without a successor, of those that the cluster is to have."""
    view = pending.view
    wanted = {*view.settings.nodes, *view.settings.sites} or {*slot.nodes}
    now = _lives(pending, slot.nodes)
    return [
        node
        for node in slot.nodes
        if node in wanted and now.get(node) in (None, slot.lives.get(node))
    ]


def _unprotected(pending: PendingDecision) -> str | None:
    """What is not as it should be, so that no further process may end; None: nothing."""
    view = pending.view
    for key, record in pending.fragments.items():
        if record.stopped is None and not view.settled(record):
            return f"{key} is not protected"
    folders = (f"{FRAGMENTS.path}/", f"{MOVES.path}/")
    under_way = [name for name, each in view.moves.items() if each.record.ended_us is None]
    if under_way or any(each.key.path.startswith(folders) for each in pending.writes):
        return "replicas are moving"
    for name, stream in pending.planning.streams.items():
        if not is_protected(view, name, stream):
            return f"{name} is not fed, or nobody stands by to feed it"
    return None
