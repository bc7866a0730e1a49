"""Replicas that give up their state, and begin again with another one.

Three replicas have a state that is of no use: one whose statement cannot be evaluated, a standby
that has fallen behind, and a primary whose predecessor was further. Such a replica reads its inputs
anew. The loss is counted and reported, and the host goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

from foundation.timestamps import timestamp_text
from ha.messages import Ack, Contradiction, Subscribe
from ha.roles import ReplicaRole, RoleEvent
from orchestrator.host.core.dispatcher import Dispatcher
from orchestrator.host.core.events import Outbox
from orchestrator.host.core.hosted_replica import HostedReplica
from orchestrator.host.core.replica_manager import ReplicaManager
from streams.evaluate.engine import EvaluationError
from streams.vectors.chunk import Position


@dataclass(frozen=True, slots=True)
class StateLoss:
    """Gives up the states of replicas of one host.

    Attributes
    ----------
    replica_manager
        The replicas.
    dispatcher
        Told when roles have changed.
    outbox
        Takes reports.
    """

    replica_manager: ReplicaManager
    dispatcher: Dispatcher
    outbox: Outbox

    def discard(
        self, hosted: HostedReplica, now_us: int, event: RoleEvent = RoleEvent.STATE_BROKEN
    ) -> None:
        """Have a secondary start over with the state of its peer replica."""
        if not hosted.replica.discard_state(event):
            return
        self.outbox.counters["states_broken"] += 1
        self.read_anew(hosted)
        self.dispatcher.rebuild_tasks(now_us)

    def read_anew(self, hosted: HostedReplica) -> None:
        """Have a replica read its inputs from where it is now."""
        hosted.snapshot_asked_us = None
        for stream in hosted.replica.inputs:
            self.read_input_anew(hosted, stream)

    def go_back(self, hosted: HostedReplica) -> None:
        """Have a replica that was given an older state read its inputs from there on."""
        for stream in hosted.replica.inputs:
            subscription = self.replica_manager.subscriptions[stream]
            subscription.backlog.leave([hosted.assignment.fragment])
            subscription.ask_anew()

    def read_input_anew(self, hosted: HostedReplica, stream: str) -> None:
        """Have a replica read one of its inputs from where it is now."""
        subscription = self.replica_manager.subscriptions[stream]
        subscription.backlog.leave([hosted.assignment.fragment])
        subscription.ask_again()

    def failed(self, hosted: HostedReplica, error: Exception, now_us: int) -> None:
        """Give up the state of a replica whose evaluation raised an error, and let it rest."""
        a = hosted.assignment
        # The statement's name comes first in what an `EvaluationError` says.
        what = f"{a.query}.{error}" if isinstance(error, EvaluationError) else said(error)
        self.outbox.report("evaluation failed", a.fragment, what)
        hosted.failed(f"evaluation failed: {what}", now_us, unevaluable=True)
        self.discard(hosted, now_us, RoleEvent.STATE_UNUSABLE)

    def on_claim(self, node: str, stream: str, claim: Ack | Subscribe, now_us: int) -> None:
        """Judge a claim: whether this replica continues the output that a consumer has.

        If not, the consumer has its output from a predecessor that was further. Either this replica
        gives up, and the fragment starts over in a new generation or goes on with the state of
        another replica. Or primaries or sinks elsewhere rely on this replica's output; then the
        consumer gives up. A sink cannot take tuples back, so replicas are judged only after every
        sink has reported.
        """
        hosted = self.replica_manager.replicas.get(stream)
        if hosted is None or hosted.replica.generation != claim.generation:
            return
        replica = hosted.replica
        if replica.role is not ReplicaRole.WARMING and not replica.is_founder:
            replica.learn_departure(claim.departs_ms)
        if (had := replica.claim(node, claim)) is not None:
            self._judge(hosted, node, had, now_us, is_final=claim.patient)

    def _judge(
        self, hosted: HostedReplica, node: str, had: Position, now_us: int, *, is_final: bool
    ) -> None:
        """Decide who gives up: this primary, or a consumer that has tuples of another history."""
        replica = hosted.replica
        departure, log = replica.departure, replica.log
        is_final = is_final or departure.is_refuted(log)
        if not is_final and departure.awaits_claims(log):
            return
        if is_final or not departure.is_relied_on(log, besides=node):
            self.cannot_continue(hosted, f"{node} has", had.watermark_ms, now_us)
            return
        assert departure.departs_ms is not None, "without a departure nobody is judged"
        self.outbox.send(
            node,
            Contradiction(
                stream=hosted.assignment.fragment,
                epoch=replica.epoch,
                generation=replica.generation,
                had=had,
                departs_ms=departure.departs_ms,
            ),
        )

    def contradicted(self, reader: str, message: Contradiction, sender: str, now_us: int) -> None:
        """Give up the tuples of a stream that a replica has from a predecessor of the sender.

        The replica discards its state if it evaluated tuples from beyond the departure, otherwise
        only its queue.
        """
        hosted = self.replica_manager.replicas.get(reader)
        if hosted is None:
            return
        stream, replica = message.stream, hosted.replica
        cursor = replica.inputs[stream].cursor
        if cursor.generation != message.generation or cursor.epoch > message.epoch:
            return
        if not cursor.has_claimed(message.had):
            return
        if replica.drop_waiting(stream, message.departs_ms):
            self.outbox.counters["inputs_given_up"] += 1
            self.read_input_anew(hosted, stream)
            self.dispatcher.moved_on(reader, now_us)
        elif replica.role is ReplicaRole.PRIMARY:
            detail = f"{sender} has other tuples of {stream}, and others rely on those"
            self.disown(hosted, detail, now_us)
        else:
            self.discard(hosted, now_us)

    def cannot_continue(
        self, hosted: HostedReplica, whose: str, output_ms: int, now_us: int
    ) -> None:
        """Give up the state of a primary that cannot continue what its predecessor has sent."""
        until = timestamp_text(output_ms)
        detail = f"{whose} output up to {until}, and the input that it came from is lost"
        self.disown(hosted, detail, now_us)

    def disown(self, hosted: HostedReplica, detail: str, now_us: int) -> None:
        """Give up the state of a primary that others must not go on with."""
        self.outbox.report("cannot continue", hosted.assignment.fragment, detail)
        hosted.failed(f"cannot continue: {detail}", now_us)
        self.discard(hosted, now_us, RoleEvent.STATE_UNUSABLE)


def said(error: Exception) -> str:
    """An error in a report."""
    return f"{type(error).__name__}: {error}"
