"""A store that is read from memory: what is read when, own writes, and the store's absence."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from orchestrator.control.observe.read_cache import ReadCache
from orchestrator.records import CordonRecord, HistoryEvent
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.cached import PAUSE_S, CachedStore
from orchestrator.store.protocol import (
    CORDONS,
    LEADER,
    LeaderRecord,
    StoreUnavailable,
    VersionConflict,
)

PARIS = CORDONS.key("paris")
CORDON = CordonRecord(node="paris", since_us=0)
UNTIL_5 = CordonRecord(node="paris", since_us=0, until_us=5)


class Counting(MemoryStore):
    """Counts what is read."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server)
        self.read: Counter[str] = Counter()
        self.begins, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()

    def _read(self, path: str) -> tuple[bytes, int, int]:
        self.read[path] += 1
        return super()._read(path)

    def _read_all(self, folder: str) -> Iterator[tuple[str, bytes, int, int]]:
        self.read[folder] += 1
        self.begins.set()
        assert self.goes_on.wait(10.0)
        return super()._read_all(folder)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(server: MemoryServer) -> Counting:
    store = Counting(server)
    server.clients.append(store)
    return store


@pytest.fixture
def cached(store: Counting, clock: Clock) -> CachedStore:
    return CachedStore(store, clock)


def test_what_has_not_changed_is_read_once(cached: CachedStore, store: Counting) -> None:
    for _ in range(3):
        assert cached.list(CORDONS).records == {}
        assert cached.get(PARIS) is None
        assert cached.get(LEADER) is None
    assert store.read == {"cordons": 1, "leader": 1}


def test_a_change_is_read_at_most_five_times_a_second(
    server: MemoryServer, cached: CachedStore, clock: Clock
) -> None:
    other = server.connect()
    cached.list(CORDONS)
    other.create(PARIS, CORDON)
    assert cached.get(PARIS) is None
    clock.now_s += PAUSE_S
    assert cached.get(PARIS) is not None
    assert [*cached.list(CORDONS).records] == ["paris"]


def test_nothing_is_older_than_what_another_folder_tells(
    server: MemoryServer, cached: CachedStore, clock: Clock
) -> None:
    """Whoever writes a record after another one, such as a plan after its moves, is understood."""
    other = server.connect()
    cached.get(LEADER)
    clock.now_s += PAUSE_S
    cached.list(CORDONS)
    other.create(PARIS, CORDON)
    other.create(LEADER, LeaderRecord(candidate="a"))
    assert cached.get(LEADER) is not None
    assert cached.get(PARIS) is not None


def test_own_writes_are_read_at_once(cached: CachedStore) -> None:
    cached.list(CORDONS)
    cached.create(PARIS, CORDON)
    found = cached.get(PARIS)
    assert found is not None
    cached.update(PARIS, UNTIL_5, found.version)
    found = cached.get(PARIS)
    assert found is not None
    assert found.record.until_us == 5
    cached.delete(PARIS, found.version)
    assert cached.get(PARIS) is None


def test_own_writes_are_read_although_another_thread_has_begun_to_read_them(
    store: Counting, cached: CachedStore
) -> None:
    cached.list(CORDONS)
    cached.create(PARIS, CORDON)
    store.begins.clear()
    store.goes_on.clear()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(cached.list, CORDONS)
        assert store.begins.wait(10.0)
        second = threads.submit(cached.get, PARIS)
        # Without waiting for the first it would have been given what was known before.
        wait([second], timeout=0.2)
        store.goes_on.set()
        assert second.result() is not None
        assert [*first.result().records] == ["paris"]


def test_who_was_overtaken_conflicts(server: MemoryServer, cached: CachedStore) -> None:
    cached.create(PARIS, CORDON)
    found = cached.get(PARIS)
    assert found is not None
    server.connect().update(PARIS, UNTIL_5, found.version)
    with pytest.raises(VersionConflict):
        cached.update(PARIS, CORDON, found.version)


def test_a_watch_tells_after_the_change_can_be_read(
    server: MemoryServer, cached: CachedStore, clock: Clock
) -> None:
    seen: list[bool] = []
    watch = cached.watch(CORDONS, lambda: seen.append(cached.get(PARIS) is not None))
    cached.list(CORDONS)
    seen.clear()
    clock.now_s += PAUSE_S
    server.connect().create(PARIS, CORDON)
    # Once for the change, and once since it was read.
    assert seen == [True, True]
    watch.cancel()
    server.connect().create(CORDONS.key("lyon"), CORDON)
    assert seen == [True, True]


def test_events_are_read_once(
    server: MemoryServer, store: Counting, cached: CachedStore, clock: Clock
) -> None:
    other = server.connect()
    for number in range(3):
        other.append_history(HistoryEvent(at_us=number, kind="planned", subject="q", detail=""))
        clock.now_s += PAUSE_S
        assert [each.event.at_us for each in cached.history()] == [*range(number + 1)]
    assert max(count for path, count in store.read.items() if "/" in path) == 1


def test_reads_go_on_while_the_store_is_away_and_say_how_old_they_are(
    server: MemoryServer, cached: CachedStore, clock: Clock
) -> None:
    server.connect().create(LEADER, LeaderRecord(candidate="one"))
    cached.attend()
    assert cached.age_s == 0
    server.go_away()
    clock.now_s += 20
    cached.attend()
    found = cached.get(LEADER)
    assert found is not None
    assert found.record.candidate == "one"
    assert cached.age_s == 20
    with pytest.raises(StoreUnavailable):
        cached.create(PARIS, CORDON)
    server.come_back()
    cached.attend()
    assert cached.age_s == 0
    cached.create(PARIS, CORDON)
    assert cached.get(PARIS) is not None


def test_what_was_never_read_cannot_be_told(server: MemoryServer, cached: CachedStore) -> None:
    server.go_away()
    with pytest.raises(StoreUnavailable):
        cached.list(CORDONS)


def test_its_session_is_the_stores(store: MemoryStore, cached: CachedStore) -> None:
    before = cached.session
    store.expire()
    assert cached.session == 0
    store.resume()
    assert cached.session not in (0, before)
    assert cached.state is store.state


def test_who_looked_too_soon_after_a_ring_is_rung_again(
    server: MemoryServer, cached: CachedStore, clock: Clock
) -> None:
    """A reader that keeps what it has read until the next ring keeps nothing that is old."""
    reader = ReadCache(cached, [CORDONS])
    assert not reader.list(CORDONS).records
    server.connect().create(PARIS, CORDON)
    clock.now_s += PAUSE_S / 2
    assert not reader.list(CORDONS).records
    clock.now_s += PAUSE_S
    cached.attend()
    assert [*reader.list(CORDONS).records] == ["paris"]
