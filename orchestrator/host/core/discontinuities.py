"""Discontinuities of streams: a new generation, or a hole that no producer can fill.

Primaries cross them alone. A standby stops before one, keeps its state while its primary may still
be lost, and goes on with its primary's state from beyond; if it becomes primary first, it crosses
itself (docs/protocol/discontinuity-and-departure.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from foundation.timestamps import timestamp_text
from ha.failure_detector import FailureDetector
from ha.messages import Data, Subscribed
from ha.roles import ReplicaRole
from ha.subscription import Subscription
from orchestrator.host.core.events import Outbox
from orchestrator.host.core.hosted_replica import HostedReplica
from orchestrator.host.core.replica_manager import ReplicaManager
from orchestrator.host.core.state_loss import StateLoss
from orchestrator.records.assignments import SINK_PREFIX


@dataclass(frozen=True, slots=True)
class Discontinuities:
    """Takes the readers of one host across discontinuities, or has them stop.

    Attributes
    ----------
    replica_manager
        The replicas and sinks of this host.
    outbox
        Takes messages and reports.
    state_loss
        Gives up what cannot be continued.
    detector
        Says whether a standby is lost.
    """

    replica_manager: ReplicaManager
    outbox: Outbox
    state_loss: StateLoss
    detector: FailureDetector

    def cross(
        self, subscription: Subscription, reader: str, answer: Subscribed, now_us: int
    ) -> None:
        """Take a reader to a new generation of its stream, or have a secondary start over."""
        if not self._may_cross(reader, subscription.stream, now_us):
            return
        cursor = subscription.readers[reader]
        # Of several generations in a row, an earlier one may have come further.
        complete_ms = cursor.complete_ms
        detail = f"generation {cursor.generation} ended at {timestamp_text(complete_ms)}, "
        detail += f"generation {answer.generation} follows"
        cursor.cross(answer.position, answer.generation)
        lost = 0
        if answer.position.watermark_ms > complete_ms:
            lost = answer.position.next_seq
            detail += f" after {timestamp_text(answer.position.watermark_ms)}, tuple {lost}"
        self._note_lost(reader, answer.stream, lost, detail)

    def skip(self, subscription: Subscription, reader: str, data: Data, now_us: int) -> bool:
        """Take a reader across a hole before some data; whether it is beyond now."""
        if not self._may_cross(reader, data.stream, now_us):
            return False
        cursor = subscription.readers[reader]
        begins = cursor.position.next_seq if cursor.position is not None else 0
        lost = cursor.skip_to(data.chunk)
        detail = f"{lost} tuples that no producer keeps, from {begins} on"
        self._note_lost(reader, data.stream, lost, detail)
        return True

    def _may_cross(self, reader: str, stream: str, now_us: int) -> bool:
        """Whether a reader may cross a discontinuity; a standby stops before it instead.

        A primary whose predecessor had more input, and has sent output of it, gives up its state.
        So does one whose standby has more input, because that can go on and lose less; if the
        standby is lost, the primary waits until it is heard or replaced. A warming replica gives up
        the input that it has gathered.
        """
        if (hosted := self.replica_manager.replicas.get(reader)) is None:
            return True
        replica = hosted.replica
        if replica.leads:
            # Its primary is behind it and cannot cross. Keep the state until one is further.
            return False
        if replica.role is ReplicaRole.STANDBY:
            self._stop(hosted, stream, now_us)
            return False
        if replica.role is ReplicaRole.WARMING:
            self.state_loss.discard(hosted, now_us)
            return False
        if replica.inputs[stream].cursor.complete_ms < replica.known_ms:
            self.state_loss.cannot_continue(hosted, "there is", replica.known_ms, now_us)
            return False
        if hosted.lacks(stream):
            peer = hosted.peer_replica or ""
            if not self.detector.counts_as_lost(peer):
                self.state_loss.cannot_continue(hosted, f"{peer} has", hosted.standby_ms, now_us)
            return False
        replica.cross(stream)
        return True

    def _stop(self, hosted: HostedReplica, stream: str, now_us: int) -> None:
        """Have a standby stop before a discontinuity, until it gets its primary's state.

        It keeps its own state until then, because the primary may be lost before it has crossed.
        """
        if stream not in hosted.replica.stopped:
            hosted.replica.stopped.add(stream)
            self.outbox.counters["standbys_stopped"] += 1
            hosted.snapshot_asked_us = None
            # Producers must keep what follows the state.
            subscription = self.replica_manager.subscriptions[stream]
            subscription.ask_again()
            for node, request in subscription.requests(now_us):
                self.outbox.send(node, request)
        self.give_up_if_passed(hosted, now_us)

    def give_up_if_passed(self, hosted: HostedReplica, now_us: int) -> None:
        """Discard the state of a standby whose primary has crossed and gone on."""
        if hosted.replica.is_passed:
            self.state_loss.discard(hosted, now_us)

    def is_stopped(self, reader: str, stream: str) -> bool:
        """Whether a reader is a standby that has stopped before a discontinuity of a stream."""
        hosted = self.replica_manager.replicas.get(reader)
        if hosted is None or hosted.replica.role is not ReplicaRole.STANDBY:
            return False
        return stream in hosted.replica.stopped

    def cross_at_last(self) -> None:
        """Have replicas that became primary before a discontinuity ask for what lies beyond."""
        for hosted in self.replica_manager.replicas.values():
            replica = hosted.replica
            if replica.stopped and replica.role is ReplicaRole.PRIMARY:
                for stream in replica.stopped:
                    self.replica_manager.subscriptions[stream].ask_again()
                replica.stopped.clear()

    def _note_lost(self, reader: str, stream: str, lost: int, detail: str) -> None:
        self.outbox.counters["discontinuities"] += 1
        self.outbox.counters["tuples_lost"] += lost
        self.outbox.report("input lost" if lost else "began anew", stream, detail)
        if reader.startswith(SINK_PREFIX):
            self.replica_manager.sinks[stream].lose(lost)
