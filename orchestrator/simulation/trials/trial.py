"""Plays one schedule: start, faults, healing, end of the streams; then the checks.

A trial notes whatever the checks need: the deliveries of every sink, which primaries the store
accepted, errors that would have ended a process, and the *exposure* of fragments: whether a fault
took the last warm replica, so that its state was lost by right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.decide.moving import KEPT_US
from orchestrator.control.observe.entering import EnteringStream
from orchestrator.control.observe.failure_domains import HostDomains
from orchestrator.control.observe.view import read_view
from orchestrator.edges.events import Deliver
from orchestrator.folders import scratch_folder
from orchestrator.host.core.events import Report
from orchestrator.host.core.hosted_streams import HostedSource
from orchestrator.records import (
    HistoryEvent,
    HostSpec,
    NodeKind,
    QueryRecord,
    SavepointState,
)
from orchestrator.records.versions import Versions, this_version
from orchestrator.simulation.trials.elsewhere import savepoint_findings
from orchestrator.simulation.trials.exposure import Exposure
from orchestrator.simulation.trials.faults import Observe, SavepointWanted, Visit, event_text
from orchestrator.simulation.trials.observed import Arrival, Entry, Observed
from orchestrator.simulation.trials.operations import (
    AnyOperation,
    Drain,
    OperationClient,
    TrialMove,
)
from orchestrator.simulation.trials.queues import QueueBudget
from orchestrator.simulation.trials.rolling_out import RollingOut
from orchestrator.simulation.trials.rollouts import told_to_end
from orchestrator.simulation.trials.schedule import Schedule
from orchestrator.simulation.trials.setting import BEGIN_MS
from orchestrator.simulation.trials.strikes import Strikes
from orchestrator.simulation.trials.versions import NextStore, next_version, unsettled
from orchestrator.simulation.world.candidates import Candidates
from orchestrator.simulation.world.hosts import SimulatedHost
from orchestrator.simulation.world.memory_store import MemoryStore
from orchestrator.simulation.world.world import World
from orchestrator.store.protocol import PROPOSALS, QUERIES, RUNNING_STREAMS, STREAMS
from placement.failure_domains import TOGETHER
from streams.vectors.chunk import Chunk, Position

START_LIMIT_S = 30.0
"""Virtual time within which the queries must run and be protected."""

FINISH_LIMIT_S = 40.0
"""Virtual time after the streams' end within which all results must have arrived and everything
must be healed."""

ROLLOUT_S = 20.0
"""The same for each host that leaves: in turn, and after what could not go was tried in vain."""

CALM_S = 1.0
"""Virtual time at the end within which acknowledgements settle."""

MOST_MOVES = 10
"""How often all is calm at most before moves begin that end in time."""

STAYS_CALM_S = 0.3
"""Virtual time for which nothing must change once they have."""

BEHIND = 3
"""A standby that is sent part of its input has come to the end after so many times as long as it
lags at most: the last cut waits for the one before."""

START_DELAY_US = 300_000
"""From the decision to start the streams until they start."""

CHECK_EVERY_US = 250_000
"""Time between two checks of the invariants of a host."""

SUPERVISE_US = 200_000
"""A host that has ended is noticed this often ..."""

RESTART_US = 1_500_000
"""... and started again after this time, unless the fault says when."""

CANDIDATES = 2
"""Coordinators that stand for election."""


class FaultTrial:
    """One schedule on a world of its own.

    Parameters
    ----------
    schedule
        As drawn, or shrunk.
    folder
        For recordings.
    """

    def __init__(self, schedule: Schedule, folder: Path) -> None:
        self.setting = setting = schedule.setting
        self.schedule = schedule
        self._streams = setting.write(folder)
        self.world = World(
            setting.cluster,
            setting.specs,
            seed=schedule.seed,
            deliver=self._deliver,
            session_timeout_us=setting.session_timeout_us,
            frames=setting.frames,
            own_machines=setting.own_machines,
            versions=dict.fromkeys(setting.ahead, next_version()),
        )
        self.world.check_every_us = CHECK_EVERY_US
        least_ms, most_ms = setting.watch_ms
        self.world.watch_us = least_ms * 1000, most_ms * 1000
        self.world.bulk_us, self.world.step_us = setting.bulk_ms * 1000, setting.step_ms * 1000
        self.world.on_broken = self._broken
        self.world.on_bad_decision = self._bad_decision
        if not all(recording.resumes for recording in setting.recordings.values()):
            self.world.on_entered = self._enter
        self.observed = Observed(
            setting, schedule, self.world, {stream: [] for stream in setting.outputs}
        )
        self.store = self.world.server.connect()
        self.store.records = next_version().records
        exposure = Exposure(self.observed)
        self.world.on_kill = exposure.expose
        self.world.server.on_change = exposure.store_changed
        self._nodes = [spec.node for spec in setting.specs]
        self._queues = {node: QueueBudget() for node in self._nodes}
        self._newest_generation: dict[str, int] = {}
        self._shed_before: dict[str, int] = {}
        self._overdue_before: dict[str, int] = {}
        # Last, for the first one leads at once.
        settings = DecisionSettings(start_delay_us=START_DELAY_US)
        self._coordinators_ahead = setting.coordinators_ahead
        self._candidates = Candidates(self.world, CANDIDATES, settings, be=self._coordinator)
        self._strikes = Strikes(self.observed, exposure, self._candidates)
        self._rollouts = RollingOut(
            self.observed, exposure, self._strikes, self.store, self._change_coordinators
        )

    def run(self) -> Observed:
        """Play the schedule to its end."""
        seen = self.observed
        for stream in self._streams:
            self.store.create(STREAMS.key(stream.name), stream)
        for query in self.setting.queries:
            self.store.create(QUERIES.key(query.name), query)
        if not self._wait(self._started, START_LIMIT_S):
            seen.stuck.append("the queries do not start")
            return self._over()
        start_us = self._start_us()
        self._run_for(max(start_us - self.world.now_us, 0) / 1e6)
        seen.began_us = self.world.now_us
        self._supervise()
        for fault in self.schedule.faults:
            self._later(fault.at_ms, lambda fault=fault: self._strikes.strike(fault))
        for rollout in self.schedule.rollouts:
            self._later(rollout.at_ms, lambda each=rollout: self._rollouts.begin(each))
        for observer in self.schedule.observers:
            self._observe(observer)
        if self.schedule.visit is not None and self.setting.visitor is not None:
            self._visit(self.schedule.visit, self.setting.visitor)
        for number, operation in enumerate(self.schedule.operations):
            self._operate(f"operation-{number}", operation)
        ends_ms = max(
            [
                self.setting.seconds * 1000,
                *(fault.ends_ms for fault in self.schedule.faults),
                *(rollout.at_ms for rollout in self.schedule.rollouts),
            ]
        )
        self._run_for(ends_ms / 1000)
        self._wait(self._settled, FINISH_LIMIT_S + told_to_end(self.schedule.rollouts) * ROLLOUT_S)
        if self._together():
            # A node to which a fragment could not be moved is tried again after so long.
            self._wait(self._settled, KEPT_US / 1e6 + FINISH_LIMIT_S)
        seen.stuck += [
            f"{stream} stopped at {self._reached_ms(stream)} of {self.setting.seconds * 1000} ms"
            for stream in self.setting.outputs
            if not self._complete(stream)
        ]
        seen.stuck += [
            f"{name} stopped at {reached_ms} of {self.setting.seconds * 1000} ms of {stream}"
            for name, stream, reached_ms in self._watching()
            if reached_ms < self.setting.seconds * 1000
        ]
        seen.stuck += [
            f"{name} does not end: {found.record.steps}"
            for name, found in read_view(self.store).moves.items()
            if found.record.ended_us is None
        ]
        seen.stuck += self._unsettled()
        seen.broken += self.world.unspoken
        seen.stuck += [
            f"savepoint {name} stays {found.record.state.value}"
            for name, found in read_view(self.store).savepoints.items()
            if found.record.state
            in (SavepointState.WANTED, SavepointState.COPYING, SavepointState.DELETED)
        ]
        view = read_view(self.store)
        if self._rollouts.waiting or view.turns or view.slot is not None:
            seen.stuck.append(f"maintenance does not end: {view.slot}, {sorted(view.turns)}")
        seen.healed = self._healed()
        seen.together = self._together()
        for _ in range(MOST_MOVES):
            self._wait(self._rests, self._behind_s() + CALM_S)
            self._run_for(STAYS_CALM_S)
            # Moves that nobody asks for may begin while all is calm.
            if self._settled():
                break
            self._wait(self._settled, FINISH_LIMIT_S)
        return self._over()

    def _behind_s(self) -> float:
        """How far standbys may be behind at the end because of what is kept back from them."""
        records = read_view(self.store).fragments.values()
        covered_ms = max((each.record.timing.covered_ms for each in records), default=0.0)
        return BEHIND * covered_ms / 1e3

    def _over(self) -> Observed:
        self.observed.ended_us = self.world.now_us
        if any(isinstance(each, SavepointWanted) for each in self.schedule.faults):
            self.observed.elsewhere = savepoint_findings(self.observed, self.store)
        self.observed.entries += [
            Entry(traced.at_us, traced.node, _told(traced.report))
            for traced in self.world.trace
            if traced.report.kind != "store"
        ]
        self.observed.entries += [
            Entry(each.event.at_us, "history", _told(each.event)) for each in self.store.history()
        ]
        self.observed.entries.sort(key=lambda entry: entry.at_us)
        return self.observed

    # What the world tells the trial.

    def _deliver(self, node: str, delivery: Deliver, arrived_us: int) -> None:
        arrival = Arrival(arrived_us, node, delivery)
        if (node, delivery.stream) in self.observed.watched:
            self.observed.watched[node, delivery.stream].append(arrival)
        elif delivery.stream in self.setting.visiting:
            self.observed.visited[delivery.stream].append(arrival)
        else:
            self.observed.arrivals[delivery.stream].append(arrival)

    def _enter(self, host: SimulatedHost, source: HostedSource, chunks: list[Chunk]) -> None:
        if self.setting.recordings[source.stream].resumes:
            return
        seen = self.observed
        generation = self._newest_generation.get(source.stream, 0)
        if source.generation < generation:
            # A process that was replaced: nobody hears it.
            return
        if source.generation > generation:
            self._newest_generation[source.stream] = source.generation
            self._shed_before[source.stream] = seen.shed.get(source.stream, 0)
            self._overdue_before[source.stream] = seen.overdue.get(source.stream, 0)
            if generation:
                seen.anew_us.setdefault(source.stream, self.world.now_us)
        seen.entered.setdefault(source.stream, []).extend(chunks)
        status, stream = source.status, source.stream
        seen.shed[stream] = self._shed_before[stream] + status.shed
        seen.overdue[stream] = self._overdue_before[stream] + status.overdue

    def _broken(self, host: SimulatedHost, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        self.observed.broken.append(f"{host.spec.node} ended: {text}")
        self.observed.note(host.spec.node, f"ended: {text}")
        self.world.kill(host.spec.node)

    def _bad_decision(self, error: Exception) -> None:
        text = f"a coordinator failed: {type(error).__name__}: {error}"
        self.observed.broken.append(text)
        self.observed.note("history", text)

    # Processes.

    def _supervise(self) -> None:
        """Start every host again that has ended, some time later; look at the queues of others."""
        for node in self._nodes:
            host = self.world.hosts[node]
            if host.alive:
                if (memory := self._queues[node].over(host.core.replica_manager)) is not None:
                    self.observed.over_budget.setdefault(node, memory)
                continue
            if host.store.writes_left == 0:
                host.store.writes_left = None
            due_us = self._strikes.restart_us.setdefault(node, self.world.now_us + RESTART_US)
            if self.world.now_us >= due_us:
                del self._strikes.restart_us[node]
                self.observed.note(node, "starts again")
                self.world.restart(node)
        self.world.at(self.world.now_us + SUPERVISE_US, self._supervise)

    def _coordinator(self) -> tuple[MemoryStore, Versions]:
        """The session of the next coordinator, and its version."""
        server = self.world.server
        if self._coordinators_ahead:
            return server.joined(NextStore(server)), next_version()
        return server.connect(), this_version()

    def _change_coordinators(self, ahead: bool, apart_us: int) -> None:
        """Replace coordinators one after the other, unless a fault is about to end them."""
        self._coordinators_ahead = ahead

        def replace(name: str) -> None:
            standing = name in self._candidates.names
            if standing and self._candidates.store_of(name).writes_left is None:
                self.observed.note("platform", f"{name} is replaced")
                self._candidates.terminate(name)
                self._candidates.stand()

        for number, name in enumerate(self._candidates.names):
            self.world.at(self.world.now_us + number * apart_us, lambda name=name: replace(name))

    def _observe(self, observer: Observe) -> None:
        """Have an observer come, and go."""
        spec = HostSpec(
            cluster=self.setting.cluster.name,
            node=observer.name,
            kind=NodeKind.OBSERVER,
            region=observer.region,
            zookeeper="",
            secret="",
        )

        def come() -> None:
            for stream in observer.streams:
                self.observed.watched[observer.name, stream] = []
            self.world.start_host(spec, observer.streams)

        def leave() -> None:
            host = self.world.hosts.get(observer.name)
            if host is None or not host.alive:
                return
            if observer.orderly:
                host.shut_down()
            else:
                self.world.kill(observer.name)

        self._later(observer.at_ms, come)
        if observer.until_ms is not None:
            self._later(observer.until_ms, leave)

    def _visit(self, visit: Visit, query: QueryRecord) -> None:
        """Have the visitor applied, and deleted, as soon as the store can be reached."""
        seen, key = self.observed, QUERIES.key(query.name)

        def come() -> None:
            if self.world.server.away:
                self.world.at(self.world.now_us + SUPERVISE_US, come)
                return
            self.observed.note("client", f"applies {query.name}")
            seen.visits = True
            seen.visited.update({stream: [] for stream in query.outputs})
            self.store.create(key, query)

        def leave() -> None:
            found = None if self.world.server.away else self.store.get(key)
            if found is None:
                self.world.at(self.world.now_us + SUPERVISE_US, leave)
                return
            self.observed.note("client", f"deletes {query.name}")
            seen.visits = False
            self.store.delete(key, found.version)

        self._later(visit.at_ms, come)
        if visit.until_ms is not None:
            self._later(visit.until_ms, leave)

    def _operate(self, name: str, operation: AnyOperation) -> None:
        """Have an operation asked for, and ended, as soon as the store can be reached."""
        operator, text = OperationClient(self.store, name, operation), event_text(operation)

        def go_on() -> None:
            if (told := operator.go_on()) is not None:
                self.observed.note("operator", f"{text}: {told}")

        def soon() -> None:
            self.world.at(self.world.now_us, lambda: self._when_reached(go_on))

        def submit() -> None:
            self.store.watch(PROPOSALS, soon)

        def withdraw() -> None:
            self.observed.note("operator", f"withdraws {text}")
            operator.withdraw()

        self._later(operation.at_ms, lambda: self._when_reached(submit))
        match operation:
            case Drain(until_ms=int(ends_ms)) | TrialMove(withdrawn_ms=int(ends_ms)):
                self._later(ends_ms, lambda: self._when_reached(withdraw))
            case _:
                pass

    def _when_reached(self, action: Callable[[], None]) -> None:
        """Do something with the store as soon as it can be reached."""
        if self.world.server.away:
            self.world.at(self.world.now_us + SUPERVISE_US, lambda: self._when_reached(action))
        else:
            action()

    def _watching(self) -> Iterator[tuple[str, str, int]]:
        """Observers and visitors that stay, their streams, and how far they have come."""
        for observer in self.schedule.observers:
            for stream in observer.streams if observer.until_ms is None else ():
                yield observer.name, stream, self._watched_ms(observer.name, stream)
        for stream, kept in self.observed.visited.items() if self.observed.visits else ():
            yield "visitor", stream, _reached_ms(kept)

    def _watched_ms(self, observer: str, stream: str) -> int:
        """How far an observer has come: one that came when all was over has begun at the end."""
        if kept := self.observed.watched.get((observer, stream), []):
            return _reached_ms(kept)
        host = self.world.hosts.get(observer)
        manager = None if host is None else host.core.replica_manager
        if manager is None or stream not in manager.subscriptions:
            return 0
        (cursor,) = manager.subscriptions[stream].readers.values()
        return 0 if cursor.position is None else cursor.position.watermark_ms - BEGIN_MS

    # Time.

    def _run_for(self, seconds: float) -> None:
        self.world.run_for(seconds, check_invariants=True)

    def _later(self, at_ms: int, action: Callable[[], None]) -> None:
        self.world.at(self.observed.began_us + at_ms * 1000, action)

    def _wait(self, condition: Callable[[], bool], limit_s: float) -> bool:
        give_up_us = self.world.now_us + round(limit_s * 1e6)
        while not condition():
            if self.world.now_us >= give_up_us:
                return False
            self._run_for(0.1)
        return True

    def _started(self) -> bool:
        return self._start_us() > 0

    def _start_us(self) -> int:
        read = {name for program in self.setting.programs.values() for name in program.inputs}
        running = self.store.list(RUNNING_STREAMS).records
        starts = [
            running[name].record.start_at_us if name in running else None
            for name in self.setting.recordings
            if name in read
        ]
        known = [start for start in starts if start is not None]
        return max(known) if len(known) == len(starts) else 0

    def _finished(self) -> bool:
        end_ms = self.setting.seconds * 1000
        return (
            all(self._complete(stream) for stream in self.setting.outputs)
            and all(reached_ms >= end_ms for _, _, reached_ms in self._watching())
            and self._everything_entered()
        )

    def _everything_entered(self) -> bool:
        """Whether sources have come to their ends; one that consumers held up comes to it later."""
        read = {name for program in self.setting.programs.values() for name in program.inputs}
        logs = [
            source.log
            for host in self.world.hosts.values()
            if host.alive
            for stream, source in host.core.replica_manager.sources.items()
            if stream in read
        ]
        return all(log.end.watermark_ms >= self.setting.end_ms for log in logs)

    def _complete(self, stream: str) -> bool:
        return self._reached_ms(stream) >= self.setting.seconds * 1000

    def _reached_ms(self, stream: str) -> int:
        """Timestamp up to which a sink has everything, counted from the streams' begin."""
        return _reached_ms(self.observed.arrivals[stream])

    def _settled(self) -> bool:
        """Whether nothing is left to be done."""
        return (
            self._finished()
            and self._healed()
            and self._are_places_final()
            and not self._unsettled()
            and not self._together()
        )

    def _healed(self) -> bool:
        # A successor completes what a leader left undone that died between two writes.
        if self.world.server.away or not self._candidates.is_led:
            return False
        view = read_view(self.store)
        hosts = [self.world.hosts[node] for node in self._nodes]
        # A leader has seen each process: it knows who reads what, and others know it.
        known = {found.record.incarnation for found in view.assignments.values()}
        return (
            all(host.runs and host.incarnation in known for host in hosts)
            # A host that is to end after its next write has yet to do so.
            and all(host.store.writes_left is None for host in hosts)
            and all(self._feeds_alone(name, stream) for name, stream in view.entering.items())
            and len(view.fragments) == len(self.observed.running)
            and all(view.settled(found.record) for found in view.fragments.values())
            and all(
                self.world.hosts[node].core.replica_manager.replicas.keys()
                == {f.record.fragment for f in view.fragments.values() if f.record.runs_on(node)}
                for node in self._nodes
            )
            and all(found.record.ended_us is not None for found in view.moves.values())
            and all(found.record.ended_us is not None for found in view.savepoints.values())
            and not (self._rollouts.waiting or view.turns or view.slot)
            and not view.leaving
        )

    def _unsettled(self) -> list[str]:
        """What hosts are told of versions and is not so."""
        running = {node: host.versions for node, host in self.world.hosts.items() if host.runs}
        return [*unsettled(read_view(self.store), running)]

    def _are_places_final(self) -> bool:
        """Whether no query waits to be placed again, because nodes were away when it was placed.

        The leader does so long after those are there: once all links have been measured.
        """
        records = [found.record for found in read_view(self.store).fragments.values()]
        return all(not each.lacked or each.stopped for each in records)

    def _together(self) -> list[str]:
        """Fragments whose replicas may die together, though others may be apart."""
        view = read_view(self.store)
        domains = HostDomains(view)
        return sorted(
            key
            for key, found in view.fragments.items()
            if (standby := found.record.secondary) is not None
            and domains.looseness(found.record.primary.node, standby.node) == TOGETHER
        )

    def _feeds_alone(self, name: str, stream: EnteringStream) -> bool:
        """Whether a stream is open where it should be, and one of its sites feeds consumers."""
        found = [
            self.world.hosts[site].core.replica_manager.sources.get(name)
            for site in stream.opened_at
        ]
        feeding = [source for source in found if source is not None and source.feeds_subscribers]
        is_open = all(source is not None and source.accepts_subscribers for source in found)
        return len(feeding) == 1 and is_open

    def _rests(self) -> bool:
        """Whether the replicas of each fragment end alike, and everything is acknowledged.

        A producer that has just come back may have yet to be asked again.
        """
        ends: dict[str, set[Position]] = {}
        for node, host in self.world.hosts.items():
            manager = host.core.replica_manager
            asked = [each for each in manager.subscriptions.values() if each.readers]
            if host.runs and not all(each.confirmed for each in asked):
                return False
            for name, hosted in manager.replicas.items():
                ends.setdefault(name, set()).add(hosted.replica.log.end)
            for producer in manager.producers() if node in self._nodes else ():
                end = producer.log.end
                if any(each.acknowledged != end for each in producer.log.subscribers.values()):
                    return False
        return all(len(known) == 1 for known in ends.values())


def _reached_ms(kept: list[Arrival]) -> int:
    """Timestamp up to which everything has arrived, counted from the streams' begin."""
    return kept[-1].delivery.chunk.watermark_ms - BEGIN_MS if kept else 0


def _told(said: Report | HistoryEvent) -> str:
    return f"{said.kind} {said.subject}: {said.detail}"


def play(schedule: Schedule) -> Observed:
    """Play a schedule in a world of its own."""
    with scratch_folder() as folder:
        return FaultTrial(schedule, folder).run()
