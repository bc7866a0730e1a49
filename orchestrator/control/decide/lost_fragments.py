"""Fragments of which no replica is left: they go on from a checkpoint, or begin from nothing.

Fragments that are lost together are decided about together, because their checkpoints must fit
(`resuming`). They go on under the numbers that their output would have had; a fragment that begins
from nothing does so in a new generation, and the history says why.
"""

from __future__ import annotations

import msgspec

from foundation.timestamps import timestamp_text
from ha.beginning import Beginning
from orchestrator.control.decide.checkpoints import drop_newer, spelled, stored_of
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.placing import (
    first_epoch,
    new_records,
    plan_query,
    put_retimed,
    retimed,
)
from orchestrator.control.decide.resuming import Resumption
from orchestrator.control.decide.savepoints import note_departures
from orchestrator.control.decide.undelivered import undelivered
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import (
    FragmentRecord,
    ReplicaId,
    Restarts,
    Restoration,
    StoredCheckpoint,
)
from placement.errors import PlacementError
from streams.vectors.chunk import NO_WATERMARK


def is_lost(pending: PendingDecision, record: FragmentRecord) -> bool:
    """Whether no replica of a fragment is left, as `heal` judges."""
    view = pending.view
    if record.paused and not view.begins:
        return not view.is_paused(record.query) and _can_begin(pending, record)
    if record.stopped is not None or view.begins:
        return False
    if view.alive(record.primary):
        status = view.status(record.primary, record.fragment)
        return status is not None and status.unusable is not None and view.stateless(record)
    orphaned_us = pending.now_us - view.orphaned_since_us.get(record.key, pending.now_us)
    patient = orphaned_us < pending.settings.takeover_grace_us
    if patient and not all(view.dead(replica) for replica in record.replicas):
        return False
    return (warm_successor(pending, record) or view.unlisted_replica(record)) is None


def begin_again(
    pending: PendingDecision,
    record: FragmentRecord,
    restarts: Restarts | None = None,
    *,
    resumes: bool = True,
) -> None:
    """Have a fragment that has lost its state go on from a checkpoint, or else begin from nothing.

    Fragments that are lost together are decided about together: their checkpoints must fit.
    """
    if resumes and pending.view.settings.state is not None:
        if record.key not in pending.considered:
            lost = {key for key, each in pending.fragments.items() if is_lost(pending, each)}
            lost = (lost | {record.key}) - pending.considered
            pending.considered |= lost
            _resume_all(pending, lost, restarts or record.restarts)
        if record.key in pending.resumed or record.key in pending.unplaced:
            return
    _start_over(pending, record, restarts)


def go_on_in_place(pending: PendingDecision) -> None:
    """Have everything go on from checkpoints where it was, if it can, while the cluster begins.

    Nothing is placed then, so nobody needs to wait until the network is measured.
    """
    view = pending.view
    lost = {key for key, each in pending.fragments.items() if not (each.paused or each.stopped)}
    pending.considered |= lost
    if view.settings.state is None or view.incomplete is None or view.incomplete.now.absent:
        return
    resumption = Resumption(pending, {key: stored_of(pending, key) for key in pending.fragments})
    chosen = resumption.of(lost)
    records = {key: pending.fragments[key] for key in chosen}
    if chosen.keys() != lost or not all(_in_place(view, each) for each in records.values()):
        return
    for key, record in records.items():
        _resume(pending, record, chosen[key], record.restarts)


def warm_successor(pending: PendingDecision, record: FragmentRecord) -> ReplicaId | None:
    """A warm replica besides the primary; one that acts already, if there is one."""
    view = pending.view
    warm = [each for each in record.replicas[1:] if view.warm(each, record.fragment)]
    acting = [each for each in warm if view.acts(each, record.fragment)]
    return next(iter(acting or warm), None)


def newest_epoch(pending: PendingDecision, record: FragmentRecord) -> int:
    """The newest epoch of a fragment that the record or any host knows."""
    reports = pending.view.reports_of(record.fragment).values()
    return max([record.epoch, *(status.epoch for status in reports)])


def end_of(pending: PendingDecision, record: FragmentRecord) -> str:
    """The state of a primary that no longer acts, and its node."""
    node = record.primary.node
    if pending.view.stateless(record):
        status = pending.view.status(record.primary, record.fragment)
        why = "" if status is None or status.failure is None else f" ({status.failure})"
        return f"{node} has lost its state{why}"
    return f"{node} has stepped down" if pending.view.alive(record.primary) else f"{node} is gone"


