"""Everything a host decides: events in, commands out.

The same object runs inside a Spark executor and in the simulator, each time driven by
`orchestrator.host.shell.loop.HostLoop`. It has no clock, socket or thread of its own. Its driver
calls `heard` when a message arrives, `handle` for each event, `work` from `next_work_us` on, and
`tick` no later than `next_tick_us`. Times are µs on the host's own clock, unless they are told to
others.

`HostCore` routes events, messages and timers to its parts: `replica_manager` holds what the host
runs, `failover` decides who is primary, `input_processor` receives streams, `peer_control`
exchanges regular messages with related hosts, `dispatcher` says what to evaluate next, `prober`
measures latencies, and `access_control` refuses messages that their sender may not send.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from foundation.timestamps import timestamp_text
from ha import messages
from ha.failure_detector import FailureDetector
from ha.memory import MemoryBudget
from ha.messages import Heartbeat, Message
from ha.producer import subscribe
from orchestrator.edges.events import (
    InputSkipped,
    SinkFailed,
    SinkFlushed,
    SinkOpened,
    SourceEmitted,
    SourceFailed,
    SourceLocated,
    SourceOpened,
    SourceReread,
    SourceWaits,
    Wanted,
)
from orchestrator.host.core.access_control import AccessControl
from orchestrator.host.core.checkpoints import Checkpoints
from orchestrator.host.core.discontinuities import Discontinuities
from orchestrator.host.core.dispatcher import Dispatch, Dispatcher
from orchestrator.host.core.durations import Durations
from orchestrator.host.core.events import (
    AssignmentReceived,
    CheckpointFailed,
    CheckpointRead,
    CheckpointUnreadable,
    CheckpointWritten,
    Command,
    CpuMeasured,
    EpochSuperseded,
    Event,
    MessageArrived,
    Outbox,
    PeerLost,
    SetPeers,
)
from orchestrator.host.core.failover import Failover
from orchestrator.host.core.hosted_replica import HostedReplica
from orchestrator.host.core.hosted_streams import HostedSource
from orchestrator.host.core.input_processor import InputProcessor
from orchestrator.host.core.link_faults import on_machine_clock
from orchestrator.host.core.load_meter import LoadMeter
from orchestrator.host.core.peer_control import PeerControl
from orchestrator.host.core.prober import Prober
from orchestrator.host.core.replica_manager import ReplicaManager
from orchestrator.host.core.stand_ins import StandIns
from orchestrator.host.core.state_loss import StateLoss
from orchestrator.host.core.statement_changes import StatementChanges
from orchestrator.records import (
    Assignment,
    ClusterRecord,
    HostLoad,
    ReplicaStatus,
    Skipped,
    SnapshotStatus,
)
from placement.methods import Method
from streams.evaluate.engine import Evaluated
from streams.scheduling.batching import SdmrMonitor
from topology.cluster_clock import ClusterClock

BATCHES_PER_TURN = 32
"""Batches without tuples that are evaluated before the host listens again: a watermark alone passes
through a whole chain in little time."""


PAUSE_US = 300
"""How long a host lets messages gather for each of its replicas and sinks. On a slow machine
without free CPU the pause grows with the square of the slowdown. Taking a turn, and what a turn
sends, costs little less for one message than for ten; a host of many streams would take hundreds of
turns a second for one message each."""

PAUSE_SHARE = 1 / 12
SINK_PAUSE_SHARE = 1 / 100
MOST_PAUSE_US = 10_000
"""Messages gather for at most the first share of the time that the most urgent task has, the second
share of a sink's deadline, and the last time. A host is suspected after a silence many times as
long."""

SLOWER = 2.0
"""By which factor a host's small batches and messages may become rarer from one measurement of its
processor to the next."""

LEAST_DISPATCH_US = 50
"""Dispatches are counted from 50 us to 0.8 s."""

LAPSE_US = 250_000
"""How often a host looks for consumers that have said nothing for seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """A batch that was evaluated.

    Attributes
    ----------
    commands
        Commands to carry out once it is done.
    fragment
        The fragment it belongs to; None if there was nothing to evaluate.
    tuples, timestamp_groups
        How many of each were evaluated.
    emulated_us
        How long the evaluation must appear to take if costs are emulated, µs.
    is_done
        Whether the batch was evaluated to its end, not left between two instants of a loop.
    """

    commands: list[Command]
    fragment: str | None = None
    tuples: int = 0
    timestamp_groups: int = 0
    emulated_us: float | None = None
    is_done: bool = True


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
    anchor_us
        By how much its clock is ahead of its machine's monotonic one.
    observes
        Whether it is an observer.

    Attributes
    ----------
    clock
        The cluster's.
    counters
        Events counted so far, by name.
    dispatches
        How long dispatches have taken.
    """

    def __init__(
        self,
        node: str,
        settings: ClusterRecord,
        rng: np.random.Generator,
        now_us: int,
        anchor_us: int = 0,
        *,
        observes: bool = False,
    ) -> None:
        self.node = node
        self.clock = ClusterClock(anchor_us)
        budget = MemoryBudget(settings.memory_bytes)
        self.replica_manager = manager = ReplicaManager(node, budget, self.clock, observes=observes)
        probe_us = round(settings.probe_interval_ms * 1000)
        as_printed = settings.placement.method is Method.PAPER
        self.prober = Prober(rng, settings.cpu, probe_us, anchor_us, as_printed=as_printed)
        self._heartbeat_us = round(settings.heartbeat_ms * 1000)
        self._ack_interval_us = round(settings.ack_interval_ms * 1000)
        self._outbox = outbox = Outbox(node)
        self.counters = outbox.counters
        batch_us = round(settings.batch_ms * 1000)
        self._dispatcher = Dispatcher(
            manager.replicas, settings.scheduling, batch_us, self.clock, settings.batching
        )
        self.detector = detector = FailureDetector(
            round(settings.suspect_after_ms * 1000), self._heartbeat_us
        )
        self._failover = Failover(manager, self._dispatcher, outbox, detector)
        self._state_loss = state_loss = StateLoss(manager, self._dispatcher, outbox)
        crossing = Discontinuities(manager, outbox, state_loss, detector)
        self._inputs = InputProcessor(
            manager, self._dispatcher, outbox, state_loss, crossing, StandIns(outbox)
        )
        self._peer_control = PeerControl(
            manager, self._failover, self._inputs, state_loss, crossing, outbox
        )
        self._checkpoints = Checkpoints(
            node, settings.state, manager, self._dispatcher, state_loss, outbox
        )
        self._changes = StatementChanges(manager, state_loss, outbox)
        self._access = AccessControl(manager, outbox)
        self._batches, self._sink_pause_us = batch_us > 0, 0.0
        self._emulate_costs = settings.emulate_costs
        self._load_meter = LoadMeter(now_us)
        self.dispatches = Durations(LEAST_DISPATCH_US)
        self._next_heartbeat_us = self._next_ack_us = self._next_probe_us = now_us
        self._next_lapse_us = now_us

    def heard(self, node: str, now_us: int) -> None:
        """Note that a message of another host has arrived; it may wait until it is handled."""
        self._failover.heard(node, now_us)

    def on_heartbeat(self, sender: str, heartbeat: Heartbeat) -> None:
        """Take a heartbeat. No turn of the loop is needed for it."""
        self._failover.told_lag(sender, heartbeat.lag_us)

    def admits(self, sender: str, message: Message, now_us: int) -> bool:
        """Whether a host may send a message; counts a refusal."""
        return self._access.admit(sender, message, now_us) is not None

    def snapshot_is_here(self, fragment: str, now_us: int) -> None:
        """Note that a snapshot has come and is being read: do not ask for it again yet."""
        if (hosted := self.replica_manager.replicas.get(fragment)) is not None:
            hosted.snapshot_asked_us = now_us

    def snapshot_was_written(
        self, fragment: str, size_bytes: int, took_us: float, whole: bool
    ) -> None:
        """Note how much of a replica's state has gone to another one."""
        if (hosted := self.replica_manager.replicas.get(fragment)) is None:
            return
        hosted.giving_bytes = None if whole else size_bytes
        if whole:
            hosted.snapshot = SnapshotStatus(bytes=size_bytes, ms=took_us / 1000)

    def state_rate_bytes_s(self, fragment: str) -> float | None:
        """Most bytes a second of a replica's state that are sent; None: it has no bound of its
        own."""
        hosted = self.replica_manager.replicas.get(fragment)
        return None if hosted is None else hosted.assignment.state_rate_bytes_s

    def handle(self, event: Event, now_us: int) -> list[Command]:
        """React to an event."""
        self._talk_to_itself(now_us)
        match event:
            case MessageArrived(sender=sender, message=message):
                if (admitted := self._access.admit(sender, message, now_us)) is not None:
                    self._on_message(sender, admitted, now_us)
            case PeerLost(node=node):
                self.counters["peers_lost"] += 1
                for producer in self.replica_manager.producers():
                    producer.log.lost_sight_of(node, now_us)
                self._failover.on_peer_lost(node, now_us)
                self._inputs.request(now_us)
            case AssignmentReceived(assignment=assignment):
                self._on_assigned(assignment, now_us)
            case SourceEmitted(stream=stream):
                if (source := self.replica_manager.sources.get(stream)) is not None:
                    self._release(source, now_us)
                    source.enter(event, now_us)
                    source.take_in(now_us, self.clock.at(now_us))
                    self._outbox.feed(source)
            case SourceOpened(stream=stream, position=position):
                if (source := self.replica_manager.sources.get(stream)) is not None:
                    source.open(position, now_us)
            case SourceFailed(stream=stream):
                if (source := self.replica_manager.sources.get(stream)) is not None:
                    source.fail()
            case SourceWaits(stream=stream, for_what=for_what):
                if (source := self.replica_manager.sources.get(stream)) is not None:
                    source.waits_for = for_what
            case SourceReread(node=node, emitted=emitted):
                source = self.replica_manager.sources.get(emitted.stream)
                if source is not None and (data := source.reread(event)) is not None:
                    self._outbox.send(node, data)
                    self._outbox.feed(source)
            case SourceLocated(stream=stream):
                if (source := self.replica_manager.sources.get(stream)) is not None:
                    for node, request in source.located(event).items():
                        self._on_message(node, request, now_us)
            case InputSkipped(stream=stream, skipped=skipped):
                if (source := self.replica_manager.sources.get(stream)) is not None:
                    source.skipped = skipped
                    if skipped.any_lost:
                        self._outbox.report("input lost", stream, skipped.detail)
            case SinkOpened(stream=stream, durable=durable):
                self._outbox.add(*self.replica_manager.open_sink(stream, durable))
                self._inputs.request(now_us)
            case SinkFlushed(stream=stream, durable=durable):
                if (sink := self.replica_manager.sinks.get(stream)) is not None:
                    sink.flushed(durable)
            case SinkFailed(stream=stream):
                self._outbox.add(*self.replica_manager.close_sink(stream))
            case EpochSuperseded(fragment=fragment, epoch=epoch, primary=primary):
                self._failover.on_overruled(fragment, epoch, primary, now_us)
            case CheckpointWritten():
                self._checkpoints.on_written(event)
            case CheckpointFailed():
                self._checkpoints.on_failed(event)
            case CheckpointRead():
                self._checkpoints.on_read(event, now_us)
                self._inputs.request(now_us)
            case CheckpointUnreadable():
                self._checkpoints.on_unreadable(event, now_us)
            case CpuMeasured(load=load, speed=speed):
                self.prober.load = load
                # Peers learn how rarely this host tells; it must not change too much at once.
                figures = self._dispatcher.figures
                figures.slowness = min(speed.slowness, SLOWER * figures.slowness)
                has_ends = bool(self.replica_manager.sources or self.replica_manager.sinks)
                self._load_meter.measured(load, speed, now_us, has_ends=has_ends)
                figures.dispatch_us, figures.cores = self._load_meter.dispatch_us, load
        self._peer_control.grant(now_us)
        return self._outbox.take()

    def tick(self, now_us: int) -> list[Command]:
        """Do what is due: heartbeats, suspicion, requests, acknowledgements, probes."""
        self._talk_to_itself(now_us)
        if now_us >= self._next_probe_us:
            self._next_probe_us = now_us + self.prober.interval_us
            if (probe := self.prober.next_probe(now_us)) is not None:
                self._outbox.send(*probe)
        if now_us >= self._next_heartbeat_us:
            self._next_heartbeat_us = _following(now_us, self._heartbeat_us)
            acks_are_due = now_us >= self._next_ack_us
            if acks_are_due:
                self._next_ack_us = _following(now_us, self._ack_interval_us)
            self._peer_control.send(now_us, everything=acks_are_due)
            if acks_are_due:
                # Checks that cost time for each stream or replica are not due more often.
                self._update_held_up(now_us)
                self._inputs.request(now_us)
                self._checkpoints.take(now_us)
                self._changes.update(now_us)
            if self._failover.suspect_silent_peers(now_us):
                self._inputs.request(now_us)
            self._failover.record_losses()
            # A busy host is late by a batch. Only more than that is a sign of overload.
            lag_us = self.detector.lag_us - self._heartbeat_us
            self._dispatcher.figures.lag_us = max(lag_us, 0)
            self.replica_manager.drop_absent(now_us)
            self._access.expire(now_us)
        return self._outbox.take()

    @property
    def load(self) -> HostLoad | None:
        """Processor time that the host has taken lately; None until it was measured."""
        return self._load_meter.load

    @property
    def next_tick_us(self) -> int:
        """When `tick` must be called at the latest."""
        return min(self._next_heartbeat_us, self._next_probe_us)

    @property
    def next_work_us(self) -> int | None:
        """When `work` will have something to evaluate; None if nothing has arrived."""
        return 0 if self._outbox.to_itself else self._dispatcher.next_us

    @property
    def sdmr(self) -> SdmrMonitor:
        """Counts the arrivals that left their task here too late."""
        return self._dispatcher.sdmr

    @property
    def batch_length_us(self) -> float:
        """How long a batch may last, so that input which arrives meanwhile is in time."""
        return self._dispatcher.batch_length_us

    @property
    def pause_us(self) -> int:
        """How long messages may gather before the host takes them."""
        manager = self.replica_manager
        most_us: float = MOST_PAUSE_US if self._batches else 0
        if manager.replicas:
            most_us = min(most_us, PAUSE_SHARE * self._dispatcher.tightest_us)
        if manager.sinks:
            most_us = min(most_us, self._sink_pause_us)
        # On slow processors each message takes longer, and so does a turn: hence the square.
        each_us = PAUSE_US * self._dispatcher.figures.slowness
        as_many = self._dispatcher.as_many(len(manager.replicas) + len(manager.sinks))
        return round(min(each_us * as_many, most_us))

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
            if worked.tuples or worked.timestamp_groups > 1 or not worked.is_done:
                return replace(worked, commands=commands)
        return Worked(
            commands=commands + self._outbox.take(),
            emulated_us=0.0 if self._emulate_costs else None,
        )

    def _evaluate(self, dispatch: Dispatch, now_us: int) -> Worked:
        hosted = self.replica_manager.replicas[dispatch.fragment]
        self._inputs.deliver(dispatch.fragment, now_us)
        if not hosted.replica.has_work:
            # What it had let wait was broken.
            return Worked(commands=self._outbox.take())
        try:
            evaluated = hosted.replica.evaluate(dispatch.timestamp_groups, dispatch.tuples)
        except Exception as error:  # noqa: BLE001  A statement must not end its host.
            self._state_loss.failed(hosted, error, now_us)
            return Worked(commands=self._outbox.take())
        assert evaluated is not None, "a task is dispatched when it has work"
        if not len(evaluated.watermarks_ms):
            self._dispatcher.done(dispatch.fragment, now_us)
            return Worked(
                commands=self._outbox.take(),
                fragment=dispatch.fragment,
                emulated_us=0.0 if self._emulate_costs else None,
                is_done=False,
            )
        self.counters["dispatches"] += 1
        self.counters["tuples_in"] += evaluated.tuples_in
        self.counters["tuples_out"] += evaluated.rows.num_rows
        self._report_rejected(hosted, evaluated)
        self._report_cut(hosted, evaluated)
        self._outbox.feed(hosted.replica)
        hosted.replica.update_held_up(now_us)
        self._dispatcher.count(
            dispatch.fragment,
            evaluated.tuples_in,
            len(evaluated.watermarks_ms),
            evaluated.rows,
        )
        self._dispatcher.done(dispatch.fragment, now_us)
        if (recovering := hosted.recovering) is not None:
            output_ms = hosted.replica.output_watermark_ms
            recovering.evaluated(evaluated.tuples_in, output_ms, now_us)
        self._peer_control.grant(now_us)
        cost_us = evaluated.tuples_in * hosted.assignment.cost_us
        return Worked(
            commands=self._outbox.take(),
            fragment=dispatch.fragment,
            tuples=evaluated.tuples_in,
            timestamp_groups=len(evaluated.watermarks_ms),
            emulated_us=cost_us if self._emulate_costs else None,
        )

    def _report_rejected(self, hosted: HostedReplica, evaluated: Evaluated) -> None:
        """Report the tuples that a fragment has left out. Its standby leaves out the same ones."""
        if evaluated.rejected and hosted.replica.feeds_subscribers:
            a, last = hosted.assignment, evaluated.rejected[-1]
            self.counters["tuples_rejected"] += sum(each.count for each in evaluated.rejected)
            self._outbox.report("tuples rejected", a.fragment, f"by {a.query}.{a.fragment} {last}")

    def _report_cut(self, hosted: HostedReplica, evaluated: Evaluated) -> None:
        """Report the tuples that a loop has dropped. Its standby drops the same ones."""
        if evaluated.cut and hosted.replica.feeds_subscribers:
            self.counters["tuples_cut"] += sum(evaluated.cut.values())
            told = ", ".join(f"{count} of {name}" for name, count in evaluated.cut.items())
            at = timestamp_text(evaluated.watermarks_ms[-1])
            detail = f"{told} dropped up to {at}: a millisecond had too many instants or tuples"
            self._outbox.report("loop cut", hosted.assignment.fragment, detail)

    def wanted(self) -> list[Wanted]:
        """Pieces of streams that the sources here must read again for consumers that lack them."""
        return [
            part for source in self.replica_manager.sources.values() for part in source.wanted()
        ]

    def sought(self) -> Iterator[tuple[str, int]]:
        """Event times of which a consumer needs a stream's position: stream and time."""
        for stream, source in self.replica_manager.sources.items():
            for after_ms in source.sought:
                yield stream, after_ms

    def unexplained(self) -> dict[str, Skipped]:
        """Ranges that streams left out when they began anew, of which the tuples are to be
        counted."""
        sources = self.replica_manager.sources.items()
        return {s: skipped for s, each in sources if (skipped := each.unexplained()) is not None}

    def charge(self, worked: Worked, took_us: float) -> None:
        """Learn how long a batch took: processor time, unless costs are emulated."""
        if worked.fragment is not None:
            self._dispatcher.charge(worked.fragment, worked.tuples, took_us, is_done=worked.is_done)
            tuples_us = self._dispatcher.tuples_us(worked.fragment, worked.tuples, took_us)
            self._load_meter.evaluated(took_us, tuples_us)
            self.dispatches.add(took_us)
            hosted = self.replica_manager.replicas.get(worked.fragment)
            if hosted is not None and hosted.recovering is not None:
                hosted.recovering.took(took_us)

    def replica_statuses(self, now_us: int) -> dict[str, ReplicaStatus]:
        """Figures of the replicas for the host's record."""
        at = self.clock.at
        return {
            name: ReplicaStatus(
                role=hosted.replica.role,
                epoch=hosted.replica.epoch,
                generation=hosted.replica.generation,
                output_watermark_ms=hosted.replica.output_watermark_ms,
                lags_since_us=None if (us := hosted.lags_since_us) is None else at(us),
                cost=self._dispatcher.cost(name),
                load=self._dispatcher.load(name, now_us),
                batching=self._dispatcher.batching_of(name, now_us),
                failure=hosted.failure,
                unevaluable=hosted.failure is not None and hosted.unevaluable,
                waiting=hosted.replica.engine.waiting,
                rejected=hosted.replica.rejected_count,
                counts_from_ms=hosted.replica.counts_from_ms,
                ended_ms=hosted.replica.ended_ms,
                throttled=hosted.replica.throttle.lately,
                recovered=hosted.recovered,
                snapshot=hosted.snapshot,
                giving_bytes=hosted.giving_bytes,
                state_bytes=hosted.state_bytes,
                checkpoint_bytes=hosted.replica.sender.state_bytes,
                stored=hosted.stored,
                restoring=hosted.restoring_us is not None,
                readers_ms=hosted.readers_ms,
                unusable=hosted.unusable,
                lost_input=dict(hosted.lost_input),
                holding=None if hosted.holding is None else hosted.holding.status,
            )
            for name, hosted in self.replica_manager.replicas.items()
        }

    def shut_down(self) -> list[Command]:
        """Unsubscribe from every stream, before the host ends in order."""
        self._outbox.add(*self.replica_manager.shut_down())
        return self._outbox.take()

    def check_invariants(self) -> None:
        """Raise unless every part is consistent; tests call this after every step."""
        for hosted in self.replica_manager.replicas.values():
            hosted.replica.check_invariants()
        for source in self.replica_manager.sources.values():
            source.log.check_invariants()

    def _on_assigned(self, assignment: Assignment, now_us: int) -> None:
        self._inputs.deliver_all(now_us)
        ahead_us = assignment.clock_ahead_us
        peers = tuple(on_machine_clock(peer, ahead_us) for peer in assignment.peers)
        self._outbox.add(SetPeers(peers=peers))
        commands, gone = self.replica_manager.apply(assignment, now_us)
        self._outbox.add(*commands)
        alive = self.replica_manager.incarnations
        machines = {peer.node: peer.machine for peer in assignment.peers}
        here = machines.get(self.node)
        self.prober.use(
            tuple(node for node in alive if node != self.node),
            {node: machine for node, machine in machines.items() if machine != here},
        )
        self._changes.on_assignment(now_us)
        self._failover.on_assignment(gone, now_us)
        least_ms = min((sink.deadline_ms for sink in assignment.sinks), default=0.0)
        self._sink_pause_us = SINK_PAUSE_SHARE * least_ms * 1000
        # First of all: tasks name replicas that are gone.
        self._dispatcher.rebuild_tasks(now_us)
        for producer in self.replica_manager.producers():
            self._outbox.feed(producer)
        for fragment in self.replica_manager.replicas:
            self._dispatcher.update_held_up(fragment, now_us)
        self._inputs.request(now_us)
        for sender, request in self._access.use(assignment):
            self._on_message(sender, request, now_us)

    def _on_message(self, sender: str, message: Message, now_us: int) -> None:
        match message:
            case messages.Data():
                self._inputs.on_data(sender, message, now_us)
            case messages.Control():
                self._peer_control.receive(sender, message, now_us)
            case Heartbeat():
                self.on_heartbeat(sender, message)
            case messages.Subscribe(stream=stream):
                if (source := self.replica_manager.sources.get(stream)) is not None:
                    source.asked(message)
                self._state_loss.on_claim(sender, stream, message, now_us)
                if (producer := self.replica_manager.producer(stream)) is None:
                    return
                if (answer := subscribe(producer, sender, message, now_us)) is not None:
                    self._outbox.send(sender, answer)
                    self._outbox.feed(producer)
                    self._dispatcher.update_held_up(stream, now_us)
                elif source is not None and message.begins is not None:
                    source.seek(sender, message, message.begins)
            case messages.Subscribed():
                self._inputs.on_subscribed(sender, message, now_us)
                self._failover.on_answer(now_us)
            case messages.Contradiction():
                self._inputs.on_contradiction(sender, message, now_us)
            case messages.Unsubscribe(stream=stream):
                if (producer := self.replica_manager.producer(stream)) is not None:
                    producer.log.unsubscribe(sender)
            case messages.SnapshotRequest(fragment=fragment):
                self._inputs.on_snapshot_request(sender, fragment)
            case messages.Snapshot():
                self._inputs.on_snapshot(message, now_us)
            case messages.Checkpoint():
                self._inputs.on_checkpoint(message, now_us)
            case messages.Ping():
                self._outbox.send(sender, self.prober.answer(message, now_us))
            case messages.Pong():
                self.prober.measured(sender, message, now_us)

    def _update_held_up(self, now_us: int) -> None:
        """Release producers here that are held up no longer, and end the demand of silent hosts.

        Passing time holds nobody up. So only producers that were held up lately are looked at.
        """
        if now_us >= self._next_lapse_us:
            self._next_lapse_us = now_us + LAPSE_US
            for producer in self.replica_manager.producers():
                producer.log.lapse(now_us)
        for fragment, hosted in self.replica_manager.replicas.items():
            if hosted.replica.throttle.lately:
                self._dispatcher.update_held_up(fragment, now_us)
        for source in self.replica_manager.sources.values():
            self._release(source, now_us)

    def _release(self, source: HostedSource, now_us: int) -> None:
        """Let watermarks and waiting tuples of a source enter that had no room."""
        if source.take_in(now_us, self.clock.at(now_us)):
            self._outbox.feed(source)
        if (dropped := source.tell_overdue(now_us)) is not None:
            self._outbox.report("overdue dropped", source.stream, dropped)
        if (lost := source.release(now_us)) is not None:
            self._outbox.report("input lost", source.stream, lost)
            self._outbox.feed(source)

    def _talk_to_itself(self, now_us: int) -> None:
        """Handle messages between two replicas, sources or sinks of this host."""
        while self._outbox.to_itself:
            self._on_message(self.node, self._outbox.to_itself.popleft(), now_us)


def _following(now_us: int, interval_us: int) -> int:
    """The next multiple of an interval. On all hosts that share a clock, work at such multiples is
    due together, and its messages travel together."""
    return (now_us // interval_us + 1) * interval_us
