"""The maintenance slot, as operators see it and take it from a process."""

from __future__ import annotations

import pytest

from orchestrator import api
from orchestrator.control.decide.maintenance import BROKEN, SUCCESSOR_US
from orchestrator.control.observe.view import SLOT
from orchestrator.deploy.context import ClusterContext
from orchestrator.errors import InvalidInput
from orchestrator.records import TurnRecord
from orchestrator.simulation.world.memory_store import MemoryStore
from orchestrator.store.protocol import TURNS
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


@pytest.fixture
def store(cluster: ObedientCluster) -> api.Cluster:
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")
    return api.Cluster(reach, cluster.store)


def tell(cluster: ObedientCluster, owner: str, *nodes: str) -> MemoryStore:
    session = cluster.server.connect()
    lives = {name: cluster.hosts[name].record.incarnation for name in nodes}
    turn = TurnRecord(owner=owner, nodes=nodes, lives=lives, since_us=1, until_us=2)
    session.create(TURNS.key(owner), turn, ephemeral=True)
    return session


def test_nobody_has_it(store: api.Cluster) -> None:
    assert api.maintenance(store).slot is None
    with pytest.raises(InvalidInput, match="is nobody's"):
        api.break_maintenance(store)


def test_who_has_it_and_who_waits_is_shown_in_order(
    cluster: ObedientCluster, store: api.Cluster
) -> None:
    first = tell(cluster, "site desk", "control-centre")
    tell(cluster, "b", EXECUTORS[0])
    tell(cluster, "a", EXECUTORS[1])
    cluster.settle()
    found = api.maintenance(store)
    assert found.slot is not None
    assert (found.slot.owner, found.slot.state, found.slot.until_us) == (
        "site desk",
        "may end",
        None,
    )
    assert found.slot.stays == {"alerts": "results leave at one site only"}
    assert [each.owner for each in found.waiting] == ["b", "a"]
    (node,) = (each for each in api.status(store).nodes if each.node == "control-centre")
    assert (node.leaving, node.cordoned) == (True, False)
    first.close()
    cluster.kill("control-centre")
    cluster.settle()
    found = api.maintenance(store)
    assert found.slot is not None
    assert found.slot.state == "has ended; its successor is awaited"
    assert found.slot.until_us is not None
    assert found.slot.until_us > SUCCESSOR_US


def test_it_can_be_taken_from_a_process(cluster: ObedientCluster, store: api.Cluster) -> None:
    tell(cluster, "one", EXECUTORS[0])
    tell(cluster, "two", EXECUTORS[1])
    cluster.settle()
    before = dict(cluster.server.entries)
    assert api.break_maintenance(store, dry_run=True).slot is None
    assert cluster.server.entries == before
    left = api.break_maintenance(store)
    assert left.slot is None
    assert [each.owner for each in left.waiting] == ["two"]
    assert cluster.store.get(SLOT) is None
    assert "one" not in cluster.view().turns
    assert f"{BROKEN}: one" in cluster.history()
    for _ in range(10):
        cluster.now_us += 1_000_000
        cluster.settle()
    found = api.maintenance(store)
    assert found.slot is not None
    assert found.slot.owner == "two"


def test_a_slot_that_cannot_be_read_is_nobodys_to_give_and_can_be_taken(
    cluster: ObedientCluster, store: api.Cluster
) -> None:
    tell(cluster, "one", EXECUTORS[0])
    cluster.settle()
    path = next(path for path in cluster.server.entries if path.endswith(SLOT.path))
    cluster.server.entries[path].data = b"{}"
    tell(cluster, "two", EXECUTORS[1])
    cluster.settle()
    assert api.maintenance(store).slot is None
    api.break_maintenance(store)
    cluster.settle()
    assert api.maintenance(store).slot is not None
