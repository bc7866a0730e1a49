"""All that a host decides: events in, commands out.

The same object runs inside a Spark executor (`process.py`: sockets, a monotonic clock, ZooKeeper)
and in the simulator (virtual clock and network). It has no clock, socket or thread of its own;
whoever drives it calls `handle` for each event, `work` from `next_work_us` on, and `tick` no later
than `next_tick_us`. Times are µs on the cluster's clock.
"""

from __future__ import annotations

from collections import Counter

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
from orchestrator.records import Assignment, ClusterRecord

INSTANTS_PER_DISPATCH = 64
"""Evaluated before the host listens again: some ten milliseconds of a heavy join."""

SNAPSHOT_RETRY_US = 500_000
"""A twin that has not answered by then was not ready or did not hear."""


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
        self._batch_us = round(settings.batch_ms * 1000)
        self._due_us: dict[str, int] = {}
        self._evaluated_us: dict[str, int] = {}
        self._commands: list[Command] = []
        self._next_heartbeat_us = self._next_ack_us = self._next_probe_us = now_us

    def handle(self, event: Event, now_us: int) -> list[Command]:
        """Take in an event."""
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
                    source.log.append(event.rows, event.marks, event.origins_us)
                    self._publish(source)
            case EpochSuperseded(fragment=fragment, epoch=epoch):
                self._leave_epoch(fragment, epoch)
            case CopyDismissed(fragment=fragment):
                self.counters["copies_dismissed"] += 1
                self._commands += self.roster.dismiss(fragment)
            case CpuMeasured(load=load):
                self.prober.load = load
        return self._take_commands()

    def tick(self, now_us: int) -> list[Command]:
        """Do what is due: heartbeats, suspicion, requests, acknowledgements, probes."""
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
        return min(self._due_us.values(), default=None)

    def work(self, now_us: int) -> tuple[list[Command], int]:
        """Evaluate one batch of the fragment that has been due for longest, if any is.

        Returns what to do, and the input tuples and instants evaluated (its cost, roughly).
        """
        effort = 0
        due = {fragment: at for fragment, at in self._due_us.items() if at <= now_us}
        if due:
            fragment = min(due, key=due.__getitem__)
            del self._due_us[fragment]
            if (running := self.roster.running.get(fragment)) is not None:
                effort = self._evaluate(running)
                self._evaluated_us[fragment] = now_us
                if running.replica.has_work:
                    # A backlog does not wait for more to come.
                    self._due_us[fragment] = now_us
        return self._take_commands(), effort

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

    def _heed_epoch(self, fragment: str, epoch: int) -> None:
        running = self.roster.running.get(fragment)
        if running is not None and epoch > running.replica.epoch:
            self._leave_epoch(fragment, epoch)

    def _leave_epoch(self, fragment: str, epoch: int) -> None:
        running = self.roster.running.get(fragment)
        if running is not None and running.step_down(max(epoch, running.replica.epoch)):
            self.counters["demotions"] += 1
            self._report("stepped down", fragment, f"epoch {epoch} has another primary")

    # Messages

    def _on_message(self, sender: str, message: Message, now_us: int) -> None:
        match message:
            case Data():
                self._on_data(sender, message, now_us)
            case Ack(stream=stream):
                self._heed_epoch(stream, message.epoch)
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
                    self._heed_epoch(fragment, epoch)
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
                self._forget(running)
        else:
            self._note_verdict(verdict, sender, intake, receiver, now_us)
        self._enqueue(running, now_us)

    def _forget(self, running: Running) -> None:
        self.counters["states_broken"] += 1
        running.replica.forget()
        running.snapshot_asked_us = None
        for intake in running.intakes.values():
            intake.ask_again()

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
            self._enqueue(running, now_us)
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

    # Work and output

    def _enqueue(self, running: Running, now_us: int) -> None:
        fragment = running.assignment.fragment
        if running.replica.has_work and fragment not in self._due_us:
            last_us = self._evaluated_us.get(fragment, now_us - self._batch_us)
            self._due_us[fragment] = max(now_us, last_us + self._batch_us)

    def _evaluate(self, running: Running) -> int:
        evaluated = running.replica.evaluate(INSTANTS_PER_DISPATCH)
        if evaluated is None:
            return 0
        self.counters["dispatches"] += 1
        self.counters["tuples_in"] += evaluated.tuples_in
        self.counters["tuples_out"] += evaluated.rows.num_rows
        self._publish(running.replica)
        return evaluated.tuples_in + len(evaluated.marks)

    def _publish(self, producer: Producer) -> None:
        for node, data in outgoing(producer):
            self._send(node, data)

    def _send(self, to: str, message: Message) -> None:
        self._commands.append(Send(to=to, message=message))

    def _report(self, kind: str, subject: str, detail: str) -> None:
        self._commands.append(Report(kind=kind, subject=subject, detail=detail))

    def _take_commands(self) -> list[Command]:
        commands, self._commands = self._commands, []
        return commands
