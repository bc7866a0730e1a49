"""A host on paper: it reports what it is assigned as done, and does no work."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ha.roles import ReplicaRole
from orchestrator.host.core.events import RecordLoss, RecordTakeover
from orchestrator.host.shell.fragment_changes import FragmentChange, revised
from orchestrator.host.shell.trial import run_trial
from orchestrator.host.shell.trial_responses import TrialResponses
from orchestrator.records import (
    FragmentAssignment,
    FragmentRecord,
    HoldingStatus,
    NodeRecord,
    ReplicaId,
    ReplicaStatus,
    SinkAssignment,
    SinkStatus,
    SourceAssignment,
    SourceStatus,
)
from orchestrator.records.hosts import NOTHING_DELIVERED, NOTHING_ENTERED
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.ephemeral import EphemeralRecord
from orchestrator.store.protocol import ASSIGNMENTS, FRAGMENTS, NODES, TRIALS, Versioned
from streams.vectors.chunk import NO_WATERMARK

LOST = "lost"
"""The cause that records name."""


def _holding(asked: FragmentAssignment, known: ReplicaStatus) -> HoldingStatus | None:
    """What a replica promises for a change of its statement: to go no further than it has come."""
    last = asked.former[-1] if asked.former else None
    if last is None or last.until_ms is not None:
        return None
    until_ms = NO_WATERMARK if known.output_watermark_ms is None else known.output_watermark_ms
    return HoldingStatus(change=last.change, until_ms=until_ms)


class PaperHost:
    """A session, and what the host says of itself.

    Every replica that it is assigned is there at once, and every secondary is warm.

    Parameters
    ----------
    record
        What it says first.
    runs_trials
        Whether it tries statements, here and now, for who asks it to.
    """

    def __init__(
        self, server: MemoryServer, record: NodeRecord, *, runs_trials: bool = True
    ) -> None:
        self.store = server.connect()
        self.record = record
        self._published = EphemeralRecord(self.store, NODES.key(record.node))
        self._published.publish(record)
        if runs_trials:
            self.store.watch(TRIALS, TrialResponses(self.store, self.me, run_trial).respond)

    @property
    def me(self) -> ReplicaId:
        """The host in its incarnation."""
        return ReplicaId(node=self.record.node, incarnation=self.record.incarnation)

    def end(self) -> None:
        """End its session."""
        self.store.close()

    def tell(self, **changes: object) -> None:
        """Say something else of itself."""
        self.record = msgspec.structs.replace(self.record, **changes)
        self._published.publish(self.record)

    def obey(self) -> None:
        """Report what is assigned as done."""
        found = self.store.get(ASSIGNMENTS.key(self.record.node))
        if found is None or found.record.incarnation != self.record.incarnation:
            return
        now = {
            "replicas": {a.fragment: self.replica(a) for a in found.record.fragments},
            "sources": {a.stream: self.source(a) for a in found.record.sources},
            "sinks": {a.stream: self.sink(a) for a in found.record.sinks},
        }
        if any(getattr(self.record, field) != value for field, value in now.items()):
            self.tell(**now)

    def replica(self, asked: FragmentAssignment) -> ReplicaStatus:
        """What it says of a replica: what it has said before, in the role that is asked for."""
        is_primary = asked.role == "primary"
        known = self.record.replicas.get(asked.fragment)
        if known is None or known.generation != asked.generation:
            known = ReplicaStatus(role=ReplicaRole.STANDBY, epoch=0, output_watermark_ms=None)
        return msgspec.structs.replace(
            known,
            role=ReplicaRole.PRIMARY if is_primary else ReplicaRole.STANDBY,
            epoch=asked.epoch,
            generation=asked.generation,
            lags_since_us=None if is_primary else known.lags_since_us,
            holding=_holding(asked, known),
        )

    def source(self, asked: SourceAssignment) -> SourceStatus:
        """What it says of a stream that enters here."""
        return msgspec.structs.replace(
            self.record.sources.get(asked.stream, NOTHING_ENTERED),
            role=ReplicaRole.PRIMARY if asked.role == "primary" else ReplicaRole.STANDBY,
            epoch=asked.epoch,
        )

    def sink(self, asked: SinkAssignment) -> SinkStatus:
        """What it says of a stream that leaves here."""
        return self.record.sinks.get(asked.stream, NOTHING_DELIVERED)

    def miss(
        self,
        fragment: Versioned[FragmentRecord],
        gone: Mapping[ReplicaId, tuple[int, int]],
        us: int,
    ) -> None:
        """Record that the other replica of a fragment is gone, as a host does that notices it.

        Parameters
        ----------
        gone
            Hosts in the incarnations that are gone, and their last reports.
        us
            Cluster clock.
        """
        record, secondary = fragment.record, fragment.record.secondary
        if record.primary == self.me and secondary is not None and secondary in gone:
            self.lose_secondary(record, fragment.version, gone[secondary], us)
        elif secondary == self.me and record.primary in gone and self._is_warm(record):
            self.take_over(record, fragment.version, gone[record.primary], us)

    def _is_warm(self, record: FragmentRecord) -> bool:
        status = self.record.replicas.get(record.fragment)
        return status is not None and status.role is not ReplicaRole.WARMING

    def take_over(
        self,
        record: FragmentRecord,
        version: int,
        report: tuple[int, int] | None,
        us: int,
        cause: str = LOST,
    ) -> None:
        """Record that the secondary here has become primary."""
        event = RecordTakeover(
            query=record.query,
            fragment=record.fragment,
            epoch=record.epoch + 1,
            previous=record.primary.node,
            cause=cause,
            detected_at_us=us,
        )
        self._record(record, version, event, record.primary, report)

    def lose_secondary(
        self,
        record: FragmentRecord,
        version: int,
        report: tuple[int, int] | None,
        us: int,
        cause: str = LOST,
    ) -> None:
        """Record that the primary here has lost its secondary."""
        assert record.secondary is not None
        event = RecordLoss(
            query=record.query,
            fragment=record.fragment,
            epoch=record.epoch,
            lost=record.secondary.node,
            cause=cause,
            detected_at_us=us,
        )
        self._record(record, version, event, record.secondary, report)

    def _record(
        self,
        record: FragmentRecord,
        version: int,
        event: RecordTakeover | RecordLoss,
        lost: ReplicaId,
        report: tuple[int, int] | None,
    ) -> None:
        change = FragmentChange(event=event, by=self.me, lost=lost, report=report)
        after = revised(record, change, lambda: False)
        assert isinstance(after, FragmentRecord)
        self.store.update(FRAGMENTS.key(record.key), after, version)
