"""Fragments that have lost a replica.

Who changes a fragment's record, and when (C: coordinator, P: primary, S: secondary):

    primary   secondary   what happens
    alive     lost        P records the loss at once, and C chooses another secondary at once; a
                          node that comes back is just free
    alive     gone        the same, when its node's record is gone and P has recorded nothing
    alive     not warm    C chooses another secondary when S has had time enough, and no more of
                          its state comes
    alive     lags        the same: S could take over, but not within the recovery bound
    no state  any         P's evaluation has failed: C promotes a warm S at once, and starts over
                          after the grace if S is not warm either. Each such failure in a row
                          doubles that time, because the next attempt meets the same input. After
                          some of them C stops the fragment: it runs nowhere until its statement is
                          changed, or its query deleted and applied again
    yielded   alive       P has stepped down for a newer epoch. S records that it took over. If
                          nobody acts in that epoch, C reinstates P
    gone      alive       S takes over and records it; C waits. If S has not within the grace:
                          C promotes a warm S, and starts over if S is not warm
    not yet   alive       P was named by a planned move. S, the former primary, acts until it hears
                          P. If P does not act within the grace, C gives the fragment back to S
    gone      gone        C has the fragment go on from a checkpoint (`resuming`). If none will do,
                          C starts over, with a new generation: at once if both are known to be
                          dead (their nodes have new lives), else after the grace, since a process
                          may live on without its session. While the whole cluster begins, C
                          waits for its hosts (`beginning`), and for their measurements unless
                          everything can go on from checkpoints where it was

A host that was out of reach may run a replica that was replaced meanwhile, and that may lack
input. C has it stopped while P lives. If C would have to start over, it promotes that replica
instead. The host keeps it until P has shown that it lives (`kept`).

A third replica, which exists while another one is moved (`moving`), counts like S wherever a warm
one is needed. Starting over loses the fragment's state, and the history says so.

A site that is away delays no healing: plans assume that it is where the fragment runs that it feeds
or follows.

A node on which a replica was lost, did not get warm or lagged is avoided for a while, because the
reason may last: a link that is cut, or a source that it does not hear. If there is no other node,
it is tried again after a pause that grows from time to time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import msgspec

from ha.beginning import Beginning
from ha.roles import ReplicaRole
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
from orchestrator.control.decide.undelivered import undelivered
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import (
    FragmentRecord,
    ReplicaId,
    ReplicaLoss,
    Restarts,
    Restoration,
    StoredCheckpoint,
)
from placement.errors import PlacementError
from placement.records import Secondary
from streams.vectors.chunk import NO_WATERMARK

WARM_UP_DOUBLINGS = 4
"""How often the time for warming up is doubled at most: 8 minutes after 30 s."""

REST_DOUBLINGS = 6
"""How often the pause of a node or of a fragment is doubled at most: a minute after 1 s."""


def heal(pending: PendingDecision, name: str) -> None:
    """Do what a fragment needs, if it needs anything."""
    view, record = pending.view, pending.fragments[name]
    if name in pending.resumed:
        return
    if record.paused:
        if _is_lost(pending, record):
            _begin_again(pending, record)
        return
    if (why := record.stopped) is not None:
        problem = f"{name} is stopped: {why}. Start it again with a statement that can evaluate "
        pending.problems.append(problem + "such tuples, or with `onError: skip`: `vivace apply`")
        return
    orphaned_us = pending.now_us - view.orphaned_since_us.get(name, pending.now_us)
    patient = orphaned_us < pending.settings.takeover_grace_us
    if view.alive(record.primary):
        if view.stateless(record):
            _replace_stateless(pending, record, orphaned_us)
        elif view.stepped_down(record):
            _succeed(pending, record, patient=patient)
        elif not view.listed(record.secondary):
            _replace_secondary(pending, record)
        elif _overdue(pending, record):
            _give_up(pending, record)
        return
    if patient and not all(view.dead(replica) for replica in record.replicas):
        return
    if (successor := _successor(pending, record) or view.unlisted_replica(record)) is not None:
        _promote(pending, record, successor)
    elif not view.begins:
        _begin_again(pending, record)
    elif record.key not in pending.considered:
        _go_on_in_place(pending)


def kept(pending: PendingDecision) -> dict[str, set[str]]:
    """Fragments of which a node keeps a replica that the record does not list: it may be the only
    one that is left, since the primary has not reported after it."""
    view = pending.view
    found: dict[str, set[str]] = {}
    for name, unlisted in view.unlisted.items():
        record = pending.fragments.get(name)
        if record is None or record.generation != unlisted.generation:
            continue
        primary = view.nodes.get(record.primary.node)
        has_reported = primary is None or primary.report != unlisted.primary_report
        if not (view.listed(record.primary) and has_reported):
            found.setdefault(unlisted.replica.node, set()).add(name)
    return found


def _successor(pending: PendingDecision, record: FragmentRecord) -> ReplicaId | None:
    """A warm replica besides the primary; one that acts already, if there is one."""
    view = pending.view
    warm = [each for each in record.replicas[1:] if view.warm(each, record.fragment)]
    acting = [each for each in warm if view.acts(each, record.fragment)]
    return next(iter(acting or warm), None)


def _replace_stateless(pending: PendingDecision, record: FragmentRecord, orphaned_us: int) -> None:
    """Have a warm secondary act for a primary without state, or start over after a while."""
    settings, view = pending.settings, pending.view
    if (successor := _successor(pending, record) or view.unlisted_replica(record)) is not None:
        _promote(pending, record, successor)
        return
    lost_us, before = pending.now_us - orphaned_us, record.restarts
    in_row = before is not None and lost_us - before.last_us < settings.longest_rest_us
    count = before.count if before is not None and in_row else 0
    failed = before.failed if before is not None and in_row else 0
    status = view.status(record.primary, record.fragment)
    if status is not None and status.unusable is not None:
        # The list no longer has that checkpoint.
        _begin_again(pending, record)
        return
    unevaluable = status is not None and status.unevaluable
    if unevaluable:
        if failed >= settings.most_restarts:
            _stop(pending, record, failed)
            return
        failed += 1
    rest_us = settings.takeover_grace_us << min(count, REST_DOUBLINGS)
    rest_us = min(rest_us, settings.longest_rest_us)
    if orphaned_us >= rest_us:
        restarts = Restarts(count=count + 1, last_us=pending.now_us, failed=failed)
        # A state that could not go on will not do so another time, unless its input is to blame.
        resumes = unevaluable or count == 0
        _begin_again(pending, record, restarts, resumes=resumes)
        return
    problem = f"{record.key}: {_end(pending, record)} and nobody can take over; "
    problem += f"attempt {count + 1} to start over comes {rest_us / 1e6:.0f} s after that"
    pending.problems.append(problem)


def _stop(pending: PendingDecision, record: FragmentRecord, failed: int) -> None:
    """Have a fragment run nowhere: it meets input again and again that it cannot evaluate."""
    assert record.restarts is not None, "it has started over before"
    why = f"{_end(pending, record)}, as after each of {failed} attempts to start over"
    restarts = msgspec.structs.replace(record.restarts, stopped=why)
    pending.change_fragment(record, "stopped", why, restarts=restarts, third=None)


def _overdue(pending: PendingDecision, record: FragmentRecord) -> bool:
    """Whether the secondary has had time enough to get warm, or to catch up.

    As long as more of its state comes, it is awaited.
    """
    if (cold := pending.view.cold.get(record.key)) is None:
        return False
    failures = sum(not loss.silent for loss in _recent(pending, record))
    patience_us = pending.settings.warm_up_us * 2 ** min(failures, WARM_UP_DOUBLINGS)
    return pending.now_us - cold.since_us >= patience_us


def _give_up(pending: PendingDecision, record: FragmentRecord) -> None:
    """Have another node stand by instead of one that does not get ready, if there is one."""
    assert record.secondary is not None
    waited_s = (pending.now_us - pending.view.cold[record.key].since_us) / 1e6
    lags = pending.view.lags(record)
    cause = f"{'still lagging' if lags else 'not warm'} after {waited_s:.0f} s"
    where = f"{record.key}: its secondary on {record.secondary.node}"
    avoid = _avoided(pending, record) | {record.secondary.node}
    try:
        found = _candidate(pending, record, avoid)
    except (PlacementError, InvalidQuery) as error:
        pending.problems.append(f"{where} is {cause}, and no other node can stand by: {error}")
        return
    given_up = ReplicaLoss(
        replica=record.secondary, cause=cause, detected_at_us=pending.now_us, silent=False
    )
    _write_secondary(pending, record, found, f", {cause}", (given_up,))


def _replace_secondary(pending: PendingDecision, record: FragmentRecord) -> None:
    """Name a secondary, on a node where none was lost if there is one."""
    try:
        try:
            found = _candidate(pending, record, _avoided(pending, record))
        except PlacementError:
            found = _candidate(pending, record, _resting(pending, record))
    except (PlacementError, InvalidQuery) as error:
        pending.problems.append(str(error))
        return
    _write_secondary(pending, record, found, _last_cause(record))


def _candidate(
    pending: PendingDecision, record: FragmentRecord, avoid: Collection[str]
) -> tuple[Secondary, str | None]:
    """A node to stand by, and the bound that it does not keep.

    Raises
    ------
    PlacementError, InvalidQuery
        There is none.
    """
    prefer = _with_replica(pending, record, avoid)
    return pending.planning.replace_secondary(
        record.query, record.fragment, prefer, avoid, without_sites=True
    )


def _write_secondary(
    pending: PendingDecision,
    record: FragmentRecord,
    candidate: tuple[Secondary, str | None],
    why: str,
    losses: tuple[ReplicaLoss, ...] = (),
) -> None:
    found, problem = candidate
    before = "none" if record.secondary is None else record.secondary.node
    detail = f"{before}{why} → {found.node}, recovery {found.recovery.total_ms:.1f} ms"
    if problem is not None:
        pending.problems.append(problem)
        detail += f", bound not kept: {problem}"
    pending.change_fragment(
        record,
        "secondary replaced",
        detail,
        secondary=pending.view.replica(found.node),
        # It may be the one that is chosen; else the move that it came for has failed.
        third=None,
        timing=pending.planning.running[record.fragment].timing,
        losses=(*_recent(pending, record), *losses),
    )


def _last_cause(record: FragmentRecord) -> str:
    """Which replica the primary lost last, and why; empty if the record tells of none."""
    if record.secondary is not None or not record.losses:
        return ""
    loss = record.losses[-1]
    return f" ({loss.replica.node} lost: {loss.cause})"


def _recent(pending: PendingDecision, record: FragmentRecord) -> tuple[ReplicaLoss, ...]:
    """Losses that still matter: those of processes that live, and not too long ago."""
    view, settings = pending.view, pending.settings
    return tuple(
        loss
        for loss in record.losses
        if view.listed(loss.replica) and pending.now_us - loss.detected_at_us < settings.avoided_us
    )


def _avoided(pending: PendingDecision, record: FragmentRecord) -> set[str]:
    return {loss.replica.node for loss in _recent(pending, record)}


def _resting(pending: PendingDecision, record: FragmentRecord) -> set[str]:
    """Nodes that must not be tried again yet."""
    recent = _recent(pending, record)
    times = Counter(loss.replica.node for loss in recent)
    last_us = {loss.replica.node: loss.detected_at_us for loss in recent}
    return {
        node
        for node, count in times.items()
        if pending.now_us - last_us[node]
        < pending.settings.rest_us * 2 ** min(count - 1, REST_DOUBLINGS)
    }


def _with_replica(
    pending: PendingDecision, record: FragmentRecord, avoid: Collection[str]
) -> str | None:
    """A node that runs a replica already, warm ones first, other than the primary's."""
    view = pending.view
    standing = {
        node: status.role
        for node, status in view.reports_of(record.fragment).items()
        if node in view.executors
        and node != record.primary.node
        and node not in avoid
        and node not in view.closed
        and not view.suspected(node)
    }
    warm = sorted(node for node, role in standing.items() if role is ReplicaRole.STANDBY)
    return next(iter(warm or sorted(standing)), None)


