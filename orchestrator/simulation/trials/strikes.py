"""Faults strike the simulated world, and end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from msgspec import structs

from orchestrator.control.decide.pausing import check_pause, check_resume
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.errors import Refused, VivaceError
from orchestrator.records import NodeKind, PauseRecord, SavepointRecord, SavepointState
from orchestrator.simulation.trials.exposure import Exposure
from orchestrator.simulation.trials.faults import (
    AnyFault,
    Break,
    Clock,
    CoordinatorCrash,
    Crash,
    Delay,
    Disk,
    Everything,
    LinkCut,
    Pause,
    QueryPaused,
    Restart,
    SavepointWanted,
    Slow,
    StoreAway,
    StoreCut,
    event_text,
)
from orchestrator.simulation.trials.observed import Observed, PausedSpan
from orchestrator.simulation.world.candidates import Candidates
from orchestrator.simulation.world.hosts import SimulatedHost
from orchestrator.simulation.world.world import World
from orchestrator.store.protocol import CHECKPOINTS, PAUSES, SAVEPOINTS, Store

AGAIN_US = 20_000
"""Between two looks for what is awaited."""


ARRIVES_US = 2_000_000
"""What was sent before all has stopped arrives by then."""


def _can_pause(view: ClusterView, query: str) -> bool:
    if query in view.pauses:
        return False
    try:
        check_pause(view, query)
    except VivaceError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Strikes:
    """The faults of one schedule.

    Attributes
    ----------
    observed
        Is told of each.
    exposure
        Is asked what a fault takes.
    candidates
        Those of which the leader may crash.
    restart_us
        Node → when its host is to start again after a crash.
    """

    observed: Observed
    exposure: Exposure
    candidates: Candidates
    restart_us: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def world(self) -> World:
        """What they strike."""
        return self.observed.world

    def strike(self, fault: AnyFault) -> None:
        """Let a fault begin, if its targets are there, and end when it is over."""
        nodes = [self.resolve(target) for target in fault.targets]
        if None in nodes or len(set(nodes)) < len(nodes):
            self.observed.note("fault", f"{event_text(fault)}: no such target now")
            return
        hosts = [self.world.hosts[node] for node in nodes if node is not None]
        named = " ".join(host.spec.node for host in hosts)
        self.observed.note("fault", f"{event_text(fault)}{': ' + named if named else ''}")
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
            case Everything():
                self._end_everything(fault)
            case SavepointWanted():
                self._want_savepoint(fault)
            case QueryPaused():
                self._pause_query(fault)
            case StoreAway(stopped=stopped):
                self.world.server.go_away()
                returns = self.world.end_all_sessions if stopped else self.world.server.come_back
                self._after(fault, returns)
            case LinkCut() | Delay() | Break():
                self._strike_link(fault, *(host.spec.node for host in hosts))

    def _crash(self, fault: Crash, host: SimulatedHost) -> None:
        node = host.spec.node
        self.restart_us[node] = self.world.now_us + fault.for_ms * 1000
        if fault.after_writes is None:
            self.world.kill(node)
        else:
            host.store.writes_left = fault.after_writes

    def _end_everything(self, fault: Everything) -> None:
        self.observed.kept = self._kept()
        hosts = [host for host in self.world.hosts.values() if host.alive]
        hosts = [host for host in hosts if host.spec.kind is not NodeKind.OBSERVER]
        for number, host in enumerate(hosts):
            node = host.spec.node
            self.observed.struck.setdefault(node, self.world.now_us)
            self.restart_us[node] = (
                self.world.now_us + (fault.for_ms + number * fault.apart_ms) * 1000
            )
            self.world.kill(node)
        names = self.candidates.names
        for name in names:
            self.candidates.kill(name)
        checkpoints = self.world.checkpoints
        checkpoints.cut_off(fault.damaged)
        if fault.reads_ms:
            checkpoints.reads_us = fault.reads_ms * 1000
            checkpoints.once_asked = lambda: self._stand_still(fault.still_ms)
        if fault.store:
            self.world.server.go_away()

        def again() -> None:
            if fault.store:
                self.world.server.come_back()
            for _ in names:
                self.candidates.stand()

        self._after(fault, again)

    def _stand_still(self, for_ms: int) -> None:
        sites = [h for h in self.world.hosts.values() if h.runs and h.spec.kind is NodeKind.SITE]
        for host in sites:
            self.world.pause(host.spec.node)
            resumes = partial(self.world.resume, host)
            self.world.at(self.world.now_us + for_ms * 1000, resumes)

    def _kept(self) -> set[str]:
        """Fragments of which a checkpoint is listed."""
        if self.world.server.away:
            return set()
        with closing(self.world.server.connect()) as store:
            lists = store.list(CHECKPOINTS).records
        return {key for key, found in lists.items() if found.record.stored}

    def _want_savepoint(self, fault: SavepointWanted) -> None:
        self._ask(fault)
        if (writes := fault.leader_writes) is not None:
            for name in self.candidates.leading:
                self.candidates.kill_after(name, writes)
        if fault.crashes and (node := self.resolve(fault.crashes)) is not None:
            self.observed.struck.setdefault(node, self.world.now_us)
            self.restart_us[node] = self.world.now_us + fault.for_ms * 1000
            self.world.kill(node)
        if fault.damaged or fault.full_ms:
            self._once_copied(fault, self.world.now_us + fault.for_ms * 1000)

        def end() -> None:
            if fault.leader_writes is not None:
                self.candidates.stand()
            if fault.deletes:
                self._delete(fault)

        self._after(fault, end)

    def _ask(self, fault: SavepointWanted) -> None:
        """Write the wish as a client does, as soon as the store can be reached."""
        if self.world.server.away:
            self.world.at(self.world.now_us + AGAIN_US, lambda: self._ask(fault))
            return
        with closing(self.world.server.connect()) as store:
            record = SavepointRecord(name=fault.name, asked_us=self.world.now_us)
            store.create(SAVEPOINTS.key(fault.name), record)

    def _delete(self, fault: SavepointWanted) -> None:
        if self.world.server.away:
            self.world.at(self.world.now_us + AGAIN_US, lambda: self._delete(fault))
            return
        with closing(self.world.server.connect()) as store:
            found = store.get(SAVEPOINTS.key(fault.name))
            if found is not None:
                deleted = structs.replace(found.record, state=SavepointState.DELETED)
                store.update(SAVEPOINTS.key(fault.name), deleted, found.version)

    def _pause_query(self, fault: QueryPaused) -> None:
        """Write the wish as a client does, and later have the query go on."""

        def ask(store: Store, view: ClusterView) -> None:
            names = sorted(view.queries, key=lambda name: (name != fault.query, name))
            name = next((each for each in names if _can_pause(view, each)), None)
            if name is None:
                self.observed.note("fault", "no query can pause")
                return
            life = view.number_of(view.queries[name])
            record = PauseRecord(query=name, life=life, asked_us=self.world.now_us)
            store.create(PAUSES.key(name), record)
            self._kill_leader(None if fault.resuming else fault.leader_writes)
            silent: list[int] = []
            self._once_silent(name, silent)
            self._after(fault, lambda: self._in_store(lambda s, v: resume(s, v, name, silent)))

        def resume(store: Store, view: ClusterView, name: str, silent: list[int]) -> None:
            if (found := view.pauses.get(name)) is None:
                # The query was deleted meanwhile.
                return
            try:
                check_resume(view, name)
            except Refused:
                self._later(lambda: self._in_store(lambda s, v: resume(s, v, name, silent)))
                return
            store.delete(PAUSES.key(name), found.version)
            made = [each.name for each in view.dataflow.of(name)]
            streams = tuple(sorted({*made} & self.observed.arrivals.keys()))
            for since_us in silent:
                self.observed.silences.append(PausedSpan(streams, since_us, self.world.now_us))
            self._kill_leader(fault.leader_writes if fault.resuming else None)

        self._in_store(ask)

    def _kill_leader(self, writes: int | None) -> None:
        """Have the leader die after some writes, and another one stand for election."""
        if writes is not None:
            for name in self.candidates.leading:
                self.candidates.kill_after(name, writes)
                self.candidates.stand()

    def _once_silent(self, query: str, silent: list[int]) -> None:
        """Note when nothing of a paused query has run for a while."""

        def look(store: Store, view: ClusterView) -> None:
            if query not in view.pauses:
                return
            records = [f.record for f in view.fragments.values() if f.record.query == query]
            runs = {
                name
                for host in self.world.hosts.values()
                if host.runs
                for name in host.core.replica_manager.replicas
            }
            if not all(each.paused for each in records) or runs & {r.fragment for r in records}:
                self._later(lambda: self._in_store(look))
            else:
                silent.append(self.world.now_us + ARRIVES_US)

        self._in_store(look)

    def _in_store(self, act: Callable[[Store, ClusterView], None]) -> None:
        """Do something with the store, as soon as it can be reached."""
        if self.world.server.away:
            self._later(lambda: self._in_store(act))
            return
        with closing(self.world.server.connect()) as store:
            act(store, read_view(store))

    def _later(self, act: Callable[[], None]) -> None:
        self.world.at(self.world.now_us + AGAIN_US, act)

    def _once_copied(self, fault: SavepointWanted, until_us: int) -> None:
        """Damage what is to be copied, or let the folder take nothing, once a copy is there."""
        folder = self.world.checkpoints
        if not any(name == fault.name for name, _ in folder.saved):
            at_us = self.world.now_us + AGAIN_US
            if at_us < until_us:
                self.world.at(at_us, lambda: self._once_copied(fault, until_us))
            return
        if fault.damaged:
            folder.cut_off(len(folder.files) // 4)
        if fault.full_ms:
            folder.fails = "the folder of checkpoints is full"

            def again() -> None:
                folder.fails = None

            self.world.at(self.world.now_us + fault.full_ms * 1000, again)

    def _pause(self, fault: Pause, host: SimulatedHost) -> None:
        self.exposure.expose(host)
        self.world.pause(host.spec.node)
        if fault.replaced:
            due_us = self.world.now_us + fault.for_ms * 500

            def replace() -> None:
                if host.paused and self.world.hosts[host.spec.node] is host:
                    self.observed.note(
                        host.spec.node, "replaced by another process while it is stopped"
                    )
                    self.world.restart(host.spec.node)

            self.world.at(due_us, replace)
        self._after(fault, lambda: self.world.resume(host))

    def _set_clock(self, fault: Clock, host: SimulatedHost) -> None:
        node = host.spec.node
        self.world.set_clock(node, round(fault.step_ms * 1000), fault.drift_ppm)
        self._after(fault, lambda: self.world.set_clock(node, 0, 0.0))
        if fault.restart is Restart.NOTHING:
            return
        self.restart_us[node] = self.world.now_us + fault.for_ms * 1000
        self.world.kill(node)
        if fault.restart is Restart.MACHINE and self.world.own_machines:
            self.world.machine_of(node).reboot()

    def _crash_coordinator(self, fault: CoordinatorCrash) -> None:
        for name in self.candidates.leading:
            if fault.after_writes is None:
                self.candidates.kill(name)
            else:
                self.candidates.kill_after(name, fault.after_writes)
        self._after(fault, self.candidates.stand)

    def _strike_link(self, fault: LinkCut | Delay | Break, here: str, there: str) -> None:
        links = self.world.links
        directions = [(here, there), (there, here)] if fault.both_ways else [(here, there)]
        for one, other in directions:
            match fault:
                case LinkCut():
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
                    case LinkCut():
                        links.mend(one, other)
                    case Delay():
                        links.slow_down(one, other, 0)
                    case Break():
                        pass

        self._after(fault, end)

    def resolve(self, target: str) -> str | None:
        """The live node that a target names now."""
        role, _, fragment = target.rpartition(":")
        node: str | None = fragment
        if role and fragment not in self.observed.setting.query_of:
            return None
        if role:
            record = self.exposure.fragment(
                f"{self.observed.setting.query_of[fragment]}.{fragment}"
            )
            replica = None if record is None else getattr(record, role)
            node = None if replica is None else replica.node
        host = None if node is None else self.world.hosts.get(node)
        return node if host is not None and host.alive else None

    def _after(self, fault: AnyFault, action: Callable[[], None]) -> None:
        def end() -> None:
            self.observed.note("fault", f"{event_text(fault)} ends")
            action()

        self.world.at(self.observed.began_us + fault.ends_ms * 1000, end)
