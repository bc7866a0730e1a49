"""The promises of a store, tested on ZooKeeper and on the simulated world's store."""

from __future__ import annotations

import itertools
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from orchestrator.embedded.java import Java
from orchestrator.embedded.zookeeper import EmbeddedZooKeeper
from orchestrator.errors import Unreachable
from orchestrator.records import HistoryEvent, NodeKind, NodeRecord, StreamRecord
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.cached import CachedStore
from orchestrator.store.ephemeral import EphemeralRecord
from orchestrator.store.protocol import (
    HISTORY,
    NODES,
    STREAMS,
    AccessDenied,
    Precondition,
    PreconditionFailed,
    RecordExists,
    RecordInvalid,
    RecordMissing,
    SessionState,
    Store,
    StoreUnavailable,
    VersionConflict,
)
from orchestrator.store.zookeeper import ZooKeeperStore
from tests.conftest import PATIENCE_S

SECRET = "secret"
# The folder of all clusters, /vivace, belongs to the secret of the first one.
HISTORY_LIMIT = 5


def stream(name: str = "north", rate_bytes_s: float = 1.0) -> StreamRecord:
    columns = {"z": "int", "a": "float"}
    return StreamRecord(name=name, site="here", columns=columns, rate_bytes_s=rate_bytes_s)


def node(incarnation: str) -> NodeRecord:
    return NodeRecord(
        node="paris",
        incarnation=incarnation,
        kind=NodeKind.EXECUTOR,
        region="France Central",
        endpoint="tcp://127.0.0.1:1",
        public_key="",
        pid=1,
        machine="here",
    )


