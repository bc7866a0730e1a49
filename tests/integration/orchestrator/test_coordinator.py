"""Two coordinators on a real ZooKeeper: one leads, the other succeeds it."""

from __future__ import annotations

import time
import uuid

import pytest

from orchestrator.control.process import Coordinator
from orchestrator.embedded.zookeeper import EmbeddedZooKeeper
from orchestrator.store.protocol import ASSIGNMENTS, CLUSTER, FRAGMENTS, NODES, QUERIES, STREAMS
from orchestrator.store.zookeeper import ZooKeeperStore
from tests.conftest import WaitUntil
from tests.obedient_cluster import ObedientCluster, aircraft

pytestmark = pytest.mark.zookeeper


def now_us() -> int:
    return time.monotonic_ns() // 1000


def test_successor_takes_up_what_the_stopped_leader_left(
    zookeeper: EmbeddedZooKeeper, wait_until: WaitUntil
) -> None:
    cluster = uuid.uuid4().hex

    def connect() -> ZooKeeperStore:
        return ZooKeeperStore(zookeeper.connect_string, cluster, "secret", session_timeout_s=2.0)

    store = connect()
    first = Coordinator(connect, "first", now_us)
    second = Coordinator(connect, "second", now_us)
    # Only the records of these hosts are needed; their own store is in memory.
    hosts = ObedientCluster().hosts
    store.create(CLUSTER, ObedientCluster().view().settings)
    for name, host in hosts.items():
        store.create(NODES.key(name), host.record, ephemeral=True)
    first.start()
    wait_until(lambda: first.leads)
    second.start()
    for stream in aircraft().streams:
        store.create(STREAMS.key(stream.record.name), stream.record)
    first.stop()
    wait_until(lambda: second.leads)
    for query in aircraft().queries:
        store.create(QUERIES.key(query.record.name), query.record)
    wait_until(lambda: len(store.list(FRAGMENTS).records) == 3)
    wait_until(lambda: len(store.list(ASSIGNMENTS).records) == len(hosts))
    wait_until(lambda: any(e.event.kind == "planned" for e in store.history()))
    assert not first.leads
    second.stop()
    store.close()
