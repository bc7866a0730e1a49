"""The checkpoints that are kept: which there are, and which are needed no longer.

Hosts report the checkpoints that they have put into the cluster's folder; the leader keeps a list
of each fragment's (`CheckpointsRecord`). A checkpoint is dropped from the list once enough sets of
newer ones are kept with which everything could resume. Its file is removed later, by whoever leads
(`orchestrator.control.checkpoint_sweep`): a list that is written comes first, so no file is removed
that a list names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foundation.timestamps import timestamp_text
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.resuming import Resumption, retained_ms
from orchestrator.records import (
    CheckpointsRecord,
    FragmentRecord,
    ReplicaStatus,
    StateSpec,
    StoredCheckpoint,
)
from orchestrator.store.protocol import CHECKPOINTS, FRAGMENTS

MOST_KEPT = 256
"""Checkpoints of one fragment, if nobody knows with which of them everything could go on."""


def keep_checkpoints(pending: PendingDecision) -> None:
    """List new checkpoints, and drop those that cannot be used or are needed no longer."""
    view, changed = pending.view, False
    if view.settings.state is None and not view.checkpoints:
        return
    for key, record in pending.fragments.items():
        if key in pending.planning.reconstructed:
            continue
        before = stored_of(pending, key)
        now = _with_news(pending, record, before)
        if now != before:
            changed = True
            pending.checkpoints[key] = now
    if changed:
        _drop_unneeded(pending)
    for key, found in view.checkpoints.items():
        if key not in pending.fragments and key not in view.broken(FRAGMENTS):
            pending.write(CHECKPOINTS.key(key), None, found.version)
    for key in pending.checkpoints:
        _put(pending, key)


def stored_of(pending: PendingDecision, key: str) -> tuple[StoredCheckpoint, ...]:
    """A fragment's checkpoints as they will be listed, the oldest first."""
    if key in pending.checkpoints:
        return pending.checkpoints[key]
    found = pending.view.checkpoints.get(key)
    return () if found is None else found.record.stored


def _put(pending: PendingDecision, key: str) -> None:
    found, record = pending.view.checkpoints.get(key), pending.fragments[key]
    stored = pending.checkpoints[key]
    wanted = CheckpointsRecord(query=record.query, fragment=record.fragment, stored=stored)
    if found is None or found.record != wanted:
        pending.put_checkpoints(wanted)


def _with_news(
    pending: PendingDecision, record: FragmentRecord, before: tuple[StoredCheckpoint, ...]
) -> tuple[StoredCheckpoint, ...]:
    """The list with what replicas have reported since, in the order of the output."""
    reports = pending.view.reports_of(record.fragment).values()
    since = 0 if record.restored is None else record.restored.epoch
    current = [each for each in reports if _is_of(each, record, since)]
    unusable = {each.unusable for each in reports}
    known = {each.name: each for each in before}
    for status in current:
        if status.stored is not None and status.stored.generation == record.generation:
            known[status.stored.name] = status.stored
    kept = [each for name, each in known.items() if name not in unusable]
    kept = [each for each in kept if each.generation == record.generation]
    return tuple(sorted(kept, key=_age))


def _is_of(status: ReplicaStatus, record: FragmentRecord, since: int) -> bool:
    """Whether a replica is of the present state, not of one that was gone back from."""
    return status.generation == record.generation and status.epoch >= since


def _drop_unneeded(pending: PendingDecision) -> None:
    spec = pending.view.settings.state
    if spec is None:
        return
    # Paused queries hold the old checkpoints of what they read, and not all that came since.
    counted = {key for key, each in pending.fragments.items() if _counts(each)}
    running = {key for key in counted if pending.fragments[key].stopped is None}
    sets = _sets(pending, spec, counted)
    recent = sets if running == counted else _sets(pending, spec, running)
    for key in pending.fragments:
        listed = stored_of(pending, key)
        named = {found[key].name for found in sets.chosen if key in found}
        if key in sets.unreadable:
            # Nothing could go on from one of them now. They are too few to cost anything.
            since = listed[-spec.keep :]
        elif sets.chosen and recent.is_enough and key in recent.oldest.keys() - recent.excused:
            since = tuple(each for each in listed if not _is_older(each, recent.oldest[key]))
        else:
            since = listed[-MOST_KEPT:]
        named |= {each.name for each in since}
        if not sets.is_enough and key in sets.oldest:
            # With less than that, some fragment might begin from nothing.
            before = [each for each in listed if _is_older(each, sets.oldest[key])]
            named |= {each.name for each in before[-MOST_KEPT:]}
        kept = tuple(each for each in listed if each.name in named)
        if kept != listed:
            pending.checkpoints[key] = kept


