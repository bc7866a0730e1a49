"""Queries that are changed in place: the leader's part in it.

A change that was consented to is carried out in an order of which every prefix is legal:

1. Each fragment whose statement changes at a cut gets its former statement into its record, without
   the cut (`FormerStatement`). One that is to read its input from another place on is marked
   (`PlannedRestart`). Both go on as before.
2. How the query runs, and then the query, are written. From now on the statement is the new one,
   and the replicas hold for the cut (`host.core.statement_changes`). Fragments that the query no
   longer has are retired, new ones are placed, as ever.
3. Marked fragments begin from nothing, in a new generation.
4. Once all replicas have said up to where they may evaluate by the former statement, the greatest
   of these times is the cut, the same for all fragments of the change.
5. A former statement is dropped once nothing can be of it any more: no replica, no checkpoint.

A leader that dies leaves one of these states, and the next one goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from foundation.timestamps import timestamp_text
from ha.beginning import Beginning
from ha.roles import ReplicaRole
from orchestrator.control.decide.checkpoints import stored_of
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.undelivered import undelivered
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import (
    BeginFrom,
    FormerStatement,
    FragmentRecord,
    PlannedRestart,
    ProposalRecord,
    QueryAlteration,
    ReplicaStatus,
)
from orchestrator.store.protocol import QUERIES, RUNNING_QUERIES
from streams.vectors.chunk import NO_WATERMARK

CHANGED, STATEMENT_CHANGED = "changed", "statement changed"
"""Kinds of the events that a query is another one now, and that a statement's cut is agreed."""


def alter(pending: PendingDecision, proposal: ProposalRecord) -> None:
    """Write the changes of queries that are not there yet."""
    updated = {record.key: record for each in proposal.placements for record in each.updated}
    summaries = {} if proposal.plan is None else {e.query: e for e in proposal.plan.changed}
    for alteration in proposal.alterations:
        name = alteration.query.name
        found = pending.view.queries.get(name)
        if found is None or found.record == alteration.query:
            continue
        _note_change(pending, alteration, updated)
        known = pending.view.running_queries.get(name)
        if known is None or known.record != alteration.running:
            version = None if known is None else known.version
            pending.write(RUNNING_QUERIES.key(name), alteration.running, version)
        told = summaries.get(name)
        detail = "" if told is None else "; ".join(told.words())
        event = pending.event(CHANGED, f"query {name}", detail)
        pending.write(QUERIES.key(name), alteration.query, found.version, event)


def _note_change(
    pending: PendingDecision, alteration: QueryAlteration, updated: dict[str, FragmentRecord]
) -> None:
    """Have each fragment of a query know its former statement, or that it is to begin anew."""
    change = alteration.running.change
    for key, record in [*pending.fragments.items()]:
        if record.query != alteration.query.name or key in pending.planning.reconstructed:
            continue
        timed = updated.get(key)
        made = record if timed is None else msgspec.structs.replace(record, timing=timed.timing)
        former, why = alteration.former.get(key), alteration.restarted.get(key)
        if former is not None and record.stopped is not None:
            former, why = None, "it was stopped"
        if why is not None:
            restart = PlannedRestart(
                change=change, why=why, all_input=alteration.begin is BeginFrom.BEGINNING
            )
            made = msgspec.structs.replace(made, restart=restart)
        elif former is not None and all(each.change != change for each in record.former):
            made = msgspec.structs.replace(made, former=(*record.former, former))
        if made != record:
            pending.put_fragment(made, None)


def carry_on(pending: PendingDecision) -> None:
    """Go on with changes of queries that are written."""
    for name in sorted({record.query for record in pending.fragments.values()}):
        found = pending.view.queries.get(name)
        if found is None or _is_being_written(pending, name):
            continue
        pending.attempt(f"query {name}", lambda name=name: _carry_on(pending, name))


