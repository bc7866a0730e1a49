"""A host and the store: records, takeovers and assignments, with the store there or away."""

from __future__ import annotations

from threading import Event
from typing import TypeVar

import msgspec
import pytest

from ha.roles import ReplicaRole
from orchestrator.host.core.events import (
    AssignmentReceived,
    EpochSuperseded,
    RecordLoss,
    RecordTakeover,
)
from orchestrator.host.shell.name_claim import Claimed
from orchestrator.host.shell.store_link import CONFLICTS, LONGEST_RETRY_S, StoreLink, StoreThread
from orchestrator.records import (
    Assignment,
    FragmentAssignment,
    FragmentRecord,
    NodeKind,
    NodeRecord,
    Peer,
    Record,
    ReplicaId,
    ReplicaLoss,
    ReplicaStatus,
    ThirdReplica,
    Timing,
)
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import (
    ASSIGNMENTS,
    NODES,
    Key,
    Precondition,
    StoreUnavailable,
    VersionConflict,
    Versioned,
    encode,
    fragment_key,
)
from tests.conftest import PATIENCE_S

R = TypeVar("R", bound=Record)

HERE = ReplicaId(node="here", incarnation="2")
THERE = ReplicaId(node="there", incarnation="7")
ELSEWHERE = ReplicaId(node="elsewhere", incarnation="1")
RENEWED = ReplicaId(node="here", incarnation="3")
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


def node(
    pid: int = 1, of: ReplicaId = HERE, replicas: dict[str, ReplicaStatus] | None = None
) -> NodeRecord:
    return NodeRecord(
        node=of.node,
        incarnation=of.incarnation,
        kind=NodeKind.EXECUTOR,
        region="r",
        endpoint="e",
        public_key="k",
        pid=pid,
        machine="m",
        replicas=replicas or {},
    )


def of_epoch(role: ReplicaRole, epoch: int) -> ReplicaStatus:
    return ReplicaStatus(role=role, epoch=epoch, output_watermark_ms=None)


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
    return StoreLink(store, Claimed(replica_of=HERE, precondition=None))


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
    link.record(TAKEOVER)
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
    link.record(TAKEOVER)
    link.exchange()
    assert recorded(outside) == newer
    assert list(link.events) == [EpochSuperseded(fragment="f", epoch=epoch, primary="elsewhere")]


def test_a_promotion_recorded_by_the_coordinator_is_left_alone(
    link: StoreLink, outside: MemoryStore
) -> None:
    promoted = msgspec.structs.replace(RECORD, epoch=5, primary=HERE, secondary=ELSEWHERE)
    outside.create(KEY, promoted)
    link.record(TAKEOVER)
    link.exchange()
    assert recorded(outside) == promoted
    assert not link.events


def test_a_replica_that_the_store_has_replaced_steps_aside(
    link: StoreLink, outside: MemoryStore
) -> None:
    replaced = msgspec.structs.replace(RECORD, secondary=ELSEWHERE)
    outside.create(KEY, replaced)
    link.record(TAKEOVER)
    link.exchange()
    assert recorded(outside) == replaced
    assert list(link.events) == [EpochSuperseded(fragment="f", epoch=5, primary="there")]


@pytest.mark.parametrize("third", [True, False])
def test_a_takeover_from_a_replica_that_others_followed_already_gives_no_other_one_up(
    link: StoreLink, outside: MemoryStore, third: bool
) -> None:
    # Elsewhere took over from there in epoch 5, and the store accepted that.
    lost = ThirdReplica(replica=THERE, becomes=None, since_us=0) if third else None
    taken = msgspec.structs.replace(RECORD, epoch=5, primary=ELSEWHERE, third=lost)
    outside.create(KEY, taken)
    peers_known(link, outside, THERE)
    link.record(takeover(6))
    link.exchange()
    after = recorded(outside)
    assert (after.primary, after.epoch) == (HERE, 6)
    assert after.took_over is not None
    assert after.took_over.previous == ELSEWHERE
    assert [each.replica for each in after.losses] == ([THERE] if third else [])


def test_takeover_of_a_fragment_that_is_no_more(link: StoreLink, outside: MemoryStore) -> None:
    link.record(TAKEOVER)
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
    link.record(TAKEOVER)
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


def peers_known(link: StoreLink, outside: MemoryStore, *others: ReplicaId) -> None:
    """Let a host know the incarnations of others, as its assignment tells them."""
    peers = tuple(
        Peer(node=o.node, incarnation=o.incarnation, endpoint="", public_key="", delay_ms=0.0)
        for o in others
    )
    key = ASSIGNMENTS.key(link.replica_of.node)
    outside.create(key, Assignment(incarnation=link.replica_of.incarnation, peers=peers))
    link.exchange()
    link.events.clear()