def _counts(record: FragmentRecord) -> bool:
    """Whether a fragment is to go on from a checkpoint: it runs, or will once it is resumed."""
    return record.paused or record.stopped is None


def _is_older(one: StoredCheckpoint, other: StoredCheckpoint) -> bool:
    return _age(one) < _age(other)


def _age(checkpoint: StoredCheckpoint) -> tuple[int, int]:
    return checkpoint.output.watermark_ms, checkpoint.at_us


@dataclass(frozen=True, slots=True)
class _Sets:
    """Sets of checkpoints with which everything could go on.

    Attributes
    ----------
    chosen
        Fragment → checkpoint, of each set; the newest set first.
    unreadable
        Fragments that can go on from no checkpoint, because their input cannot be had again.
    excused
        These, and those that lead to them: what they need of the latter when they begin from
        nothing is not known yet.
    is_enough
        Whether there are as many as are to be kept.
    """

    chosen: list[dict[str, StoredCheckpoint]]
    unreadable: set[str]
    excused: set[str]
    is_enough: bool

    @property
    def oldest(self) -> dict[str, StoredCheckpoint]:
        """The oldest of them."""
        return self.chosen[-1] if self.chosen else {}


def _sets(pending: PendingDecision, spec: StateSpec, keys: set[str]) -> _Sets:
    """The newest sets with which these fragments could go on, as many as are to be kept."""
    stored: Mapping[str, Sequence[StoredCheckpoint]] = {
        key: stored_of(pending, key) for key in pending.fragments
    }
    sets = list[dict[str, StoredCheckpoint]]()
    unreadable, excused = set[str](), set[str]()
    for _ in range(spec.keep):
        resumption = Resumption(pending, stored)
        chosen = resumption.of_everything(keys)
        if not sets:
            unreadable = resumption.unreadable - chosen.keys()
            excused = unreadable | resumption.above(unreadable)
        if any(key not in chosen and key not in excused for key in keys):
            break
        sets.append(chosen)
        stored = {
            # A paused fragment writes no others.
            key: each
            if pending.fragments[key].paused or key not in chosen
            else [one for one in each if _is_older(one, chosen[key])]
            for key, each in stored.items()
        }
    return _Sets(sets, unreadable, excused, len(sets) == spec.keep)


def needed_ms(pending: PendingDecision) -> dict[str, int]:
    """Stream that enters → event time up to which no checkpoint that is kept needs it again.

    Streams of which nobody knows that are not named.
    """
    found: dict[str, int] = {}
    unknown: set[str] = set()
    flow = pending.view.dataflow.fragments
    for fragment in flow.values():
        record = pending.fragments.get(fragment.key)
        if record is not None and not _counts(record):
            # It begins from nothing when its statement is changed.
            continue
        listed = stored_of(pending, fragment.key)
        for stream in fragment.inputs:
            if stream in flow:
                continue
            if not listed or stream not in listed[0].inputs:
                unknown.add(stream)
                continue
            _, position = listed[0].inputs[stream]
            found[stream] = min(found.get(stream, position.watermark_ms), position.watermark_ms)
    return {stream: ms for stream, ms in found.items() if stream not in unknown}


def name_gaps(pending: PendingDecision) -> None:
    """Say of which streams a journal has dropped what a checkpoint may need."""
    for stream, since_ms in needed_ms(pending).items():
        kept_ms = retained_ms(pending.view, stream)
        if kept_ms is not None and kept_ms > since_ms:
            begins, needed = timestamp_text(kept_ms), timestamp_text(since_ms)
            pending.problems.append(
                f"stream {stream}: its journal begins after {begins}, and checkpoints need it "
                f"from {needed} on. If everything died now, its queries would begin anew. "
                "Raise `retain` of the stream, or of `state` in the cluster's manifest"
            )


def drop_newer(pending: PendingDecision, key: str, than: StoredCheckpoint) -> None:
    """List no checkpoint beyond the one that a fragment goes on from.

    Its consumers may have gone back behind them, and would lack what lies between.
    """
    listed = stored_of(pending, key)
    kept = tuple(each for each in listed if not _is_older(than, each))
    if kept != listed:
        pending.checkpoints[key] = kept
        _put(pending, key)


def spelled(checkpoint: StoredCheckpoint, now_us: int) -> str:
    """A checkpoint in an event of the history."""
    age_s = max(now_us - checkpoint.at_us, 0) / 1e6
    text = f"checkpoint {checkpoint.name}, {age_s:.0f} s old, "
    return text + f"output up to {timestamp_text(checkpoint.output.watermark_ms)}"