def _lost(pending: PendingDecision, record: FragmentRecord) -> str:
    """Why a fragment goes on from a checkpoint, or from nothing."""
    if savepoint := _yet_to_begin(pending, record):
        return f"its query begins from savepoint {savepoint}"
    if record.paused:
        return "its query is resumed"
    if pending.view.stands_still:
        return "the cluster begins again"
    return f"{end_of(pending, record)} and nobody can take over"


def _where(begins: Beginning) -> str:
    """From where on a fragment reads that begins from nothing."""
    if begins.after_ms == NO_WATERMARK:
        return "with all input that is kept: nobody knows what was delivered"
    windows_ms = begins.delivered_ms - begins.after_ms
    reach = f", windows of {windows_ms} ms before that" if windows_ms else ""
    return f"after {timestamp_text(begins.delivered_ms)}, up to where results were delivered{reach}"


def _yet_to_begin(pending: PendingDecision, record: FragmentRecord) -> str:
    """The savepoint from which a fragment has yet to begin; empty: there is none."""
    view, query = pending.view, record.query
    running = view.running_queries.get(query)
    if not record.paused or running is None or query not in view.queries:
        return ""
    is_first = record.epoch == first_epoch(view, query)
    return running.record.savepoint if is_first and record.restored is None else ""


def _can_begin(pending: PendingDecision, record: FragmentRecord) -> bool:
    """Whether all is known that counts for a query which begins from a savepoint: its fragments
    are decided about together, and what its sinks have been given decides what begins anew."""
    view = pending.view
    if not (savepoint := _yet_to_begin(pending, record)):
        return True
    if any(each.key not in pending.fragments for each in view.dataflow.of(record.query)):
        return False
    for stream, site in view.queries[record.query].record.outputs.items():
        node = view.nodes.get(site)
        if node is None or stream not in node.record.sinks:
            pending.problems.append(
                f"query {record.query} begins from savepoint {savepoint} once site {site} says up "
                f"to where it has {stream}"
            )
            return False
    return True


def _resume_all(pending: PendingDecision, lost: set[str], restarts: Restarts | None) -> None:
    """Have lost fragments go on from checkpoints, and others go back as far as they must."""
    _name_unplaced(pending, lost)
    resumption = Resumption(pending, {key: stored_of(pending, key) for key in pending.fragments})
    chosen = resumption.of(lost - pending.unplaced)
    pending.not_resumed |= resumption.reasons
    for fragment in pending.view.dataflow.fragments.values():
        if (checkpoint := chosen.get(fragment.key)) is None:
            continue
        record = pending.fragments[fragment.key]
        if fragment.key in lost:
            _resume(pending, record, checkpoint, restarts)
        elif not _goes_back_already(pending, record, checkpoint):
            _go_back(pending, record, checkpoint)


def _name_unplaced(pending: PendingDecision, lost: set[str]) -> None:
    """Note the lost fragments for which there is no place now: nobody is to go back for them."""
    view, flow = pending.view, pending.view.dataflow.fragments
    planning, elsewhere = pending.planning.fork(), list[FragmentRecord]()
    for record in [pending.fragments[each.key] for each in flow.values() if each.key in lost]:
        if (there := _in_place(view, record)) is None:
            planning.running.pop(record.fragment, None)
            elsewhere.append(record)
        else:
            planning.note(there)
    for query in dict.fromkeys(record.query for record in elsewhere):
        try:
            planning.place(query, relaxed=True, without_sites=True)
        except (PlacementError, InvalidQuery) as error:
            pending.problems.append(str(error))
            # Not for ever: the next decision tries again.
            pending.unplaced |= {record.key for record in elsewhere if record.query == query}


def _in_place(view: ClusterView, record: FragmentRecord) -> FragmentRecord | None:
    """A lost or paused fragment on the nodes that it ran on, or is to begin on; None: they cannot
    be used."""
    usable = view.executors.keys() - view.closed
    for each in (record.primary, record.secondary or record.primary):
        is_free = record.paused or view.dead(each)
        if not is_free or each.node not in usable or view.suspected(each.node):
            return None
    return msgspec.structs.replace(
        record,
        primary=view.replica(record.primary.node),
        secondary=None if record.secondary is None else view.replica(record.secondary.node),
        third=None,
        took_over=None,
        losses=(),
        paused=False,
    )


