"""A cluster on a real ZooKeeper, with hosts that only exist on paper."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from ha.roles import ReplicaRole
from orchestrator.clock import now_us
from orchestrator.control.answering import KINDS, Responder
from orchestrator.control.decide.decision import DecisionSettings, PendingDecision
from orchestrator.control.decide.proposing import take_consents
from orchestrator.control.observe.view import read_view
from orchestrator.edges.site_checks import EdgeChecks
from orchestrator.embedded.zookeeper import EmbeddedZooKeeper
from orchestrator.records import (
    ClusterRecord,
    FailureLabels,
    FragmentRecord,
    NodeCoordinate,
    NodeKind,
    NodeRecord,
    ReplicaId,
    ReplicaStatus,
    SinkStatus,
    Timing,
)
from orchestrator.store.protocol import (
    CHECKS,
    CLUSTER,
    LEADER,
    NODES,
    LeaderRecord,
    StoreError,
    fragment_key,
)
from orchestrator.store.responding import RespondingThread
from orchestrator.store.zookeeper import ZooKeeperStore

Vivace = Callable[..., "subprocess.CompletedProcess[str]"]
Pretend = Callable[[str, str], None]

MANIFESTS = """\
kind: Stream
name: positions
site: desk
columns: {icao24: string, altitude: float}
rate: 10 KB/s
---
kind: Query
name: high
deadline: 300 ms
recovery: 300 ms
outputs: {high_ones: desk}
statements: |
  REGISTER QUERY high_ones RSTREAM(
    SELECT icao24 FROM positions [NOW] WHERE altitude > 30000);
"""

places = {"paris": (0.0, 0.0), "london": (8.0, 0.0), "lyon": (2.0, 3.0), "desk": (1.0, 0.0)}


def host(name: str) -> NodeRecord:
    """A host that says it is well."""
    x_ms, y_ms = places[name]
    return NodeRecord(
        node=name,
        incarnation="1",
        kind=NodeKind.SITE if name == "desk" else NodeKind.EXECUTOR,
        region=name.title(),
        endpoint="tcp://127.0.0.1:1",
        public_key="",
        labels=FailureLabels(application=f"{name}-application"),
        pid=1,
        machine="here",
        coordinate=NodeCoordinate(position_ms=(x_ms, y_ms), cpu_ms=0.5, error=0.12),
        latencies_ms={
            peer: abs(x_ms - x) + abs(y_ms - y) for peer, (x, y) in places.items() if peer != name
        },
    )


@pytest.fixture
def store(
    zookeeper: EmbeddedZooKeeper, pretend: Pretend, request: pytest.FixtureRequest
) -> Iterator[ZooKeeperStore]:
    """A cluster of its own for the test, known to `vivace`."""
    name = request.node.name.replace("_", "-")
    pretend(name, zookeeper.connect_string)
    store = ZooKeeperStore(zookeeper.connect_string, name, "secret")
    store.create(CLUSTER, ClusterRecord(name=name, delays_ms={}))
    for place in places:
        store.create(NODES.key(place), host(place))
    looks = RespondingThread(store, CHECKS, EdgeChecks(store, "desk", None).respond)
    with responding(zookeeper, name):
        yield store
    looks.close()
    store.close()


@contextmanager
def responding(zookeeper: EmbeddedZooKeeper, name: str) -> Generator[None]:
    """A leader that responds to requests and takes consents, and does nothing else."""
    store = ZooKeeperStore(zookeeper.connect_string, name, "secret")
    store.create(LEADER, LeaderRecord(candidate="test"), ephemeral=True)
    done = threading.Event()

    def fail(bug: Exception) -> None:
        raise bug

    responders = [Responder(store, None, fail, kind=kind) for kind in KINDS]

    def step() -> None:
        view = read_view(store)
        for responder in responders:
            responder.respond(view, lambda: True)
        pending = PendingDecision(view, now_us(), DecisionSettings())
        take_consents(pending)
        for write in pending.writes:
            if write.record is None:
                store.delete(write.key, write.version or 0)
            elif write.version is None:
                store.create(write.key, write.record)
            else:
                store.update(write.key, write.record, write.version)
            if write.event is not None:
                store.append_history(write.event)

    def lead() -> None:
        try:
            while not done.wait(0.05):
                # Conflicts and a busy ZooKeeper are reasons to read again, as for a coordinator.
                with suppress(StoreError):
                    step()
        finally:
            # Whoever waits for its response is not to wait for ever.
            store.close()

    thread = threading.Thread(target=lead)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    file = tmp_path / "high.yaml"
    file.write_text(MANIFESTS)
    return file


def run_fragment(store: ZooKeeperStore) -> None:
    """What coordinator and hosts would have written by now."""
    store.create(
        fragment_key("high", "high_ones"),
        FragmentRecord(
            query="high",
            fragment="high_ones",
            epoch=3,
            generation=1,
            primary=ReplicaId(node="paris", incarnation="1"),
            secondary=ReplicaId(node="lyon", incarnation="1"),
            timing=Timing(cost_ms=0.1, sub_deadline_ms=80.0, standby_lag_ms=120.0),
        ),
    )
    roles = {"paris": ReplicaRole.PRIMARY, "lyon": ReplicaRole.STANDBY}
    for name, role in roles.items():
        status = ReplicaStatus(role=role, epoch=3, output_watermark_ms=1000)
        record = msgspec.structs.replace(host(name), replicas={"high_ones": status})
        store.update(NODES.key(name), record, 0)
    sink = SinkStatus(
        next_seq=7,
        watermark_ms=1000,
        rows=7,
        latency_ms_p50=20.0,
        latency_ms_p99=41.5,
        deadline_misses=1,
        completed_timestamps=1200,
        late_rows=1,
        miss_pct=14.29,
        recent_miss_pct=0.0,
        lost=0,
        repeated=4,
    )
    desk = msgspec.structs.replace(
        host("desk"), sinks={"high_ones": sink}, counters={"takeovers": 2, "messages_sent": 9}
    )
    store.update(NODES.key("desk"), desk, 0)
