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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ha.messages import Message
from orchestrator.host.core import Worked
from orchestrator.host.events import Deliver, Event, MessageArrived, PeerLost, Report
from orchestrator.host.loop import HostLoop, Surroundings, host_identity
from orchestrator.records import ClusterRecord, HostSpec, Peer
from orchestrator.simulation.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import CLUSTER, StoreError

START_US = 1_000_000_000_000_000
"""Start of the virtual clock: a round number in 2001, so that no code relies on zero."""

EXCHANGE_US = 50_000
"""Time between two exchanges of a host with the store: about the delay of a watch."""

SESSION_TIMEOUT_US = 10_000_000
"""How long the store keeps the record of a host that died."""

COORDINATE_US = 200_000
"""Time between two rounds of the coordinator."""


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


class SimulatedHost:
    """One life of one host: a `HostLoop` on virtual links.

    Attributes
    ----------
    peers
        The hosts that this host accepts messages from, and sends messages to.
    alive
        False as soon as the host is killed, or another process has taken its name.
    """

    def __init__(self, world: World, spec: HostSpec, incarnation: str) -> None:
        self.spec = spec
        self.incarnation = incarnation
        self.store = world.server.connect()
        self.peers: dict[str, Peer] = {}
        self.alive = True
        surroundings = Surroundings(
            clock_us=lambda: world.now_us,
            send=lambda to, message: world.transmit(self, to, message),
            set_peers=self._set_peers,
            deliver=lambda delivery: world.deliver(spec.node, delivery),
            report=lambda report: world.log(spec.node, report),
            finish=self._finish,
        )
        identity = host_identity(spec, incarnation, f"sim://{spec.node}", machine="simulated")
        self._loop = HostLoop(surroundings, world.cluster, self.store, identity)
        self._world = world
        self._inbox: list[Event] = []
        self._busy_until_us = 0
        self._next_run_us: int | None = None
        self.core = self._loop.core

    def exchange(self) -> None:
        """Look at the store, now and every `EXCHANGE_US` from now on."""
        if not self.alive:
            return
        try:
            self._loop.link.exchange()
        except StoreError as error:
            report = Report(kind="store", subject=type(error).__name__, detail=str(error))
            self._world.log(self.spec.node, report)
        while self._loop.link.events:
            self.arrive(self._loop.link.events.popleft())
        if self._loop.link.superseded:
            self.alive = False
            return
        self._world.at(self._world.now_us + EXCHANGE_US, self.exchange)

    def arrive(self, event: Event) -> None:
        """Have an event handled in the next turn."""
        if self.alive:
            self._inbox.append(event)
            self.schedule(self._world.now_us)

    def schedule(self, when_us: int) -> None:
        """Take a turn at `when_us`, or as soon after that as the host is not busy."""
        when_us = max(when_us, self._busy_until_us, self._world.now_us)
        if self._next_run_us is not None and self._next_run_us <= when_us:
            return
        self._next_run_us = when_us
        # Events that arrive at the same moment are handled in the same turn.
        self._world.at(when_us, lambda: self._run(when_us), last=True)

    def _run(self, scheduled_us: int) -> None:
        # If an earlier turn has been scheduled since, that one counts.
        if not self.alive or self._next_run_us != scheduled_us:
            return
        self._next_run_us = None
        inbox, self._inbox = self._inbox, []
        self._loop.turn(inbox)
        if self._world.check_invariants:
            self.core.check_invariants()
        self.schedule(self._loop.next_due_us)

    def _set_peers(self, peers: tuple[Peer, ...]) -> None:
        self.peers = {peer.node: peer for peer in peers}

    def _finish(self, worked: Worked, began_us: int, then: Callable[[], None]) -> float:
        """Draw how long a batch takes; until then the host is busy and holds its output back."""
        if not worked.commands and worked.fragment is None:
            return 0.0
        took_us = self._world.costs.of(worked, self._world.cost_rng)
        self._busy_until_us = began_us + took_us
        self._world.at(self._busy_until_us, lambda: then() if self.alive else None)
        return took_us


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
        Takes the deliveries of all sinks, each with its node.
    costs
        How long evaluation takes.
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
        self.cluster = cluster
        self.deliver = deliver
        self.costs = costs or Costs()
        self.cost_rng = np.random.default_rng((seed, 1))
        self.check_invariants = False
        self._rng = np.random.default_rng(seed)
        self._agenda: list[tuple[int, bool, int, Callable[[], None]]] = []
        self._order = 0
        self._last_due_us: dict[tuple[str, str], int] = {}
        self._cut: set[tuple[str, str]] = set()
        self.server.connect().create(CLUSTER, cluster)
        for spec in specs:
            self.start_host(spec)

    def coordinate(self, round_at: Callable[[int], object], until: Callable[[], bool]) -> None:
        """Call a coordinator's round every 200 ms from now on, until `until` returns True."""

        def again() -> None:
            if until():
                return
            round_at(self.now_us)
            self.at(self.now_us + COORDINATE_US, again)

        self.at(self.now_us, again)

    def start_host(self, spec: HostSpec) -> SimulatedHost:
        """Start a host: a new process of a node that has none."""
        host = SimulatedHost(self, spec, f"{int(self._rng.integers(2**62)):016x}")
        self.hosts[spec.node] = host
        host.exchange()
        host.schedule(self.now_us)
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
        """Leave a session to the store, which ends it when it times out."""
        session = store.session

        def end() -> None:
            if self.server.away:
                # After an outage, the server restarts the timeout of every session.
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
        """Schedule an action; with `last`, after all others at the same time."""
        self._order += 1
        heapq.heappush(self._agenda, (max(when_us, self.now_us), last, self._order, action))

    def run_for(self, seconds: float, *, check_invariants: bool = False) -> None:
        """Let time pass; if asked to, check each host's invariants after each of its turns."""
        end_us = self.now_us + round(seconds * 1e6)
        self.check_invariants = check_invariants
        while self._agenda and self._agenda[0][0] <= end_us:
            self.now_us, _, _, action = heapq.heappop(self._agenda)
            action()
        self.now_us = end_us

    def log(self, node: str, report: Report) -> None:
        """Add a host's report to the trace."""
        self.trace.append(Traced(at_us=self.now_us, node=node, report=report))

    def transmit(self, host: SimulatedHost, to: str, message: Message) -> None:
        """Have a message arrive one link delay later, in order, unless the link is broken."""
        sender, target = host.spec.node, self.hosts.get(to)
        if target is None or to not in host.peers:
            return
        if not target.alive or (sender, to) in self._cut:
            return
        due_us = max(self.now_us + _delay_us(host, to), self._last_due_us.get((sender, to), 0))
        self._last_due_us[sender, to] = due_us

        def deliver() -> None:
            if sender in target.peers:
                target.arrive(MessageArrived(sender=sender, message=message))

        self.at(due_us, deliver)

    def _break(self, host: SimulatedHost, node: str) -> None:
        lost = PeerLost(node=node)
        self.at(self.now_us + _delay_us(host, node), lambda: host.arrive(lost))


def _delay_us(host: SimulatedHost, to: str) -> int:
    peer = host.peers.get(to)
    return round(peer.delay_ms * 1000) if peer is not None else 0
