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

from ha.failure_detector import FailureDetector
from ha.intake import Intake
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
from ha.receiver import Receiver, Verdict
from ha.roles import Role, RoleEvent
from ha.serving import Producer, acknowledge, outgoing, subscribe
from orchestrator.host.dispatcher import Dispatch, Dispatcher
from orchestrator.host.events import (
    Assigned,
    Command,
    CopyDismissed,
    CpuMeasured,
    EpochSuperseded,
    Event,
    MessageArrived,
    PeerLost,
    RecordTakeover,
    Report,
    Send,
    SetPeers,
    SourceEmitted,
)
from orchestrator.host.prober import Prober
from orchestrator.host.roster import Roster, Running
from orchestrator.host.sink import Sink
from orchestrator.records import Assignment, ClusterRecord, ReplicaRole, ReplicaStatus

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
    instants: int = 0
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
        self.roster = Roster(node)
        probe_interval_us = round(settings.probe_interval_ms * 1000)
        self.prober = Prober(rng, settings.cpu, probe_interval_us)
        self.counters: Counter[str] = Counter()
        self._heartbeat_us = round(settings.heartbeat_ms * 1000)
        self._ack_interval_us = round(settings.ack_interval_ms * 1000)
        self._detector = FailureDetector(
            round(settings.suspect_after_ms * 1000), self._heartbeat_us
        )
        batch_us = round(settings.batch_ms * 1000)
        self._dispatcher = Dispatcher(self.roster.running, settings.scheduling, batch_us)
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
                self._on_twin_lost(node, "connection lost", now_us)
            case Assigned(assignment=assignment):
                self._on_assigned(assignment, now_us)
            case SourceEmitted(stream=stream):
                if (source := self.roster.sources.get(stream)) is not None:
                    source.enter(event, now_us)
                    self._publish(source)
            case EpochSuperseded(fragment=fragment, epoch=epoch):
                self._leave_epoch(fragment, epoch, now_us)
            case CopyDismissed(fragment=fragment):
                self.counters["copies_dismissed"] += 1
                self._commands += self.roster.dismiss(fragment)
                self._dispatcher.recast(now_us)
            case CpuMeasured(load=load):
                self.prober.load = load
        return self._take_commands()

    def tick(self, now_us: int) -> list[Command]:
        """Do what is due: heartbeats, suspicion, requests, acknowledgements, probes."""
        self._talk_to_itself(now_us)
        if now_us >= self._next_heartbeat_us:
            self._next_heartbeat_us = now_us + self._heartbeat_us
            self._beat()
            for node in self._detector.suspects(now_us):
                self.counters["suspicions"] += 1
                self._on_twin_lost(node, "silent", now_us)
            self._request(now_us)
            self.roster.forget_absent(now_us)
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
            if worked.tuples or worked.instants > 1:
                return replace(worked, commands=commands)
        return Worked(
            commands=commands + self._take_commands(),
            emulated_us=0.0 if self._emulate_costs else None,
        )

    def _evaluate(self, dispatch: Dispatch, now_us: int) -> Worked:
        running = self.roster.running[dispatch.fragment]
        evaluated = running.replica.evaluate(dispatch.instants, dispatch.tuples)
        assert evaluated is not None, "a task is dispatched when it has work"
        self.counters["dispatches"] += 1
        self.counters["tuples_in"] += evaluated.tuples_in
        self.counters["tuples_out"] += evaluated.rows.num_rows
        self._publish(running.replica)
        self._dispatcher.done(dispatch.fragment, now_us)
        cost_us = evaluated.tuples_in * running.assignment.cost_us
        return Worked(
            commands=self._take_commands(),
            fragment=dispatch.fragment,
            tuples=evaluated.tuples_in,
            instants=len(evaluated.marks),
            emulated_us=cost_us if self._emulate_costs else None,
        )

    def charge(self, worked: Worked, took_us: float) -> None:
        """Learn what a batch has cost."""
        if worked.fragment is not None:
            self._dispatcher.charge(worked.fragment, worked.tuples, took_us)

    def replicas(self) -> dict[str, ReplicaStatus]:
        """What the host says of its copies."""
        return {
            name: ReplicaStatus(
                role=ReplicaRole(running.replica.role.value),
                epoch=running.replica.epoch,
                progress_ms=running.replica.progress_ms,
                cost=self._dispatcher.cost(name),
            )
            for name, running in self.roster.running.items()
        }

    def leave(self) -> list[Command]:
        """Tell everybody that this host reads nothing any more, before it ends in order."""
        self._commands += self.roster.leave()
        return self._take_commands()

    def check_invariants(self) -> None:
        """Raise unless every part is consistent; tests call this after every step."""
        for running in self.roster.running.values():
            running.replica.check_invariants()
        for source in self.roster.sources.values():
            source.log.check_invariants()

    # Assignment and loss of peers

    def _on_assigned(self, assignment: Assignment, now_us: int) -> None:
        self._commands.append(SetPeers(peers=assignment.peers))
        commands, gone = self.roster.apply(assignment, now_us)
        self._commands += commands
        alive = self.roster.incarnations
        self.prober.use(tuple(node for node in alive if node != self.node))
        twins = {r.assignment.twin for r in self.roster.running.values()}
        self._detector.watch({t for t in twins if t is not None and t in alive}, now_us)
        for running in list(self.roster.running.values()):
            twin = running.assignment.twin
            if twin is not None and (twin in gone or twin not in alive):
                self._take_over(running, "gone from the store", now_us)
        for producer in self.roster.producers():
            self._publish(producer)
        self._request(now_us)
        self._dispatcher.recast(now_us)

    def _on_twin_lost(self, node: str, cause: str, now_us: int) -> None:
        for running in self.roster.running.values():
            if running.assignment.twin == node:
                self._take_over(running, cause, now_us)

    def _take_over(self, running: Running, cause: str, now_us: int) -> None:
        replica, a = running.replica, running.assignment
        before = replica.role
        replica.apply(RoleEvent.TWIN_LOST)
        if before is not Role.STANDBY:
            return
        self.counters["takeovers"] += 1
        self._report("took over", a.fragment, f"{cause}; epoch {replica.epoch}")
        self._commands.append(
            RecordTakeover(
                query=a.query,
                fragment=a.fragment,
                epoch=replica.epoch,
                previous=a.twin or "",
                cause=cause,
                detected_at_us=now_us,
            )
        )
        self._publish(replica)
        self._dispatcher.recast(now_us)

    def _heed_epoch(self, fragment: str, epoch: int, now_us: int) -> None:
        running = self.roster.running.get(fragment)
        if running is not None and epoch > running.replica.epoch:
            self._leave_epoch(fragment, epoch, now_us)

    def _leave_epoch(self, fragment: str, epoch: int, now_us: int) -> None:
        running = self.roster.running.get(fragment)
        if running is not None and running.step_down(max(epoch, running.replica.epoch)):
            self.counters["demotions"] += 1
            self._report("stepped down", fragment, f"epoch {epoch} has another primary")
            self._dispatcher.recast(now_us)

    # Messages

    def _on_message(self, sender: str, message: Message, now_us: int) -> None:
        match message:
            case Data():
                self._on_data(sender, message, now_us)
            case Ack(stream=stream):
                self._heed_epoch(stream, message.epoch, now_us)
                if (producer := self.roster.producer(stream)) is not None:
                    acknowledge(producer, sender, message)
                    self._publish(producer)
            case Subscribe(stream=stream):
                if (producer := self.roster.producer(stream)) is not None:
                    self._send(sender, subscribe(producer, sender, message))
                    self._publish(producer)
            case Subscribed():
                self._on_subscribed(sender, message, now_us)
            case Unsubscribe(stream=stream, consumer=consumer):
                if (producer := self.roster.producer(stream)) is not None:
                    producer.log.unsubscribe((sender, consumer))
            case Heartbeat(epochs=epochs):
                for fragment, epoch in epochs.items():
                    self._heed_epoch(fragment, epoch, now_us)
            case SnapshotRequest(fragment=fragment):
                running = self.roster.running.get(fragment)
                if running is not None and running.replica.serves:
                    self._send(sender, running.replica.snapshot())
            case Snapshot():
                self._on_snapshot(message, now_us)
            case Ping():
                self._send(sender, self.prober.answer(message))
            case Pong():
                self.prober.measured(sender, message, now_us)

    def _on_data(self, sender: str, data: Data, now_us: int) -> None:
        sink = self.roster.sinks.get(data.stream)
        running = self.roster.running.get(data.consumer)
        if sink is not None and data.consumer == sink.intake.consumer:
            self._deliver(sender, sink, data, now_us)
        elif running is not None and data.stream in running.intakes:
            self._take_in(sender, running, data, now_us)
        else:
            self.counters["chunks_unasked"] += 1

    def _deliver(self, sender: str, sink: Sink, data: Data, now_us: int) -> None:
        verdict, delivery = sink.receive(data, now_us)
        if verdict is Verdict.GAP and sink.intake.unrecoverable(sender, sink.receiver):
            lost = sink.skip_to(data)
            self.counters["tuples_lost"] += lost
            verdict, delivery = sink.receive(data, now_us, lost)
        if delivery is not None:
            self._commands.append(delivery)
        self._note_verdict(verdict, sender, sink.intake, sink.receiver, now_us)

    def _take_in(self, sender: str, running: Running, data: Data, now_us: int) -> None:
        replica, intake = running.replica, running.intakes[data.stream]
        receiver = replica.inputs[data.stream].receiver
        verdict = replica.receive(data).verdict
        if verdict is Verdict.GAP and intake.unrecoverable(sender, receiver):
            if replica.role is Role.PRIMARY:
                # Nobody has these tuples any more: say so, and go on with what there is.
                lost = replica.skip_to(data)
                self.counters["tuples_lost"] += lost
                self._report("input lost", data.stream, f"{lost} tuples that no producer keeps")
            else:
                self._forget(running, now_us)
        else:
            self._note_verdict(verdict, sender, intake, receiver, now_us)
        self._dispatcher.arrived(data.consumer, now_us)

    def _forget(self, running: Running, now_us: int) -> None:
        self.counters["states_broken"] += 1
        running.replica.forget()
        running.snapshot_asked_us = None
        for intake in running.intakes.values():
            intake.ask_again()
        self._dispatcher.recast(now_us)

    def _note_verdict(
        self, verdict: Verdict, sender: str, intake: Intake, receiver: Receiver, now_us: int
    ) -> None:
        self.counters[f"chunks_{verdict.value}"] += 1
        if verdict is Verdict.GAP:
            request = intake.missing(sender, receiver, now_us)
            if request is not None:
                self._send(sender, request)

    def _on_subscribed(self, sender: str, answer: Subscribed, now_us: int) -> None:
        sink = self.roster.sinks.get(answer.stream)
        running = self.roster.running.get(answer.consumer)
        if sink is not None and answer.consumer == sink.intake.consumer:
            sink.intake.answered(sender, answer, sink.receiver)
        elif running is not None and answer.stream in running.intakes:
            receiver = running.replica.inputs[answer.stream].receiver
            running.intakes[answer.stream].answered(sender, answer, receiver)
            self._ask_snapshot(running, now_us)

    def _on_snapshot(self, snapshot: Snapshot, now_us: int) -> None:
        running = self.roster.running.get(snapshot.fragment)
        if running is None or running.replica.role is not Role.WARMING:
            return
        if running.replica.install(snapshot):
            self._report("warm", snapshot.fragment, f"epoch {running.replica.epoch}")
            self._dispatcher.recast(now_us)
        else:
            self.counters["snapshots_unusable"] += 1

    # Timers

    def _beat(self) -> None:
        epochs: dict[str, dict[str, int]] = {}
        for fragment, running in self.roster.running.items():
            if running.assignment.twin is not None:
                shared = epochs.setdefault(running.assignment.twin, {})
                shared[fragment] = running.replica.epoch
        for twin, known in epochs.items():
            self._send(twin, Heartbeat(epochs=known))

    def _request(self, now_us: int) -> None:
        for intake, receiver in self.roster.intakes():
            for node, request in intake.requests(receiver, now_us):
                self._send(node, request)
        for running in self.roster.running.values():
            self._ask_snapshot(running, now_us)

    def _ask_snapshot(self, running: Running, now_us: int) -> None:
        twin, asked_us = running.assignment.twin, running.snapshot_asked_us
        if running.replica.role is not Role.WARMING or twin is None:
            return
        if not all(intake.confirmed for intake in running.intakes.values()):
            return
        if asked_us is None or now_us - asked_us >= SNAPSHOT_RETRY_US:
            running.snapshot_asked_us = now_us
            self._send(twin, SnapshotRequest(fragment=running.assignment.fragment))

    def _acknowledge(self) -> None:
        for running in self.roster.running.values():
            for stream, position in running.replica.processed().items():
                receiver = running.replica.inputs[stream].receiver
                for node, ack in running.intakes[stream].acks(position, receiver):
                    self._send(node, ack)
        for sink in self.roster.sinks.values():
            if sink.receiver.position is not None:
                for node, ack in sink.intake.acks(sink.receiver.position, sink.receiver):
                    self._send(node, ack)

    # Output

    def _publish(self, producer: Producer) -> None:
        for node, data in outgoing(producer):
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