def loss(epoch: int, lost: str = "there", at_us: int = 50) -> RecordLoss:
    return RecordLoss(
        query="q", fragment="f", epoch=epoch, lost=lost, cause="silent", detected_at_us=at_us
    )


def takeover(epoch: int, previous: str = "there") -> RecordTakeover:
    return RecordTakeover(
        query="q", fragment="f", epoch=epoch, previous=previous, cause="silent", detected_at_us=60
    )


def other_link(server: MemoryServer, outside: MemoryStore) -> StoreLink:
    link = StoreLink(server.connect(), Claimed(replica_of=THERE, precondition=None))
    peers_known(link, outside, HERE)
    return link


def test_lost_secondary_is_recorded_with_its_incarnation_and_cause(
    link: StoreLink, outside: MemoryStore
) -> None:
    mine = msgspec.structs.replace(RECORD, primary=HERE, secondary=THERE)
    outside.create(KEY, mine)
    peers_known(link, outside, THERE)
    link.record(loss(4))
    link.exchange()
    after = recorded(outside)
    assert (after.primary, after.secondary, after.epoch) == (HERE, None, 4)
    assert after.losses == (ReplicaLoss(replica=THERE, cause="silent", detected_at_us=50),)
    link.record(loss(4, at_us=51))
    link.exchange()
    assert recorded(outside) == after, "reported twice"
    assert not link.events


@pytest.mark.parametrize(
    "secondary", [ELSEWHERE, ReplicaId(node="there", incarnation="8"), None], ids=str
)
def test_loss_of_a_secondary_that_is_replaced_already_changes_nothing(
    link: StoreLink, outside: MemoryStore, secondary: ReplicaId | None
) -> None:
    replaced = msgspec.structs.replace(RECORD, primary=HERE, secondary=secondary)
    outside.create(KEY, replaced)
    peers_known(link, outside, THERE)
    link.record(loss(4))
    link.exchange()
    assert recorded(outside) == replaced


def test_primary_whose_secondary_has_taken_over_is_told_instead_of_reporting_its_loss(
    link: StoreLink, outside: MemoryStore
) -> None:
    taken = msgspec.structs.replace(RECORD, epoch=5, primary=THERE, secondary=None)
    outside.create(KEY, taken)
    peers_known(link, outside, THERE)
    link.record(loss(4))
    link.exchange()
    assert recorded(outside) == taken
    assert list(link.events) == [EpochSuperseded(fragment="f", epoch=5, primary="there")]


def test_primary_that_has_lost_the_secondary_which_a_plan_makes_primary_goes_on(
    link: StoreLink, outside: MemoryStore
) -> None:
    # Whoever planned that did not know of the loss yet.
    switched = msgspec.structs.replace(RECORD, epoch=5, primary=THERE, secondary=HERE)
    outside.create(KEY, switched)
    peers_known(link, outside, THERE)
    link.record(loss(4))
    link.exchange()
    assert recorded(outside) == switched
    assert not link.events


@pytest.mark.parametrize("first", ["older", "newer"])
def test_link_that_flapped_twice_while_the_store_was_away_leaves_the_newest_primary(
    link: StoreLink, server: MemoryServer, outside: MemoryStore, first: str
) -> None:
    # There was primary; here took over (5), stepped down, and there took over again (6).
    outside.create(KEY, RECORD)
    there = other_link(server, outside)
    peers_known(link, outside, THERE)
    link.record(takeover(5))
    there.record(takeover(6, previous="here"))
    for each in (link, there) if first == "older" else (there, link):
        each.exchange()
    after = recorded(outside)
    assert (after.primary, after.epoch, after.secondary) == (THERE, 6, None)
    assert after.took_over is not None
    assert after.took_over.previous == HERE
    assert [each.replica for each in after.losses] == [HERE]
    assert not there.events
    told = [] if first == "older" else [EpochSuperseded(fragment="f", epoch=6, primary="there")]
    assert list(link.events) == told


