"""From which checkpoints lost fragments go on, and which others must go back for that.

A fragment that goes on from a checkpoint reads its inputs again from the positions that the
checkpoint names. A producer must be able to send them:

* a source that can be read again does so;
* a fragment that is lost, too, goes on from a checkpoint whose output log begins at that position
  or before;
* a fragment that runs has dropped that output, because it was acknowledged. It goes back to such a
  checkpoint of its own, and so do its producers in turn. Consumers that have not gone back drop
  what it makes again.

So checkpoints are chosen from the outputs up, the newest that will do. A fragment for which there
is none begins from nothing. So does a lost fragment if a producer that runs could not go back far
enough, and if what it reads is read once.

A reader that begins from nothing needs what its sinks lack, and its windows before that. If no
checkpoint of a producer reaches back so far, the producer begins from nothing, too, and makes all
of it again out of its own input. Where time does not bound what its results depend on, it would
lose its state by that. It keeps the state then, and the reader lacks some input, which is counted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from foundation.timestamps import timestamp_text
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.undelivered import undelivered
from orchestrator.control.observe.dataflow import Fragment
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import FragmentRecord, StoredCheckpoint
from streams.vectors.chunk import NO_WATERMARK


def retained_ms(view: ClusterView, stream: str) -> int | None:
    """Event time after which the journal of a stream begins; None: it has none, or all of the
    stream, or its site is away."""
    entering = view.entering.get(stream)
    site = None if entering is None else view.hosts.get(entering.feeding_site)
    source = None if site is None else site.sources.get(stream)
    return None if source is None or source.input is None else source.input.retained_ms


@dataclass(slots=True)
class _Needs:
    """The event times after which readers need the output of a fragment.

    Attributes
    ----------
    resumed_ms
        Those that go on from checkpoints.
    begun_ms
        Those that begin from nothing.
    awaited
        Whether a site has yet to say more about the latter.
    """

    resumed_ms: float = math.inf
    begun_ms: float = math.inf
    awaited: bool = False


@dataclass(slots=True)
class Resumption:
    """A choice of checkpoints.

    Attributes
    ----------
    pending
        Records and dataflow.
    stored
        Fragment → its checkpoints, the oldest first.
    reasons
        Lost fragment that begins from nothing → why.
    unreadable
        Those of them whose input cannot be had again, whatever is kept of them.
    """

    pending: PendingDecision
    stored: Mapping[str, Sequence[StoredCheckpoint]]
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    unreadable: set[str] = field(default_factory=set[str])

    def of_everything(self, keys: Collection[str] | None = None) -> dict[str, StoredCheckpoint]:
        """Those from which all fragments would go on if everything died now; or only some of them,
        if the others do not run.

        What readers need that begin from nothing is not known before that.
        """
        lost = set(self.pending.fragments if keys is None else keys)
        return self._choose(lost, frozenset(), begins_known=False)[0]

    def of(self, lost: Collection[str]) -> dict[str, StoredCheckpoint]:
        """Those of lost fragments, and of fragments that run and must go back for them."""
        refused: set[str] = set()
        while True:
            chosen, stuck = self._choose(set(lost), refused, begins_known=True)
            if stuck is None:
                return chosen
            # Nothing that a fragment which runs would have to make again can be had.
            below = self._below(stuck) & set(lost) & chosen.keys()
            for key in below:
                self.reasons[key] = f"no checkpoint of {stuck}, which runs, reaches back so far"
            if not below:
                return {key: each for key, each in chosen.items() if key in lost}
            refused |= below

    def _choose(
        self, lost: set[str], refused: Collection[str], *, begins_known: bool
    ) -> tuple[dict[str, StoredCheckpoint], str | None]:
        """A choice, and a fragment that runs and cannot go back as far as that choice needs."""
        flow = self.pending.view.dataflow.fragments
        chosen: dict[str, StoredCheckpoint] = {}
        wanted = set(lost)
        for fragment in reversed([*flow.values()]):
            if fragment.key not in wanted or fragment.key not in self.pending.fragments:
                continue
            found = None
            restart = self.pending.fragments[fragment.key].restart
            if restart is not None and fragment.key in lost and begins_known:
                self.reasons[fragment.key] = restart.why
            elif fragment.key not in refused:
                found = self._newest(fragment, chosen, lost, begins_known=begins_known)
            if found is not None:
                chosen[fragment.key] = found
                wanted |= {flow[each].key for each in fragment.inputs if each in flow}
            elif fragment.key not in lost and begins_known:
                return chosen, fragment.key
        return chosen, None

    def _newest(
        self,
        fragment: Fragment,
        chosen: Mapping[str, StoredCheckpoint],
        lost: Collection[str],
        *,
        begins_known: bool,
    ) -> StoredCheckpoint | None:
        record = self.pending.fragments[fragment.key]
        needs = self._needs(fragment, record, chosen, lost, begins_known=begins_known)
        listed = self.stored.get(fragment.key, ())
        why = "there is none" if not listed else "none reaches back to what its consumers need"
        furthest: StoredCheckpoint | None = None
        for each in reversed(listed):
            if each.generation != record.generation or each.inputs.keys() != fragment.inputs.keys():
                why = "those that there are were taken of another statement"
            elif (unread := self.why_unreadable(each, now=begins_known)) is not None:
                why = unread
                self.unreadable.add(fragment.key)
            elif each.log_base.watermark_ms <= needs.resumed_ms:
                if each.log_base.watermark_ms <= needs.begun_ms:
                    return each
                furthest = each
        if furthest is not None and fragment.is_endless and not needs.awaited:
            return furthest
        self.reasons[fragment.key] = why
        return None

    def _needs(
        self,
        fragment: Fragment,
        record: FragmentRecord,
        chosen: Mapping[str, StoredCheckpoint],
        lost: Collection[str],
        *,
        begins_known: bool,
    ) -> _Needs:
        needs, fragments = _Needs(), self.pending.fragments
        for reader in self.pending.view.dataflow.fragments.values():
            if fragment.name not in reader.inputs or reader.key not in fragments:
                continue
            if (resumed := chosen.get(reader.key)) is not None:
                generation, position = resumed.inputs[fragment.name]
                # A checkpoint of a former generation needs nothing of this one.
                if generation == record.generation:
                    needs.resumed_ms = min(needs.resumed_ms, position.watermark_ms)
            elif begins_known and reader.key in lost and fragments[reader.key].restart is None:
                begins = undelivered(self.pending, fragments[reader.key])
                if isinstance(begins, str):
                    needs.awaited, needs.begun_ms = True, NO_WATERMARK
                elif begins is not None:
                    needs.begun_ms = min(needs.begun_ms, begins.after_ms)
        return needs

    def why_unreadable(self, checkpoint: StoredCheckpoint, *, now: bool) -> str | None:
        """Why the input that follows a checkpoint cannot be had again; None: it can.

        Parameters
        ----------
        now
            Whether it is to be had by what journals have now.
        """
        streams = self.pending.planning.streams
        for stream, (generation, position) in checkpoint.inputs.items():
            if (entering := streams.get(stream)) is None:
                continue
            if not entering.spec.resumes:
                return f"stream {stream} is read once"
            if entering.running.generation != generation:
                return f"stream {stream} has begun anew"
            kept_ms = retained_ms(self.pending.view, stream) if now else None
            if kept_ms is not None and position.watermark_ms < kept_ms:
                return f"the journal of stream {stream} begins after {timestamp_text(kept_ms)}"
        return None

    def above(self, keys: Collection[str]) -> set[str]:
        """The fragments that lead to others."""
        flow, found = self.pending.view.dataflow.fragments, set[str]()
        for fragment in reversed([*flow.values()]):
            if fragment.key in keys or fragment.key in found:
                found |= {flow[each].key for each in fragment.inputs if each in flow}
        return found

    def _below(self, key: str) -> set[str]:
        """The fragments that a fragment leads to."""
        flow = self.pending.view.dataflow.fragments
        names = {each.name for each in flow.values() if each.key == key}
        found: set[str] = set()
        for fragment in flow.values():
            if names & fragment.inputs.keys():
                names.add(fragment.name)
                found.add(fragment.key)
        return found
