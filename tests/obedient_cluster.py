"""A cluster as a coordinator sees it: hosts that obey their assignments, on a store in memory.

They publish node records, report the replicas that are assigned to them, and take over when told
to; no data flows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ha.roles import ReplicaRole
from orchestrator.control.decide.decision import DecisionSettings, Write
from orchestrator.control.decide.writes import decide
from orchestrator.control.observe.dataflow import AS_WRITTEN
from orchestrator.control.observe.missing_hosts import AWAITED_US
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.control.process import Coordination
from orchestrator.control.publishing import EVERY_US
from orchestrator.edges.site_checks import EdgeChecks
from orchestrator.manifest import Manifests, QueryManifest, StreamManifest
from orchestrator.records import (
    ApplyRequest,
    Assignment,
    ClusterRecord,
    CostStatus,
    Estimate,
    FailureLabels,
    FragmentAssignment,
    FragmentRecord,
    NodeCoordinate,
    NodeKind,
    NodeRecord,
    ProposalRecord,
    QueryRecord,
    ReplicaId,
    ReplicaLoad,
    ReplicaStatus,
    RequestRecord,
    RunningQueryRecord,
    StreamRecord,
    Wish,
)
from orchestrator.simulation.paper.host import PaperHost
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import (
    ASSIGNMENTS,
    CHECKS,
    CLUSTER,
    NODES,
    PROPOSALS,
    QUERIES,
    REQUESTS,
    RUNNING_QUERIES,
    STREAMS,
)

places_ms: dict[str, tuple[float, float]] = {
    "paris": (0, 0),
    "lyon": (8, -6),
    "frankfurt": (10, 5),
    "amsterdam": (3, 12),
    "london": (-8, 8),
    "zurich": (13, -2),
    "north-receiver": (4, 12),
    "south-receiver": (8, -7),
    "control-centre": (-8, 9),
}
"""Where the nodes are, ms of round trip; the last three are sites."""

EXECUTORS = tuple(places_ms)[:6]


class ObedientHost(PaperHost):
    """One host: a session, and what it says of itself."""

    def __init__(
        self, server: MemoryServer, name: str, life: int, folder: Path | None = None
    ) -> None:
        x_ms, y_ms = places_ms[name]
        self.cold = False
        """Whether its secondaries stay cold."""
        self.lags_since_us: int | None = None
        """Since when its secondaries lag."""
        self.costs: dict[str, CostStatus] = {}
        """Costs that it reports, by fragment."""
        self.loads: dict[str, ReplicaLoad] = {}
        """Loads that it reports, by fragment."""
        self.state_bytes: int | None = None
        """Size of every state that it reports."""
        record = NodeRecord(
            node=name,
            incarnation=f"{name}-{life}",
            kind=NodeKind.EXECUTOR if name in EXECUTORS else NodeKind.SITE,
            region=name,
            endpoint=f"inproc://{name}",
            public_key="",
            labels=FailureLabels(
                application=f"application-{name}" if name in EXECUTORS else "", machine="here"
            ),
            pid=life,
            machine="here",
            coordinate=NodeCoordinate(position_ms=(x_ms, y_ms), cpu_ms=0.0, error=0.1),
            latencies_ms={
                other: math.dist(place, (x_ms, y_ms))
                for other, place in places_ms.items()
                if other != name
            },
        )
        super().__init__(server, record, runs_trials=False)
        if name not in EXECUTORS:
            checks = EdgeChecks(self.store, name, folder)
            self.checks = self.store.watch(CHECKS, checks.respond)

    def replica(self, asked: FragmentAssignment) -> ReplicaStatus:
        """What it says of a replica."""
        warm = ReplicaRole.WARMING if self.cold else ReplicaRole.STANDBY
        return msgspec.structs.replace(
            super().replica(asked),
            role=ReplicaRole.PRIMARY if asked.role == "primary" else warm,
            lags_since_us=self.lags_since_us if asked.role == "secondary" else None,
            cost=self.costs.get(asked.fragment),
            load=self.loads.get(asked.fragment),
            state_bytes=self.state_bytes,
        )


class ObedientCluster:
    """A server, hosts on it, and one coordinator; time stands still unless moved.

    Parameters
    ----------
    folder
        Of the sites; None: they have none.
    manifest
        Names of the hosts that the manifest says there are; none: there is no manifest.
    """

    def __init__(
        self,
        hosts: tuple[str, ...] = tuple(places_ms),
        folder: Path | None = None,
        manifest: tuple[str, ...] = (),
    ) -> None:
        self._folder = folder
        self.server = MemoryServer()
        self.store = self.server.connect()
        settings = ClusterRecord(
            name="aircraft",
            delays_ms={},
            nodes=tuple(name for name in manifest if name in EXECUTORS),
            sites=tuple(name for name in manifest if name not in EXECUTORS),
        )
        self.store.create(CLUSTER, settings)
        self.hosts: dict[str, ObedientHost] = {}
        self.coordinator_store: MemoryStore = self.server.connect()
        self.coordination = Coordination(self.coordinator_store, "coordinator-1")
        self.now_us = 1_000_000
        self.raises_bugs = True
        """Whether a bug in a step of the coordinator is raised, rather than survived."""
        self._lives = 0
        for name in hosts:
            self.up(name)

    def up(self, name: str) -> None:
        """Start a host, or start it again as a new process."""
        self._lives += 1
        self.hosts[name] = ObedientHost(self.server, name, self._lives, self._folder)

    def kill(self, name: str) -> None:
        """End a host and its session, for longer than the leader awaits it."""
        self.hosts.pop(name).store.close()
        self.coordination.run_once(self.now_us)
        self.now_us += AWAITED_US

    def restart(self, name: str) -> None:
        """Have another process take a host's place before the coordinator looks."""
        self.hosts.pop(name).store.close()
        self.up(name)

    def down(self) -> None:
        """End everything but the store."""
        self.coordinator_store.close()
        for name in [*self.hosts]:
            self.hosts.pop(name).store.close()
        self._lives += 1
        self.coordinator_store = self.server.connect()
        self.coordination = Coordination(self.coordinator_store, f"coordinator-{self._lives}")
        self.now_us += 60_000_000

    def apply(
        self, manifests: Manifests, running: Mapping[str, RunningQueryRecord] = AS_WRITTEN
    ) -> None:
        """Write what `vivace apply` writes, of streams and queries that are not there yet."""
        view = self.view()
        for stream in manifests.streams:
            if stream.record.name not in view.streams:
                self.store.create(STREAMS.key(stream.record.name), stream.record)
        for query in manifests.queries:
            name = query.record.name
            if name in view.queries:
                continue
            if name in running:
                self.store.create(RUNNING_QUERIES.key(name), running[name])
            self.store.create(QUERIES.key(name), query.record)

    def propose(self, manifests: Manifests, name: str = "asked") -> ProposalRecord:
        """Ask the leader for a plan, as a client does; its answer."""
        request = ApplyRequest(streams=manifests.streams, queries=manifests.queries)
        return self.ask(request, name)

    def ask(self, wish: Wish, name: str = "asked") -> ProposalRecord:
        """Ask the leader for something, as a client does; its answer."""
        self.store.create(REQUESTS.key(name), RequestRecord(wish=wish))
        self._step()
        return self.proposal(name)

    def proposal(self, name: str = "asked") -> ProposalRecord:
        """What the leader has answered."""
        return self.view().proposals[name].record

    def consent(self, name: str = "asked") -> None:
        """Want exactly what the leader proposes, and ask for nothing any more."""
        found = self.view().proposals[name]
        consented = msgspec.structs.replace(found.record, consented=True)
        self.store.update(PROPOSALS.key(name), consented, found.version)
        asked = self.view().requests[name]
        self.store.delete(REQUESTS.key(name), asked.version)

    def settle(self) -> None:
        """Let coordinator and hosts do all they have to do."""
        for _ in range(20):
            for _ in range(20):
                if not self._step():
                    break
            before = dict(self.server.entries)
            for host in self.hosts.values():
                host.obey()
            if not self._step() and before == self.server.entries:
                return
        raise AssertionError("the cluster does not settle")

    def publish_figures(self) -> None:
        """Let the coordinator compute figures of what there is now, and publish them."""
        self.now_us += EVERY_US
        self._step()

    def settle_coordinator(self) -> None:
        """Let the coordinator alone do what it has to do."""
        for _ in range(20):
            if not self._step():
                return
        raise AssertionError("the coordinator does not settle")

    def step(self, *_: str) -> None:
        """Let the coordinator take one step, while a client waits."""
        self._step()

    def _step(self) -> bool:
        again = self.coordination.run_once(self.now_us)
        if self.raises_bugs and self.coordination.bug is not None:
            raise self.coordination.bug
        return again

    def observe(self, name: str, streams: tuple[str, ...]) -> None:
        """Publish an observer that wants these streams."""
        observer = NodeRecord(
            node=name,
            incarnation=name,
            kind=NodeKind.OBSERVER,
            region="",
            endpoint=f"inproc://{name}",
            public_key="",
            pid=1,
            machine="here",
            wants=streams,
        )
        self.store.create(NODES.key(name), observer, ephemeral=True)

    def take_over(self, fragment: FragmentRecord, version: int, cause: str = "silent") -> None:
        """The secondary takes over and records it, as a host does."""
        assert fragment.secondary is not None
        report = self._report(fragment.primary.node)
        by = self.hosts[fragment.secondary.node]
        by.take_over(fragment, version, report, self.now_us, cause)

    def lose_secondary(self, fragment: FragmentRecord, version: int, cause: str = "silent") -> None:
        """The primary loses its secondary and records it, as a host does."""
        assert fragment.secondary is not None
        report = self._report(fragment.secondary.node)
        by = self.hosts[fragment.primary.node]
        by.lose_secondary(fragment, version, report, self.now_us, cause)

    def _report(self, node: str) -> tuple[int, int] | None:
        found = self.store.get(NODES.key(node))
        return None if found is None else found.report

    def view(self) -> ClusterView:
        """What is in the store."""
        return read_view(self.store)

    def assignment(self, node: str) -> Assignment:
        """What a host is to do."""
        found = self.store.get(ASSIGNMENTS.key(node))
        assert found is not None
        return found.record

    def write(self, write: Write) -> None:
        """Apply one write as the leader does."""
        if write.record is None:
            assert write.version is not None
            self.store.delete(write.key, write.version)
        elif write.version is None:
            self.store.create(write.key, write.record)
        else:
            self.store.update(write.key, write.record, write.version)

    def history(self) -> list[str]:
        """Kinds and subjects of all events."""
        return [f"{e.event.kind}: {e.event.subject}" for e in self.store.history()]

    def check_invariants(self) -> None:
        """What must hold after every single write."""
        view = self.view()
        assert not view.invalid, view.invalid
        for found in view.fragments.values():
            record = found.record
            assert record.secondary is None or record.secondary.node != record.primary.node
            assert 1 <= record.generation <= record.epoch
        for name, found in view.assignments.items():
            for source in found.record.sources:
                # An assignment may lag behind what is decided of a stream, never run ahead of it.
                stream = view.entering.get(source.stream)
                assert stream is None or source.generation <= stream.running.generation
                assert stream is None or source.epoch <= stream.running.epoch
            for replica in found.record.fragments:
                assert replica.peer_replica != name, (
                    f"{replica.fragment} has both replicas on {name}"
                )
                record = view.fragments.get(f"{replica.query}.{replica.fragment}")
                # An assignment may lag behind the record, never run ahead of it; behind its end
                # too, when a query has been withdrawn.
                assert record is None or replica.epoch <= record.record.epoch


