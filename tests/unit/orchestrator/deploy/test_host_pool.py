"""A host pool: when its Spark leaves the processors to hosts."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.deploy import entry_point, host_pool
from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.turns import EndSignals
from orchestrator.health import Health
from orchestrator.manifest import PlaceManifest
from orchestrator.manifest.applications import SparkApplication
from orchestrator.records import TurnRecord
from orchestrator.spark.hosts import session
from orchestrator.store.protocol import TURNS, Store
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft


class Looked(EndSignals):
    """Has a pool end at once when it says so."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self.at_once, self._pool = True, pool

    def __call__(self) -> bool:
        return self._pool.ended()


class Pool:
    """Hosts that come one after the other, each time somebody looks whether the pool has ended."""

    def __init__(self, cluster: ObedientCluster, *late: str) -> None:
        self.cluster = cluster
        self.late = list(late)
        self.calls: list[str] = []
        self.health = Health()
        self.is_whole = True
        self.ready: list[bool] = []
        """What it said at each look."""

    def ended(self) -> bool:
        self.ready.append(self.health.ready)
        if not self.late:
            self.calls.append("all there")
            return self.calls.count("all there") > 3
        name = self.late.pop()
        self.cluster.up(name)
        self.calls.append(f"{name} came")
        return False

    def stop(self) -> None:
        self.calls.append("stopped")


def served(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a host pool did, until three looks after its last host had come."""

    def connected(_: ProcessConfig) -> Store:
        return pool.cluster.server.connect()

    def application(_: ProcessConfig) -> SparkApplication:
        places = [PlaceManifest(file="vivace.yaml", name=n, region=n) for n in EXECUTORS]
        return SparkApplication(name="east", nodes=tuple(places))

    def started(_: ProcessConfig, *, yields: bool) -> None:
        pool.calls.append("started, yields" if yields else "started")

    def there(*_: object) -> Pool:
        return pool

    def stopped(_: object) -> None:
        pool.calls.append("Spark stopped")

    monkeypatch.setattr(ProcessConfig, "open_store", connected)
    monkeypatch.setattr(ProcessConfig, "own_application", application)
    monkeypatch.setattr(host_pool, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(host_pool, "start_spark", started)
    monkeypatch.setattr(host_pool, "start_hosts", there)
    monkeypatch.setattr(session, "yield_to_hosts", lambda: pool.calls.append("yields"))
    monkeypatch.setattr(session, "stop_yielding", lambda: pool.calls.append("yields no longer"))
    monkeypatch.setattr(session, "stop_session", stopped)
    config = ProcessConfig(file="vivace.yaml", cluster="aircraft", zookeeper="", secret="")
    ending = Looked(pool)
    host_pool.serve(config, ending, pool.health)
    return pool.calls


def test_spark_of_a_new_cluster_yields_once_all_nodes_have_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ObedientCluster(EXECUTORS[:1])
    late = EXECUTORS[1:]
    calls = served(Pool(cluster, *late), monkeypatch)
    came = [f"{name} came" for name in reversed(late)]
    ends = ["all there"] * 4 + ["yields no longer", "stopped", "Spark stopped"]
    assert calls == ["started", *came, "yields", *ends]


def test_spark_that_starts_where_something_runs_yields_from_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    calls = served(Pool(cluster), monkeypatch)
    assert calls[0] == "started, yields"
    assert "yields" not in calls


def test_spark_of_a_cluster_that_is_started_again_is_as_quick_as_that_of_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store tells of fragments whose hosts have ended: nothing runs that needs processors."""
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    cluster.down()
    calls = served(Pool(cluster, *EXECUTORS), monkeypatch)
    assert calls[0] == "started"
    assert calls.index("yields") == len(EXECUTORS) + 1


class Successor(Pool):
    """A pool whose former process ends at the second look."""

    def ended(self) -> bool:
        former = self.cluster.store.get(TURNS.key("east-0"))
        if former is None:
            return super().ended()
        self.calls.append("waited")
        if self.calls.count("waited") == 2:
            self.cluster.store.delete(TURNS.key("east-0"), former.version)
        return False


def test_a_pool_starts_nothing_before_the_process_in_whose_place_it_comes_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A platform replaces a process at once that is told to end, but that one has yet to leave."""
    cluster = ObedientCluster(EXECUTORS)
    turn = TurnRecord(owner="east", nodes=tuple(EXECUTORS), since_us=0, until_us=9)
    cluster.store.create(TURNS.key("east-0"), turn)
    cluster.store.create(TURNS.key("west-0"), msgspec.structs.replace(turn, owner="west"))
    pool = Successor(cluster)
    monkeypatch.setattr(entry_point, "LOOK_EVERY_S", 0.0)
    assert served(pool, monkeypatch)[:3] == ["waited", "waited", "started"]


def test_a_pool_is_ready_once_all_of_its_nodes_have_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(ObedientCluster(EXECUTORS[:1]), *EXECUTORS[1:])
    served(pool, monkeypatch)
    missing = len(EXECUTORS[1:])
    assert pool.ready == [False] * missing + [True] * (len(pool.ready) - missing)
    assert pool.ready[-1]


def test_a_pool_of_which_a_thread_has_ended_does_not_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(ObedientCluster(EXECUTORS))
    pool.is_whole = False
    served(pool, monkeypatch)
    assert not any(pool.ready)
