"""Moves that operators have asked for: each decision takes the next step that is possible.

A plan of moves is a wish (`MovePlan`). The next step follows from the fragment's record and from
the reports of hosts. So a new leader goes on where the former one stopped, after any write. The
plan's record only notes which steps were begun and how they ended. It is written after the records
that it tells of.

    the record says              hosts say              what is written
    two replicas, elsewhere      both are warm        a third replica on the target; if that is the
                                                      other replica's node, the roles change at once
    a third that comes           it is warm           it takes its place: as secondary, and the
                                                      former one ends; as primary in the next epoch,
                                                      and the former one becomes the third
    a third that comes           its node is gone,    the third ends: the move is taken back
                                 or it is late
    a third that goes            the primary acts,    the third ends: the move is done
                                 the former not

Every state in this table is legal: the fragment has a primary and a warm secondary throughout, and
a third replica that is warm takes over like a secondary. Failures come first: `healing` may use the
third replica, or drop it. A move has failed if its fragment is in none of these states, or is
stopped and runs nowhere.

A move is refused, or taken back, if it would break a promise. If latencies speak against it while a
host has just started, the move waits until that host's place in the network is known. If load
speaks against it, the move waits for a while, since a machine is busy for seconds when processes
start there.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

import msgspec

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.drain import drain_steps, that_stay
from orchestrator.control.decide.move_steps import after, reason
from orchestrator.control.decide.placing import put_retimed, retimed
from orchestrator.control.decide.steadiness import AUTOMATION
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import MoveRefused, relocate
from orchestrator.control.planning.task import unsettled
from orchestrator.records import FragmentRecord, MovePlan, MoveStep, ReplicaId, ThirdReplica
from orchestrator.records.moves import BARRED, NOT_BEGUN
from orchestrator.store.protocol import MOVES
from placement.errors import PlacementError

KEPT_US = 60_000_000
"""How long the record of a plan that has ended stays, for commands that wait for it."""

REMEMBERED_US = 3_600_000_000
"""How long it stays if somebody has asked for the plan: what moves by itself is not to take that
back (`steadiness`)."""

SETTLES_US = 20_000_000
"""How long a move waits for latencies to be known that speak against it, as a cluster does that
starts. Where links violate the triangle inequality, coordinates may never settle. It waits as long
for load to fall, which is twice the time over which load is measured."""

BEGUN, MOVED, SWITCHED = "move begun", "moved", "switched over"
"""Kinds of the events of a move that goes well."""

REFUSED, TAKEN_BACK, ENDED = "move refused", "move taken back", "moves ended"
"""Kinds of the others."""


def pursue(pending: PendingDecision) -> None:
    """Take the next steps of all plans, and retire third replicas that no plan wants."""
    view = pending.view
    plans = sorted(
        view.moves.values(), key=lambda each: (each.record.submitted_us, each.record.name)
    )
    wanted = {key for found in plans for key in found.record.moving}
    claimed: set[str] = set()
    for found in plans:
        name = f"moves {found.record.name}"
        pending.attempt(
            name, lambda each=found: _pursue(pending, each.record, each.version, claimed)
        )
    for key, record in [*pending.fragments.items()]:
        if key in view.fragments and record.third is not None and key not in wanted:
            pending.attempt(key, lambda key=key: _clear(pending, pending.fragments[key]))


def _pursue(pending: PendingDecision, plan: MovePlan, version: int, claimed: set[str]) -> None:
    """Take a plan's next steps.

    Parameters
    ----------
    claimed
        Fragments of steps that are still open by the journal, of this plan and of earlier ones: a
        fragment's next step begins once the journal says how the one before has ended.
    """
    if plan.ended_us is not None:
        kept_us = REMEMBERED_US if plan.by else KEPT_US
        if pending.now_us - plan.ended_us >= kept_us:
            pending.write(MOVES.key(plan.name), None, version)
        return
    steps = [*plan.steps]
    for number, step in enumerate(steps):
        if step.settled:
            continue
        earlier = steps[:number]
        if step.fragment in claimed:
            continue
        claimed.add(step.fragment)
        record = _record(pending, step.fragment)
        if record is not None and record.stopped is not None:
            steps[number] = _failed(step, f"is stopped: {record.stopped}")
        elif plan.withdrawn:
            steps[number] = _withdrawn(pending, step)
        elif step.begun_us is not None or _under_way(pending, step):
            steps[number] = _advanced(pending, step)
        elif (failed := _obstacle(pending, plan, step, earlier)) is not None:
            steps[number] = msgspec.structs.replace(step, failed=failed)
        elif _may_begin(plan, step, steps):
            steps[number] = _begun(pending, step)
    is_over = all(step.settled for step in steps)
    if is_over and plan.drains is not None:
        # What is left of a drain is told by records as they are once the last step is noted.
        rest = _rest_of_drain(pending, plan) if tuple(steps) == plan.steps else None
        is_over = rest == ()
        steps += rest or ()
    after = msgspec.structs.replace(plan, steps=tuple(steps))
    if after == plan and not is_over:
        return
    event = None
    failed = [
        step
        for step, was in zip_longest(steps, plan.steps)
        if step.failed != (None if was is None else was.failed)
    ]
    told = "; ".join(f"{each.fragment}: {each.failed}" for each in failed)
    if is_over:
        after = msgspec.structs.replace(after, ended_us=pending.now_us)
        event = msgspec.structs.replace(
            pending.event(ENDED, plan.name, after.outcome), moves=after, by=plan.by
        )
    elif failed:
        event = pending.event(REFUSED, plan.name, told)
    pending.write(MOVES.key(plan.name), after, version, event)


def _rest_of_drain(pending: PendingDecision, plan: MovePlan) -> tuple[MoveStep, ...] | None:
    """The moves of what is still on a node whose drain has made all of its own.

    A standby may have taken over since it was planned, or a replica may have been placed there.
    None: it has yet to be protected.
    """
    view, node = pending.view, plan.drains
    failed = {step.fragment for step in plan.steps if step.failed is not None}
    if node not in view.cordoned or plan.withdrawn or (failed and not plan.keep_going):
        return ()
    here = [
        record
        for record in pending.fragments.values()
        if record.runs_on(node) and record.stopped is None and record.key not in failed
    ]
    if not here:
        return ()
    unsteady = [each.key for each in here if each.third or not is_steady(pending, each)]
    for key in unsteady:
        pending.problems.append(f"the move of {key} waits until it is protected")
    ready = {each.key for each in here} - {*unsteady}
    if not ready:
        return None
    steps, stuck = drain_steps(Planning.of(view), node, ready)
    return (*steps, *that_stay(pending.fragments, node, stuck))


def _obstacle(
    pending: PendingDecision, plan: MovePlan, step: MoveStep, earlier: Iterable[MoveStep]
) -> str | None:
    """Why a step is not begun any more; a fragment's moves rest on one another in any case."""
    for each in earlier:
        if each.failed is not None and not (plan.keep_going and each.fragment != step.fragment):
            return f"{NOT_BEGUN} {each.fragment} was not moved"
    barred = pending.view.automation.bars_moves(pending.now_us)
    return None if barred is None or plan.by != AUTOMATION else f"{BARRED} {barred}"


