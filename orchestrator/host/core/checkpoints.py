"""When replicas are to be kept for good, and how they go on from what was kept.

A cluster with a folder of checkpoints survives the death of everything. Each fragment writes a
snapshot of itself into the folder once in an interval, the same pieces that a new secondary gets
from its primary. No barrier is needed: a snapshot names its position in each input and in its
output. Whoever goes on from it reads its inputs from these positions on, and makes the same tuples
under the same numbers; consumers drop those that they have. For a savepoint, the leader wants one
at once (`FragmentAssignment.checkpoint_us`).

The standby writes, because the primary has more to do. The primary writes as long as no standby has
been heard. Intervals begin at the same moments everywhere, by the cluster's clock. So checkpoints
of producers and consumers lie close together, and little has to be made again.

A new primary that goes on from a checkpoint is warming until the checkpoint has been read. What it
has received meanwhile is given up: it asks its producers for what follows the checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from foundation.timestamps import timestamp_text
from ha.roles import ReplicaRole
from orchestrator.host.core.dispatcher import Dispatcher
from orchestrator.host.core.events import (
    CheckpointFailed,
    CheckpointRead,
    CheckpointUnreadable,
    CheckpointWritten,
    Outbox,
    WriteCheckpoint,
)
from orchestrator.host.core.hosted_replica import HostedReplica
from orchestrator.host.core.replica_manager import ReplicaManager, fingerprint
from orchestrator.host.core.state_loss import StateLoss, said
from orchestrator.records import StateSpec, StoredCheckpoint, StoredPosition
from streams.vectors.chunk import NO_WATERMARK, Position

WRITING_US = 600_000_000
"""After that time a checkpoint that is neither kept nor refused is tried again."""

READING_US = 120_000_000
"""After that time a checkpoint that has not been read counts as unreadable."""


@dataclass(slots=True)
class Checkpoints:
    """The checkpoints of one host's replicas.

    Attributes
    ----------
    node
        Name of the host.
    spec
        Where and when they are kept; None: nowhere.
    replica_manager
        The replicas.
    dispatcher
        Told when roles have changed.
    state_loss
        Has a replica read its inputs from where it is.
    outbox
        Takes commands and reports.
    """

    node: str
    spec: StateSpec | None
    replica_manager: ReplicaManager
    dispatcher: Dispatcher
    state_loss: StateLoss
    outbox: Outbox

    def take(self, now_us: int) -> None:
        """Have a checkpoint written of each replica that is due, and end what takes too long."""
        for hosted in self.replica_manager.replicas.values():
            since_us = hosted.restoring_us
            if since_us is not None and now_us - since_us > READING_US:
                self._unusable(hosted, f"was not read within {READING_US / 1e6:.0f} s", now_us)
            if self.spec is not None and self._writes(hosted):
                self._take(hosted, self.spec, now_us)

    def _writes(self, hosted: HostedReplica) -> bool:
        """Whether it falls to this replica to be kept."""
        if hosted.replica.role is ReplicaRole.STANDBY:
            return hosted.lags_since_us is None and not hosted.awaits_input
        if hosted.replica.role is not ReplicaRole.PRIMARY:
            return False
        has_standby = hosted.peer_replica is not None and hosted.standby_ms != NO_WATERMARK
        return not has_standby

    def _take(self, hosted: HostedReplica, spec: StateSpec, now_us: int) -> None:
        if hosted.stores_us is not None and now_us - hosted.stores_us < WRITING_US:
            return
        at_us = self.replica_manager.clock.at(now_us)
        slot = int(at_us // (spec.every_ms * 1000))
        wanted_us = hosted.assignment.checkpoint_us
        is_wanted = hosted.stored_for_us < wanted_us <= at_us
        if hosted.stored_slot == slot and not is_wanted:
            return
        # Until the first evaluation there is nothing to go on from.
        if hosted.replica.output_watermark_ms is None:
            return
        if (snapshot := hosted.replica.snapshot()) is None:
            return
        hosted.stored_slot, hosted.stores_us = slot, now_us
        if is_wanted:
            hosted.stored_for_us = wanted_us
        a, output = hosted.assignment, hosted.replica.log.end
        stored = StoredCheckpoint(
            # Of output that stands still, later ones have less of the log: no name comes again.
            name=f"{a.generation}-{output.watermark_ms}-{at_us}-{self.node}.checkpoint",
            at_us=at_us,
            generation=snapshot.generation,
            inputs={
                stream: (generation, _stored(position))
                for stream, (generation, position) in snapshot.inputs.items()
            },
            log_base=_stored(snapshot.log_base),
            output=_stored(output),
        )
        hosted.storing.add(stored.name)
        self.outbox.add(
            WriteCheckpoint(
                query=a.query,
                fragment=a.fragment,
                program=fingerprint(a, text=hosted.replica.engine.program.text),
                snapshot=snapshot,
                stored=stored,
            )
        )

    def on_written(self, event: CheckpointWritten) -> None:
        """Note that a checkpoint is kept."""
        self.outbox.counters["checkpoints_kept"] += 1
        self.outbox.counters["checkpoint_bytes_kept"] += event.stored.bytes
        hosted = self.replica_manager.replicas.get(event.fragment)
        if hosted is None or hosted.replica.generation != event.stored.generation:
            return
        if event.stored.name not in hosted.storing:
            # Of a replica that was here before. Its fragment may have gone back behind that.
            return
        hosted.storing.discard(event.stored.name)
        hosted.stores_us, hosted.stored = None, event.stored
        until = timestamp_text(event.stored.output.watermark_ms)
        detail = f"{event.stored.bytes} bytes, up to {until}"
        self.outbox.report("checkpoint kept", event.fragment, detail)

    def on_failed(self, event: CheckpointFailed) -> None:
        """Say that a checkpoint could not be kept. The next one is due in the next interval."""
        self.outbox.counters["checkpoints_failed"] += 1
        self.outbox.report("checkpoint not kept", event.fragment, event.why)
        if (hosted := self.replica_manager.replicas.get(event.fragment)) is not None:
            hosted.stores_us = None
            hosted.storing.clear()

    def on_read(self, event: CheckpointRead, now_us: int) -> None:
        """Have a primary go on from the checkpoint that was read for it."""
        hosted = self._restoring(event.fragment, event.name)
        if hosted is None:
            return
        replica, a = hosted.replica, hosted.assignment
        for entry in replica.inputs.values():
            entry.cursor.reset()
            entry.release()
        snapshot = msgspec.structs.replace(event.snapshot, epoch=a.epoch)
        try:
            installed = replica.install(snapshot)
        except Exception as error:  # noqa: BLE001  A broken checkpoint must not end this host.
            self._unusable(hosted, said(error), now_us)
            return
        if not installed:
            self._unusable(hosted, "is of a former generation", now_us)
            return
        hosted.restoring_us = None
        self.replica_manager.restrict(replica)
        replica.log.keep_whole()
        hosted.promote()
        self.outbox.report("restored", event.fragment, f"{event.name}, epoch {replica.epoch}")
        self.dispatcher.rebuild_tasks(now_us)
        self.state_loss.go_back(hosted)

    def on_unreadable(self, event: CheckpointUnreadable, now_us: int) -> None:
        """Say that the checkpoint cannot be used: the leader names another one."""
        if (hosted := self._restoring(event.fragment, event.name)) is not None:
            self._unusable(hosted, event.why, now_us)

    def _restoring(self, fragment: str, name: str) -> HostedReplica | None:
        hosted = self.replica_manager.replicas.get(fragment)
        if hosted is None or hosted.restoring_us is None or hosted.assignment.restores != name:
            return None
        return hosted

    def _unusable(self, hosted: HostedReplica, why: str, now_us: int) -> None:
        a = hosted.assignment
        hosted.restoring_us, hosted.unusable = None, a.restores
        detail = f"checkpoint {a.restores} {why}"
        self.outbox.report("checkpoint unusable", a.fragment, detail)
        hosted.failed(detail, now_us)


def _stored(position: Position) -> StoredPosition:
    return StoredPosition(next_seq=position.next_seq, watermark_ms=position.watermark_ms)
