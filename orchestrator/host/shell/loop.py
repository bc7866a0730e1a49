"""One loop around `HostCore`, for the real and for the simulated host.

`HostLoop` decides in which order a host does things. Its `Surroundings` provide what differs
between the worlds: the clock, links to other hosts, how time passes during an evaluation, the
sinks, and where reports go. `process.HostProcess` provides sockets and the machine's clock,
`orchestrator.simulation.world.world` a virtual network and clock.

The loop also publishes the host's record in the store (`node_record`).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np

from ha.memory import MemoryBudget
from ha.messages import Control, Heartbeat, Message, Snapshot
from orchestrator.edges.events import Deliver, SinkFailed, SourceFailed
from orchestrator.edges.sinks.sink_drivers import SinkDrivers
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.source_drivers import SourceDrivers
from orchestrator.host.core.core import HostCore, Worked
from orchestrator.host.core.events import (
    CheckpointEvent,
    CheckpointRead,
    CheckpointUnreadable,
    Command,
    CpuMeasured,
    Event,
    MessageArrived,
    ReadCheckpoint,
    RecordLoss,
    RecordTakeover,
    Report,
    Send,
    SetPeers,
    WriteCheckpoint,
)
from orchestrator.host.core.incidents import Incidents
from orchestrator.host.core.preparation import SnapshotPreparations
from orchestrator.host.shell.checkpoint_driver import (
    CheckpointDriver,
    FramesRead,
    NoCheckpoints,
)
from orchestrator.host.shell.name_claim import Claimed
from orchestrator.host.shell.store_link import StoreLink
from orchestrator.host.shell.wire import UnreadSnapshot, WireError, begin_decoding
from orchestrator.records import (
    ClockOffset,
    ClusterRecord,
    HostSpec,
    Incident,
    Leaving,
    NodeKind,
    NodeRecord,
    Peer,
    Processors,
    SourceAssignment,
)
from orchestrator.records.speed import Speed
from orchestrator.records.versions import this_version
from orchestrator.store.protocol import Store
from streams.expressions.owned import fingerprints, owned_names
from streams.expressions.time_zones import rules
from streams.vectors.chunk import Chunk

PUBLISH_US = 1_000_000
PUBLISH_EACH_US = 15_000
RAREST_PUBLISH_US = 2_000_000
"""Interval between two versions of a host's record, unless its readiness changes earlier. It is
longer with many replicas and sinks: the record says something of each, and its host, ZooKeeper and
the coordinator work through all of it."""

LATE_US = 1_000
"""How late heartbeats and probes may leave: waiting ends once then, not twice."""

_REGULAR = Control, Heartbeat

PROBLEMS = frozenset(
    {
        "assignment refused",
        "cannot be primary",
        "cannot continue",
        "checkpoint not kept",
        "checkpoint unusable",
        "evaluation failed",
        "fed by standby",
        "snapshot refused",
    }
)
"""Kinds of reports that a host's record repeats for `vivace status`."""

EVENTS = frozenset(
    {"input lost", "loop cut", "overdue dropped", "readers dropped", "tuples rejected"}
)
"""Further ones, which tell of an event, not of a state that another report ends."""

COUNTED = frozenset({"tuples rejected"})
"""Those of the events that the leader finds in a replica's count: both replicas have that."""

