"""One process after the other under one name: the newest one wins, whatever the others do later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from orchestrator.host.core.events import RecordTakeover
from orchestrator.host.shell.name_claim import Claimed, claim_name
from orchestrator.host.shell.store_link import StoreLink
from orchestrator.records import (
    FragmentRecord,
    HostSpec,
    NodeKind,
    NodeRecord,
    Record,
    ReplicaId,
    Timing,
)
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import (
    CLAIMS,
    NODES,
    Key,
    StoreUnavailable,
    Versioned,
    fragment_key,
)

R = TypeVar("R", bound=Record)


def spec(kind: NodeKind = NodeKind.EXECUTOR) -> HostSpec:
    return HostSpec(cluster="c", node="here", kind=kind, region="r", zookeeper="", secret="")


def record(claimed: Claimed, pid: int) -> NodeRecord:
    return NodeRecord(
        node="here",
        incarnation=claimed.incarnation,
        kind=NodeKind.EXECUTOR,
        region="r",
        endpoint="e",
        public_key="k",
        pid=pid,
        machine="m",
    )


class Process:
    """A host's process, as far as the store knows it."""

    def __init__(self, server: MemoryServer, pid: int, token: int) -> None:
        self.store = server.connect()
        self.claimed = claim_name(self.store, spec(), token)
        self.link = StoreLink(self.store, self.claimed)
        self.pid = pid

    def report(self, pid: int | None = None) -> None:
        """Publish a record that differs from the one before."""
        self.link.publish(record(self.claimed, self.pid if pid is None else pid))
        self.link.exchange()


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
def outside(server: MemoryServer) -> MemoryStore:
    return server.connect()


def incarnation(outside: MemoryStore) -> str | None:
    found = outside.get(NODES.key("here"))
    return None if found is None else found.record.incarnation


def test_incarnations_of_a_name_are_ordered_whatever_the_random_part(server: MemoryServer) -> None:
    first = Process(server, 1, token=2**64 - 1).claimed.incarnation
    second = Process(server, 2, token=0).claimed.incarnation
    assert first < second
    assert int(first, 16) < int(second, 16)


def test_unreadable_claim_is_followed_by_a_newer_one_than_all_before(server: MemoryServer) -> None:
    def claim() -> str:
        return claim_name(server.connect(), spec(), 1).incarnation

    before = [claim() for _ in range(3)]
    server.plant("claims/here", b"{")
    after = [claim() for _ in range(2)]
    assert [*before, *after] == sorted({*before, *after})


def test_observers_leave_no_claim(server: MemoryServer) -> None:
    assert claim_name(server.connect(), spec(NodeKind.OBSERVER), 1).precondition is None
    assert server.connect().list(CLAIMS).records == {}


def test_no_claim_without_a_session(server: MemoryServer) -> None:
    server.go_away()
    with pytest.raises(StoreUnavailable):
        claim_name(server.connect(), spec(), 1)


def test_process_that_is_replaced_ends_and_leaves_its_successor_alone(
    server: MemoryServer, outside: MemoryStore
) -> None:
    former = Process(server, 1, 7)
    former.report()
    successor = Process(server, 2, 5)
    successor.report()
    former.report(11)
    assert former.link.superseded
    assert not successor.link.superseded
    former.link.withdraw()
    assert incarnation(outside) == successor.claimed.incarnation


@pytest.mark.parametrize("reports", [1, 2, 3])
def test_paused_process_wakes_after_its_session_and_leaves_its_successor_alone(
    server: MemoryServer, outside: MemoryStore, reports: int
) -> None:
    former = Process(server, 1, 7)
    for pid in range(reports):
        former.report(pid)
    former.store.suspend()
    former.store.expire()
    successor = Process(server, 2, 5)
    # Whatever version the successor's record has, the former process must not take it for its own.
    for pid in range(2):
        successor.report(pid)
    former.store.resume()
    former.report(99)
    assert former.link.superseded
    former.link.withdraw()
    assert incarnation(outside) == successor.claimed.incarnation
    successor.report(3)
    assert not successor.link.superseded


@pytest.mark.parametrize("expired", [False, True])
def test_process_whose_successor_has_claimed_the_name_ends_before_that_one_has_reported(
    server: MemoryServer, outside: MemoryStore, *, expired: bool
) -> None:
    former = Process(server, 1, 7)
    former.report()
    if expired:
        former.store.suspend()
        former.store.expire()
    successor = Process(server, 2, 5)
    if expired:
        former.store.resume()
    former.report(11)
    assert former.link.superseded
    successor.report()
    assert incarnation(outside) == successor.claimed.incarnation


def test_process_that_is_replaced_records_no_takeover(
    server: MemoryServer, outside: MemoryStore
) -> None:
    former = Process(server, 1, 7)
    former.report()
    lost = ReplicaId(node="there", incarnation="1")
    key = fragment_key("q", "f")
    before = FragmentRecord(
        query="q",
        fragment="f",
        epoch=4,
        generation=1,
        primary=lost,
        secondary=former.claimed.replica_of,
        timing=Timing(cost_ms=1.0, sub_deadline_ms=10.0, standby_lag_ms=10.0),
    )
    outside.create(key, before)
    Process(server, 2, 5)
    takeover = RecordTakeover(
        query="q", fragment="f", epoch=5, previous="there", cause="silent", detected_at_us=60
    )
    former.link.record(takeover)
    former.link.exchange()
    assert former.link.superseded
    found = outside.get(key)
    assert found is not None
    assert found.record == before


class PausedAfterReading(MemoryStore):
    """A client whose process is paused after it has read its host's record."""

    meanwhile: Callable[[], None] | None = None

    def get(self, key: Key[R]) -> Versioned[R] | None:
        found = super().get(key)
        if key.path == "nodes/here" and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return found


def test_process_paused_between_reading_and_deleting_a_record_deletes_no_other_one(
    server: MemoryServer, outside: MemoryStore
) -> None:
    former = Process(server, 1, 7)
    former.report()
    # The process has lost its session, whose record is still there.
    left = server.entries["nodes/here"].data
    former.store.expire()
    server.plant("nodes/here", left)
    store = PausedAfterReading(server)
    link = StoreLink(store, former.claimed)
    successors: list[Process] = []

    def replaced() -> None:
        successors.append(Process(server, 2, 5))
        successors[0].report()

    store.meanwhile = replaced
    link.publish(record(former.claimed, 11))
    link.exchange()
    assert link.superseded
    assert incarnation(outside) == successors[0].claimed.incarnation
