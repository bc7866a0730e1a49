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

from ha.roles import ReplicaRole
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.lost_fragments import (
    begin_again,
    end_of,
    go_on_in_place,
    is_lost,
    newest_epoch,
    warm_successor,
)
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.records import (
    FragmentRecord,
    ReplicaId,
    ReplicaLoss,
    Restarts,
)
from placement.errors import PlacementError
from placement.records import Secondary

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
        if is_lost(pending, record):
            begin_again(pending, record)
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
    if (successor := warm_successor(pending, record) or view.unlisted_replica(record)) is not None:
        _promote(pending, record, successor)
    elif not view.begins:
        begin_again(pending, record)
    elif record.key not in pending.considered:
        go_on_in_place(pending)


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


def _replace_stateless(pending: PendingDecision, record: FragmentRecord, orphaned_us: int) -> None:
    """Have a warm secondary act for a primary without state, or start over after a while."""
    settings, view = pending.settings, pending.view
    if (successor := warm_successor(pending, record) or view.unlisted_replica(record)) is not None:
        _promote(pending, record, successor)
        return
    lost_us, before = pending.now_us - orphaned_us, record.restarts
    in_row = before is not None and lost_us - before.last_us < settings.longest_rest_us
    count = before.count if before is not None and in_row else 0
    failed = before.failed if before is not None and in_row else 0
    status = view.status(record.primary, record.fragment)
    if status is not None and status.unusable is not None:
        # The list no longer has that checkpoint.
        begin_again(pending, record)
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
        begin_again(pending, record, restarts, resumes=resumes)
        return
    problem = f"{record.key}: {end_of(pending, record)} and nobody can take over; "
    problem += f"attempt {count + 1} to start over comes {rest_us / 1e6:.0f} s after that"
    pending.problems.append(problem)


def _stop(pending: PendingDecision, record: FragmentRecord, failed: int) -> None:
    """Have a fragment run nowhere: it meets input again and again that it cannot evaluate."""
    assert record.restarts is not None, "it has started over before"
    why = f"{end_of(pending, record)}, as after each of {failed} attempts to start over"
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


def _promote(pending: PendingDecision, record: FragmentRecord, successor: ReplicaId) -> None:
    """Record another replica as primary: in the epoch that it has begun itself, else in a new one.

    The next decision names its secondary.
    """
    status = pending.view.status(successor, record.fragment)
    assert status is not None
    begun = status.role is ReplicaRole.PRIMARY and status.epoch > record.epoch
    epoch = status.epoch if begun else newest_epoch(pending, record) + 1
    detail = f"{end_of(pending, record)} and {successor.node} has not recorded "
    detail += f"that it took over; epoch {epoch}"
    alone = {"primary": successor, "secondary": None, "third": None, "took_over": None}
    pending.change_fragment(record, "promoted", detail, epoch=epoch, **alone)


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
    successor = warm_successor(pending, record)
    if successor is not None and view.acts(successor, record.fragment):
        if successor.node in acting:
            _promote(pending, record, successor)
        else:
            _give_back(pending, record, successor)
        return
    epoch = newest_epoch(pending, record) + 1
    detail = f"{record.primary.node} stepped down and nobody has taken its place; epoch {epoch}"
    pending.change_fragment(record, "reinstated", detail, epoch=epoch)


def _give_back(pending: PendingDecision, record: FragmentRecord, former: ReplicaId) -> None:
    """Have a replica be primary again that has never stopped: its successor has not come to act."""
    epoch = newest_epoch(pending, record) + 1
    detail = f"{record.primary.node} does not act; {former.node} goes on, epoch {epoch}"
    stays = record.primary if former == record.secondary else record.secondary
    fields = {"primary": former, "secondary": stays, "third": None, "took_over": None}
    pending.change_fragment(record, "switched back", detail, epoch=epoch, **fields)
