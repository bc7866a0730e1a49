"""Which checkpoints a savepoint consists of.

Once somebody wants one, every fragment is to write a checkpoint at once. As soon as each has a
newer one than the wish, the leader chooses those with which all would go on if everything died now
(`Resumption.of_everything`); decision 0018 says why these fit together without a barrier. A
fragment that writes none within the patience is represented by its newest one before. Whoever leads
writes them into it beside the steps (`orchestrator.control.savepoint_work`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from orchestrator.control.decide.checkpoints import stored_of
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.resuming import Resumption
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import (
    Guarantee,
    JournalCopy,
    SavepointPiece,
    SavepointRecord,
    SavepointState,
    StateSpec,
    StoredCheckpoint,
)
from orchestrator.store.protocol import (
    QUERIES,
    RUNNING_QUERIES,
    SAVEPOINTS,
    STREAMS,
    Versioned,
)

PATIENCE_US = 60_000_000
"""For fragments to write their checkpoints, or two intervals between checkpoints if that is more.
"""

BEGUN, FAILED = "savepoint begun", "savepoint failed"
"""Kinds of events."""

NO_FOLDER = (
    "the cluster has no folder of checkpoints. Name one in its manifest, "
    "`state: {folder: …}`, or start it with `vivace up --data FOLDER`"
)


def wanted_us(pending: PendingDecision) -> int:
    """After which time every fragment is to write a checkpoint; 0: none need."""
    states = [found.record for found in pending.view.savepoints.values()]
    return max((each.asked_us for each in states if each.state is SavepointState.WANTED), default=0)


def take_savepoints(pending: PendingDecision) -> None:
    """Choose the checkpoints of each savepoint that is wanted, once they are there, and note the
    journals that sites have copied."""
    for found in pending.view.savepoints.values():
        match found.record.state:
            case SavepointState.WANTED:
                _take(pending, found)
            case SavepointState.COPYING:
                _note_journals(pending, found)
            case _:
                continue


def saves(view: ClusterView) -> dict[str, tuple[str, int]]:
    """Stream → the savepoint that is to get a copy of its journal next."""
    records = [found.record for found in view.savepoints.values()]
    wanted: dict[str, tuple[str, int]] = {}
    for record in sorted(records, key=lambda each: each.asked_us, reverse=True):
        if record.state is SavepointState.COPYING:
            missing = [stream for stream, copy in record.journals.items() if copy is None]
            wanted |= dict.fromkeys(missing, (record.name, record.asked_us))
    return wanted


def _take(pending: PendingDecision, found: Versioned[SavepointRecord]) -> None:
    record, spec = found.record, pending.view.settings.state
    if spec is None:
        _fail(pending, found, NO_FOLDER)
        return
    if not pending.fragments:
        _fail(pending, found, "no query runs: there is no state to keep")
        return
    resumption = Resumption(pending, {key: stored_of(pending, key) for key in pending.fragments})
    chosen = resumption.of_everything()
    awaited = [
        key
        for key in pending.fragments
        if (key not in chosen or chosen[key].at_us < record.asked_us)
        and key not in resumption.unreadable
        and _writes(pending, key)
    ]
    if awaited and _waited_us(pending, record) < patience_us(spec):
        return
    left_out = {
        key: resumption.reasons.get(key, "there is no checkpoint of it")
        for key in pending.fragments
        if key not in chosen
    }
    if not chosen:
        told = "; ".join(f"{key}: {why}" for key, why in left_out.items())
        _fail(pending, found, f"no fragment has a checkpoint to go on from. {told}")
        return
    pieces = tuple(
        SavepointPiece(fragment=key, checkpoint=each.name, at_us=each.at_us, bytes=each.bytes)
        for key, each in sorted(chosen.items())
    )
    begun = msgspec.structs.replace(
        record,
        state=SavepointState.COPYING,
        pieces=pieces,
        journals=dict.fromkeys(_journals(pending, chosen)),
        left_out=left_out,
        basis=basis_of(pending.view),
    )
    detail = f"{len(pieces)} checkpoints, {begun.bytes} bytes"
    if late := [key for key in awaited if key in chosen]:
        detail += f"; {', '.join(late)} wrote none since it was asked for, and counts as before"
    if left_out:
        detail += f"; without {', '.join(left_out)}"
    event = pending.event(BEGUN, record.name, detail)
    pending.write(SAVEPOINTS.key(record.name), begun, found.version, event)


def _journals(pending: PendingDecision, chosen: Mapping[str, StoredCheckpoint]) -> list[str]:
    """The streams that checkpoints read and whose sites keep journals."""
    read = {stream for each in chosen.values() for stream in each.inputs}
    return sorted(
        name
        for name, stream in pending.planning.streams.items()
        if name in read
        and stream.running.start_at_us is not None
        and stream.spec.resumes
        and stream.spec.source is not None
        and stream.spec.source.guarantee is Guarantee.JOURNALED
    )


def _note_journals(pending: PendingDecision, found: Versioned[SavepointRecord]) -> None:
    """Note which sites have copied their journals, or that one cannot."""
    record, spec, journals = found.record, pending.view.settings.state, dict(found.record.journals)
    for stream in [stream for stream, copy in journals.items() if copy is None]:
        entering = pending.view.entering.get(stream)
        site = "" if entering is None else entering.feeding_site
        copy = _copy_at(pending.view, site, stream)
        if copy is not None and (copy.savepoint, copy.asked_us) == (record.name, record.asked_us):
            if copy.why:
                why = f"the journal of stream {stream} is not copied at site {site}: {copy.why}"
                _fail(pending, found, why)
                return
            journals[stream] = copy
        elif spec is None or _waited_us(pending, record) > 2 * patience_us(spec):
            _fail(pending, found, f"site {site} does not copy the journal of stream {stream}")
            return
    if journals != record.journals:
        noted = msgspec.structs.replace(record, journals=journals)
        pending.write(SAVEPOINTS.key(record.name), noted, found.version)


def _copy_at(view: ClusterView, site: str, stream: str) -> JournalCopy | None:
    node = view.nodes.get(site)
    source = None if node is None else node.record.sources.get(stream)
    return None if source is None or source.input is None else source.input.saved


def note_departures(pending: PendingDecision, how: Mapping[str, str]) -> None:
    """Note in savepoints of which queries the results are others from now on than those to which
    their states there lead: so are those of the queries that read them.

    Parameters
    ----------
    how
        Query → how that came, a clause.
    """
    view = pending.view
    departing = {
        reader: why
        for name, why in how.items()
        for reader in (
            name,
            *(each for each in view.queries if name in view.dataflow.upstream_queries(each)),
        )
    }
    for name, found in view.savepoints.items():
        key = SAVEPOINTS.key(name)
        written = [each.record for each in pending.writes if each.key.path == key.path]
        record = next((r for r in written[::-1] if isinstance(r, SavepointRecord)), found.record)
        held = {each.fragment.partition(".")[0] for each in record.pieces}
        new = {each: departing[each] for each in departing.keys() & held - record.departed.keys()}
        if new and record.state is not SavepointState.DELETED:
            noted = msgspec.structs.replace(record, departed=record.departed | new)
            pending.write(key, noted, found.version + len(written))


def basis_of(view: ClusterView) -> dict[str, tuple[int, int]]:
    """What a savepoint rests on: its checkpoints are of these statements and streams."""
    found = {STREAMS.key(name).path: each.report for name, each in view.streams.items()}
    found |= {QUERIES.key(name).path: each.report for name, each in view.queries.items()}
    running = view.running_queries.items()
    return found | {RUNNING_QUERIES.key(name).path: each.report for name, each in running}


def _writes(pending: PendingDecision, key: str) -> bool:
    """Whether a fragment can be expected to write a checkpoint: it has evaluated something."""
    record = pending.fragments[key]
    if record.stopped is not None:
        return False
    reports = pending.view.reports_of(record.fragment).values()
    return any(each.output_watermark_ms is not None for each in reports)


def patience_us(spec: StateSpec) -> float:
    """For how long newer checkpoints are awaited."""
    return max(PATIENCE_US, 2 * spec.every_ms * 1000)


def _waited_us(pending: PendingDecision, record: SavepointRecord) -> int:
    """For how long what a savepoint consists of has been awaited."""
    since_us = pending.view.saving_since_us.get(record.name, record.asked_us)
    return pending.now_us - since_us


def _fail(pending: PendingDecision, found: Versioned[SavepointRecord], why: str) -> None:
    record = found.record
    failed = msgspec.structs.replace(
        record, state=SavepointState.FAILED, why=why, ended_us=pending.now_us
    )
    event = pending.event(FAILED, record.name, why)
    pending.write(SAVEPOINTS.key(record.name), failed, found.version, event)
