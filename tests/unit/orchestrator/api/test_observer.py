"""Where an observer listens, and what hosts are told."""

from __future__ import annotations

import pytest

from orchestrator.api import observer
from orchestrator.api.observer import Observer
from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.context import ClusterContext
from orchestrator.records import ClusterRecord, NodeKind
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import CLUSTER, NODES
from tests.conftest import WaitUntil

HERE = ClusterContext(cluster="c", pid=1, started_s=0.0, folder="", zookeeper="", secret="")
ELSEWHERE = ProcessConfig(
    file="", cluster="c", zookeeper="", secret="", bind="127.0.0.2", advertise="127.0.0.3"
)


@pytest.mark.parametrize(
    ("reach", "address"), [(HERE, "127.0.0.1"), (ELSEWHERE, "127.0.0.3")], ids=["here", "elsewhere"]
)
def test_it_is_found_where_the_configuration_says(
    monkeypatch: pytest.MonkeyPatch,
    wait_until: WaitUntil,
    reach: ClusterContext | ProcessConfig,
    address: str,
) -> None:
    server = MemoryServer()
    store = server.connect()
    store.create(CLUSTER, ClusterRecord(name="c", delays_ms={}))

    def connect(*_: object) -> MemoryStore:
        return server.connect()

    monkeypatch.setattr(observer, "ZooKeeperStore", connect)
    with Observer(reach, ["alerts"]):
        wait_until(lambda: bool(store.list(NODES).records))
        (found,) = store.list(NODES).records.values()
    assert found.record.kind is NodeKind.OBSERVER
    assert found.record.wants == ("alerts",)
    assert found.record.endpoint.removeprefix("tcp://").partition(":")[0] == address
