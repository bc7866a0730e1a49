"""Plays a cluster's manifests in the simulated world, with the product's plans and protocol.

As in the demo: replay the recording, kill the node that runs a fragment's primary, and start it
again as Spark would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.control.observe.clocks import CoordinatorClock
from orchestrator.control.observe.view import read_view
from orchestrator.drills.disturbances import DRILLS, KILL_EXECUTOR, fail_primary
from orchestrator.drills.kill_executor import Killed
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.edges.sinks.driver import OpenSink
from orchestrator.edges.sources import recorded
from orchestrator.embedded.process_faults import RIVALS
from orchestrator.manifest import Manifests
from orchestrator.progress import silent
from orchestrator.records import (
    FragmentRecord,
    HostSpec,
    NodeKind,
    SinkAssignment,
    StreamRecord,
    StrikeKind,
)
from orchestrator.simulation.world.candidates import Candidates
from orchestrator.simulation.world.drill_hands import SimulatedHands, obey
from orchestrator.simulation.world.hosts import SimulatedHost
from orchestrator.simulation.world.stage import Stage
from orchestrator.simulation.world.world import START_US, Costs, World
from orchestrator.store.protocol import FRAGMENTS, QUERIES, STREAMS

SETTLE_S = 20.0
"""Virtual time in which coordinates settle before queries are applied."""

RESTART_S = 8.0
"""Virtual time that Spark takes to start an executor and its host again."""

SITE_RESTART_S = 1.5
"""Virtual time that a site's supervisor and its process take to start again."""

OBSERVER = "observer"
"""Name of the host by which a drill observes outputs."""

APPLICATION_RESTART_S = 12.0
"""Virtual time that a Spark application takes to start again with all its hosts."""

COORDINATOR_RESTART_S = 1.5
STORE_RESTART_S = 2.5
"""Virtual time that their supervisors and processes take to start again."""


class ScenarioStuck(RuntimeError):
    """An expected state was not reached in time."""


@dataclass(slots=True)
class ScenarioOutcome:
    """The outcome of a scenario.

    Attributes
    ----------
    deliveries
        By output: what its sink received, in order.
    killed
        The node killed, and its recovery; None without a kill.
    """

    world: World
    deliveries: dict[str, list[Deliver]]
    killed: Killed | None = None

    def delivered(self, stream: str) -> Delivered:
        """Everything delivered of one output."""
        kept = self.deliveries[stream]
        return Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)