def _may_begin(plan: MovePlan, step: MoveStep, steps: Iterable[MoveStep]) -> bool:
    """Whether it is a step's turn: those before it have begun, and few enough are under way."""
    open_steps = [each for each in steps if not each.settled]
    before = open_steps[: next(i for i, each in enumerate(open_steps) if each is step)]
    return len(before) < plan.at_a_time and all(each.begun_us is not None for each in before)


def _record(pending: PendingDecision, key: str) -> FragmentRecord | None:
    """The fragment's record as it will be, if it can be read and written."""
    return pending.fragments.get(key) if key in pending.view.fragments else None


def is_steady(pending: PendingDecision, record: FragmentRecord) -> bool:
    """Whether its query runs, nothing else is done about a fragment, and both replicas are warm.

    If another replica than the primary acts, it is about to record that it took over. It must not
    lose its place before that: the store would refuse it, and nobody would act.
    """
    return (
        record == pending.view.fragments[record.key].record
        and pending.view.protected(record)
        and pending.view.acts(record.primary, record.fragment)
        and pending.planning.runs(record.query)
    )


def _stopped_and_gone(pending: PendingDecision, query: str) -> str | None:
    """A stopped fragment of a query that has no place any more, so that none can be planned."""
    for each in pending.fragments.values():
        if each.query == query and each.stopped and each.fragment not in pending.planning.running:
            return each.fragment
    return None


def _reached(record: FragmentRecord, step: MoveStep) -> bool:
    """Whether the record names the replica where it is wanted."""
    replica = record.primary if step.role == "primary" else record.secondary
    return replica is not None and replica.node == step.node


def _under_way(pending: PendingDecision, step: MoveStep) -> bool:
    """Whether the fragment's record tells of the step, although the plan's does not yet."""
    record = _record(pending, step.fragment)
    third = None if record is None else record.third
    return third is not None and third.replica.node == step.node and third.becomes == step.role


