"""Two real hosts on loopback, with a store in memory: a site and a node that evaluates."""

from __future__ import annotations

from threading import Event, Thread

import pyarrow as pa
import pytest
from pyarrow import parquet

from ha.roles import ReplicaRole
from orchestrator.clock import anchor_us, now_us
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.edges.sinks.sink_drivers import HandingSink, SinkDrivers
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.driver import SourceDriver
from orchestrator.edges.sources.replay import Replay
from orchestrator.errors import InvalidInput
from orchestrator.host.shell.process import HostProcess
from orchestrator.records import (
    Assignment,
    ClusterRecord,
    HostSpec,
    NodeKind,
    NodeRecord,
    Peer,
    SinkAssignment,
    SourceAssignment,
)
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.protocol import ASSIGNMENTS, CLUSTER, NODES
from streams.vectors.chunk import stream_schema
from tests.conftest import PATIENCE_S, WaitUntil
from tests.drivers import Numbers
from tests.quiet_host import COLUMNS, fragment

DURATION_MS, EVERY_MS = 1000, 20
TUPLES = DURATION_MS // EVERY_MS
COST_US = 4000.0


def spec(node: str, kind: NodeKind) -> HostSpec:
    return HostSpec(cluster="c", node=node, kind=kind, region="here", zookeeper="", secret="")


class RunningHost:
    """A host process on a thread."""

    def __init__(self, server: MemoryServer, node: str, kind: NodeKind) -> None:
        self.delivered: list[Deliver] = []
        self.store = server.connect()
        self._ended = Event()
        sinks = SinkDrivers(lambda _: HandingSink(self.delivered.append))
        self._process = HostProcess(spec(node, kind), self.store, sinks)
        self._thread = Thread(target=self._process.run, args=(self._ended.is_set,))
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._process.wake()
        self._thread.join(timeout=PATIENCE_S)
        assert not self._thread.is_alive()


class Pair:
    """The site `edge` and the node `worker`, and the store that tells them what to do."""

    def __init__(self, *, emulate_costs: bool = False) -> None:
        self._server = MemoryServer()
        self._store = self._server.connect()
        self._store.create(
            CLUSTER, ClusterRecord(name="c", delays_ms={}, emulate_costs=emulate_costs)
        )
        self.edge = RunningHost(self._server, "edge", NodeKind.SITE)
        self.worker = RunningHost(self._server, "worker", NodeKind.EXECUTOR)

    def record(self, node: str) -> NodeRecord | None:
        found = self._store.get(NODES.key(node))
        return None if found is None else found.record

    @property
    def registered(self) -> bool:
        return self.record("edge") is not None and self.record("worker") is not None

    def assign(self, source: SourceDriver, name: str) -> None:
        """Bring a stream in at the site, evaluate it on the worker, deliver to the site."""
        records = {node: self.record(node) for node in ("edge", "worker")}
        peers = tuple(
            Peer(
                node=node,
                incarnation=record.incarnation,
                endpoint=record.endpoint,
                public_key=record.public_key,
                delay_ms=2.0,
            )
            for node, record in records.items()
            if record is not None
        )
        entering = SourceAssignment(
            stream="s",
            columns=COLUMNS,
            source=spec_of(name, source),
            start_at_us=now_us() + 500_000,
        )
        sink = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100.0)
        for peer in peers:
            at_edge = peer.node == "edge"
            assignment = Assignment(
                incarnation=peer.incarnation,
                clock_ahead_us=anchor_us(),
                fragments=() if at_edge else (fragment("f", cost_us=COST_US),),
                sources=(entering,) if at_edge else (),
                sinks=(sink,) if at_edge else (),
                producers={"s": ("edge",), "f": ("worker",)},
                consumers={"s": ("worker",), "f": ("edge",)},
                peers=peers,
            )
            self._store.create(ASSIGNMENTS.key(peer.node), assignment)

    @property
    def is_complete(self) -> bool:
        """Whether as many tuples have come as the recording has."""
        return sum(d.chunk.rows.num_rows for d in self.edge.delivered) >= TUPLES

    def end(self) -> None:
        for host in (self.edge, self.worker):
            host.end()
            host.store.close()


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    timestamps = list(range(EVERY_MS, DURATION_MS + 1, EVERY_MS))
    path = tmp_path_factory.mktemp("recording") / "s.parquet"
    parquet.write_table(
        pa.Table.from_pydict({"timestamp": timestamps, "number": list(range(len(timestamps)))}),
        path,
    )
    return Replay(path=str(path), begin_ms=0, end_ms=DURATION_MS, interval_ms=EVERY_MS)


def play(
    source: SourceDriver, name: str, wait_until: WaitUntil, *, emulate_costs: bool
) -> Delivered:
    pair = Pair(emulate_costs=emulate_costs)
    try:
        wait_until(lambda: pair.registered)
        pair.assign(source, name)
        wait_until(lambda: pair.is_complete)
        worker = pair.record("worker")
        assert worker is not None
        assert worker.replicas["f"].role is ReplicaRole.PRIMARY
        assert worker.counters["messages_sent"] > 0
    finally:
        pair.end()
    # A host that ends withdraws its record.
    assert pair.record("edge") is None
    return Delivered.from_deliveries(pair.edge.delivered, stream_schema(COLUMNS))


@pytest.mark.slow
@pytest.mark.parametrize("emulate_costs", [False, True])
def test_a_query_runs_between_two_hosts(
    replay: Replay, wait_until: WaitUntil, *, emulate_costs: bool
) -> None:
    delivered = play(replay, "replay", wait_until, emulate_costs=emulate_costs)
    assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
    assert delivered.rows["number"].to_pylist() == list(range(TUPLES))
    # Two links of 2 ms each, and the evaluation if its cost is emulated.
    least_ms = 4.0 + (COST_US / 1000 if emulate_costs else 0.0)
    assert float(delivered.row_latencies_ms.min()) >= least_ms


@pytest.mark.slow
def test_a_source_of_ones_own_enters_at_a_real_host(wait_until: WaitUntil) -> None:
    delivered = play(Numbers(every_ms=EVERY_MS), "numbers", wait_until, emulate_costs=False)
    assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
    assert delivered.rows["number"].to_pylist()[:TUPLES] == list(range(TUPLES))


def test_a_host_of_a_cluster_that_does_not_exist_is_refused() -> None:
    sinks = SinkDrivers(lambda _: HandingSink(print))
    with pytest.raises(InvalidInput, match="does not exist"):
        HostProcess(spec("edge", NodeKind.SITE), MemoryServer().connect(), sinks)