@pytest.mark.parametrize(
    ("recorded_one", "has_yielded"),
    [
        (node(replicas={"f": of_epoch(ReplicaRole.STANDBY, 6)}), True),
        (node(replicas={"f": of_epoch(ReplicaRole.STANDBY, 5)}), False),
        (node(replicas={"f": of_epoch(ReplicaRole.PRIMARY, 5)}), False),
        (node(replicas={"f": of_epoch(ReplicaRole.PRIMARY, 6)}), False),
        (node(replicas={}), True),
        (node(of=RENEWED, replicas={"f": of_epoch(ReplicaRole.PRIMARY, 5)}), True),
        (None, True),
    ],
    ids=["follows", "is to follow", "acts", "acts in its epoch", "stopped", "renewed", "gone"],
)
def test_newest_primary_whose_place_is_taken_wins_if_the_recorded_one_has_yielded(
    link: StoreLink,
    server: MemoryServer,
    outside: MemoryStore,
    recorded_one: NodeRecord | None,
    has_yielded: bool,
) -> None:
    outside.create(KEY, RECORD)
    there = other_link(server, outside)
    peers_known(link, outside, THERE)
    link.record(takeover(5))
    link.exchange()
    if recorded_one is not None:
        outside.create(NODES.key("here"), recorded_one)
    # The coordinator has been faster than the newest primary.
    found = outside.get(KEY)
    assert found is not None
    replaced = msgspec.structs.replace(found.record, secondary=ELSEWHERE)
    outside.update(KEY, replaced, found.version)
    there.record(takeover(6, previous="here"))
    there.exchange()
    if has_yielded:
        after = recorded(outside)
        assert (after.primary, after.secondary, after.epoch) == (THERE, ELSEWHERE, 6)
        assert not there.events
    else:
        assert list(there.events) == [EpochSuperseded(fragment="f", epoch=6, primary="here")]
        assert recorded(outside) == replaced


def test_secondary_given_up_by_its_primary_takes_over_while_nobody_has_its_place(
    link: StoreLink, server: MemoryServer, outside: MemoryStore
) -> None:
    # The link is cut: the primary reports its loss first, but output flows in the newer epoch.
    outside.create(KEY, RECORD)
    there = other_link(server, outside)
    peers_known(link, outside, THERE)
    acting = node(of=THERE, replicas={"f": of_epoch(ReplicaRole.PRIMARY, 4)})
    outside.create(NODES.key("there"), acting)
    there.record(loss(4, lost="here"))
    link.record(takeover(5))
    there.exchange()
    link.exchange()
    after = recorded(outside)
    assert (after.primary, after.epoch) == (HERE, 5)
    assert not link.events


def test_unreadable_fragment_keeps_its_takeover_waiting_and_nothing_else(
    link: StoreLink, server: MemoryServer, outside: MemoryStore
) -> None:
    server.plant("fragments/q.f", b'{"newer": 1}')
    other = msgspec.structs.replace(RECORD, fragment="g")
    outside.create(fragment_key("q", "g"), other)
    link.record(takeover(5))
    link.record(msgspec.structs.replace(takeover(5), fragment="g"))
    mine = Assignment(incarnation="2")
    outside.create(ASSIGNMENTS.key("here"), mine)
    link.exchange()
    found = outside.get(fragment_key("q", "g"))
    assert found is not None
    assert found.record.primary == HERE
    assert list(link.events) == [AssignmentReceived(assignment=mine)]
    (problem,) = link.problems.values()
    assert "fragments/q.f" in problem
    assert link.retry_s > 0
    server.plant("fragments/q.f", encode(RECORD))
    link.exchange()
    assert recorded(outside).primary == HERE
    assert not link.problems
    assert link.retry_s == 0


class Contended(MemoryStore):
    """A client that others outrun at each write of a fragment, for one exchange."""

    conflicts = CONFLICTS

    def update(
        self, key: Key[R], record: R, version: int, *, precondition: Precondition | None = None
    ) -> int:
        if self.conflicts and key.path.startswith("fragments/"):
            self.conflicts -= 1
            raise VersionConflict(key.path, "was changed by another writer")
        return super().update(key, record, version, precondition=precondition)


def test_a_change_waits_for_the_one_before_it_of_the_same_fragment(
    server: MemoryServer, outside: MemoryStore
) -> None:
    """Until its takeover is recorded, a replica is no primary that could lose a secondary."""
    link = StoreLink(Contended(server), Claimed(replica_of=HERE, precondition=None))
    third = ThirdReplica(replica=HERE, becomes=None, since_us=1)
    before = msgspec.structs.replace(RECORD, secondary=ELSEWHERE, third=third)
    outside.create(KEY, before)
    peers_known(link, outside, THERE, ELSEWHERE)
    link.record(takeover(5))
    link.record(loss(5, lost="elsewhere"))
    link.exchange()
    assert recorded(outside) == before
    link.exchange()
    after = recorded(outside)
    assert (after.primary, after.secondary, after.epoch) == (HERE, None, 5)
    assert [each.replica for each in after.losses] == [THERE, ELSEWHERE]


def test_unreadable_assignment_is_said_and_the_former_one_stays(
    link: StoreLink, server: MemoryServer
) -> None:
    server.plant("assignments/here", b'{"newer": 1}')
    link.publish(node())
    link.exchange()
    assert not link.events
    assert "assignments/here" in link.problems["assignment"]


class Buggy(MemoryStore):
    """A client whose reading of assignments fails as nobody has foreseen."""

    fails = True

    def get(self, key: Key[R]) -> Versioned[R] | None:
        if self.fails and key.path.startswith("assignments/"):
            raise ZeroDivisionError("unforeseen")
        return super().get(key)