def _begun(pending: PendingDecision, step: MoveStep) -> MoveStep:
    record = _record(pending, step.fragment)
    if record is None:
        return _failed(step, "is not there")
    if record.third is None and _reached(record, step):
        # Nothing is to be done; or the roles have changed, and the leader died before it noted it.
        return _advanced(pending, step)
    if record.third is not None or not is_steady(pending, record):
        if (gone := _stopped_and_gone(pending, record.query)) is not None:
            return _failed(step, f"{gone} of its query is stopped, and its nodes are gone")
        pending.problems.append(f"the move of {step.fragment} waits until it is protected")
        return step
    places = after(record, step)
    assert places is not None, "a fragment that is protected has a secondary"
    assert record.secondary is not None
    was = (record.primary.node, record.secondary.node)
    switches = {places.primary, places.secondary} == {*was}
    running = dict(pending.planning.running)
    try:
        relocate(pending.planning, record.key, places.primary, places.secondary)
    except (PlacementError, InvalidQuery) as error:
        doubted = _doubted(pending, step, error)
        return doubted or _failed(step, reason(error))
    if switches:
        change_primary(pending, record, record.secondary, third=None)
    else:
        pending.planning.running = running
        coming = ThirdReplica(
            replica=pending.view.replica(step.node), becomes=step.role, since_us=pending.now_us
        )
        detail = f"{step.role} {was[step.role == 'secondary']} → {step.node}, "
        detail += "which fetches the state"
        pending.change_fragment(record, BEGUN, detail, third=coming)
    return msgspec.structs.replace(step, begun_us=pending.now_us, was=was, doubted_us=None)


def _advanced(pending: PendingDecision, step: MoveStep) -> MoveStep:
    """The step after what can be done for it now."""
    noted = step.begun_us is not None
    step = msgspec.structs.replace(step, begun_us=step.begun_us or pending.now_us)
    record = _record(pending, step.fragment)
    if record is None:
        return _failed(step, "is not there any more")
    third = record.third
    if third is not None and third.becomes == step.role and third.replica.node == step.node:
        if not noted and record.secondary is not None:
            was = (record.primary.node, record.secondary.node)
            step = msgspec.structs.replace(step, was=was)
        return _arriving(pending, step, record, third)
    if not _reached(record, step):
        now = " and ".join(each.node for each in record.replicas)
        return _failed(step, f"was interrupted{_lost(record, step)}; its replicas are on {now}")
    if third is None and step.role == "secondary" and not _switching(pending, record):
        return msgspec.structs.replace(step, done=True)
    return _leaving(pending, step, record)


def _lost(record: FragmentRecord, step: MoveStep) -> str:
    """Which replica was lost since a step began, and why; empty if the record tells of none."""
    since_us = step.begun_us or 0
    lost = [each for each in record.losses if each.detected_at_us >= since_us]
    return f", since {lost[-1].replica.node} was lost ({lost[-1].cause})" if lost else ""


def _doubted(pending: PendingDecision, step: MoveStep, error: Exception) -> MoveStep | None:
    """The step, if the reason against it may soon be gone: see `_may_pass`.

    None if it will not, or if that was waited for long enough.
    """
    awaited = _may_pass(pending, error)
    since_us = pending.now_us if step.doubted_us is None else step.doubted_us
    if awaited is None or pending.now_us - since_us >= SETTLES_US:
        return None
    pending.problems.append(f"the move of {step.fragment} waits until {awaited}: {reason(error)}")
    return msgspec.structs.replace(step, doubted_us=since_us)


def _may_pass(pending: PendingDecision, error: Exception) -> str | None:
    """The change that a refused move may wait for; None: there is none."""
    if not isinstance(error, MoveRefused):
        return None
    if error.by_load:
        return "load has fallen"
    guessed = unsettled(pending.view.hosts) if error.by_latency else []
    return f"latencies of {', '.join(guessed)} are known" if guessed else None


def _arriving(
    pending: PendingDecision, step: MoveStep, record: FragmentRecord, third: ThirdReplica
) -> MoveStep:
    """The step while its third replica gets ready to take its place."""
    view = pending.view
    step = _noted(pending, step)
    comes = not view.ready(third.replica, record.fragment) or not is_steady(pending, record)
    if (problem := _hopeless(pending, step, third, comes)) is not None:
        return _taken_back(pending, step, record, problem)
    if comes:
        return step
    assert record.secondary is not None
    places = after(record, step)
    assert places is not None
    try:
        relocate(pending.planning, record.key, places.primary, places.secondary)
    except (PlacementError, InvalidQuery) as error:
        doubted = _doubted(pending, step, error)
        return doubted or _taken_back(pending, step, record, reason(error))
    if step.role == "primary":
        going = ThirdReplica(replica=record.primary, becomes=None, since_us=pending.now_us)
        change_primary(pending, record, third.replica, third=going)
        return step
    _put_others(pending, record)
    pending.change_fragment(
        record,
        MOVED,
        f"secondary {record.secondary.node} → {step.node}",
        secondary=third.replica,
        third=None,
        timing=pending.planning.running[record.fragment].timing,
    )
    return msgspec.structs.replace(step, done=True)


