"""All that a host decides: events in, commands out.

The same object runs inside a Spark executor (`process.py`: sockets, a monotonic clock, ZooKeeper)
and in the simulator (virtual clock and network). It has no clock, socket or thread of its own;
whoever drives it calls `handle` for each event, `work` from `next_work_us` on, and `tick` no later
than `next_tick_us`. Times are µs on the cluster's clock.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, replace

import numpy as np

from ha.cursor import Receipt, StreamCursor
from ha.failure_detector import FailureDetector
from ha.feeding import Producer, acknowledge, feed_subscribers, subscribe
from ha.messages import (
    Ack,
    Data,
    Heartbeat,
    Message,
    Ping,
    Pong,
    Snapshot,
    SnapshotRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from ha.roles import ReplicaRole, RoleEvent
from ha.subscription import Subscription
from orchestrator.host.dispatcher import Dispatch, Dispatcher
from orchestrator.host.events import (
    AssignmentReceived,
    Command,
    CpuMeasured,
    EpochSuperseded,
    Event,
    MessageArrived,
    PeerLost,
    RecordTakeover,
    ReplicaReplaced,
    Report,
    Send,
    SetPeers,
    SourceEmitted,
)
from orchestrator.host.hosted_sink import HostedSink
from orchestrator.host.prober import Prober
from orchestrator.host.replica_manager import HostedReplica, ReplicaManager
from orchestrator.records import Assignment, ClusterRecord, ReplicaStatus

BATCHES_PER_TURN = 32
"""Batches without tuples that are evaluated before the host listens again: a mark alone runs down a
whole chain in little time."""

SNAPSHOT_RETRY_US = 500_000
"""A twin that has not answered by then was not ready or did not hear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """A batch that was evaluated.

    Attributes
    ----------
    commands
        What to do once it is done.
    fragment
        Whose it was; None if there was nothing to evaluate.
    tuples, instants
        What went in.
    emulated_us
        How long it must be taken to last, if costs are emulated, µs.
    """

    commands: list[Command]
    fragment: str | None = None
    tuples: int = 0
    timestamp_groups: int = 0
    emulated_us: float | None = None