EVENT_SHOWN_US = 60_000_000
"""How long a record repeats an event; counters tell of it for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The differences between the two worlds in which a host's loop runs.

    Attributes
    ----------
    clock_us
        The host's own clock, which never goes back.
    anchor_us
        By how much it is ahead of the machine's monotonic clock.
    send
        Sends a message to a peer, at the latest with the next `flush`.
    flush
        Hands every message sent so far to the network.
    transit_bytes
        The memory of messages that have arrived and are not handled yet.
    checkpoints
        Writes and reads checkpoints.
    set_peers
        Keeps links to exactly these hosts.
    link_counters
        Events counted by the links, for the host's record.
    sinks
        The sinks of this host.
    sources
        Where the sources of this host are opened, and its sinks as well.
    report
        Logs a report.
    finish
        For a batch and the time its evaluation began: returns how long the batch takes, µs, and
        calls its last argument when that time has passed.
    cpu_load
        CPU use of this host at a time, in cores; None if there is no new measurement.
    speed
        How fast its processor works at a time.
    processor_us
        Processor time that the host's thread has used. Costs are learnt from it: on a busy machine,
        time passes also while others work. None: costs are learnt from the time that passed.
    message_failed
        Told of a message that could not be handled; the host goes on. None: the error is raised,
        as simulations and tests want it.
    evaluates_for_us
        How long a turn may go on evaluating batches, if deadlines allow it. A turn costs as much as
        several small batches, and what they send travels together.
    """

    clock_us: Callable[[], int]
    send: Callable[[str, Message], None]
    set_peers: Callable[[tuple[Peer, ...]], None]
    sinks: SinkDrivers
    report: Callable[[Report], None]
    finish: Callable[[Worked, int, Callable[[], None]], float]
    flush: Callable[[], None] = lambda: None
    transit_bytes: Callable[[], int] = lambda: 0
    cpu_load: Callable[[int], float | None] = lambda _: None
    speed: Callable[[int], Speed] = lambda _: Speed()
    processor_us: Callable[[], int] | None = None
    evaluates_for_us: int = 0
    anchor_us: int = 0
    link_counters: Counter[str] = field(default_factory=Counter[str])
    sources: SourceContext = field(default_factory=SourceContext)
    message_failed: Callable[[MessageArrived, Exception], None] | None = None
    checkpoints: CheckpointDriver = field(default_factory=NoCheckpoints)


