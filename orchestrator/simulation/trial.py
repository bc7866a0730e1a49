"""Plays one schedule: start, faults, healing, end of the streams; then the checks.

A trial notes whatever the checks need: the deliveries of every sink, which primaries the store
accepted, errors that would have ended a process, and the *exposure* of fragments: whether a fault
took the last warm replica, so that its state was lost by right.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ha.roles import ReplicaRole
from orchestrator.control.decision import DecisionSettings
from orchestrator.control.process import Coordination
from orchestrator.control.view import read_view
from orchestrator.host.events import Deliver, Report
from orchestrator.host.hosted_streams import HostedSource
from orchestrator.records import (
    CordonRecord,
    FragmentRecord,
    HistoryEvent,
    HostSpec,
    MovePlan,
    NodeKind,
    QueryRecord,
    ReplicaId,
    StreamRecord,
)
from orchestrator.simulation.faults import (
    AnyFault,
    Break,
    Clock,
    CoordinatorCrash,
    Crash,
    Cut,
    Delay,
    Disk,
    Observe,
    Pause,
    Restart,
    Slow,
    StoreAway,
    StoreCut,
    Visit,
    fault_text,
)
from orchestrator.simulation.hosts import SimulatedHost
from orchestrator.simulation.memory_store import MemoryStore
from orchestrator.simulation.observed import Arrival, Entry, Observed
from orchestrator.simulation.operations import (
    AnyOperation,
    Drain,
    Move,
    operation_text,
    steps_of,
)
from orchestrator.simulation.queues import over_budget
from orchestrator.simulation.schedule import Schedule
from orchestrator.simulation.setting import BEGIN_MS
from orchestrator.simulation.world import World
from orchestrator.store.protocol import CORDONS, FRAGMENTS, MOVES, QUERIES, STREAMS
from streams.chunk import Chunk, Position

START_LIMIT_S = 30.0
"""Virtual time within which the queries must run and be protected."""

FINISH_LIMIT_S = 40.0
"""Virtual time after the streams' end within which all results must have arrived and everything
must be healed."""

CALM_S = 1.0
"""Virtual time at the end within which acknowledgements settle."""

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


class Trial:
    """One schedule on a world of its own.

    Parameters
    ----------
    schedule
        As drawn, or shrunk.
    folder
        For recordings.
    check_invariants
        Whether to check each host's invariants after each of its turns.
    """

    def __init__(self, schedule: Schedule, folder: Path, *, check_invariants: bool = True) -> None:
        self.setting = setting = schedule.setting
        self.schedule = schedule
        self._check_invariants = check_invariants
        self._streams = setting.write(folder)
        self.world = World(
            setting.cluster,
            setting.specs,
            seed=schedule.seed,
            deliver=self._deliver,
            session_timeout_us=setting.session_timeout_us,
            frames=setting.frames,
            own_machines=setting.own_machines,
        )
        self.world.check_every_us = CHECK_EVERY_US
        self.world.bulk_us, self.world.step_us = setting.bulk_ms * 1000, setting.step_ms * 1000
        self.world.on_broken = self._broken
        self.world.on_kill = self._expose
        self.world.on_bad_decision = self._bad_decision
        if not all(recording.resumes for recording in setting.recordings.values()):
            self.world.on_entered = self._enter
        self.world.server.on_change = self._store_changed
        self.observed = Observed(
            setting, schedule, self.world, {stream: [] for stream in setting.outputs}
        )
        self.store = self.world.server.connect()
        self._candidates: list[tuple[MemoryStore, Coordination]] = []
        self._restart_us: dict[str, int] = {}
        self._nodes = [spec.node for spec in setting.specs]
        self._newest_generation: dict[str, int] = {}
        self._shed_before: dict[str, int] = {}
        self._stood = 0
        for _ in range(CANDIDATES):
            self._stand()

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
            self._later(fault.at_ms, lambda fault=fault: self._strike(fault))
        for observer in self.schedule.observers:
            self._observe(observer)
        if self.schedule.visit is not None and self.setting.visitor is not None:
            self._visit(self.schedule.visit, self.setting.visitor)
        for number, operation in enumerate(self.schedule.operations):
            self._operate(f"operation-{number}", operation)
        ends_ms = max(
            [self.setting.seconds * 1000, *(fault.ends_ms for fault in self.schedule.faults)]
        )
        self._run_for(ends_ms / 1000)
        self._wait(lambda: self._finished() and self._healed(), FINISH_LIMIT_S)
        seen.stuck += [
            f"{stream} stopped at {self._reached_ms(stream)} of {self.setting.seconds * 1000} ms"
            for stream in self.setting.outputs
            if not self._complete(stream)
        ]
        seen.stuck += [
            f"{name} stopped at {_reached_ms(kept)} of {self.setting.seconds * 1000} ms of {stream}"
            for name, stream, kept in self._watching()
            if _reached_ms(kept) < self.setting.seconds * 1000
        ]
        seen.stuck += [
            f"{name} does not end: {found.record.steps}"
            for name, found in read_view(self.store).moves.items()
            if found.record.ended_us is None
        ]
        seen.healed = self._healed()
        self._wait(self._rests, self._behind_s() + CALM_S)
        self._run_for(STAYS_CALM_S)
        return self._over()

    def _behind_s(self) -> float:
        """How far standbys may be behind at the end because of what is kept back from them."""
        records = read_view(self.store).fragments.values()
        covered_ms = max((each.record.timing.covered_ms for each in records), default=0.0)
        return BEHIND * covered_ms / 1e3

    def _over(self) -> Observed:
        self.observed.ended_us = self.world.now_us
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
            if generation:
                seen.anew_us[source.stream] = self.world.now_us
        seen.entered.setdefault(source.stream, []).extend(chunks)
        seen.shed[source.stream] = self._shed_before[source.stream] + source.status.shed

    def _broken(self, host: SimulatedHost, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        self.observed.broken.append(f"{host.spec.node} ended: {text}")
        self._note(host.spec.node, f"ended: {text}")
        self.world.kill(host.spec.node)

    def _bad_decision(self, error: Exception) -> None:
        text = f"a coordinator failed: {type(error).__name__}: {error}"
        self.observed.broken.append(text)
        self._note("history", text)

    def _store_changed(self, path: str) -> None:
        folder, _, name = path.partition("/")
        if folder == FRAGMENTS.path and (record := self._fragment(name)) is not None:
            accepted = self.observed.accepted.setdefault((name, record.epoch), set())
            accepted.add(record.primary)
            host = self.world.hosts.get(record.primary.node)
            founds = record.epoch == record.generation
            if founds and (host is None or not host.runs or self._is_out_of_reach(record.fragment)):
                # It is placed on a host that is stopped already, or the hosts that have its state
                # reach no store, so that they cannot learn whom to give it to.
                self.observed.exposed_us.setdefault(record.fragment, self.world.now_us)

    # Faults.

    def _strike(self, fault: AnyFault) -> None:
        nodes = [self._resolve(target) for target in fault.targets]
        if None in nodes or len(set(nodes)) < len(nodes):
            self._note("fault", f"{fault_text(fault)}: no such target now")
            return
        hosts = [self.world.hosts[node] for node in nodes if node is not None]
        named = " ".join(host.spec.node for host in hosts)
        self._note("fault", f"{fault_text(fault)}{': ' + named if named else ''}")
        for host in hosts:
            self.observed.struck.setdefault(host.spec.node, self.world.now_us)
        match fault:
            case Crash():
                self._crash(fault, hosts[0])
            case Pause():
                self._pause(fault, hosts[0])
            case StoreCut():
                self.world.part_from_store(hosts[0])
                self._after(fault, lambda: self.world.reach_store(hosts[0]))
            case Slow(factor=factor):
                hosts[0].slowness = factor
                self._after(fault, lambda: setattr(hosts[0], "slowness", 1.0))
            case Disk():
                full = self.world.disks.full
                full.add(hosts[0].spec.node)
                self._after(fault, lambda: full.discard(hosts[0].spec.node))
            case Clock():
                self._set_clock(fault, hosts[0])
            case CoordinatorCrash():
                self._crash_coordinator(fault)
            case StoreAway(stopped=stopped):
                self.world.server.go_away()
                returns = self.world.end_all_sessions if stopped else self.world.server.come_back
                self._after(fault, returns)
            case Cut() | Delay() | Break():
                self._strike_link(fault, *(host.spec.node for host in hosts))

    def _crash(self, fault: Crash, host: SimulatedHost) -> None:
        node = host.spec.node
        self._restart_us[node] = self.world.now_us + fault.for_ms * 1000
        if fault.after_writes is None:
            self.world.kill(node)
        else:
            host.store.writes_left = fault.after_writes

    def _pause(self, fault: Pause, host: SimulatedHost) -> None:
        self._expose(host)
        self.world.pause(host.spec.node)
        if fault.replaced:
            due_us = self.world.now_us + fault.for_ms * 500

            def replace() -> None:
                if host.paused and self.world.hosts[host.spec.node] is host:
                    self._note(host.spec.node, "replaced by another process while it is stopped")
                    self.world.restart(host.spec.node)

            self.world.at(due_us, replace)
        self._after(fault, lambda: self.world.resume(host))

    def _set_clock(self, fault: Clock, host: SimulatedHost) -> None:
        node = host.spec.node
        self.world.set_clock(node, round(fault.step_ms * 1000), fault.drift_ppm)
        self._after(fault, lambda: self.world.set_clock(node, 0, 0.0))
        if fault.restart is Restart.NOTHING:
            return
        self._restart_us[node] = self.world.now_us + fault.for_ms * 1000
        self.world.kill(node)
        if fault.restart is Restart.MACHINE and self.world.own_machines:
            self.world.machine_of(node).reboot()

    def _crash_coordinator(self, fault: CoordinatorCrash) -> None:
        leading = [each for each in self._candidates if each[1].election.leads]
        for candidate in leading:
            if fault.after_writes is None:
                self._candidates.remove(candidate)
                self.world.abandon(candidate[0])
            else:
                candidate[0].writes_left = fault.after_writes
        self._after(fault, self._stand)

    def _strike_link(self, fault: Cut | Delay | Break, here: str, there: str) -> None:
        links = self.world.links
        directions = [(here, there), (there, here)] if fault.both_ways else [(here, there)]
        for one, other in directions:
            match fault:
                case Cut():
                    links.cut(one, other, holds=fault.holds)
                    if fault.notice:
                        self.world.tell_lost(one, other)
                case Delay():
                    links.slow_down(one, other, round(fault.extra_ms * 1000))
                case Break():
                    links.break_connection(one, other, fault.fate, fault.for_ms * 1000)
                    if fault.notice:
                        self.world.tell_lost(one, other)

        def end() -> None:
            for one, other in directions:
                match fault:
                    case Cut():
                        links.mend(one, other)
                    case Delay():
                        links.slow_down(one, other, 0)
                    case Break():
                        pass

        self._after(fault, end)

    def _expose(self, host: SimulatedHost) -> None:
        """Note the fragments of which this host has the last warm replica, or is to found one.

        A third replica whose place has been taken protects nothing: it may be dismissed already,
        and its host has yet to hear of that.
        """
        replicas = host.core.replica_manager.replicas
        for name, query in self.setting.query_of.items():
            record, hosted = self._fragment(f"{query}.{name}"), replicas.get(name)
            is_warm = hosted is not None and hosted.replica.role is not ReplicaRole.WARMING
            if not is_warm and not (record is not None and _founds(record, host)):
                continue
            if record is None or not any(
                self._warm(replica, name) and not self._lacks_input(replica, name)
                for replica in record.replicas
                if replica.incarnation != host.incarnation and not _is_going(record, replica)
            ):
                self.observed.exposed_us.setdefault(name, self.world.now_us)

    def _is_out_of_reach(self, fragment: str) -> bool:
        """Whether warm replicas of a fragment live, and none on a host that reaches the store."""
        holders = [
            host
            for host in self.world.hosts.values()
            if (hosted := host.core.replica_manager.replicas.get(fragment)) is not None
            and host.runs
            and hosted.replica.role is not ReplicaRole.WARMING
        ]
        return bool(holders) and all(host.store.unreachable for host in holders)

    def _warm(self, replica: ReplicaId, fragment: str) -> bool:
        host = self.world.hosts.get(replica.node)
        if host is None or not host.runs or host.incarnation != replica.incarnation:
            return False
        hosted = host.core.replica_manager.replicas.get(fragment)
        return hosted is not None and hosted.replica.role is not ReplicaRole.WARMING

    def _lacks_input(self, replica: ReplicaId, fragment: str) -> bool:
        """Whether a replica is behind, and what it was not sent yet went down with a site.

        A standby that is fed in batches relies on its primary or on the producers of its input.
        """
        hosted = self.world.hosts[replica.node].core.replica_manager.replicas[fragment]
        return hosted.replica.is_behind and any(
            (recording := self.setting.recordings.get(stream)) is not None
            and not recording.resumes
            and not any(self.world.hosts[site].runs for site in recording.sites)
            for stream in hosted.replica.inputs
        )

    def _resolve(self, target: str) -> str | None:
        """The live node that a target names now."""
        role, _, fragment = target.rpartition(":")
        node: str | None = fragment
        if role and fragment not in self.setting.query_of:
            return None
        if role:
            record = self._fragment(f"{self.setting.query_of[fragment]}.{fragment}")
            replica = None if record is None else getattr(record, role)
            node = None if replica is None else replica.node
        host = None if node is None else self.world.hosts.get(node)
        return node if host is not None and host.alive else None

    def _fragment(self, name: str) -> FragmentRecord | None:
        """A fragment's record as the store's server has it, also while that does not answer."""
        entry = self.world.server.entries.get(FRAGMENTS.key(name).path)
        return None if entry is None else msgspec.json.decode(entry.data, type=FragmentRecord)

    # Processes.

    def _stand(self) -> None:
        store = self.world.server.connect()
        self._stood += 1
        settings = DecisionSettings(start_delay_us=START_DELAY_US)
        candidate = (store, Coordination(store, f"candidate {self._stood}", settings))
        self._candidates.append(candidate)
        self.world.lead(*candidate, until=lambda: candidate not in self._candidates)

    def _supervise(self) -> None:
        """Start every host again that has ended, some time later; look at the queues of others."""
        for node in self._nodes:
            host = self.world.hosts[node]
            if host.alive:
                if (memory := over_budget(host.core.replica_manager)) is not None:
                    self.observed.over_budget.setdefault(node, memory)
                continue
            if host.store.writes_left == 0:
                host.store.writes_left = None
            due_us = self._restart_us.setdefault(node, self.world.now_us + RESTART_US)
            if self.world.now_us >= due_us:
                del self._restart_us[node]
                self._note(node, "starts again")
                self.world.restart(node)
        self.world.at(self.world.now_us + SUPERVISE_US, self._supervise)

    def _observe(self, observer: Observe) -> None:
        """Have an observer come, and go."""
        spec = HostSpec(
            cluster=self.setting.cluster.name,
            node=observer.name,
            kind=NodeKind.OBSERVER,
            region=observer.region,
            domain=observer.name,
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
            self._note("client", f"applies {query.name}")
            seen.visits = True
            seen.visited.update({stream: [] for stream in query.outputs})
            self.store.create(key, query)

        def leave() -> None:
            found = None if self.world.server.away else self.store.get(key)
            if found is None:
                self.world.at(self.world.now_us + SUPERVISE_US, leave)
                return
            self._note("client", f"deletes {query.name}")
            seen.visits = False
            self.store.delete(key, found.version)

        self._later(visit.at_ms, come)
        if visit.until_ms is not None:
            self._later(visit.until_ms, leave)

    def _operate(self, name: str, operation: AnyOperation) -> None:
        """Have an operation submitted, and ended, as soon as the store can be reached."""

        def submit() -> None:
            view = read_view(self.store)
            if isinstance(operation, Drain) and operation.node not in view.cordoned:
                cordon = CordonRecord(node=operation.node, since_us=self.world.now_us)
                self.store.create(CORDONS.key(operation.node), cordon)
                view = read_view(self.store)
            steps = steps_of(operation, view, self.setting.query_of)
            self._note("operator", f"{operation_text(operation)}: {len(steps)} moves")
            plan = MovePlan(
                name=name,
                steps=steps,
                at_a_time=operation.at_a_time if isinstance(operation, Drain) else 1,
                drains=operation.node if isinstance(operation, Drain) else None,
                submitted_us=self.world.now_us,
            )
            if steps:
                self.store.create(MOVES.key(name), plan)

        def withdraw() -> None:
            self._note("operator", f"withdraws {operation_text(operation)}")
            if (found := self.store.get(MOVES.key(name))) is not None:
                record = msgspec.structs.replace(found.record, withdrawn=True)
                self.store.update(MOVES.key(name), record, found.version)
            if isinstance(operation, Drain):
                cordon = self.store.get(CORDONS.key(operation.node))
                if cordon is not None:
                    self.store.delete(CORDONS.key(operation.node), cordon.version)

        self._later(operation.at_ms, lambda: self._when_reached(submit))
        match operation:
            case Drain(until_ms=int(ends_ms)) | Move(withdrawn_ms=int(ends_ms)):
                self._later(ends_ms, lambda: self._when_reached(withdraw))
            case _:
                pass

    def _when_reached(self, action: Callable[[], None]) -> None:
        """Do something with the store as soon as it can be reached."""
        if self.world.server.away:
            self.world.at(self.world.now_us + SUPERVISE_US, lambda: self._when_reached(action))
        else:
            action()

    def _watching(self) -> Iterator[tuple[str, str, list[Arrival]]]:
        """Observers and visitors that stay, their streams, and what they have received."""
        for observer in self.schedule.observers:
            for stream in observer.streams if observer.until_ms is None else ():
                yield observer.name, stream, self.observed.watched.get((observer.name, stream), [])
        for stream, kept in self.observed.visited.items() if self.observed.visits else ():
            yield "visitor", stream, kept

    # Time.

    def _run_for(self, seconds: float) -> None:
        self.world.run_for(seconds, check_invariants=self._check_invariants)

    def _later(self, at_ms: int, action: Callable[[], None]) -> None:
        self.world.at(self.observed.began_us + at_ms * 1000, action)

    def _after(self, fault: AnyFault, action: Callable[[], None]) -> None:
        def end() -> None:
            self._note("fault", f"{fault_text(fault)} ends")
            action()

        self._later(fault.ends_ms, end)

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
        records = {name: each.record for name, each in self.store.list(STREAMS).records.items()}
        starts = [records[name].start_at_us for name in self.setting.recordings if name in read]
        known = [start for start in starts if start is not None]
        return max(known) if len(known) == len(starts) else 0

    def _finished(self) -> bool:
        end_ms = self.setting.seconds * 1000
        return (
            all(self._complete(stream) for stream in self.setting.outputs)
            and all(_reached_ms(kept) >= end_ms for _, _, kept in self._watching())
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

    def _healed(self) -> bool:
        if self.world.server.away or not self._is_led():
            return False
        view = read_view(self.store)
        hosts = [self.world.hosts[node] for node in self._nodes]
        # A leader has seen each process: it knows who reads what, and others know it.
        known = {found.record.incarnation for found in view.assignments.values()}
        return (
            all(host.runs and host.incarnation in known for host in hosts)
            and all(self._feeds_alone(stream) for stream in view.stream_records.values())
            and len(view.fragments) == len(self.observed.running)
            and all(view.settled(found.record) for found in view.fragments.values())
            and all(found.record.ended_us is not None for found in view.moves.values())
        )

    def _is_led(self) -> bool:
        """Whether somebody completes what a leader left undone that died between two writes."""
        return any(
            coordination.election.leads and not store.unreachable
            for store, coordination in self._candidates
        )

    def _feeds_alone(self, stream: StreamRecord) -> bool:
        """Whether one of a stream's sites feeds its consumers, and the other one stands by."""
        found = [
            self.world.hosts[site].core.replica_manager.sources.get(stream.name)
            for site in stream.sites
        ]
        feeding = [source for source in found if source is not None and source.feeds_subscribers]
        is_open = all(source is not None and source.accepts_subscribers for source in found)
        return len(feeding) == 1 and is_open

    def _rests(self) -> bool:
        """Whether the replicas of each fragment end alike, and everything is acknowledged."""
        ends: dict[str, set[Position]] = {}
        for node, host in self.world.hosts.items():
            manager = host.core.replica_manager
            for name, hosted in manager.replicas.items():
                ends.setdefault(name, set()).add(hosted.replica.log.end)
            for producer in manager.producers() if node in self._nodes else ():
                end = producer.log.end
                if any(each.acknowledged != end for each in producer.log.subscribers.values()):
                    return False
        return all(len(known) == 1 for known in ends.values())

    def _note(self, subject: str, text: str) -> None:
        self.observed.entries.append(Entry(self.world.now_us, subject, text))


def _founds(record: FragmentRecord, host: SimulatedHost) -> bool:
    """Whether a fragment's state begins on a host."""
    return record.epoch == record.generation and record.primary.incarnation == host.incarnation


def _is_going(record: FragmentRecord, replica: ReplicaId) -> bool:
    third = record.third
    return third is not None and third.replica == replica and third.becomes is None


def _reached_ms(kept: list[Arrival]) -> int:
    """Timestamp up to which everything has arrived, counted from the streams' begin."""
    return kept[-1].delivery.chunk.watermark_ms - BEGIN_MS if kept else 0


def _told(said: Report | HistoryEvent) -> str:
    return f"{said.kind} {said.subject}: {said.detail}"


def play(schedule: Schedule) -> Observed:
    """Play a schedule in a world of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return Trial(schedule, Path(folder)).run()
