"""What is kept between two readings is what the store holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestrator.control.observe.read_cache import RARELY_CHANGING, ReadCache
from orchestrator.control.observe.view import read_view
from orchestrator.control.process import Coordination
from orchestrator.records import StreamRecord
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import (
    NODES,
    PROPOSALS,
    QUERIES,
    STREAMS,
    StoreUnavailable,
)
from tests.obedient_cluster import ObedientCluster, aircraft


class CountingStore(MemoryStore):
    """A client that counts its readings of folders."""

    reads = 0

    def _read_all(self, folder: str) -> Iterator[tuple[str, bytes, int, int]]:
        self.reads += 1
        return super()._read_all(folder)


def stream(name: str, rate_bytes_s: float = 1.0) -> StreamRecord:
    return StreamRecord(name=name, site="s", columns={"a": "int"}, rate_bytes_s=rate_bytes_s)


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
def store(server: MemoryServer) -> CountingStore:
    return CountingStore(server)


@pytest.fixture
def cache(store: CountingStore) -> ReadCache:
    return ReadCache(store, (STREAMS, QUERIES, PROPOSALS))


def rates(cache: ReadCache) -> dict[str, float]:
    records = cache.list(STREAMS).records
    return {name: found.record.rate_bytes_s for name, found in records.items()}


def test_folder_is_read_again_only_after_a_change(
    server: MemoryServer, store: CountingStore, cache: ReadCache
) -> None:
    other = server.connect()
    assert rates(cache) == {}
    assert rates(cache) == {}
    assert store.reads == 1
    other.create(STREAMS.key("north"), stream("north"))
    assert rates(cache) == {"north": 1.0}
    other.update(STREAMS.key("north"), stream("north", 2.0), 0)
    assert rates(cache) == {"north": 2.0}
    other.delete(STREAMS.key("north"), 1)
    assert rates(cache) == {}
    assert store.reads == 4
    cache.clear()
    assert rates(cache) == {}
    assert store.reads == 5


def test_change_while_the_session_is_suspended_is_seen_afterwards(
    server: MemoryServer, store: CountingStore, cache: ReadCache
) -> None:
    assert rates(cache) == {}
    store.suspend()
    server.connect().create(STREAMS.key("north"), stream("north"))
    store.resume()
    assert rates(cache) == {"north": 1.0}


def test_reading_that_fails_keeps_nothing(
    server: MemoryServer, store: CountingStore, cache: ReadCache
) -> None:
    assert rates(cache) == {}
    server.connect().create(STREAMS.key("north"), stream("north"))
    store.suspend()
    with pytest.raises(StoreUnavailable):
        cache.list(STREAMS)
    store.resume()
    assert rates(cache) == {"north": 1.0}


def test_plans_are_read_again_whenever_queries_have_changed(
    server: MemoryServer, store: CountingStore, cache: ReadCache
) -> None:
    cache.list(QUERIES)
    cache.list(PROPOSALS)
    reads = store.reads
    server.plant("queries/q", b"{")
    cache.list(QUERIES)
    cache.list(PROPOSALS)
    assert store.reads == reads + 2


def test_folders_that_are_not_kept_are_read_each_time(
    store: CountingStore, cache: ReadCache
) -> None:
    cache.list(NODES)
    cache.list(NODES)
    assert store.reads == 2


def test_view_from_the_cache_is_the_view_from_the_store_whatever_happens() -> None:
    cluster = ObedientCluster()
    cache = ReadCache(cluster.coordinator_store, RARELY_CHANGING)
    cluster.apply(aircraft())
    for name in ("", "paris", "london"):
        if name:
            cluster.up(name)
        cluster.settle()
        assert read_view(cache) == cluster.view()
    cluster.server.plant("fragments/proximity.alerts", b"{")
    cluster.settle_coordinator()
    cached, read = read_view(cache), cluster.view()
    assert cached.fragments == read.fragments
    assert [str(each) for each in cached.invalid] == [str(each) for each in read.invalid]


def test_idle_leader_reads_the_nodes_alone() -> None:
    cluster = ObedientCluster()
    store = CountingStore(cluster.server)
    cluster.coordinator_store.close()
    cluster.coordination = Coordination(store, "coordinator-2")
    cluster.apply(aircraft())
    cluster.settle()
    before = store.reads
    for _ in range(10):
        cluster.now_us += 200_000
        cluster.coordination.run_once(cluster.now_us)
    assert store.reads - before == 10


def test_closed_cache_leaves_no_watch(server: MemoryServer, store: CountingStore) -> None:
    ReadCache(store, RARELY_CHANGING).close()
    assert server.watches == []