def _is_being_written(pending: PendingDecision, query: str) -> bool:
    """Whether a change was accepted, and the query's record is not the new one yet."""
    return any(
        found.record.is_open and any(each.query.name == query for each in found.record.alterations)
        for found in pending.view.proposals.values()
    )


def _carry_on(pending: PendingDecision, query: str) -> None:
    records = [record for record in pending.fragments.values() if record.query == query]
    records = [each for each in records if each.key not in pending.planning.reconstructed]
    for record in records:
        # One that is lost begins anew as others do then (`lost_fragments`).
        if record.restart is not None and pending.view.alive(record.primary) and not record.paused:
            _restart(pending, record, record.restart)
    changing = [record for record in records if record.changing is not None]
    if changing:
        _agree(pending, records, changing)
    for record in records:
        _drop_ended(pending, pending.fragments[record.key])


def _restart(pending: PendingDecision, record: FragmentRecord, restart: PlannedRestart) -> None:
    """Have a fragment begin from nothing with its new statement, where it is."""
    view = pending.view
    begins = undelivered(pending, record)
    if isinstance(begins, str):
        pending.problems.append(
            f"{record.key}: its statement was changed; it begins anew once site {begins} says up "
            "to where it has the results"
        )
        return
    if begins is not None:
        after_ms = NO_WATERMARK if restart.all_input else begins.delivered_ms
        begins = Beginning(after_ms=after_ms, delivered_ms=begins.delivered_ms)
    epoch = max([record.epoch, *(each.epoch for each in view.reports_of(record.fragment).values())])
    epoch += 1
    fragment = view.dataflow.fragments.get(record.fragment)
    detail = f"{restart.why}; epoch {epoch} begins from nothing"
    if begins is not None and begins.after_ms != NO_WATERMARK:
        delivered = timestamp_text(begins.delivered_ms)
        detail += f" after {delivered}, up to where results were delivered"
    pending.change_fragment(
        record,
        STATEMENT_CHANGED,
        detail,
        epoch=epoch,
        generation=epoch,
        begins=begins,
        counts_from_ms=None,
        ended_ms=None,
        restart=None,
        restarts=None,
        former=(),
        restored=None,
        took_over=None,
        third=None,
        functions={} if fragment is None else dict(fragment.functions),
    )


def _agree(
    pending: PendingDecision, records: list[FragmentRecord], changing: list[FragmentRecord]
) -> None:
    """Write the cut of a change, once no replica can have evaluated anything beyond."""
    number = max(each.former[-1].change for each in changing)
    known = [_cut_of(record, number) for record in records]
    agreed = [cut_ms for cut_ms in known if cut_ms is not None]
    cut_ms = agreed[0] if agreed else _greatest(pending, changing)
    if cut_ms is None:
        return
    for record in changing:
        *before, last = record.former
        whose = "keeps its state" if last.keeps else "begins anew"
        ended = msgspec.structs.replace(last, until_ms=cut_ms)
        fragment = pending.view.dataflow.fragments.get(record.fragment)
        pending.change_fragment(
            record,
            STATEMENT_CHANGED,
            f"after {timestamp_text(cut_ms)}; it {whose}",
            former=(*before, ended),
            functions=record.functions if fragment is None else dict(fragment.functions),
        )


def _cut_of(record: FragmentRecord, change: int) -> int | None:
    return next((each.until_ms for each in record.former if each.change == change), None)


def _greatest(pending: PendingDecision, changing: list[FragmentRecord]) -> int | None:
    """The greatest event time that a replica has promised not to pass; None: not all have."""
    found: list[int] = []
    for record in changing:
        promises = [*_promises(pending, record)]
        if None in promises:
            waits = ", ".join(each.node for each in record.replicas)
            pending.problems.append(
                f"{record.key}: its statement changes once its replicas on {waits} have said up to "
                "where they have evaluated"
            )
            return None
        found += [each for each in promises if each is not None]
    had_ms = _had_before(pending, changing)
    return None if had_ms is None else max([*found, had_ms], default=None)