class Scenario:
    """The demo on a virtual clock.

    Parameters
    ----------
    manifests
        One cluster, its streams and queries; or what runs in a cluster.
    seed
        Seed of everything random.
    streams
        Streams to apply instead of the manifests', such as an excerpt at another speed.
    check_invariants
        Whether to check each host's invariants after each of its turns.
    settle_s
        Virtual time in which coordinates settle; a small network needs less.
    candidates
        Number of coordinators that stand for election; the first one leads.
    costs
        How long evaluation takes.
    open_sink
        Opens the sink of a stream on a node, instead of one that adds to `deliveries`.
    own_machines
        Whether each host has a machine of its own.
    coordinator_clock
        Makes the clock of a coordinator, which else goes by the world's.
    start_us
        The world's time at which it begins.
    """

    def __init__(
        self,
        manifests: Manifests | Stage,
        *,
        seed: int,
        streams: Sequence[StreamRecord] | None = None,
        check_invariants: bool = False,
        settle_s: float = SETTLE_S,
        candidates: int = 1,
        costs: Costs | None = None,
        open_sink: Callable[[str, SinkAssignment], OpenSink] | None = None,
        own_machines: bool = False,
        coordinator_clock: Callable[[], CoordinatorClock] | None = None,
        start_us: int = START_US,
    ) -> None:
        self._settle_s = settle_s
        stage = (
            manifests if isinstance(manifests, Stage) else Stage.of_manifests(manifests, streams)
        )
        self._stage = stage
        self._streams, self._queries = stage.streams, stage.queries
        self._check_invariants = check_invariants
        self.deliveries: dict[str, list[Deliver]] = {
            stream: [] for query in self._queries for stream in query.outputs
        }
        self.observed: dict[str, list[Deliver]] = {}
        self.world = World(
            stage.cluster,
            stage.hosts,
            seed=seed,
            deliver=self._keep,
            costs=costs,
            open_sink=open_sink,
            own_machines=own_machines,
            start_us=start_us,
        )
        self.store = self.world.server.connect()
        self.coordinators = Candidates(self.world, candidates, clock=coordinator_clock)
        self.world.on_started = self._obeys_drills
        self.coordinators.on_stood = self._coordinator_obeys_drills
        for host in self.world.hosts.values():
            self._obeys_drills(host)
        for name in self.coordinators.names:
            self._coordinator_obeys_drills(name)

    def play(self, *, kill_after_s: float | None, target: str | None = None) -> ScenarioOutcome:
        """Apply everything, replay to the end, and kill a primary on the way.

        Parameters
        ----------
        kill_after_s
            Virtual seconds after the replay began; None to kill nothing.
        target
            A fragment or a node, as in a drill; by default a join's primary.
        """
        self.begin()
        if kill_after_s is None:
            return self.finish()
        self.run_for(kill_after_s)
        return self.finish(self.drill(target))

    def begin(self) -> None:
        """Apply everything and let time pass until the replay begins."""
        self.run_for(self._settle_s)
        for stream in self._streams:
            self.store.create(STREAMS.key(stream.name), stream)
        for query in self._queries:
            self.store.create(QUERIES.key(query.name), query)
        self._place()
        self._wait(self._started, 30.0, "the queries do not start")
        start_us = max(s.running.start_at_us or 0 for s in read_view(self.store).entering.values())
        self.run_for(max(start_us - self.world.now_us, 0) / 1e6)

    def observe(self, outputs: Sequence[str], region: str) -> None:
        """Have an observer receive outputs from now on, as a drill does."""
        self.observed = {stream: [] for stream in outputs}
        spec = HostSpec(
            cluster=self._stage.cluster.name,
            node=OBSERVER,
            kind=NodeKind.OBSERVER,
            region=region,
            zookeeper="",
            secret="",
        )
        self.world.start_host(spec, wants=tuple(outputs))

    def _place(self) -> None:
        """Begin with the places that are given, as far as their nodes are there."""
        view = read_view(self.store)
        for name, record in self._stage.places.items():
            query, secondary = view.queries.get(record.query), record.secondary
            wanted = [record.primary.node] + ([] if secondary is None else [secondary.node])
            if query is None or not set(wanted) <= view.executors.keys():
                continue
            placed = FragmentRecord(
                query=record.query,
                fragment=record.fragment,
                epoch=query.created,
                generation=query.created,
                primary=view.replica(wanted[0]),
                secondary=None if secondary is None else view.replica(secondary.node),
                timing=record.timing,
            )
            self.store.create(FRAGMENTS.key(name), placed)

    def run_for(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.world.run_for(seconds, check_invariants=self._check_invariants)

    def kill(self, node: str, restart_s: float = RESTART_S) -> None:
        """Kill a node's host, and start it again as Spark would."""
        self.world.kill(node)
        self._later(restart_s, lambda: self.world.restart(node))

    def terminate(self, node: str, restart_s: float = RESTART_S) -> None:
        """Have a node's host end in order, and start it again."""
        self.world.hosts[node].shut_down()
        self._later(restart_s, lambda: self.world.restart(node))

    def restart_store(self) -> None:
        """End the store's server, and start it again: it knows the sessions that it had."""
        self.world.server.go_away()

        def start() -> None:
            self.world.server.starts += 1
            self.world.server.come_back()

        self._later(STORE_RESTART_S, start)

    def stop(self) -> None:
        """End everything but the store in order, as `vivace down` does."""
        for name in self.coordinators.names:
            self.coordinators.terminate(name)
        for host in self.world.hosts.values():
            host.shut_down()

    def start(self, every_s: float) -> None:
        """Start everything again: a coordinator at once, and host by host, sites first."""
        self.coordinators.stand()
        hosts = sorted(self._stage.hosts, key=lambda each: each.kind is NodeKind.EXECUTOR)
        for number, spec in enumerate(hosts):
            self._later(number * every_s, lambda node=spec.node: self.world.restart(node))

    def hang(self, node: str, seconds: float) -> None:
        """Stop a node's host for some time."""
        host = self.world.hosts[node]
        self.world.pause(node)
        self._later(seconds, lambda: self.world.resume(host))

    def kill_leader(self) -> None:
        """Kill the coordinator that leads."""
        (leader,) = self.coordinators.leading
        self.kill_coordinator(leader)

    def kill_coordinator(self, name: str) -> None:
        """End a coordinator as SIGKILL would, and start another one in its place."""
        self.coordinators.kill(name)
        self._later(COORDINATOR_RESTART_S, self.coordinators.stand)

    def terminate_coordinator(self, name: str) -> None:
        """Have a coordinator end in order, and start another one in its place."""
        self.coordinators.terminate(name)
        self._later(COORDINATOR_RESTART_S, self.coordinators.stand)

    def heal(self) -> None:
        """Let time pass until every node has a host and every fragment a warm secondary."""
        self._wait(self._healed, 60.0, "redundancy is not restored")

    def drill(self, target: str | None, name: str = KILL_EXECUTOR.name) -> Killed:
        """Fail the node of a primary, or its application; wait until redundancy is restored."""
        hands = SimulatedHands(self)
        return fail_primary(self.store, target, silent, drill=DRILLS[name], hands=hands)

    def _obeys_drills(self, host: SimulatedHost) -> None:
        """Have a host fail if a drill asks for that, and its driver as well."""
        if host.spec.kind is NodeKind.OBSERVER:
            return
        node = host.spec.node
        restart_s = RESTART_S if host.spec.kind is NodeKind.EXECUTOR else SITE_RESTART_S
        ways: dict[StrikeKind, Callable[[int], None]] = {
            StrikeKind.KILL: lambda _: self.kill(node, restart_s),
            StrikeKind.END: lambda _: self.terminate(node, restart_s),
            StrikeKind.HANG: lambda us: self.hang(node, us / 1e6),
            StrikeKind.FULL_DISK: lambda us: self._fill_disk(node, us / 1e6),
            StrikeKind.SLOW: lambda us: self._slow(host, us / 1e6),
        }
        if host.spec.kind is NodeKind.EXECUTOR:
            ways[StrikeKind.KILL_EXECUTOR] = ways[StrikeKind.KILL]
            ways[StrikeKind.KILL_DRIVER] = lambda _: self._kill_driver(host)
        obey(self.world, host.store, node, lambda: host.incarnation if host.runs else None, ways)

    def _coordinator_obeys_drills(self, name: str) -> None:
        ways: dict[StrikeKind, Callable[[int], None]] = {
            StrikeKind.KILL: lambda _: self.kill_coordinator(name),
            StrikeKind.END: lambda _: self.terminate_coordinator(name),
        }
        obey(self.world, self.coordinators.store_of(name), name, lambda: name, ways)

    def _kill_driver(self, host: SimulatedHost) -> None:
        """End all hosts of an application, and start them again with it."""
        application = host.spec.labels.application
        for other in [*self.world.hosts.values()]:
            if other.spec.labels.application == application:
                self.kill(other.spec.node, APPLICATION_RESTART_S)

    def _fill_disk(self, site: str, seconds: float) -> None:
        """Let the sinks of a site keep nothing for some time."""
        full = self.world.disks.full
        full.add(site)
        self._later(seconds, lambda: full.discard(site))

    def _slow(self, host: SimulatedHost, seconds: float) -> None:
        """Have evaluation take as long as beside busy processes on one processor."""
        host.slowness = float(RIVALS + 1)

        def alone() -> None:
            host.slowness = 1.0

        self._later(seconds, alone)

    def finish(self, killed: Killed | None = None) -> ScenarioOutcome:
        """Let time pass until the recording has ended and all results have arrived."""
        self._wait(self._finished, 10_000.0, "the recording does not end")
        return ScenarioOutcome(world=self.world, deliveries=self.deliveries, killed=killed)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self.world.at(self.world.now_us + round(seconds * 1e6), action)

    def _healed(self) -> bool:
        view = read_view(self.store)
        lives = {node: host.incarnation for node, host in self.world.hosts.items() if host.alive}
        return (
            lives.keys() == self.world.hosts.keys()
            and lives == {node: found.record.incarnation for node, found in view.nodes.items()}
            and all(view.protected(found.record) for found in view.fragments.values())
        )

    def _started(self) -> bool:
        streams = read_view(self.store).entering.values()
        return all(stream.running.start_at_us is not None for stream in streams)

    def _finished(self) -> bool:
        end_ms = max(found.end_ms for s in self._streams if (found := recorded(s)))
        return all(
            kept and kept[-1].chunk.watermark_ms >= end_ms for kept in self.deliveries.values()
        )

    def _wait(self, condition: Callable[[], bool], limit_s: float, otherwise: str) -> None:
        """Let time pass until a condition holds, which is checked every 100 virtual ms."""
        give_up_us = self.world.now_us + round(limit_s * 1e6)
        while not condition():
            if self.world.now_us >= give_up_us:
                raise ScenarioStuck(f"{otherwise} within {limit_s:g} virtual seconds")
            self.run_for(0.1)

    def _keep(self, node: str, delivery: Deliver, _arrived_us: int) -> None:
        kept = self.observed if node == OBSERVER else self.deliveries
        kept[delivery.stream].append(delivery)