def wait_until(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not come to be"
        time.sleep(0.005)


class World(Protocol):
    """One server, and the faults that its sessions can suffer."""

    def connect(self) -> Store: ...
    def plant(self, path: str, data: bytes) -> None: ...
    def expire(self, store: Store) -> None: ...


class MemoryWorld:
    def __init__(self) -> None:
        self._server = MemoryServer(history_limit=HISTORY_LIMIT)

    def connect(self) -> Store:
        return self._server.connect()

    def plant(self, path: str, data: bytes) -> None:
        self._server.plant(path, data)

    def expire(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        store.expire()
        store.resume()

    def close(self) -> None:
        pass


class CachedWorld(MemoryWorld):
    """The same read from memory, by clients to whom seconds pass between any two calls."""

    def __init__(self) -> None:
        super().__init__()
        self._behind: dict[Store, Store] = {}

    def connect(self) -> Store:
        store = super().connect()
        cached = CachedStore(store, itertools.count().__next__)
        self._behind[cached] = store
        return cached

    def expire(self, store: Store) -> None:
        super().expire(self._behind[store])


class ZooKeeperWorld:
    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._cluster = uuid.uuid4().hex
        self._stores: list[ZooKeeperStore] = []

    def connect(self) -> ZooKeeperStore:
        store = ZooKeeperStore(
            self._hosts,
            self._cluster,
            SECRET,
            session_timeout_s=2.0,
            history_limit=HISTORY_LIMIT,
        )
        self._stores.append(store)
        return store

    def plant(self, path: str, data: bytes) -> None:
        with raw_client(self._hosts) as client:
            full_path = f"/vivace/{self._cluster}/{path}"
            client.create_async(full_path, data, makepath=True).get(timeout=PATIENCE_S)

    def expire(self, store: Store) -> None:
        """End the session at the server, as another client that knows its password can."""
        assert isinstance(store, ZooKeeperStore)
        before = store.session
        with raw_client(self._hosts, store.credentials):
            pass
        wait_until(lambda: store.session not in (0, before))

    def close(self) -> None:
        for store in self._stores:
            store.close()


class raw_client:
    """A kazoo client that ends with its block."""

    def __init__(self, hosts: str, identity: tuple[int, bytes] | None = None) -> None:
        self._client = KazooClient(
            hosts,
            client_id=identity,
            auth_data=[("digest", f"vivace:{SECRET}")],
            default_acl=[make_digest_acl("vivace", SECRET, all=True)],
        )

    def __enter__(self) -> KazooClient:
        self._client.start(10)
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()


@pytest.fixture
def own_zookeeper(java: Java, tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A server that a test may stop."""
    with EmbeddedZooKeeper(java, tmp_path) as server:
        yield server


@pytest.fixture(params=["memory", "cached", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        made: MemoryWorld | ZooKeeperWorld = MemoryWorld()
    elif request.param == "cached":
        made = CachedWorld()
    else:
        server: EmbeddedZooKeeper = request.getfixturevalue("zookeeper")
        made = ZooKeeperWorld(server.connect_string)
    yield made
    made.close()


def test_record_is_read_as_it_was_written_with_columns_in_order(world: World) -> None:
    store = world.connect()
    assert store.get(STREAMS.key("north")) is None
    assert store.create(STREAMS.key("north"), stream()) == 0
    found = store.get(STREAMS.key("north"))
    assert found is not None
    assert (found.record, found.version) == (stream(), 0)
    assert list(found.record.columns) == ["z", "a"]


def test_creation_numbers_tell_a_record_from_its_predecessor(world: World) -> None:
    store = world.connect()
    key = STREAMS.key("north")
    store.create(key, stream())
    first = store.get(key)
    store.update(key, stream(rate_bytes_s=2.0), 0)
    updated = store.list(STREAMS).records["north"]
    store.delete(key, 1)
    store.create(key, stream())
    second = store.get(key)
    assert first is not None
    assert second is not None
    assert 0 < first.created == updated.created
    # The update and the deletion are changes too: numbers in between are never used again.
    assert second.created >= first.created + 3


def test_created_twice_is_refused(world: World) -> None:
    store = world.connect()
    store.create(STREAMS.key("north"), stream())
    with pytest.raises(RecordExists, match="streams/north: exists already"):
        store.create(STREAMS.key("north"), stream())


def test_update_under_an_old_version_conflicts_and_changes_nothing(world: World) -> None:
    one, other = world.connect(), world.connect()
    one.create(STREAMS.key("north"), stream())
    assert other.update(STREAMS.key("north"), stream(rate_bytes_s=2.0), 0) == 1
    with pytest.raises(VersionConflict):
        one.update(STREAMS.key("north"), stream(rate_bytes_s=3.0), 0)
    with pytest.raises(VersionConflict):
        one.delete(STREAMS.key("north"), 0)
    found = one.get(STREAMS.key("north"))
    assert found is not None
    assert (found.record.rate_bytes_s, found.version) == (2.0, 1)


def test_version_minus_one_is_a_bug(world: World) -> None:
    store = world.connect()
    store.create(STREAMS.key("north"), stream())
    with pytest.raises(AssertionError):
        store.update(STREAMS.key("north"), stream(), -1)
    with pytest.raises(AssertionError):
        store.delete(STREAMS.key("north"), -1)


def test_missing_record_cannot_be_changed(world: World) -> None:
    store = world.connect()
    with pytest.raises(RecordMissing):
        store.update(STREAMS.key("north"), stream(), 0)
    with pytest.raises(RecordMissing):
        store.delete(STREAMS.key("north"), 0)


def test_missing_folder_is_empty(world: World) -> None:
    assert world.connect().list(STREAMS).records == {}


def test_broken_record_does_not_hide_the_others(world: World) -> None:
    store = world.connect()
    store.create(STREAMS.key("north"), stream())
    world.plant("streams/broken", b'{"name": "broken", "colour": 1}')
    world.plant("streams/garbage", b"\xff\x00")
    listing = store.list(STREAMS)
    assert list(listing.records) == ["north"]
    assert [error.path.rsplit("/", 1)[1] for error in listing.invalid] == ["broken", "garbage"]
    with pytest.raises(RecordInvalid, match="streams/broken: is not a StreamRecord"):
        store.get(STREAMS.key("broken"))


def test_ephemeral_record_goes_with_its_session(world: World) -> None:
    host, reader = world.connect(), world.connect()
    host.create(NODES.key("paris"), node("one"), ephemeral=True)
    assert reader.get(NODES.key("paris")) is not None
    host.close()
    assert reader.get(NODES.key("paris")) is None


def test_ephemeral_record_that_another_session_updates_goes_with_its_own(world: World) -> None:
    client, site, reader = world.connect(), world.connect(), world.connect()
    client.create(NODES.key("paris"), node("one"), ephemeral=True)
    assert site.update(NODES.key("paris"), node("two"), 0) == 1
    site.close()
    found = reader.get(NODES.key("paris"))
    assert found is not None
    assert found.record == node("two")
    client.close()
    assert reader.get(NODES.key("paris")) is None


def test_session_expiry_takes_ephemerals_and_gives_a_new_session(world: World) -> None:
    host, reader = world.connect(), world.connect()
    states: list[SessionState] = []
    host.on_state(states.append)
    mine = EphemeralRecord(host, NODES.key("paris"))
    mine.publish(node("one"))
    before = host.session
    world.expire(host)
    wait_until(lambda: host.state is SessionState.CONNECTED)
    assert host.session not in (0, before)
    assert reader.get(NODES.key("paris")) is None
    assert states[-2:] == [SessionState.LOST, SessionState.CONNECTED]
    mine.publish(node("one"))
    assert reader.get(NODES.key("paris")) is not None


def test_restarted_host_supersedes_the_record_of_its_former_life(world: World) -> None:
    old_life, new_life = world.connect(), world.connect()
    old = EphemeralRecord(old_life, NODES.key("paris"))
    old.publish(node("old"))
    old.publish(node("old"))
    new = EphemeralRecord(new_life, NODES.key("paris"))
    new.publish(node("new"))
    with pytest.raises(VersionConflict):
        old.publish(node("old"))
    old_life.close()
    found = new_life.get(NODES.key("paris"))
    assert found is not None
    assert found.record.incarnation == "new"
    new.publish(node("new"))
    new.withdraw()
    assert new_life.get(NODES.key("paris")) is None


def test_watch_on_a_folder_tells_of_every_change(world: World) -> None:
    writer, reader = world.connect(), world.connect()
    changed = threading.Event()
    reader.watch(STREAMS, changed.set)

    def seen(rate_bytes_s: float | None) -> Callable[[], bool]:
        """Whether a reader that reads only when called back comes to see this rate."""

        def check() -> bool:
            if not changed.is_set():
                return False
            changed.clear()
            found = reader.list(STREAMS).records.get("north")
            return (found.record.rate_bytes_s if found else None) == rate_bytes_s

        return check

    for life in range(3):
        writer.create(STREAMS.key("north"), stream(rate_bytes_s=life))
        wait_until(seen(life))
        for version in range(5):
            writer.update(STREAMS.key("north"), stream(rate_bytes_s=100.0 + version), version)
            wait_until(seen(100.0 + version))
        writer.delete(STREAMS.key("north"), 5)
        wait_until(seen(None))


def test_watch_converges_after_a_burst_of_recreations(world: World) -> None:
    writer, reader = world.connect(), world.connect()
    latest: list[float | None] = [None]

    changed = threading.Event()
    reader.watch(STREAMS, changed.set)
    for life in range(30):
        writer.create(STREAMS.key("north"), stream(rate_bytes_s=life))
        if life < 29:
            writer.delete(STREAMS.key("north"), 0)
    writer.update(STREAMS.key("north"), stream(rate_bytes_s=1000.0), 0)

    def converged() -> bool:
        if changed.is_set():
            changed.clear()
            found = reader.list(STREAMS).records.get("north")
            latest[0] = found.record.rate_bytes_s if found else None
        return latest[0] == 1000.0

    wait_until(converged)


def test_watch_on_a_record_and_cancelling_it(world: World) -> None:
    writer, reader = world.connect(), world.connect()
    calls: list[None] = []
    watch = reader.watch(STREAMS.key("north"), lambda: calls.append(None))
    seen = len(calls)
    writer.create(STREAMS.key("north"), stream())
    wait_until(lambda: len(calls) > seen)
    watch.cancel()
    seen = len(calls)
    writer.update(STREAMS.key("north"), stream(), 0)
    reader.get(STREAMS.key("north"))
    assert len(calls) == seen


def test_watch_survives_the_expiry_of_its_session(world: World) -> None:
    writer, reader = world.connect(), world.connect()
    changed = threading.Event()
    reader.watch(STREAMS, changed.set)
    changed.clear()
    world.expire(reader)
    wait_until(changed.is_set)
    changed.clear()
    writer.create(STREAMS.key("north"), stream())
    wait_until(changed.is_set)


def test_history_is_ordered_and_bounded(world: World) -> None:
    store = world.connect()
    sequences = [
        store.append_history(HistoryEvent(at_us=i, kind="planned", subject="q", detail=""))
        for i in range(HISTORY_LIMIT + 3)
    ]
    assert sequences == sorted(sequences)
    entries = store.history()
    assert [entry.event.at_us for entry in entries] == list(range(3, HISTORY_LIMIT + 3))
    assert [entry.sequence for entry in entries] == sequences[3:]
    assert len(store.list(HISTORY).records) == HISTORY_LIMIT


@pytest.mark.zookeeper
def test_every_znode_is_closed_to_who_lacks_the_secret(zookeeper: EmbeddedZooKeeper) -> None:
    cluster = uuid.uuid4().hex
    store = ZooKeeperStore(zookeeper.connect_string, cluster, SECRET)
    stranger = ZooKeeperStore(zookeeper.connect_string, cluster, "guess")
    store.create(STREAMS.key("north"), stream())
    store.create(NODES.key("paris"), node("one"), ephemeral=True)
    store.append_history(HistoryEvent(at_us=0, kind="planned", subject="q", detail=""))
    with pytest.raises(AccessDenied):
        stranger.get(STREAMS.key("north"))
    with pytest.raises(AccessDenied):
        stranger.list(NODES)
    with pytest.raises(AccessDenied):
        stranger.create(STREAMS.key("south"), stream())
    with raw_client(zookeeper.connect_string) as client:
        pending = [f"/vivace/{cluster}"]
        while pending:
            path = pending.pop()
            acls, _ = client.get_acls_async(path).get(timeout=PATIENCE_S)
            assert [acl.id.scheme for acl in acls] == ["digest"], path
            children = client.get_children_async(path).get(timeout=PATIENCE_S)
            pending += [f"{path}/{child}" for child in children]
    store.close()
    stranger.close()


def test_unreachable_server_is_named_with_its_address() -> None:
    with pytest.raises(Unreachable, match=r"ZooKeeper at 127\.0\.0\.1:1 did not answer") as caught:
        ZooKeeperStore("127.0.0.1:1", "c", SECRET, connect_timeout_s=0.2)
    assert caught.value.exit_status == 3


class Entrance:
    """Passes connections on to a server, until they are cut; the next one gets no response."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._open: list[socket.socket] = []
        self._mute = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        self._mute = True
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in (self._listener, *self._open):
            each.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self._open.append(client)
                if self._mute:
                    self._mute = False
                    continue
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._open.append(server)
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while taken := source.recv(65536):
                target.sendall(taken)


@pytest.mark.zookeeper
@pytest.mark.slow
def test_a_session_outlives_a_handshake_to_which_a_starting_server_never_responds(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    """A ZooKeeper that is asked while it starts may neither respond nor close the connection."""
    with closing(Entrance(zookeeper.port)) as entrance:
        store = ZooKeeperStore(entrance.address, "late", SECRET, session_timeout_s=10.0)
        with closing(store):
            session = store.session
            entrance.cut()
            wait_until(lambda: store.state is SessionState.SUSPENDED)
            wait_until(lambda: store.state is SessionState.CONNECTED)
            assert store.session == session


@pytest.mark.zookeeper
def test_suspended_refuses_at_once_and_goes_on_when_the_server_is_back(
    own_zookeeper: EmbeddedZooKeeper,
) -> None:
    store = ZooKeeperStore(own_zookeeper.connect_string, "c", SECRET, session_timeout_s=20.0)
    changed = threading.Event()
    store.watch(STREAMS, changed.set)
    session = store.session
    store.create(NODES.key("paris"), node("one"), ephemeral=True)
    own_zookeeper.stop()
    wait_until(lambda: store.state is SessionState.SUSPENDED)
    with pytest.raises(StoreUnavailable, match="SUSPENDED") as caught:
        store.list(STREAMS)
    assert caught.value.exit_status == 3
    assert store.session == session
    changed.clear()
    own_zookeeper.start()
    wait_until(lambda: store.state is SessionState.CONNECTED)
    wait_until(changed.is_set)
    assert store.session == session
    assert store.get(NODES.key("paris")) is not None
    store.close()


def test_conditional_writes_happen_only_as_long_as_the_condition_holds(world: World) -> None:
    store, other = world.connect(), world.connect()
    claim, key = STREAMS.key("claim"), NODES.key("paris")
    version = store.create(claim, stream("claim"))
    precondition = Precondition(key=claim, version=version)
    assert store.create(key, node("1"), ephemeral=True, precondition=precondition) == 0
    assert store.update(key, node("2"), 0, precondition=precondition) == 1
    with pytest.raises(VersionConflict):
        store.update(key, node("3"), 0, precondition=precondition)
    with pytest.raises(RecordExists):
        store.create(key, node("3"), precondition=precondition)
    with pytest.raises(RecordMissing):
        store.delete(NODES.key("lyon"), 0, precondition=precondition)
    other.update(claim, stream("claim", 2.0), version)
    with pytest.raises(PreconditionFailed):
        store.update(key, node("3"), 1, precondition=precondition)
    with pytest.raises(PreconditionFailed):
        store.delete(key, 1, precondition=precondition)
    with pytest.raises(PreconditionFailed):
        store.create(NODES.key("lyon"), node("1"), precondition=precondition)
    found = other.get(key)
    assert found is not None
    assert (found.record.incarnation, found.version) == ("2", 1)
    newer = Precondition(key=claim, version=version + 1)
    store.delete(key, 1, precondition=newer)
    assert other.get(key) is None
    other.delete(claim, version + 1)
    with pytest.raises(PreconditionFailed):
        store.create(key, node("4"), precondition=newer)
    # The conditional record was ephemeral all the same.
    last = Precondition(key=claim, version=store.create(claim, stream("claim")))
    store.create(key, node("5"), ephemeral=True, precondition=last)
    store.close()
    assert other.get(key) is None