class HostCore:
    """The host of one node.

    Parameters
    ----------
    node
        Its name.
    settings
        Intervals and scales that the cluster agrees on.
    rng
        For probing.
    now_us
        When it starts.
    """

    def __init__(
        self, node: str, settings: ClusterRecord, rng: np.random.Generator, now_us: int
    ) -> None:
        self.node = node
        self.replica_manager = ReplicaManager(node)
        probe_interval_us = round(settings.probe_interval_ms * 1000)
        self.prober = Prober(rng, settings.cpu, probe_interval_us)
        self.counters: Counter[str] = Counter()
        self._heartbeat_us = round(settings.heartbeat_ms * 1000)
        self._ack_interval_us = round(settings.ack_interval_ms * 1000)
        self._detector = FailureDetector(
            round(settings.suspect_after_ms * 1000), self._heartbeat_us
        )
        batch_us = round(settings.batch_ms * 1000)
        self._dispatcher = Dispatcher(self.replica_manager.replicas, settings.scheduling, batch_us)
        self._emulate_costs = settings.emulate_costs
        self._to_itself: deque[Message] = deque()
        self._commands: list[Command] = []
        self._next_heartbeat_us = self._next_ack_us = self._next_probe_us = now_us

    def handle(self, event: Event, now_us: int) -> list[Command]:
        """Take in an event."""
        self._talk_to_itself(now_us)
        match event:
            case MessageArrived(sender=sender, message=message):
                self._detector.heard(sender, now_us)
                self._on_message(sender, message, now_us)
            case PeerLost(node=node):
                self.counters["peers_lost"] += 1
                self._on_peer_replica_lost(node, "connection lost", now_us)
            case AssignmentReceived(assignment=assignment):
                self._on_assigned(assignment, now_us)
            case SourceEmitted(stream=stream):
                if (source := self.replica_manager.sources.get(stream)) is not None:
                    source.enter(event, now_us)
                    self._publish(source)
            case EpochSuperseded(fragment=fragment, epoch=epoch):
                self._leave_epoch(fragment, epoch, now_us)
            case ReplicaReplaced(fragment=fragment):
                self.counters["replicas_stopped"] += 1
                self._commands += self.replica_manager.stop_replica(fragment)
                self._dispatcher.rebuild_tasks(now_us)
            case CpuMeasured(load=load):
                self.prober.load = load
        return self._take_commands()

    def tick(self, now_us: int) -> list[Command]:
        """Do what is due: heartbeats, suspicion, requests, acknowledgements, probes."""
        self._talk_to_itself(now_us)
        if now_us >= self._next_heartbeat_us:
            self._next_heartbeat_us = now_us + self._heartbeat_us
            self._send_heartbeats()
            for node in self._detector.suspects(now_us):
                self.counters["suspicions"] += 1
                self._on_peer_replica_lost(node, "silent", now_us)
            self._request(now_us)
            self.replica_manager.drop_absent(now_us)
        if now_us >= self._next_ack_us:
            self._next_ack_us = now_us + self._ack_interval_us
            self._acknowledge()
        if now_us >= self._next_probe_us:
            self._next_probe_us = now_us + self.prober.interval_us
            if (probe := self.prober.next_probe(now_us)) is not None:
                self._send(*probe)
        return self._take_commands()

    @property
    def next_tick_us(self) -> int:
        """When `tick` wants to be called at the latest."""
        return min(self._next_heartbeat_us, self._next_ack_us, self._next_probe_us)

    @property
    def next_work_us(self) -> int | None:
        """When `work` will have something to evaluate; None if nothing has come."""
        return 0 if self._to_itself else self._dispatcher.next_us

    def work(self, now_us: int) -> Worked:
        """Evaluate one batch of the task that comes first, if any has work.

        Call `charge` when it is known how long that took.
        """
        commands: list[Command] = []
        for _ in range(BATCHES_PER_TURN):
            self._talk_to_itself(now_us)
            dispatch = self._dispatcher.pop(now_us)
            if dispatch is None:
                break
            worked = self._evaluate(dispatch, now_us)
            commands += worked.commands
            if worked.tuples or worked.timestamp_groups > 1:
                return replace(worked, commands=commands)
        return Worked(
            commands=commands + self._take_commands(),
            emulated_us=0.0 if self._emulate_costs else None,
        )

    def _evaluate(self, dispatch: Dispatch, now_us: int) -> Worked:
        hosted = self.replica_manager.replicas[dispatch.fragment]
        evaluated = hosted.replica.evaluate(dispatch.timestamp_groups, dispatch.tuples)
        assert evaluated is not None, "a task is dispatched when it has work"
        self.counters["dispatches"] += 1
        self.counters["tuples_in"] += evaluated.tuples_in
        self.counters["tuples_out"] += evaluated.rows.num_rows
        self._publish(hosted.replica)
        self._dispatcher.done(dispatch.fragment, now_us)
        cost_us = evaluated.tuples_in * hosted.assignment.cost_us
        return Worked(
            commands=self._take_commands(),
            fragment=dispatch.fragment,
            tuples=evaluated.tuples_in,
            timestamp_groups=len(evaluated.watermarks_ms),
            emulated_us=cost_us if self._emulate_costs else None,
        )

    def charge(self, worked: Worked, took_us: float) -> None:
        """Learn what a batch has cost."""
        if worked.fragment is not None:
            self._dispatcher.charge(worked.fragment, worked.tuples, took_us)

    def replica_statuses(self) -> dict[str, ReplicaStatus]:
        """What the host says of its copies."""
        return {
            name: ReplicaStatus(
                role=hosted.replica.role,
                epoch=hosted.replica.epoch,
                output_watermark_ms=hosted.replica.output_watermark_ms,
                cost=self._dispatcher.cost(name),
            )
            for name, hosted in self.replica_manager.replicas.items()
        }

    def shut_down(self) -> list[Command]:
        """Tell everybody that this host reads nothing any more, before it ends in order."""
        self._commands += self.replica_manager.shut_down()
        return self._take_commands()

    def check_invariants(self) -> None:
        """Raise unless every part is consistent; tests call this after every step."""
        for hosted in self.replica_manager.replicas.values():
            hosted.replica.check_invariants()
        for source in self.replica_manager.sources.values():
            source.log.check_invariants()

    # Assignment and loss of peers

    def _on_assigned(self, assignment: Assignment, now_us: int) -> None:
        self._commands.append(SetPeers(peers=assignment.peers))
        commands, gone = self.replica_manager.apply(assignment, now_us)
        self._commands += commands
        alive = self.replica_manager.incarnations
        self.prober.use(tuple(node for node in alive if node != self.node))
        peer_replicas = {r.assignment.peer_replica for r in self.replica_manager.replicas.values()}
        self._detector.watch({t for t in peer_replicas if t is not None and t in alive}, now_us)
        for hosted in list(self.replica_manager.replicas.values()):
            peer_replica = hosted.assignment.peer_replica
            if peer_replica is not None and (peer_replica in gone or peer_replica not in alive):
                self._take_over(hosted, "gone from the store", now_us)
        for producer in self.replica_manager.producers():
            self._publish(producer)
        self._request(now_us)
        self._dispatcher.rebuild_tasks(now_us)

    def _on_peer_replica_lost(self, node: str, cause: str, now_us: int) -> None:
        for hosted in self.replica_manager.replicas.values():
            if hosted.assignment.peer_replica == node:
                self._take_over(hosted, cause, now_us)

    def _take_over(self, hosted: HostedReplica, cause: str, now_us: int) -> None:
        replica, a = hosted.replica, hosted.assignment
        before = replica.role
        replica.apply(RoleEvent.PEER_REPLICA_LOST)
        if before is not ReplicaRole.STANDBY:
            return
        self.counters["takeovers"] += 1
        self._report("took over", a.fragment, f"{cause}; epoch {replica.epoch}")
        self._commands.append(
            RecordTakeover(
                query=a.query,
                fragment=a.fragment,
                epoch=replica.epoch,
                previous=a.peer_replica or "",
                cause=cause,
                detected_at_us=now_us,
            )
        )
        self._publish(replica)
        self._dispatcher.rebuild_tasks(now_us)

    def _adopt_epoch(self, fragment: str, epoch: int, now_us: int) -> None:
        hosted = self.replica_manager.replicas.get(fragment)
        if hosted is not None and epoch > hosted.replica.epoch:
            self._leave_epoch(fragment, epoch, now_us)

    def _leave_epoch(self, fragment: str, epoch: int, now_us: int) -> None:
        hosted = self.replica_manager.replicas.get(fragment)
        if hosted is not None and hosted.step_down(max(epoch, hosted.replica.epoch)):
            self.counters["demotions"] += 1
            self._report("stepped down", fragment, f"epoch {epoch} has another primary")
            self._dispatcher.rebuild_tasks(now_us)

    # Messages

    def _on_message(self, sender: str, message: Message, now_us: int) -> None:
        match message:
            case Data():
                self._on_data(sender, message, now_us)
            case Ack(stream=stream):
                self._adopt_epoch(stream, message.epoch, now_us)
                if (producer := self.replica_manager.producer(stream)) is not None:
                    acknowledge(producer, sender, message)
                    self._publish(producer)
            case Subscribe(stream=stream):
                if (producer := self.replica_manager.producer(stream)) is not None:
                    self._send(sender, subscribe(producer, sender, message))
                    self._publish(producer)
            case Subscribed():
                self._on_subscribed(sender, message, now_us)
            case Unsubscribe(stream=stream, consumer=consumer):
                if (producer := self.replica_manager.producer(stream)) is not None:
                    producer.log.unsubscribe((sender, consumer))
            case Heartbeat(epochs=epochs):
                for fragment, epoch in epochs.items():
                    self._adopt_epoch(fragment, epoch, now_us)
            case SnapshotRequest(fragment=fragment):
                hosted = self.replica_manager.replicas.get(fragment)
                if hosted is not None and hosted.replica.accepts_subscribers:
                    self._send(sender, hosted.replica.snapshot())
            case Snapshot():
                self._on_snapshot(message, now_us)
            case Ping():
                self._send(sender, self.prober.answer(message))
            case Pong():
                self.prober.measured(sender, message, now_us)

    def _on_data(self, sender: str, data: Data, now_us: int) -> None:
        sink = self.replica_manager.sinks.get(data.stream)
        hosted = self.replica_manager.replicas.get(data.consumer)
        if sink is not None and data.consumer == sink.subscription.consumer:
            self._deliver(sender, sink, data, now_us)
        elif hosted is not None and data.stream in hosted.subscriptions:
            self._take_in(sender, hosted, data, now_us)
        else:
            self.counters["chunks_unasked"] += 1

    def _deliver(self, sender: str, sink: HostedSink, data: Data, now_us: int) -> None:
        receipt, delivery = sink.receive(data, now_us)
        if receipt is Receipt.GAP and sink.subscription.unrecoverable(sender, sink.cursor):
            lost = sink.skip_to(data)
            self.counters["tuples_lost"] += lost
            receipt, delivery = sink.receive(data, now_us, lost)
        if delivery is not None:
            self._commands.append(delivery)
        self._note_receipt(receipt, sender, sink.subscription, sink.cursor, now_us)

    def _take_in(self, sender: str, hosted: HostedReplica, data: Data, now_us: int) -> None:
        replica, subscription = hosted.replica, hosted.subscriptions[data.stream]
        cursor = replica.inputs[data.stream].cursor
        receipt = replica.receive(data).receipt
        if receipt is Receipt.GAP and subscription.unrecoverable(sender, cursor):
            if replica.role is ReplicaRole.PRIMARY:
                # Nobody has these tuples any more: say so, and go on with what there is.
                lost = replica.skip_to(data)
                self.counters["tuples_lost"] += lost
                self._report("input lost", data.stream, f"{lost} tuples that no producer keeps")
            else:
                self._discard_state(hosted, now_us)
        else:
            self._note_receipt(receipt, sender, subscription, cursor, now_us)
        self._dispatcher.arrived(data.consumer, now_us)

    def _discard_state(self, hosted: HostedReplica, now_us: int) -> None:
        self.counters["states_broken"] += 1
        hosted.replica.discard_state()
        hosted.snapshot_asked_us = None
        for subscription in hosted.subscriptions.values():
            subscription.ask_again()
        self._dispatcher.rebuild_tasks(now_us)

    def _note_receipt(
        self,
        receipt: Receipt,
        sender: str,
        subscription: Subscription,
        cursor: StreamCursor,
        now_us: int,
    ) -> None:
        self.counters[f"chunks_{receipt.value}"] += 1
        if receipt is Receipt.GAP:
            request = subscription.missing(sender, cursor, now_us)
            if request is not None:
                self._send(sender, request)

    def _on_subscribed(self, sender: str, answer: Subscribed, now_us: int) -> None:
        sink = self.replica_manager.sinks.get(answer.stream)
        hosted = self.replica_manager.replicas.get(answer.consumer)
        if sink is not None and answer.consumer == sink.subscription.consumer:
            sink.subscription.answered(sender, answer, sink.cursor)
        elif hosted is not None and answer.stream in hosted.subscriptions:
            cursor = hosted.replica.inputs[answer.stream].cursor
            hosted.subscriptions[answer.stream].answered(sender, answer, cursor)
            self._ask_snapshot(hosted, now_us)

    def _on_snapshot(self, snapshot: Snapshot, now_us: int) -> None:
        hosted = self.replica_manager.replicas.get(snapshot.fragment)
        if hosted is None or hosted.replica.role is not ReplicaRole.WARMING:
            return
        if hosted.replica.install(snapshot):
            self._report("warm", snapshot.fragment, f"epoch {hosted.replica.epoch}")
            self._dispatcher.rebuild_tasks(now_us)
        else:
            self.counters["snapshots_unusable"] += 1

    # Timers

    def _send_heartbeats(self) -> None:
        epochs: dict[str, dict[str, int]] = {}
        for fragment, hosted in self.replica_manager.replicas.items():
            if hosted.assignment.peer_replica is not None:
                shared = epochs.setdefault(hosted.assignment.peer_replica, {})
                shared[fragment] = hosted.replica.epoch
        for peer_replica, known in epochs.items():
            self._send(peer_replica, Heartbeat(epochs=known))

    def _request(self, now_us: int) -> None:
        for subscription, cursor in self.replica_manager.subscriptions():
            for node, request in subscription.requests(cursor, now_us):
                self._send(node, request)
        for hosted in self.replica_manager.replicas.values():
            self._ask_snapshot(hosted, now_us)

    def _ask_snapshot(self, hosted: HostedReplica, now_us: int) -> None:
        peer_replica, asked_us = hosted.assignment.peer_replica, hosted.snapshot_asked_us
        if hosted.replica.role is not ReplicaRole.WARMING or peer_replica is None:
            return
        if not all(subscription.confirmed for subscription in hosted.subscriptions.values()):
            return
        if asked_us is None or now_us - asked_us >= SNAPSHOT_RETRY_US:
            hosted.snapshot_asked_us = now_us
            self._send(peer_replica, SnapshotRequest(fragment=hosted.assignment.fragment))

    def _acknowledge(self) -> None:
        for hosted in self.replica_manager.replicas.values():
            for stream, position in hosted.replica.processed().items():
                cursor = hosted.replica.inputs[stream].cursor
                for node, ack in hosted.subscriptions[stream].acks(position, cursor):
                    self._send(node, ack)
        for sink in self.replica_manager.sinks.values():
            if sink.cursor.position is not None:
                for node, ack in sink.subscription.acks(sink.cursor.position, sink.cursor):
                    self._send(node, ack)

    # Output

    def _publish(self, producer: Producer) -> None:
        for node, data in feed_subscribers(producer):
            self._send(node, data)

    def _send(self, to: str, message: Message) -> None:
        self._commands.append(Send(to=to, message=message))

    def _talk_to_itself(self, now_us: int) -> None:
        """Take in what this host has sent itself: copies that follow each other on one node."""
        while self._to_itself:
            self._on_message(self.node, self._to_itself.popleft(), now_us)

    def _report(self, kind: str, subject: str, detail: str) -> None:
        self._commands.append(Report(kind=kind, subject=subject, detail=detail))

    def _take_commands(self) -> list[Command]:
        commands: list[Command] = []
        for command in self._commands:
            if isinstance(command, Send) and command.to == self.node:
                self._to_itself.append(command.message)
            else:
                commands.append(command)
        self._commands = []
        return commands