def short_reigns(cluster: ObedientCluster) -> Iterator[Write]:
    """All writes that follow, each as the first one of a leader that has just been elected."""
    settings = DecisionSettings()
    while writes := decide(cluster.view(), cluster.now_us, settings).writes:
        yield writes[0]
        cluster.write(writes[0])
        cluster.check_invariants()


STATEMENTS = """\
REGISTER QUERY north_tracks RSTREAM(SELECT id, x FROM north [NOW] WHERE x > 0);
REGISTER QUERY south_tracks RSTREAM(SELECT id, x FROM south [NOW] WHERE x > 0);
REGISTER QUERY alerts ISTREAM(SELECT a.id AS first, b.id AS second
  FROM north_tracks [PARTITION BY id ROWS 1] AS a, south_tracks [PARTITION BY id ROWS 1] AS b
  WHERE a.x = b.x);
"""


def stream_manifest(name: str) -> StreamManifest:
    """A stream that enters at its receiver."""
    return StreamManifest(
        file="streams.yaml:1",
        record=StreamRecord(
            name=name,
            site=f"{name}-receiver",
            columns={"id": "string", "x": "float"},
            rate_bytes_s=100_000.0,
        ),
    )


def query_manifest(
    name: str = "proximity",
    statements: str = STATEMENTS,
    *,
    outputs: dict[str, str] | None = None,
    deadline_ms: float = 300.0,
    recovery_bound_ms: float = 300.0,
) -> QueryManifest:
    """A query delivered to the control centre."""
    return QueryManifest(
        file="query.yaml:1",
        statements_line=10,
        record=QueryRecord(
            name=name,
            statements=statements,
            outputs={"alerts": "control-centre"} if outputs is None else outputs,
            deadline_ms=deadline_ms,
            recovery_bound_ms=recovery_bound_ms,
        ),
    )


def aircraft() -> Manifests:
    """Two streams and a query that joins them: what the example does, in short.

    All costs and selectivities are stated, so that nothing is tried: plans are always the same.
    """
    query = query_manifest()
    costs = dict.fromkeys(
        ("north_tracks", "south_tracks", "alerts"), Estimate(cost_us=20.0, selectivity=1.0)
    )
    stated = msgspec.structs.replace(query.record, estimates=costs)
    return Manifests(
        cluster=None,
        streams=(stream_manifest("north"), stream_manifest("south")),
        queries=(msgspec.structs.replace(query, record=stated),),
    )


def replica(cluster: ObedientCluster, name: str) -> ReplicaId:
    """A host in its present life."""
    return ReplicaId(node=name, incarnation=cluster.hosts[name].record.incarnation)