def _noted(pending: PendingDecision, step: MoveStep) -> MoveStep:
    """The step with as much of its state as has been sent by now."""
    sent = pending.view.given_bytes(step.fragment.rpartition(".")[2])
    if sent <= step.moved_bytes:
        return step
    return msgspec.structs.replace(step, moved_bytes=sent, moved_us=pending.now_us)


def _hopeless(
    pending: PendingDecision, step: MoveStep, third: ThirdReplica, comes: bool
) -> str | None:
    """Why a third replica will not take its place. As long as its state comes, it is awaited.

    Parameters
    ----------
    comes
        Whether it cannot take it yet. Time counts against it only then: whoever leads now may have
        come long after it was ready.
    """
    view, node = pending.view, third.replica.node
    if not view.alive(third.replica):
        return f"{node} was lost"
    if node in view.closed:
        return f"{node} was cordoned" if node in view.cordoned else f"{node} leaves"
    waited_us = pending.now_us - max(third.since_us, step.moved_us or 0)
    if not comes or waited_us < pending.settings.warm_up_us:
        return None
    ready = view.ready(third.replica, step.fragment.rpartition(".")[2])
    why = "it was not protected" if ready else f"{node} was not ready"
    return f"{why} after {waited_us / 1e6:.0f} s"


def _leaving(pending: PendingDecision, step: MoveStep, record: FragmentRecord) -> MoveStep:
    """The step once the roles have changed, until the former primary has heard of it."""
    view = pending.view
    third = record.third
    former = record.secondary if third is None else third.replica
    if not view.acts(record.primary, record.fragment):
        # If it does not come to act, healing gives the fragment back to one that does.
        return step
    since_us = (step.begun_us or 0) if third is None else third.since_us
    patient = pending.now_us - since_us < pending.settings.warm_up_us
    if view.acts(former, record.fragment) and patient:
        return step
    if third is not None:
        detail = f"{third.replica.node} → {record.primary.node}, epoch {record.epoch}"
        pending.change_fragment(record, MOVED, detail, third=None)
    return msgspec.structs.replace(step, done=True)


def _switching(pending: PendingDecision, record: FragmentRecord) -> bool:
    """Whether the secondary acts, because it has yet to hear that it is no longer primary."""
    return pending.view.acts(record.secondary, record.fragment)


def _withdrawn(pending: PendingDecision, step: MoveStep) -> MoveStep:
    """The step after its plan was withdrawn: taken back, unless the roles have changed already."""
    record = _record(pending, step.fragment)
    if step.begun_us is None and not _under_way(pending, step):
        return msgspec.structs.replace(step, failed="withdrawn before it was begun")
    if record is not None and record.third is not None and record.third.becomes is not None:
        return _taken_back(pending, step, record, "it was withdrawn")
    return _advanced(pending, step)


def _taken_back(
    pending: PendingDecision, step: MoveStep, record: FragmentRecord, why: str
) -> MoveStep:
    _drop_third(pending, record, why)
    return msgspec.structs.replace(step, failed=f"taken back: {why}")


def _drop_third(pending: PendingDecision, record: FragmentRecord, why: str) -> None:
    assert record.third is not None
    detail = f"the replica on {record.third.replica.node} ends: {why}"
    pending.change_fragment(record, TAKEN_BACK, detail, third=None)


def _clear(pending: PendingDecision, record: FragmentRecord) -> None:
    """Retire a third replica that no plan wants, once it is of no use."""
    view, third = pending.view, record.third
    assert third is not None
    if third.becomes is None and not view.acts(record.primary, record.fragment):
        return
    _drop_third(pending, record, "no plan of moves wants it")


def change_primary(
    pending: PendingDecision,
    record: FragmentRecord,
    successor: ReplicaId,
    third: ThirdReplica | None,
) -> None:
    """Write that a warm replica is primary in the next epoch; the other one stays or goes."""
    _put_others(pending, record)
    reports = pending.view.reports_of(record.fragment).values()
    epoch = max([record.epoch, *(status.epoch for status in reports)]) + 1
    secondary = record.secondary if third is not None else record.primary
    pending.change_fragment(
        record,
        SWITCHED,
        f"primary {record.primary.node} → {successor.node}, epoch {epoch}",
        epoch=epoch,
        primary=successor,
        secondary=secondary,
        third=third,
        took_over=None,
        timing=pending.planning.running[record.fragment].timing,
    )


def _put_others(pending: PendingDecision, record: FragmentRecord) -> None:
    """Write the sub-deadlines of other fragments that have become tighter."""
    others = retimed(pending.planning, {record.fragment})
    put_retimed(pending, others, f"because {record.fragment} moves")


def _failed(step: MoveStep, why: str) -> MoveStep:
    return msgspec.structs.replace(step, failed=why)
