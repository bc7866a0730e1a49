"""The simulated world: a virtual clock and network around the product's own hosts and coordinator.

`HostLoop`, with all it drives, and the coordinator are the product's. Simulated are time, links
(with the topology's delays, first in first out), the cost of evaluation, and the store's server.
All randomness comes from one seed, so the same seed gives the same run.

A crash has the same consequences as on a network: messages under way still arrive, peers learn of
the broken connection one link delay later, and the store keeps the dead host's record until its
session times out.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ha.messages import Message, Snapshot
from orchestrator.control.process import Coordination
from orchestrator.edges.sinks.driver import OpenSink
from orchestrator.host.core.core import Worked
from orchestrator.host.core.events import MessageArrived, PeerLost, Report
from orchestrator.host.core.link_faults import link_delay_us
from orchestrator.host.shell.name_claim import claim_name
from orchestrator.host.shell.pace import StatePace
from orchestrator.host.shell.parts import STALLED_US
from orchestrator.host.shell.wire import as_received, encode, encode_frames, measured
from orchestrator.records import ClusterRecord, HostSpec, Peer, SinkAssignment
from orchestrator.records.versions import Versions, this_version
from orchestrator.simulation.world.clocks import Machine
from orchestrator.simulation.world.hosts import Entered, SimulatedHost
from orchestrator.simulation.world.links import Lane, Links
from orchestrator.simulation.world.memory_checkpoints import MemoryCheckpoints
from orchestrator.simulation.world.memory_sink import Deliveries, MemorySinks
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore, OutOfWrites
from orchestrator.store.protocol import CLUSTER, StoreUnavailable

START_US = 1_000_000_000_000_000
"""Start of the virtual clock: a round number in 2001, so that no code relies on zero."""

SESSION_TIMEOUT_US = 10_000_000
"""How long the store keeps the record of a host that died."""

COORDINATE_US = 200_000
"""Time between two rounds of the coordinator."""

IDLE_US = 1_000_000
"""A coordinator decides at least this often, even if nothing has changed."""

EXCHANGE_US = 30_000
"""From a change of the store to a host's exchange that it causes: about the delay of a watch."""

