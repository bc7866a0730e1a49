"""A host and the store: records, takeovers and assignments, with the store there or away."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.host.events import (
    AssignmentReceived,
    EpochSuperseded,
    RecordTakeover,
    ReplicaReplaced,
)
from orchestrator.host.store_link import StoreLink
from orchestrator.records import Assignment, FragmentRecord, NodeKind, NodeRecord, ReplicaId, Timing
from orchestrator.simulation.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import ASSIGNMENTS, NODES, StoreUnavailable, fragment_key

HERE = ReplicaId(node="here", incarnation="2")
THERE = ReplicaId(node="there", incarnation="7")
ELSEWHERE = ReplicaId(node="elsewhere", incarnation="1")
KEY = fragment_key("q", "f")
RECORD = FragmentRecord(
    query="q",
    fragment="f",
    epoch=4,
    generation=1,
    primary=THERE,
    secondary=HERE,
    timing=Timing(cost_ms=1.0, sub_deadline_ms=10.0, standby_lag_ms=100.0),
)
TAKEOVER = RecordTakeover(
    query="q", fragment="f", epoch=5, previous="there", cause="silent", detected_at_us=99
)


def node(pid: int = 1, incarnation: str = "2") -> NodeRecord:
    return NodeRecord(
        node="here",
        incarnation=incarnation,
        kind=NodeKind.EXECUTOR,
        region="r",
        endpoint="e",
        public_key="k",
        domain="d",
        pid=pid,
        machine="m",
    )


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
def outside(server: MemoryServer) -> MemoryStore:
    """Another client's view."""
    return server.connect()


@pytest.fixture
def store(server: MemoryServer) -> MemoryStore:
    return server.connect()


@pytest.fixture
def link(store: MemoryStore) -> StoreLink:
    return StoreLink(store, HERE)


def recorded(outside: MemoryStore) -> FragmentRecord:
    found = outside.get(KEY)
    assert found is not None
    return found.record


def pid(outside: MemoryStore) -> int | None:
    found = outside.get(NODES.key("here"))
    return None if found is None else found.record.pid


def test_the_newest_record_is_published(link: StoreLink, outside: MemoryStore) -> None:
    link.publish(node(1))
    link.publish(node(2))
    assert pid(outside) is None
    link.exchange()
    assert pid(outside) == 2
    link.withdraw()
    assert pid(outside) is None


def test_takeover_is_recorded_under_the_next_version(link: StoreLink, outside: MemoryStore) -> None:
    outside.create(KEY, RECORD)
    link.record_takeover(TAKEOVER)
    link.exchange()
    after = recorded(outside)
    assert (after.epoch, after.generation) == (5, 1)
    assert (after.primary, after.secondary) == (HERE, None)
    assert after.took_over is not None
    assert (after.took_over.previous, after.took_over.cause) == (THERE, "silent")
    assert after.took_over.detected_at_us == 99
    link.exchange()
    found = outside.get(KEY)
    assert found is not None
    assert found.version == 1


@pytest.mark.parametrize("epoch", [5, 6])
def test_a_takeover_that_came_too_late_hears_of_its_successor(
    link: StoreLink, outside: MemoryStore, epoch: int
) -> None:
    newer = msgspec.structs.replace(RECORD, epoch=epoch, primary=ELSEWHERE)
    outside.create(KEY, newer)
    link.record_takeover(TAKEOVER)
    link.exchange()
    assert recorded(outside) == newer
    assert list(link.events) == [EpochSuperseded(fragment="f", epoch=epoch)]


def test_a_promotion_recorded_by_the_coordinator_is_left_alone(
    link: StoreLink, outside: MemoryStore
) -> None:
    promoted = msgspec.structs.replace(RECORD, epoch=5, primary=HERE, secondary=ELSEWHERE)
    outside.create(KEY, promoted)
    link.record_takeover(TAKEOVER)
    link.exchange()
    assert recorded(outside) == promoted
    assert not link.events


def test_a_replica_that_the_store_has_replaced_steps_aside(
    link: StoreLink, outside: MemoryStore
) -> None:
    replaced = msgspec.structs.replace(RECORD, secondary=ELSEWHERE)
    outside.create(KEY, replaced)
    link.record_takeover(TAKEOVER)
    link.exchange()
    assert recorded(outside) == replaced
    assert list(link.events) == [ReplicaReplaced(fragment="f")]


def test_takeover_of_a_fragment_that_is_no_more(link: StoreLink, outside: MemoryStore) -> None:
    link.record_takeover(TAKEOVER)
    link.exchange()
    assert outside.get(KEY) is None
    assert not link.events


def test_assignment_is_received_once_and_only_by_its_incarnation(
    link: StoreLink, outside: MemoryStore
) -> None:
    key = ASSIGNMENTS.key("here")
    outside.create(key, Assignment(incarnation="1"))
    link.exchange()
    assert not link.events
    mine = Assignment(incarnation="2")
    outside.update(key, mine, 0)
    link.exchange()
    link.exchange()
    assert list(link.events) == [AssignmentReceived(assignment=mine)]


def test_while_suspended_nothing_is_written_and_afterwards_everything_is(
    link: StoreLink, store: MemoryStore, outside: MemoryStore
) -> None:
    outside.create(KEY, RECORD)
    link.publish(node(1))
    link.exchange()
    store.suspend()
    link.publish(node(2))
    link.record_takeover(TAKEOVER)
    with pytest.raises(StoreUnavailable):
        link.exchange()
    assert (pid(outside), recorded(outside)) == (1, RECORD)
    store.resume()
    link.exchange()
    assert (pid(outside), recorded(outside).primary) == (2, HERE)


def test_after_its_session_expired_the_same_record_is_published_anew(
    link: StoreLink, store: MemoryStore, outside: MemoryStore
) -> None:
    link.publish(node(1))
    link.exchange()
    store.expire()
    assert pid(outside) is None
    store.resume()
    link.exchange()
    assert pid(outside) == 1
    assert not link.superseded


def test_another_process_under_the_same_name_ends_this_one(
    link: StoreLink, server: MemoryServer, outside: MemoryStore
) -> None:
    link.publish(node(1))
    link.exchange()
    other = StoreLink(server.connect(), ReplicaId(node="here", incarnation="3"))
    other.publish(node(3, "3"))
    other.exchange()
    link.publish(node(2))
    link.exchange()
    assert link.superseded
    assert not other.superseded
    assert pid(outside) == 3