def _newest_epoch(pending: PendingDecision, record: FragmentRecord) -> int:
    """The newest epoch of a fragment that the record or any host knows."""
    reports = pending.view.reports_of(record.fragment).values()
    return max([record.epoch, *(status.epoch for status in reports)])


def _promote(pending: PendingDecision, record: FragmentRecord, successor: ReplicaId) -> None:
    """Record another replica as primary: in the epoch that it has begun itself, else in a new one.

    The next decision names its secondary.
    """
    status = pending.view.status(successor, record.fragment)
    assert status is not None
    begun = status.role is ReplicaRole.PRIMARY and status.epoch > record.epoch
    epoch = status.epoch if begun else _newest_epoch(pending, record) + 1
    detail = f"{_end(pending, record)} and {successor.node} has not recorded "
    detail += f"that it took over; epoch {epoch}"
    alone = {"primary": successor, "secondary": None, "third": None, "took_over": None}
    pending.change_fragment(record, "promoted", detail, epoch=epoch, **alone)


def _end(pending: PendingDecision, record: FragmentRecord) -> str:
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
    return f"{_end(pending, record)} and nobody can take over"


def _succeed(pending: PendingDecision, record: FragmentRecord, *, patient: bool) -> None:
    """See that some replica acts for a primary that has stepped down for a newer epoch.

    The replica that began that epoch needs time to record it. There is no need to wait if all hosts
    that run a replica have heard of the epoch and none of them acts in it. Then the successor was a
    replica that the store had replaced, and that has been stopped.
    """
    view = pending.view
    reports = view.reports_of(record.fragment)
    yielded = reports[record.primary.node]
    acting = [
        node
        for node, status in reports.items()
        if status.role is ReplicaRole.PRIMARY and status.epoch > record.epoch
    ]
    # A report that is older than the record tells nothing: its host has yet to hear of the record.
    informed = yielded.epoch > record.epoch and all(
        status.epoch >= yielded.epoch for status in reports.values()
    )
    if patient and (acting or not informed):
        return
    successor = _successor(pending, record)
    if successor is not None and view.acts(successor, record.fragment):
        if successor.node in acting:
            _promote(pending, record, successor)
        else:
            _give_back(pending, record, successor)
        return
    epoch = _newest_epoch(pending, record) + 1
    detail = f"{record.primary.node} stepped down and nobody has taken its place; epoch {epoch}"
    pending.change_fragment(record, "reinstated", detail, epoch=epoch)