class HostLoop:
    """A host's core, its link to the store, its sources and its sinks, driven turn by turn.

    Parameters
    ----------
    surroundings
        The world the host runs in.
    settings
        The cluster's settings.
    store
        An open store of the cluster.
    identity
        The part of the host's record that does not change.
    claimed
        The host's claim to its name.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        settings: ClusterRecord,
        store: Store,
        identity: NodeRecord,
        claimed: Claimed,
    ) -> None:
        self._surroundings = surroundings
        self._clock_us = surroundings.clock_us
        self._identity = identity
        rng = np.random.default_rng(int(identity.incarnation, 16))
        observes = identity.kind is NodeKind.OBSERVER
        self.core = HostCore(
            identity.node,
            settings,
            rng,
            self._clock_us(),
            surroundings.anchor_us,
            observes=observes,
        )
        self.link = StoreLink(store, claimed)
        clock_us, clock = surroundings.clock_us, self.core.clock
        budget = MemoryBudget(settings.memory_bytes)
        context = dataclasses.replace(
            surroundings.sources,
            site=identity.node,
            clock_us=lambda: clock.at(clock_us()),
            buffer_bytes=min(budget.source_bytes, surroundings.sources.buffer_bytes),
            waiting_bytes=budget.waiting_bytes,
            retain_bytes=0 if settings.state is None else settings.state.retain_bytes,
        )
        surroundings.sinks.check_claim = context.check_claim
        self._source_drivers = SourceDrivers(round(settings.batch_ms * 1000), clock, context)
        self._preparations = SnapshotPreparations()
        self._problems: dict[str, str] = {}
        self._events: dict[tuple[str, str], tuple[str, int]] = {}
        """Kind and subject → what has happened, and until when it is shown."""
        self._incidents = Incidents()
        self._throttled: set[str] = set()
        self._published: object = None
        self._opens_nothing = False
        self._has_sent = False
        """Whether something else than control messages and heartbeats waits to be sent."""
        self._next_publish_us = 0
        self._leaving: Leaving | None = None
        self._leaves_by_us: int | None = None

    def leave(self, within_us: int) -> None:
        """Have everything here go elsewhere; the host has so long until it ends."""
        if self._leaves_by_us is not None:
            return
        now_us = self._clock_us()
        self._leaves_by_us = now_us + within_us
        at_us = self.core.clock.at(now_us)
        self._leaving = Leaving(since_us=at_us, until_us=at_us + within_us)
        self._next_publish_us = 0
        self.publish()

    @property
    def has_left(self) -> bool:
        """Whether the host was to leave, and may end, or must."""
        by_us = self._leaves_by_us
        return by_us is not None and (self.link.may_end or self._clock_us() >= by_us)

    @property
    def runs_here(self) -> list[str]:
        """Fragments and streams that would end with the host."""
        manager = self.core.replica_manager
        return sorted([*manager.replicas, *manager.sources, *manager.sinks])

    @property
    def next_due_us(self) -> int:
        """When the next turn is due even if no event arrives before."""
        return self.next_due()[0]

    def next_due(self) -> tuple[int, int]:
        """When the next turn is due, and by how much it may be late: 0 if anything else than
        heartbeats and probes is due then."""
        sources = self._assigned_sources()
        dues_us = (
            self.core.next_work_us,
            self._source_drivers.next_due_us(sources, self._throttled) if sources else None,
            self._surroundings.sinks.next_due_us,
        )
        tick_us = self.core.next_tick_us
        due_us = min((each for each in dues_us if each is not None), default=tick_us + LATE_US)
        return min(tick_us, due_us), min(max(due_us - tick_us, 0), LATE_US)

    def turn(self, events: Iterable[Event]) -> None:
        """Handle events, read sources, do what the timers ask for, and evaluate some batches."""
        # What must be looked at regularly, and costs time for each stream or replica, can wait for
        # the next heartbeat. Most turns only handle a message.
        now_us = self._clock_us()
        ticks = now_us >= self.core.next_tick_us
        for event in events:
            self._handle(event)
        while self.link.events:
            self._handle(self.link.events.popleft())
        while (kept := self._surroundings.checkpoints.take()) is not None:
            self._take_checkpoint(kept)
        self._attend_sources()
        sinks_due_us = self._surroundings.sinks.next_due_us
        if ticks or (sinks_due_us is not None and now_us >= sinks_due_us):
            self._attend_sinks()
        if ticks:
            self.execute(self.core.tick(self._clock_us()))
        if self._has_sent:
            # Data and probes must not wait until the batch is evaluated.
            self._surroundings.flush()
            self._has_sent = False
        self._work()
        if ticks:
            self.publish()

    @property
    def is_ready(self) -> bool:
        """Whether the store has the host's record, and sources and sinks are open, or their
        failure is said there."""
        return self.link.is_published and self._opens_nothing

    @property
    def reads_snapshots(self) -> bool:
        """Whether `read_snapshots` has something to do."""
        return len(self._preparations) > 0

    def prepare(self, sender: str, snapshot: Snapshot, log: Iterable[Chunk] = ()) -> None:
        """Have a snapshot read in steps, if a replica waits for it.

        Parameters
        ----------
        log
            The part of its output log that is yet to be decoded.
        """
        hosted = self.core.replica_manager.replicas.get(snapshot.fragment)
        if (
            hosted is not None
            and hosted.replica.needs_state
            and self.core.admits(sender, snapshot, self._clock_us())
        ):
            self._preparations.add(sender, snapshot, hosted.replica.program, log)

    def read_snapshots(
        self, has_time: Callable[[], bool] = lambda: False
    ) -> MessageArrived | CheckpointRead | CheckpointUnreadable | None:
        """Read a piece, and more while there is time; return the snapshot that this completes.

        Raises
        ------
        WireError
            A piece of the output log is damaged. The snapshot is dropped.
        """
        for fragment in self._preparations.fragments:
            self.core.snapshot_is_here(fragment, self._clock_us())
        return self._preparations.step(has_time)

    def publish(self) -> None:
        """Give the store the host's record if it is due, or if the host's readiness has changed."""
        now_us = self._clock_us()
        ready = readiness(self.core)
        if now_us < self._next_publish_us and ready == self._published:
            return
        self._published = ready
        manager = self.core.replica_manager
        many_us = PUBLISH_EACH_US * (len(manager.replicas) + len(manager.sinks))
        self._next_publish_us = now_us + min(max(PUBLISH_US, many_us), RAREST_PUBLISH_US)
        if (load := self._surroundings.cpu_load(now_us)) is not None:
            self._handle(CpuMeasured(load=load, speed=self._surroundings.speed(now_us)))
        self._events = {of: told for of, told in self._events.items() if told[1] > now_us}
        for stream, status in self._source_drivers.statuses.items():
            if (source := self.core.replica_manager.sources.get(stream)) is not None:
                source.input = status
        for stream, address in self._surroundings.sinks.addresses.items():
            if (sink := self.core.replica_manager.sinks.get(stream)) is not None:
                sink.address = address
        self._note_dropped_readers()
        counters = self._surroundings.link_counters + self.link.counters
        drivers = self._source_drivers.problems | self._surroundings.sinks.problems
        self._opens_nothing = manager.unopened <= drivers.keys()
        self._note_failures()
        problems = (
            *self._problems.values(),
            *(event for event, _ in self._events.values()),
            *drivers.values(),
            *self.link.problems.values(),
        )
        record = node_record(
            self.core,
            self._identity,
            self._clock_us(),
            counters,
            problems,
            self._surroundings.transit_bytes(),
            self._incidents.newest,
            self._leaving,
        )
        self.link.publish(record)

    def close(self) -> None:
        """Close the sources; nothing enters any more."""
        self._source_drivers.close()

    def execute(self, commands: list[Command]) -> None:
        """Carry out commands of the core, in their order."""
        for command in commands:
            match command:
                case Send(to=to, message=message):
                    self._has_sent |= not isinstance(message, _REGULAR)
                    self._surroundings.send(to, message)
                case Deliver():
                    self._surroundings.sinks.keep(command, self._clock_us())
                case WriteCheckpoint():
                    self._surroundings.checkpoints.write(command)
                case ReadCheckpoint():
                    self._surroundings.checkpoints.read(command)
                case SetPeers(peers=peers):
                    self._surroundings.set_peers(peers)
                case RecordTakeover(detected_at_us=own_us) | RecordLoss(detected_at_us=own_us):
                    at_us = self.core.clock.at(own_us)
                    self.link.record(msgspec.structs.replace(command, detected_at_us=at_us))
                case Report():
                    self._note(command)
                    self._surroundings.report(command)

    def _take_checkpoint(self, event: CheckpointEvent | FramesRead) -> None:
        """Handle what has become of a checkpoint; one that was read is decoded in steps."""
        if not isinstance(event, FramesRead):
            self._handle(event)
            return
        hosted = self.core.replica_manager.replicas.get(event.fragment)
        if hosted is None:
            return
        try:
            found = begin_decoding(event.frames, self.core.replica_manager.schema_of)
            if not isinstance(found, UnreadSnapshot) or found.snapshot.fragment != event.fragment:
                raise WireError("it holds no snapshot of this fragment")
        except WireError as error:
            why = f"is damaged: {error}"
            self._handle(CheckpointUnreadable(fragment=event.fragment, name=event.name, why=why))
            return
        program = hosted.replica.program
        self._preparations.add("", found.snapshot, program, found.log, checkpoint=event.name)

    def _note(self, report: Report) -> None:
        """Keep a problem until the next report about the same fragment or stream, an event for a
        while."""
        problem = f"{report.subject}: {report.kind}: {report.detail}"
        if report.kind in EVENTS:
            until_us = self._clock_us() + EVENT_SHOWN_US
            self._events[report.kind, report.subject] = problem, until_us
            if report.kind not in COUNTED:
                self._note_incident(report.kind, report.subject, report.detail)
            return
        self._problems.pop(report.subject, None)
        if report.kind in PROBLEMS:
            self._problems[report.subject] = problem

    def _note_dropped_readers(self) -> None:
        """Tell that readers have lost their connections, which do not read what they asked for."""
        for stream, count in self._surroundings.sinks.take_dropped().items():
            if (sink := self.core.replica_manager.sinks.get(stream)) is not None:
                sink.readers_dropped += count
            detail = f"{count} did not read, and lost their connections"
            self._note(Report(kind="readers dropped", subject=stream, detail=detail))

    def _note_failures(self) -> None:
        """Have the history keep why drivers have failed: each may be open again in a moment."""
        for kind, failures in (
            ("source failed", self._source_drivers.failures),
            ("sink failed", self._surroundings.sinks.failures),
        ):
            for stream, problem in failures.items():
                self._note_incident(kind, stream, problem.removeprefix(f"{stream}: "))

    def _note_incident(self, kind: str, subject: str, detail: str) -> None:
        now_us = self._clock_us()
        self._incidents.note(kind, subject, detail, now_us, self.core.clock.at(now_us))

    def _handle(self, event: Event) -> None:
        if isinstance(event, (SourceFailed, SinkFailed)):
            self._note_failures()
        try:
            commands = self.core.handle(event, self._clock_us())
        except Exception as error:
            # What another host says must not end this one.
            failed = self._surroundings.message_failed
            if failed is None or not isinstance(event, MessageArrived):
                raise
            self.core.counters["messages_failed"] += 1
            failed(event, error)
            return
        self.execute(commands)

    def _attend_sources(self) -> None:
        """Read sources, also what consumers lack."""
        manager = self.core.replica_manager
        if not manager.sources and not self._source_drivers.attended:
            return
        sources = self._assigned_sources()
        now_us = self._clock_us()
        closed = {s for s, source in manager.sources.items() if not source.accepts_subscribers}
        self._throttled = {s for s, each in manager.sources.items() if each.update_held_up(now_us)}
        sent_ms = {s: source.primary_ms for s, source in manager.sources.items()}
        feed = self._source_drivers.feed
        for event in feed(sources, now_us, closed, self._throttled, sent_ms):
            self._handle(event)
        for stream, slipped_us in self._source_drivers.slipped_us.items():
            manager.sources[stream].slipped_us = slipped_us
        for stream, retained in self._source_drivers.retained.items():
            manager.sources[stream].log.retained = retained
        self._source_drivers.confirm(manager.held_by_readers, manager.had_before_ms)
        for event in self._source_drivers.locate(list(self.core.sought()), now_us):
            self._handle(event)
        for piece in self._source_drivers.reread(sources, self.core.wanted(), now_us):
            self._handle(piece)
        for counted in self._source_drivers.count(self.core.unexplained()):
            self._handle(counted)

    def _attend_sinks(self) -> None:
        """Open and flush sinks."""
        manager = self.core.replica_manager
        sinks = [sink.assignment for sink in manager.sinks.values()]
        if not sinks and not self._surroundings.sinks.attended:
            return
        closed = {stream for stream, sink in manager.sinks.items() if not sink.is_open}
        for event in self._surroundings.sinks.attend(sinks, self._clock_us(), closed):
            self._handle(event)

    def _work(self) -> None:
        until_us: int | None = None
        while True:
            began_us = self._clock_us()
            due_us = self.core.next_work_us
            if due_us is None or due_us > began_us:
                return
            if until_us is None:
                batch_us = round(self.core.batch_length_us)
                until_us = began_us + min(self._surroundings.evaluates_for_us, batch_us)
            processor_us = self._surroundings.processor_us
            used_us = 0 if processor_us is None else processor_us()
            worked = self.core.work(began_us)
            computed_us = None if processor_us is None else processor_us() - used_us
            took_us = self._surroundings.finish(
                worked, began_us, lambda commands=worked.commands: self.execute(commands)
            )
            if computed_us is not None and worked.emulated_us is None:
                took_us = computed_us
            self.core.charge(worked, took_us)
            if worked.fragment is None or self._clock_us() >= until_us:
                return

    def _assigned_sources(self) -> list[SourceAssignment]:
        return [source.assignment for source in self.core.replica_manager.sources.values()]


def readiness(core: HostCore) -> tuple[object, ...]:
    """Roles, from where releases count, sources, confirmed sinks, and machines whose clocks have
    been measured: when these change, the host publishes at once."""
    replica_manager = core.replica_manager
    return (
        {
            f: (
                h.replica.role,
                h.replica.epoch,
                h.lags_since_us,
                h.holding and h.holding.status,
                h.readers_ms is None,
                # The leader knows it from nobody else once both replicas are lost.
                h.replica.counts_from_ms,
            )
            for f, h in replica_manager.replicas.items()
        },
        {
            s: (each.told_role, each.told_epoch, each.lags, each.failed)
            for s, each in replica_manager.sources.items()
            if each.accepts_subscribers or each.failed
        },
        frozenset(s for s in replica_manager.sinks if replica_manager.subscriptions[s].confirmed),
        core.prober.measures_clocks,
    )


def host_identity(
    spec: HostSpec,
    incarnation: str,
    endpoint: str,
    *,
    public_key: str = "",
    pid: int = 0,
    machine: str = "",
    clock_ahead_us: int = 0,
    processors: Processors | None = None,
    wants: tuple[str, ...] = (),
) -> NodeRecord:
    """The part of a host's record that stays the same as long as its process lives."""
    return NodeRecord(
        node=spec.node,
        incarnation=incarnation,
        kind=spec.kind,
        region=spec.region,
        endpoint=endpoint,
        public_key=public_key,
        labels=spec.labels,
        pid=pid,
        machine=machine,
        clock_ahead_us=clock_ahead_us,
        processors=processors,
        wants=wants,
        versions=this_version(),
        functions=fingerprints(owned_names()) | rules(),
    )