def test_unforeseen_error_is_logged_counted_said_and_tried_again(
    server: MemoryServer, outside: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    store = Buggy(server)
    link = StoreLink(store, Claimed(replica_of=HERE, precondition=None))
    link.publish(node())
    pauses: list[float] = []
    for _ in range(8):
        link.exchange()
        pauses.append(link.retry_s)
    assert pid(outside) == 1, "nothing else is kept from being done"
    assert "ZeroDivisionError('unforeseen')" in link.problems["assignment"]
    assert link.counters["internal_errors"] == 8
    assert "Traceback" in caplog.text
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1] == LONGEST_RETRY_S
    store.fails = False
    link.exchange()
    assert not link.problems
    assert link.retry_s == 0


ASSIGNED = FragmentAssignment(
    query="q",
    fragment="f",
    statement="",
    inputs={},
    role="secondary",
    epoch=4,
    generation=1,
    peer_replica="there",
    sub_deadline_ms=100.0,
    standby_lag_ms=100.0,
    readers_ms={},
    cost_us=20.0,
)


def running_primary(link: StoreLink, outside: MemoryStore, record: FragmentRecord) -> None:
    """Have a host that was assigned a secondary report that it is the primary of epoch 5."""
    outside.create(KEY, record)
    listing = Assignment(incarnation="2", fragments=(ASSIGNED,))
    outside.create(ASSIGNMENTS.key("here"), listing)
    status = ReplicaStatus(role=ReplicaRole.PRIMARY, epoch=5, output_watermark_ms=None)
    link.publish(msgspec.structs.replace(node(), replicas={"f": status}))
    link.exchange()
    link.events.clear()


def given_up(record: FragmentRecord) -> FragmentRecord:
    lost = ReplicaLoss(replica=HERE, cause="connection lost", detected_at_us=90)
    return msgspec.structs.replace(record, secondary=None, losses=(lost,))


def test_an_assignment_made_before_the_leader_knew_of_a_takeover_here_is_left_alone(
    link: StoreLink, outside: MemoryStore
) -> None:
    """It gives the replica up, whose peer replica has stepped down by then."""
    running_primary(link, outside, given_up(RECORD))
    outside.update(ASSIGNMENTS.key("here"), Assignment(incarnation="2"), 0)
    link.exchange()
    assert not link.events
    assert link.retry_s > 0
    link.record(TAKEOVER)
    link.exchange()
    assert recorded(outside).primary == HERE
    assert not link.events
    again = Assignment(incarnation="2", fragments=(ASSIGNED, ASSIGNED))
    outside.update(ASSIGNMENTS.key("here"), again, 1)
    link.exchange()
    assert list(link.events) == [AssignmentReceived(assignment=again)]
    assert link.retry_s == 0


def test_an_assignment_stops_a_primary_that_the_store_has_refused(
    link: StoreLink, outside: MemoryStore
) -> None:
    newer = msgspec.structs.replace(RECORD, epoch=6, primary=ELSEWHERE, secondary=None)
    running_primary(link, outside, newer)
    without = Assignment(incarnation="2")
    outside.update(ASSIGNMENTS.key("here"), without, 0)
    link.exchange()
    assert list(link.events) == [AssignmentReceived(assignment=without)]


def test_an_assignment_stops_the_primary_of_a_fragment_that_is_no_more(
    link: StoreLink, outside: MemoryStore
) -> None:
    running_primary(link, outside, RECORD)
    outside.delete(KEY, 0)
    without = Assignment(incarnation="2")
    outside.update(ASSIGNMENTS.key("here"), without, 0)
    link.exchange()
    assert list(link.events) == [AssignmentReceived(assignment=without)]


def test_an_assignment_stops_the_primary_of_an_earlier_generation(
    link: StoreLink, outside: MemoryStore
) -> None:
    running_primary(link, outside, RECORD)
    outside.update(KEY, msgspec.structs.replace(RECORD, generation=3), 0)
    without = Assignment(incarnation="2")
    outside.update(ASSIGNMENTS.key("here"), without, 0)
    link.exchange()
    assert list(link.events) == [AssignmentReceived(assignment=without)]


def test_thread_goes_on_after_an_error_that_nobody_foresaw(
    link: StoreLink, outside: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, reported, exchange = Event(), Event(), link.exchange

    def fails_once() -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("unheard of")
        exchange()
        if outside.get(NODES.key("here")) is not None:
            reported.set()

    monkeypatch.setattr(link, "exchange", fails_once)
    thread = StoreThread(link, lambda: None)
    thread.start()
    try:
        assert failed.wait(PATIENCE_S)
        link.publish(node())
        assert reported.wait(PATIENCE_S)
    finally:
        thread.stop()
    assert outside.get(NODES.key("here")) is None