RECONNECT_US = 50_000
"""Time that a process which was stopped takes to reach the store again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """How long evaluation takes on a simulated node."""

    dispatch_us: int = 50
    effort_us: float = 5.0
    """Time for each input tuple and each timestamp group."""
    noise: float = 0.0
    """Standard deviation of the logarithm of a tuple's emulated cost, whose mean is as stated."""

    def of(self, worked: Worked, rng: np.random.Generator) -> int:
        """How long a batch takes, µs."""
        if worked.emulated_us is None:
            return self.dispatch_us + round(
                (worked.tuples + worked.timestamp_groups) * self.effort_us
            )
        if not worked.tuples or not self.noise:
            return round(worked.emulated_us)
        factors = rng.lognormal(-(self.noise**2) / 2, self.noise, size=worked.tuples)
        return round(worked.emulated_us * float(factors.mean()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A report of a host."""

    at_us: int
    node: str
    report: Report


class World:
    """Hosts, links and a store on a virtual clock.

    Parameters
    ----------
    cluster
        Settings and link delays.
    specs
        Hosts to start.
    seed
        Seed of everything random.
    deliver
        Takes the deliveries that sinks have kept for good.
    costs
        How long evaluation takes.
    session_timeout_us
        How long the store keeps the record of a host that died.
    frames
        Whether messages are encoded as frames and decoded again.
    open_sink
        Opens the sink of a stream on a node; by default, one that keeps deliveries in memory.
    own_machines
        Whether each host has a machine of its own, with its own clocks, instead of one for all.
    versions
        Node → of which version the processes are that start there next; without one, of this.
    start_us
        The time at which it begins.

    Attributes
    ----------
    hosts
        By node, the process that was started last; it may have ended.
    coordinators_ahead_us
        By how much the clocks of coordinators are ahead of the world's.
    bulk_us
        Greatest time that a snapshot takes beyond the link delay.
    step_us
        Time between two steps in which a host reads a snapshot's state.
    watch_us
        Least and greatest time from a change of the store to the exchange that it causes. Hosts
        differ, and so do changes.
    gathers
        Whether hosts let messages gather before they take them, as real ones do.
    check_every_us
        Least time between two checks of a host's invariants; they take longer than a turn.
    disks
        Of the sites whose sinks keep deliveries in memory.
    checkpoints
        The cluster's folder.
    unspoken
        Messages that came in a wire that their target does not speak.
    on_broken
        Told of a host whose turn raised an error, which would have ended its process; None: the
        error is raised.
    on_kill
        Told of a host that is about to be killed, or has left and is about to end.
    on_started
        Told of a host that has been started.
    on_entered
        Told of the chunks that a source has numbered in a turn.
    on_bad_decision
        Told of an error in a coordinator's round; None: it is raised.
    watch
        Told of each message that is sent: from whom, to whom.
    """

    def __init__(
        self,
        cluster: ClusterRecord,
        specs: Sequence[HostSpec],
        *,
        seed: int,
        deliver: Deliveries,
        costs: Costs | None = None,
        session_timeout_us: int = SESSION_TIMEOUT_US,
        frames: bool = False,
        open_sink: Callable[[str, SinkAssignment], OpenSink] | None = None,
        own_machines: bool = False,
        versions: Mapping[str, Versions] | None = None,
        start_us: int = START_US,
    ) -> None:
        self.now_us = start_us
        self.versions = dict(versions or {})
        self.unspoken: list[str] = []
        self.own_machines = own_machines
        self.coordinators_ahead_us = 0
        self._machines: dict[str, Machine] = {}
        self.server = MemoryServer()
        self.hosts: dict[str, SimulatedHost] = {}
        self.trace: list[Traced] = []
        self.watch: Callable[[str, str, Message], None] | None = None
        self.cluster = cluster
        self.disks = MemorySinks(deliver, lambda: self.now_us)
        self.checkpoints = MemoryCheckpoints(cluster, self.at, lambda: self.now_us)
        self.open_sink = open_sink or self.disks.open
        self.costs = costs or Costs()
        self.cost_rng = np.random.default_rng((seed, 1))
        self.check_invariants = False
        self.check_every_us = 0
        self.bulk_us = self.step_us = 0
        self.watch_us: tuple[int, int] = (EXCHANGE_US, EXCHANGE_US)
        self._watch_rng = np.random.default_rng((seed, 13))
        self.frames = frames
        self.gathers = False
        self.on_broken: Callable[[SimulatedHost, Exception], None] | None = None
        self.on_kill: Callable[[SimulatedHost], None] = lambda _: None
        self.on_started: Callable[[SimulatedHost], None] = lambda _: None
        self.on_entered: Entered | None = None
        self.on_bad_decision: Callable[[Exception], None] | None = None
        self.links = Links(self.at, lambda: self.now_us)
        self._session_timeout_us = session_timeout_us
        self._bulk_until_us: dict[tuple[str, str, str], int] = {}
        self._rng = np.random.default_rng(seed)
        self._agenda: list[tuple[int, bool, int, Callable[[], None]]] = []
        self._order = 0
        self.server.connect().create(CLUSTER, cluster)
        for spec in specs:
            self.start_host(spec)

    def coordinate(
        self, store: MemoryStore, round_at: Callable[[int], object], until: Callable[[], bool]
    ) -> None:
        """Call a coordinator's round every 200 ms from now on, until `until` returns True.

        A round is left out if nothing in the store has changed since the last one, as long as that
        was less than `IDLE_US` ago.
        """
        seen, called_us = -1, 0

        def again() -> None:
            nonlocal seen, called_us
            if until():
                return
            if self.server.revision != seen or self.now_us >= called_us + IDLE_US:
                seen, called_us = self.server.revision, self.now_us
                try:
                    round_at(self.now_us + self.coordinators_ahead_us)
                except OutOfWrites:
                    self.abandon(store)
                    return
                except Exception as error:
                    if self.on_bad_decision is None:
                        raise
                    self.on_bad_decision(error)
            self.at(self.now_us + COORDINATE_US, again)

        self.at(self.now_us, again)

    def lead(
        self, store: MemoryStore, coordination: Coordination, until: Callable[[], bool]
    ) -> None:
        """Have a candidate take its steps, until `until` returns True; a bug ends the simulation.

        The product survives it, but nothing else must.
        """

        def step(now_us: int) -> None:
            coordination.run_once(now_us)
            if coordination.bug is not None:
                raise coordination.bug

        self.coordinate(store, step, until)

    def start_host(self, spec: HostSpec, wants: tuple[str, ...] = ()) -> None:
        """Start a host: a new process of a node that has none.

        As long as the store is away, it cannot claim its name, and waits.

        Parameters
        ----------
        wants
            Streams to ask for (observers only).
        """
        before = self.hosts.get(spec.node)
        store = self.server.connect()
        versions = self.versions.get(spec.node, this_version())
        store.records = versions.records
        try:
            claimed = claim_name(store, spec, int(self._rng.integers(2**62)))
        except StoreUnavailable:
            store.close()

            def again() -> None:
                if self.hosts.get(spec.node) is before:
                    self.start_host(spec, wants)

            self.at(self.now_us + RECONNECT_US, again)
            return
        host = SimulatedHost(self, spec, store, claimed, wants, versions)
        self.hosts[spec.node] = host
        host.start()
        self.on_started(host)

    def watch_delay_us(self) -> int:
        """From a change of the store to the exchange that it causes."""
        least_us, most_us = self.watch_us
        return int(self._watch_rng.integers(least_us, most_us + 1))

    def machine_of(self, node: str) -> Machine:
        """The machine that a node's processes run on."""
        name = node if self.own_machines else "machine"
        if name not in self._machines:
            self._machines[name] = Machine(name, lambda: self.now_us)
        return self._machines[name]

    def set_clock(self, node: str, by_us: int, drift_ppm: float) -> None:
        """Set the wall clock of a node's machine, and let its clocks run fast or slow."""
        machine = self.machine_of(node)
        machine.set_wall(by_us)
        machine.drift(drift_ppm)
        for host in self.hosts.values():
            if host.runs and self.machine_of(host.spec.node) is machine:
                host.reschedule()

    def kill(self, node: str) -> None:
        """End a host as SIGKILL ends its executor."""
        host = self.hosts[node]
        if not host.alive:
            return
        self.on_kill(host)
        host.alive = False
        host.release()
        self.abandon(host.store)
        for other in self.hosts.values():
            if other.alive and node in other.peers:
                self.tell_lost(other.spec.node, node)

    def pause(self, node: str) -> None:
        """Stop a host's process, as SIGSTOP does; its session ends when it times out."""
        host = self.hosts[node]
        if host.runs:
            host.pause()
            self._part_from_store(host.store, lambda: host.paused)

    def resume(self, host: SimulatedHost) -> None:
        """Let a host's process go on; it reaches the store a little later."""
        if not host.alive or not host.paused:
            return
        host.resume()
        self.at(self.now_us + RECONNECT_US, lambda: self.reach_store(host))

    def part_from_store(self, host: SimulatedHost) -> None:
        """Cut a host off the store until `reach_store`; its session ends when it times out."""
        self._part_from_store(host.store, lambda: host.alive and host.store.unreachable)

    def reach_store(self, host: SimulatedHost) -> None:
        """Let a host reach the store again."""
        if host.runs:
            host.store.unreachable = False
            host.store.resume()

    def end_all_sessions(self) -> None:
        """Have the store respond again after a stop that was longer than any session may last.

        It ends the sessions before it hears their clients. Hosts come back one after the other,
        after all others: that is what a leader may least take for their death.
        """
        for client in self.server.clients:
            client.expire()
        within_reach = [host for host in self.hosts.values() if not host.store.unreachable]
        for number, host in enumerate(within_reach, 1):
            host.store.unreachable = True
            self.at(self.now_us + number * RECONNECT_US, lambda h=host: self.reach_store(h))
        self.server.come_back()

    def abandon(self, store: MemoryStore) -> None:
        """Leave a session to the store, which ends it when it times out."""
        session = store.session
        store.unreachable = True

        def end() -> None:
            if self.server.away:
                # After an outage, the server restarts the timeout of every session.
                self.at(self.now_us + self._session_timeout_us, end)
            else:
                self.server.end_session(session)

        self.at(self.now_us + self._session_timeout_us, end)

    def restart(self, node: str) -> None:
        """Start a dead node's host anew, as Spark does with a lost executor."""
        self.start_host(self.hosts[node].spec)

    def cut(self, one: str, other: str) -> None:
        """Break the link between two hosts, both ways, until `mend`; both notice it."""
        for here, there in ((one, other), (other, one)):
            self.links.cut(here, there)
            self.tell_lost(here, there)

    def mend(self, one: str, other: str) -> None:
        """Restore a link."""
        self.links.mend(one, other)
        self.links.mend(other, one)

    def tell_lost(self, here: str, there: str) -> None:
        """Have a host told, one link delay from now, that its connection to another broke."""
        host = self.hosts[here]
        self.at(self.now_us + _delay_us(host, there), lambda: host.arrive(PeerLost(node=there)))

    def at(self, when_us: int, action: Callable[[], None], *, last: bool = False) -> None:
        """Schedule an action; with `last`, after all others at the same time."""
        self._order += 1
        heapq.heappush(self._agenda, (max(when_us, self.now_us), last, self._order, action))

    def run_for(self, seconds: float, *, check_invariants: bool = False) -> None:
        """Let time pass; if asked to, check each host's invariants after each of its turns."""
        self.check_invariants = check_invariants
        self.wait(lambda: False, seconds)

    def wait(self, is_over: Callable[[], bool], seconds: float) -> None:
        """Let time pass until something is so, or for so long.

        An action may wait, too, as a thread of a process does: all else goes on meanwhile.
        """
        end_us = self.now_us + round(seconds * 1e6)
        while not is_over():
            if not self._agenda or self._agenda[0][0] > end_us:
                self.now_us = max(self.now_us, end_us)
                return
            self.now_us, _, _, action = heapq.heappop(self._agenda)
            action()

    def log(self, node: str, report: Report) -> None:
        """Add a host's report to the trace."""
        self.trace.append(Traced(at_us=self.now_us, node=node, report=report))

    def transmit(self, host: SimulatedHost, to: str, message: Message) -> None:
        """Have a message arrive one link delay later, in order, unless the network prevents it."""
        if self.watch is not None:
            self.watch(host.spec.node, to, message)
        self._transmit(host, to, encode(message) if self.frames else as_received(message))

    def transmit_bulk(
        self, host: SimulatedHost, to: str, snapshot: Snapshot, paces: Sequence[StatePace]
    ) -> None:
        """Have a snapshot arrive when it can; messages sent later may overtake it.

        As in `orchestrator.host.shell.parts.BulkLane`, another snapshot of the fragment is dropped
        while one is on its way, or was lost there. A state is written while it is sent.

        Parameters
        ----------
        paces
            All of them must allow a further part of the state.
        """
        key, takes_us = (host.incarnation, to, snapshot.fragment), 0
        if self.now_us < self._bulk_until_us.get(key, 0):
            return
        if self.bulk_us:
            takes_us = round(self._rng.random() ** 2 * self.bulk_us)
            self._bulk_until_us[key] = self.now_us + STALLED_US

        def send(message: Message | Iterator[bytes] | list[bytes]) -> None:
            arrived = partial(self._bulk_until_us.pop, key, 0)
            self._transmit(host, to, message, Lane.BULK, takes_us, arrived)

        if not paces:
            send(encode_frames(snapshot) if self.frames else snapshot)
            return
        told = partial(host.core.snapshot_was_written, snapshot.fragment)
        frames = measured(encode_frames(snapshot), lambda: self.now_us, told)
        written: list[bytes] = []

        def write() -> None:
            if not host.runs:
                return
            for frame in frames:
                written.append(frame)
                self._bulk_until_us[key] = self.now_us + STALLED_US
                for pace in paces:
                    pace.spend(len(frame), self.now_us)
                if not all(pace.allows(self.now_us) for pace in paces):
                    self.at(max(pace.free_us for pace in paces), write)
                    return
            send(written)

        write()

    def _transmit(
        self,
        host: SimulatedHost,
        to: str,
        message: Message | Iterator[bytes] | list[bytes],
        lane: Lane = Lane.IN_ORDER,
        takes_us: int = 0,
        arrived: Callable[[], object] = lambda: None,
    ) -> None:
        peer = host.peers.get(to)
        target = self.hosts.get(to)
        # A connection leads to one process: to its endpoint, under its key.
        if peer is None or target is None or target.incarnation != peer.incarnation:
            return
        sender = host.spec.node

        def arrive() -> None:
            nonlocal message
            arrived()
            if isinstance(message, Iterator):
                message = list(message)
            # Messages are attributed by the key of the process that sent them.
            known = target.peers.get(sender)
            if not target.alive or known is None or known.incarnation != host.incarnation:
                return
            if self._link_delay_us(known, target) is None:
                return
            least, newest = target.versions.wire
            if not least <= peer.wire <= newest:
                self.unspoken.append(f"{sender} sends wire {peer.wire} to {to}: {target.versions}")
                return
            if isinstance(message, list):
                target.arrive_frames(sender, message)
            else:
                target.arrive(MessageArrived(sender=sender, message=message))

        known = target.peers.get(sender)
        delay_us = None if known is None else self._link_delay_us(known, target)
        if delay_us is None:
            delay_us = _delay_us(host, to)
        self.links.carry(sender, to, delay_us + takes_us, arrive, lane)

    def _link_delay_us(self, known: Peer, target: SimulatedHost) -> int | None:
        """The delay of the link from a peer as the target sees it; None while a drill cuts it."""
        return link_delay_us(known, self.machine_of(target.spec.node).monotonic_us())

    def _part_from_store(self, store: MemoryStore, still: Callable[[], bool]) -> None:
        store.unreachable = True
        store.suspend()
        session = store.session

        def end() -> None:
            if not still() or store.session != session:
                return
            if self.server.away:
                self.at(self.now_us + self._session_timeout_us, end)
            else:
                store.expire()

        self.at(self.now_us + self._session_timeout_us, end)


def _delay_us(host: SimulatedHost, to: str) -> int:
    peer = host.peers.get(to)
    return round(peer.delay_ms * 1000) if peer is not None else 0