def _give_back(pending: PendingDecision, record: FragmentRecord, former: ReplicaId) -> None:
    """Have a replica be primary again that has never stopped: its successor has not come to act."""
    epoch = _newest_epoch(pending, record) + 1
    detail = f"{record.primary.node} does not act; {former.node} goes on, epoch {epoch}"
    stays = record.primary if former == record.secondary else record.secondary
    fields = {"primary": former, "secondary": stays, "third": None, "took_over": None}
    pending.change_fragment(record, "switched back", detail, epoch=epoch, **fields)


def _where(begins: Beginning) -> str:
    """From where on a fragment reads that begins from nothing."""
    if begins.after_ms == NO_WATERMARK:
        return "with all input that is kept: nobody knows what was delivered"
    windows_ms = begins.delivered_ms - begins.after_ms
    reach = f", windows of {windows_ms} ms before that" if windows_ms else ""
    return f"after {begins.delivered_ms} ms, up to where results were delivered{reach}"


def _is_lost(pending: PendingDecision, record: FragmentRecord) -> bool:
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
    return (_successor(pending, record) or view.unlisted_replica(record)) is None


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


def _begin_again(
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
            lost = {key for key, each in pending.fragments.items() if _is_lost(pending, each)}
            lost = (lost | {record.key}) - pending.considered
            pending.considered |= lost
            _resume_all(pending, lost, restarts or record.restarts)
        if record.key in pending.resumed or record.key in pending.unplaced:
            return
    _start_over(pending, record, restarts)


def _resume_all(pending: PendingDecision, lost: set[str], restarts: Restarts | None) -> None:
    """Have lost fragments go on from checkpoints, and others go back as far as they must."""
    resumption = Resumption(pending, {key: stored_of(pending, key) for key in pending.fragments})
    chosen = resumption.of(lost)
    pending.not_resumed |= resumption.reasons
    for fragment in pending.view.dataflow.fragments.values():
        if (checkpoint := chosen.get(fragment.key)) is None:
            continue
        record = pending.fragments[fragment.key]
        if fragment.key in lost:
            _resume(pending, record, checkpoint, restarts)
        elif not _has_gone_back(pending, record, checkpoint):
            _go_back(pending, record, checkpoint)


def _go_on_in_place(pending: PendingDecision) -> None:
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
    if chosen.keys() != lost or not all(_is_back(view, pending.fragments[key]) for key in lost):
        return
    for key, checkpoint in chosen.items():
        record = pending.fragments[key]
        _resume_in_place(pending, record, checkpoint, record.restarts)


def _is_back(view: ClusterView, record: FragmentRecord) -> bool:
    """Whether the nodes of a fragment's replicas can be used again, each in a new process."""
    usable = view.executors.keys() - view.closed
    return not record.paused and all(
        view.dead(each) and each.node in usable and not view.suspected(each.node)
        for each in (record.primary, record.secondary)
        if each is not None
    )


def _renewed(pending: PendingDecision, record: FragmentRecord, epoch: int) -> FragmentRecord | None:
    """The record of a fragment that is lost or paused, placed anew; None: there is no place.

    A paused one stays where it was, or is to begin, if it can.
    """
    view, planning = pending.view, pending.planning
    if record.paused and all(
        view.alive(each) and each.node not in view.closed
        for each in (record.primary, record.secondary or record.primary)
    ):
        return FragmentRecord(
            query=record.query,
            fragment=record.fragment,
            epoch=epoch,
            generation=epoch,
            primary=record.primary,
            secondary=record.secondary,
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


def _has_gone_back(
    pending: PendingDecision, record: FragmentRecord, checkpoint: StoredCheckpoint
) -> bool:
    """Whether this decision has a fragment go on from that checkpoint already."""
    restored = record.restored
    is_same = restored is not None and restored.checkpoint == checkpoint.name
    return is_same and record.key in pending.resumed


def _resume(
    pending: PendingDecision,
    record: FragmentRecord,
    checkpoint: StoredCheckpoint,
    restarts: Restarts | None,
) -> None:
    """Have a lost fragment go on from a checkpoint in the same generation: where it was, or else
    where it is placed now."""
    if _is_back(pending.view, record):
        _resume_in_place(pending, record, checkpoint, restarts)
        return
    if (renewed := _renewed(pending, record, _newest_epoch(pending, record) + 1)) is None:
        # Not for ever: others are placed by this decision, and the next one tries again.
        pending.unplaced.add(record.key)
        return
    detail = f"{_lost(pending, record)}; epoch {renewed.epoch} goes on from "
    detail += f"{spelled(checkpoint, pending.now_us)}, on {renewed.primary.node}"
    pending.change_fragment(
        renewed,
        "restored",
        detail,
        generation=record.generation,
        restored=Restoration(epoch=renewed.epoch, checkpoint=checkpoint.name),
        restarts=restarts,
        begins=record.begins,
        counts_from_ms=record.counts_from_ms,
        ended_ms=record.ended_ms,
        former=record.former,
        restart=record.restart,
    )
    _note_resumed(pending, record, checkpoint)


def _resume_in_place(
    pending: PendingDecision,
    record: FragmentRecord,
    checkpoint: StoredCheckpoint,
    restarts: Restarts | None,
) -> None:
    """Have a fragment go on from a checkpoint on the nodes that it ran on, in new processes."""
    view, epoch = pending.view, _newest_epoch(pending, record) + 1
    detail = f"{_lost(pending, record)}; epoch {epoch} goes on from "
    detail += f"{spelled(checkpoint, pending.now_us)}, on {record.primary.node} as before"
    pending.change_fragment(
        record,
        "restored",
        detail,
        primary=view.replica(record.primary.node),
        secondary=None if record.secondary is None else view.replica(record.secondary.node),
        third=None,
        took_over=None,
        losses=(),
        epoch=epoch,
        restored=Restoration(epoch=epoch, checkpoint=checkpoint.name),
        restarts=restarts,
    )
    _note_resumed(pending, record, checkpoint)


def _go_back(
    pending: PendingDecision, record: FragmentRecord, checkpoint: StoredCheckpoint
) -> None:
    """Have a fragment that runs make output again that it has dropped."""
    epoch = _newest_epoch(pending, record) + 1
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
    consented = record.restart if record.paused else None
    if consented is not None:
        detail += f": {consented.why}"
    elif (why := pending.not_resumed.get(record.key)) is not None:
        detail += f"; it goes on from no checkpoint: {why}"
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