def _had_before(pending: PendingDecision, changing: list[FragmentRecord]) -> int | None:
    """Up to where others may have what fragments that have gone on from checkpoints led to before.

    Their own readers are part of their promises. A reader that has gone on from a checkpoint, too,
    knows no more what it had of them; what it made of that, its readers have. A site that was away
    for long is nobody's reader until it is back, and says itself what it has. None: somebody has
    yet to say up to where.
    """
    view, found = pending.view, [NO_WATERMARK]
    restored = {each.fragment for each in changing if each.restored is not None}
    for fragment in view.dataflow.fragments.values():
        record = pending.fragments.get(fragment.key)
        if record is None or record.restored is None:
            continue
        if is_reader := not restored.isdisjoint(fragment.inputs):
            restored.add(fragment.name)
        if fragment.name not in restored:
            continue
        had_ms = [_taken_out_ms(view, record)]
        if is_reader and record.stopped is None:
            status = view.status(record.primary, record.fragment)
            had_ms.append(None if status is None else status.readers_ms)
        for each in had_ms:
            if each is None:
                pending.problems.append(
                    f"{changing[0].key}: its statement changes once all readers of {record.key} "
                    "have said up to where they have its output"
                )
                return None
            found.append(each)
    return max(found)


def _taken_out_ms(view: ClusterView, record: FragmentRecord) -> int | None:
    """Up to where the site has the output of a fragment, if one takes it out."""
    query = view.queries.get(record.query)
    site = None if query is None else query.record.outputs.get(record.fragment)
    if site is None:
        return NO_WATERMARK
    node = view.nodes.get(site)
    if node is None or (status := node.record.sinks.get(record.fragment)) is None:
        return None
    # What it has received and not kept for good yet, it will keep.
    had_ms = [ms for ms in (status.kept_ms, status.watermark_ms) if ms is not None]
    return max(had_ms, default=NO_WATERMARK)


def _promises(pending: PendingDecision, record: FragmentRecord) -> Iterator[int | None]:
    """What each replica has promised; None: nothing yet. The primary must have a state."""
    view, change = pending.view, record.former[-1].change
    for replica in record.replicas:
        status = view.status(replica, record.fragment) if view.alive(replica) else None
        holding = None if status is None else status.holding
        if holding is None or holding.change != change:
            yield None
        elif holding.until_ms is not None:
            yield holding.until_ms
        elif replica == record.primary:
            yield None


def _drop_ended(pending: PendingDecision, record: FragmentRecord) -> None:
    """Drop former statements of which nothing can be any more."""
    if not record.former or record.restart is not None:
        return
    left = [each for each in record.former if _may_be_of(pending, record, each)]
    if len(left) < len(record.former):
        pending.put_fragment(msgspec.structs.replace(record, former=tuple(left)), None)


def _may_be_of(pending: PendingDecision, record: FragmentRecord, former: FormerStatement) -> bool:
    """Whether a state may be of a former statement: of a replica, in a checkpoint, or in a
    savepoint, which has a fragment's record as it is once all its files are copied."""
    view, until_ms = pending.view, former.until_ms
    if until_ms is None or any(
        each.output.watermark_ms <= until_ms for each in stored_of(pending, record.key)
    ):
        return True
    if any(each.record.is_copying(record.key) for each in view.savepoints.values()):
        return True
    statuses = [view.status(replica, record.fragment) for replica in record.replicas]
    if not all(view.alive(replica) for replica in record.replicas) or len(statuses) < 2:
        return True
    return not all(_is_beyond(status, until_ms) for status in statuses)


def _is_beyond(status: ReplicaStatus | None, until_ms: int) -> bool:
    if status is None or status.role is ReplicaRole.WARMING:
        return False
    watermark_ms = status.output_watermark_ms
    return watermark_ms is not None and watermark_ms > until_ms
