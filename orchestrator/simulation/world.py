"""The simulated world: a virtual clock and network around the very objects that run for real.

`HostCore`, `StoreLink`, `SourceDrivers` and the coordinator are the product's; only what surrounds
them is simulated: time, links (the topology's delays, first in first out), the cost of evaluation,
and the store's server. Everything is drawn from one seed, so the same seed gives the same run.

What a crash looks like here is what it looks like on a network: messages under way still arrive,
peers learn of the broken connection one link delay later, and the store keeps the dead host's
record until its session times out.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ha.messages import Message
from orchestrator.host.core import HostCore, Worked
from orchestrator.host.events import (
    Command,
    Deliver,
    Event,
    MessageArrived,
    PeerLost,
    RecordTakeover,
    Report,
    Send,
    SetPeers,
)
from orchestrator.host.node_report import node_record, readiness
from orchestrator.host.store_link import StoreLink
from orchestrator.records import ClusterRecord, HostSpec, Peer, ReplicaId, SourceAssignment
from orchestrator.simulation.memory_store import MemoryServer, MemoryStore
from orchestrator.sources.replay import SourceDrivers
from orchestrator.store import CLUSTER, StoreError

START_US = 1_000_000_000_000_000
"""The virtual clock starts here: a round number in 2001, so that no code leans on zero."""

EXCHANGE_US = 50_000
"""Between two looks of a host at the store, as watches and a session would give."""

SESSION_TIMEOUT_US = 10_000_000
"""How long the store keeps the record of a host that died."""

PUBLISH_US = 1_000_000
COORDINATE_US = 200_000
"""Between two rounds of the coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What evaluation takes on a simulated node."""

    dispatch_us: int = 50
    effort_us: float = 5.0
    """Per input tuple or instant."""
    noise: float = 0.0
    """Of emulated costs: standard deviation of their logarithm, tuple by tuple, around a mean that
    is the cost stated."""

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
    """Something that a host reported."""

    at_us: int
    node: str
    report: Report


@dataclass(slots=True)
class SimulatedHost:
    """One life of one host."""

    spec: HostSpec
    incarnation: str
    core: HostCore
    link: StoreLink
    store: MemoryStore
    source_drivers: SourceDrivers
    inbox: list[Event] = field(default_factory=list[Event])
    peers: dict[str, Peer] = field(default_factory=dict[str, Peer])
    alive: bool = True
    busy_until_us: int = 0
    next_run_us: int | None = None
    next_publish_us: int = 0
    running: object = None

    def assigned_sources(self) -> list[SourceAssignment]:
        """Streams that enter here."""
        return [source.assignment for source in self.core.replica_manager.sources.values()]


class World:
    """Hosts, links and a store on a virtual clock.

    Parameters
    ----------
    cluster
        Settings and link delays.
    specs
        Hosts to start.
    seed
        Of everything random.
    deliver
        Told of everything that a sink takes in, with the sink's node.
    """

    def __init__(
        self,
        cluster: ClusterRecord,
        specs: Sequence[HostSpec],
        *,
        seed: int,
        deliver: Callable[[str, Deliver], None],
        costs: Costs | None = None,
    ) -> None:
        self.now_us = START_US
        self.server = MemoryServer()
        self.hosts: dict[str, SimulatedHost] = {}
        self.trace: list[Traced] = []
        self._cluster = cluster
        self._rng = np.random.default_rng(seed)
        self._cost_rng = np.random.default_rng((seed, 1))
        self._deliver = deliver
        self._costs = costs or Costs()
        self._agenda: list[tuple[int, bool, int, Callable[[], None]]] = []
        self._order = 0
        self._last_due_us: dict[tuple[str, str], int] = {}
        self._cut: set[tuple[str, str]] = set()
        self._check_invariants = False
        self.server.connect().create(CLUSTER, cluster)
        for spec in specs:
            self.start_host(spec)

    # What a scenario does

    def coordinate(self, round_at: Callable[[int], object], until: Callable[[], bool]) -> None:
        """Call a coordinator's round every 200 ms from now on, until it is no more."""

        def again() -> None:
            if until():
                return
            round_at(self.now_us)
            self.at(self.now_us + COORDINATE_US, again)

        self.at(self.now_us, again)

    def start_host(self, spec: HostSpec) -> SimulatedHost:
        """Start a host: a new process of a node that has none."""
        incarnation = f"{int(self._rng.integers(2**62)):016x}"
        store = self.server.connect()
        rng = np.random.default_rng(int(incarnation, 16))
        host = SimulatedHost(
            spec=spec,
            incarnation=incarnation,
            core=HostCore(spec.node, self._cluster, rng, self.now_us),
            link=StoreLink(store, ReplicaId(node=spec.node, incarnation=incarnation)),
            store=store,
            source_drivers=SourceDrivers(round(self._cluster.batch_ms * 1000)),
        )
        self.hosts[spec.node] = host
        self._exchange(host)
        self._schedule(host, self.now_us)
        return host

    def kill(self, node: str) -> None:
        """End a host as SIGKILL ends its executor."""
        host = self.hosts[node]
        host.alive = False
        self.abandon(host.store)
        for other in self.hosts.values():
            if other.alive and node in other.peers:
                self._break(other, node)

    def abandon(self, store: MemoryStore) -> None:
        """Nobody speaks for this session any more: the store ends it when it times out."""
        session = store.session

        def end() -> None:
            if self.server.away:
                # A server that comes back gives every session its time anew.
                self.at(self.now_us + SESSION_TIMEOUT_US, end)
            else:
                self.server.end_session(session)

        self.at(self.now_us + SESSION_TIMEOUT_US, end)

    def restart(self, node: str) -> None:
        """Start a dead node's host anew, as Spark does with a lost executor."""
        self.start_host(self.hosts[node].spec)

    def cut(self, one: str, other: str) -> None:
        """Break the link between two hosts, both ways, until `mend`."""
        self._cut |= {(one, other), (other, one)}
        for here, there in ((one, other), (other, one)):
            if self.hosts[here].alive:
                self._break(self.hosts[here], there)

    def mend(self, one: str, other: str) -> None:
        """Restore a link."""
        self._cut -= {(one, other), (other, one)}

    def at(self, when_us: int, action: Callable[[], None], *, last: bool = False) -> None:
        """Do something at a time; `last`: after everything else that happens then."""
        self._order += 1
        heapq.heappush(self._agenda, (max(when_us, self.now_us), last, self._order, action))

    def run_for(self, seconds: float, *, check_invariants: bool = False) -> None:
        """Let time pass; if asked to, check each host whenever it has done something."""
        end_us = self.now_us + round(seconds * 1e6)
        self._check_invariants = check_invariants
        while self._agenda and self._agenda[0][0] <= end_us:
            self.now_us, _, _, action = heapq.heappop(self._agenda)
            action()
        self.now_us = end_us

    # Hosts

    def _schedule(self, host: SimulatedHost, when_us: int) -> None:
        when_us = max(when_us, host.busy_until_us, self.now_us)
        if host.next_run_us is not None and host.next_run_us <= when_us:
            return
        host.next_run_us = when_us

        def run() -> None:
            # An earlier turn may have been scheduled since; that one counts.
            if host.alive and host.next_run_us == when_us:
                host.next_run_us = None
                self._turn(host)

        # Whatever arrives at the same moment is there when the host decides what to do next.
        self.at(when_us, run, last=True)

    def _turn(self, host: SimulatedHost) -> None:
        """One turn of a host's loop, as in `orchestrator.host.process`."""
        core, now = host.core, self.now_us
        inbox, host.inbox = host.inbox, []
        for event in inbox:
            self._execute(host, core.handle(event, now))
        for emitted in host.source_drivers.feed(host.assigned_sources(), now):
            self._execute(host, core.handle(emitted, now))
        if now >= core.next_tick_us:
            self._execute(host, core.tick(now))
        worked = core.work(now)
        if worked.commands or worked.fragment is not None:
            took_us = self._costs.of(worked, self._cost_rng)
            core.charge(worked, took_us)
            host.busy_until_us = now + took_us
            self.at(host.busy_until_us, lambda: self._execute(host, worked.commands))
        if self._check_invariants:
            core.check_invariants()
        self._publish(host)
        due = [core.next_tick_us]
        if (emission_us := host.source_drivers.next_due_us(host.assigned_sources())) is not None:
            due.append(emission_us)
        if (work_us := core.next_work_us) is not None:
            due.append(work_us)
        if host.inbox:
            due.append(now)
        self._schedule(host, min(due))

    def _execute(self, host: SimulatedHost, commands: list[Command]) -> None:
        if not host.alive:
            return
        for command in commands:
            match command:
                case Send(to=to, message=message):
                    self._send(host, to, message)
                case SetPeers(peers=peers):
                    host.peers = {peer.node: peer for peer in peers}
                case Deliver():
                    self._deliver(host.spec.node, command)
                case RecordTakeover():
                    host.link.record_takeover(command)
                case Report():
                    self.trace.append(
                        Traced(at_us=self.now_us, node=host.spec.node, report=command)
                    )

    def _publish(self, host: SimulatedHost) -> None:
        running = readiness(host.core)
        if self.now_us < host.next_publish_us and running == host.running:
            return
        host.running = running
        host.next_publish_us = self.now_us + PUBLISH_US
        host.link.publish(
            node_record(
                host.core,
                host.spec,
                incarnation=host.incarnation,
                endpoint=f"sim://{host.spec.node}",
                public_key="",
                pid=0,
                machine="simulated",
                now_us=self.now_us,
                wants=(),
                link_counters=Counter(),
            )
        )

    def _exchange(self, host: SimulatedHost) -> None:
        if not host.alive:
            return
        try:
            host.link.exchange()
        except StoreError as error:
            self.trace.append(
                Traced(
                    at_us=self.now_us,
                    node=host.spec.node,
                    report=Report(kind="store", subject=type(error).__name__, detail=str(error)),
                )
            )
        while host.link.events:
            self._arrive(host, host.link.events.popleft())
        if host.link.superseded:
            host.alive = False
            return
        self.at(self.now_us + EXCHANGE_US, lambda: self._exchange(host))

    # Links

    def _send(self, host: SimulatedHost, to: str, message: Message) -> None:
        sender, target = host.spec.node, self.hosts.get(to)
        if target is None or to not in host.peers:
            return
        if not target.alive or (sender, to) in self._cut:
            return
        due_us = max(self.now_us + self._delay_us(host, to), self._last_due_us.get((sender, to), 0))
        self._last_due_us[sender, to] = due_us

        def deliver() -> None:
            if target.alive and sender in target.peers:
                self._arrive(target, MessageArrived(sender=sender, message=message))

        self.at(due_us, deliver)

    def _break(self, host: SimulatedHost, node: str) -> None:
        def lose() -> None:
            if host.alive:
                self._arrive(host, PeerLost(node=node))

        self.at(self.now_us + self._delay_us(host, node), lose)

    def _delay_us(self, host: SimulatedHost, to: str) -> int:
        peer = host.peers.get(to)
        return round(peer.delay_ms * 1000) if peer is not None else 0

    def _arrive(self, host: SimulatedHost, event: Event) -> None:
        host.inbox.append(event)
        self._schedule(host, self.now_us)