def _renewed(pending: PendingDecision, record: FragmentRecord, epoch: int) -> FragmentRecord | None:
    """The record of a fragment that is lost or paused, placed anew; None: there is no place.

    A paused one stays where it was, or is to begin, if it can.
    """
    planning = pending.planning
    if record.paused and (there := _in_place(pending.view, record)) is not None:
        return FragmentRecord(
            query=record.query,
            fragment=record.fragment,
            epoch=epoch,
            generation=epoch,
            primary=there.primary,
            secondary=there.secondary,
            timing=record.timing,
            lacked=record.lacked,
            functions=dict(planning.flow.fragments[record.fragment].functions),
        )
    planning.running.pop(record.fragment, None)
    if (plan := plan_query(pending, record.query, relax=True)) is None:
        return None
    epochs = {record.fragment: epoch}
    put_retimed(pending, retimed(planning, epochs), f"as {record.key} is placed again")
    (renewed,) = new_records(planning, plan, epochs)
    return renewed


def _goes_back_already(
    pending: PendingDecision, record: FragmentRecord, checkpoint: StoredCheckpoint
) -> bool:
    """Whether a fragment that runs is to go on from that checkpoint, and has yet to hear of it."""
    goes_back = Restoration(epoch=record.epoch, checkpoint=checkpoint.name)
    reports = pending.view.reports_of(record.fragment).values()
    return record.restored == goes_back and all(each.epoch < record.epoch for each in reports)


def _resume(
    pending: PendingDecision,
    record: FragmentRecord,
    checkpoint: StoredCheckpoint,
    restarts: Restarts | None,
) -> None:
    """Have a lost fragment go on from a checkpoint in the same generation: where it was, or else
    where it is placed now."""
    epoch = newest_epoch(pending, record) + 1
    there = _in_place(pending.view, record)
    if (placed := there or _renewed(pending, record, epoch)) is None:
        pending.unplaced.add(record.key)
        return
    detail = f"{_lost(pending, record)}; epoch {epoch} goes on from "
    detail += f"{spelled(checkpoint, pending.now_us)}, on {placed.primary.node}"
    pending.change_fragment(
        placed,
        "restored",
        detail if there is None else f"{detail} as before",
        epoch=epoch,
        generation=record.generation,
        restored=Restoration(epoch=epoch, checkpoint=checkpoint.name),
        restarts=restarts,
        begins=record.begins,
        counts_from_ms=record.counts_from_ms,
        ended_ms=record.ended_ms,
        former=record.former,
        restart=record.restart,
    )
    _note_resumed(pending, record, checkpoint)


def _go_back(
    pending: PendingDecision, record: FragmentRecord, checkpoint: StoredCheckpoint
) -> None:
    """Have a fragment that runs make output again that it has dropped."""
    epoch = newest_epoch(pending, record) + 1
    detail = f"epoch {epoch} goes back to {spelled(checkpoint, pending.now_us)}: a consumer that "
    detail += "has lost its state needs what follows"
    pending.change_fragment(
        record,
        "went back",
        detail,
        epoch=epoch,
        restored=Restoration(epoch=epoch, checkpoint=checkpoint.name),
        third=None,
        took_over=None,
    )
    _note_resumed(pending, record, checkpoint)


def _note_resumed(
    pending: PendingDecision, record: FragmentRecord, checkpoint: StoredCheckpoint
) -> None:
    pending.resumed.add(record.key)
    drop_newer(pending, record.key, checkpoint)


def _start_over(
    pending: PendingDecision, record: FragmentRecord, restarts: Restarts | None = None
) -> None:
    begins = undelivered(pending, record)
    if isinstance(begins, str):
        problem = f"{record.key}: {_lost(pending, record)}; it starts over "
        pending.problems.append(f"{problem}once site {begins} says up to where it has the results")
        return
    if (renewed := _renewed(pending, record, record.epoch + 1)) is None:
        return
    detail = f"{_lost(pending, record)}; epoch {renewed.epoch} "
    detail += f"begins from nothing on {renewed.primary.node}"
    if begins is not None:
        detail += f", {_where(begins)}"
    if (consented := record.restart) is not None:
        detail += f": {consented.why}"
    elif (why := pending.not_resumed.get(record.key)) is not None:
        detail += f"; it goes on from no checkpoint: {why}"
    if pending.planning.flow.fragments[record.fragment].is_endless:
        note_departures(pending, {record.query: f"{record.key} began from nothing"})
    if pending.planning.flow.fragments[record.fragment].is_loop:
        detail += "; it is a loop, whose relations are empty until tuples fill them again"
    pending.change_fragment(
        renewed,
        "state lost" if consented is None else "begins anew",
        detail,
        restarts=restarts or record.restarts,
        begins=begins,
        counts_from_ms=record.counts_from_ms,
        ended_ms=record.ended_ms,
        former=record.former,
        restart=None if record.paused else record.restart,
    )