def node_record(
    core: HostCore,
    identity: NodeRecord,
    now_us: int,
    link_counters: Counter[str],
    problems: tuple[str, ...] = (),
    transit_bytes: int = 0,
    incidents: tuple[Incident, ...] = (),
    leaving: Leaving | None = None,
) -> NodeRecord:
    """The host's record, as of now."""
    replica_manager, at_us = core.replica_manager, core.clock.at(now_us)
    overflowed = sum(producer.log.overflowed_tuples for producer in replica_manager.producers())
    dropped = Counter(
        {
            "tuples_overflowed": overflowed,
            "probes_rejected": core.prober.rejected,
            "coordinate_resets": core.prober.resets,
            "clocks_contradicted": core.prober.contradictions,
            "long_silences": core.detector.long_silences,
            "arrivals_decided": core.sdmr.host.completed,
            "arrivals_missed": core.sdmr.host.misses,
        }
    )
    return msgspec.structs.replace(
        identity,
        clocks={
            machine: ClockOffset(ahead_us=each.ahead_us, uncertainty_us=each.uncertainty_us)
            for machine, each in core.prober.clocks(now_us).items()
        },
        reported_us=at_us,
        coordinate=core.prober.coordinate,
        latencies_ms=core.prober.latencies_ms,
        spreads_ms=core.prober.spreads_ms,
        load=core.load,
        lag_ms=round(core.detector.usual_lag_us / 1000, 1),
        sdmr_pct=round(100 * core.sdmr.host_sdmr(now_us), 2),
        replicas=core.replica_statuses(now_us),
        sources={
            stream: source.status
            for stream, source in replica_manager.sources.items()
            if source.accepts_subscribers
        },
        failed_sources=tuple(s for s, each in replica_manager.sources.items() if each.failed),
        sinks={s: sink.status(at_us) for s, sink in replica_manager.sinks.items() if sink.was_open},
        memory=replica_manager.memory(transit_bytes),
        dispatch_histogram=core.dispatches.histogram,
        counters=dict(core.counters + link_counters + dropped),
        problems=problems,
        incidents=incidents,
        leaving=leaving,
    )
