"""What a host's loop adds to its core: the problems in the host's record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from ha.messages import Ping, Snapshot, SnapshotRequest
from orchestrator.edges.events import Deliver, Durable
from orchestrator.edges.sinks.driver import OpenSink
from orchestrator.edges.sinks.sink_drivers import HandingSink, SinkDrivers
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.replay import Replay
from orchestrator.host.core.events import AssignmentReceived, MessageArrived, Report
from orchestrator.host.core.incidents import KEPT, SAME_US
from orchestrator.host.shell.loop import (
    EVENT_SHOWN_US,
    LATE_US,
    HostLoop,
    Surroundings,
    host_identity,
)
from orchestrator.host.shell.name_claim import Claimed
from orchestrator.records import (
    Assignment,
    ClusterRecord,
    HostSpec,
    NodeKind,
    NodeRecord,
    ReplicaId,
    SinkAssignment,
    SourceAssignment,
)
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.protocol import ASSIGNMENTS, NODES
from tests.driven_host import assigned, assignment_of, primary

SPEC = HostSpec(cluster="c", node="desk", kind=NodeKind.SITE, region="", zookeeper="", secret="")


class Full:
    """A sink whose disk may be full."""

    def __init__(self) -> None:
        self.is_full = False

    @property
    def durable(self) -> Durable | None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        return None

    def keep(self, delivery: Deliver) -> None:
        """Nothing is delivered."""

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is held open."""


class Host:
    """A loop on a store in memory, and its published problems."""

    def __init__(
        self, message_failed: Callable[[MessageArrived, Exception], None] | None = None
    ) -> None:
        self.server = MemoryServer()
        self.store = self.server.connect()
        self.now_us = 1
        settings = ClusterRecord(name="c", delays_ms={})
        identity = host_identity(SPEC, "1", "")
        self.surroundings = nowhere = Surroundings(
            clock_us=lambda: self.now_us,
            send=lambda _to, _message: None,
            set_peers=lambda _peers: None,
            sinks=SinkDrivers(lambda _assignment: HandingSink(lambda _delivery: None)),
            report=lambda _report: None,
            finish=lambda _worked, _began_us, _then: 0.0,
            message_failed=message_failed,
        )
        claimed = Claimed(replica_of=ReplicaId(node="desk", incarnation="1"), precondition=None)
        self.loop = HostLoop(nowhere, settings, self.store, identity, claimed)

    def open_sinks(self, open_sink: Callable[[SinkAssignment], OpenSink]) -> None:
        """Begin anew with other sinks."""
        self.loop = HostLoop(
            replace(self.surroundings, sinks=SinkDrivers(open_sink)),
            ClusterRecord(name="c", delays_ms={}),
            self.store,
            host_identity(SPEC, "1", ""),
            Claimed(replica_of=ReplicaId(node="desk", incarnation="1"), precondition=None),
        )

    def problems(self) -> tuple[str, ...]:
        """The problems in the record after a further turn."""
        return self.record().problems

    def incidents(self) -> list[tuple[str, str, str]]:
        """What has happened, by the record after a further turn."""
        return [(each.kind, each.subject, each.detail) for each in self.record().incidents]

    def record(self) -> NodeRecord:
        """The record after a further turn."""
        self.now_us += 2_000_000
        self.loop.link.exchange()
        self.loop.turn(())
        self.loop.turn(())
        self.now_us += 2_000_000
        self.loop.turn(())
        self.loop.link.exchange()
        found = self.store.get(NODES.key("desk"))
        assert found is not None
        return found.record


@pytest.fixture
def host() -> Host:
    return Host()


def test_problem_is_published_until_the_next_report_of_its_subject(host: Host) -> None:
    assert host.problems() == ()
    refused = Report(kind="assignment refused", subject="alerts", detail="no such column")
    host.loop.execute([refused])
    assert host.problems() == ("alerts: assignment refused: no such column",)
    host.loop.execute([Report(kind="started", subject="tracks", detail="secondary, epoch 1")])
    assert len(host.problems()) == 1
    host.loop.execute([Report(kind="started", subject="alerts", detail="secondary, epoch 2")])
    assert host.problems() == ()


def test_what_cannot_be_exchanged_with_the_store_is_a_problem_while_it_lasts(host: Host) -> None:
    host.server.plant("assignments/desk", b"{")
    (problem,) = host.problems()
    assert problem.startswith("assignment cannot be exchanged with the store: ")
    host.store.update(ASSIGNMENTS.key("desk"), Assignment(incarnation="1"), 0)
    assert host.problems() == ()


def test_input_that_was_lost_is_no_problem_for_ever(host: Host) -> None:
    host.loop.execute([Report(kind="input lost", subject="north", detail="7 tuples")])
    assert host.problems() == ("north: input lost: 7 tuples",)
    host.loop.execute([Report(kind="fed by primary", subject="north", detail="by one again")])
    assert host.problems() == ("north: input lost: 7 tuples",), "no other report ends it"
    host.now_us += EVENT_SHOWN_US
    assert host.problems() == ()
    host.loop.execute([Report(kind="evaluation failed", subject="north", detail="still")])
    host.now_us += EVENT_SHOWN_US
    assert len(host.problems()) == 1, "a state lasts until another report ends it"


class WithReaders(Full):
    """A sink whose readers may be slow."""

    address = "http://127.0.0.1:1/streams/out"

    def __init__(self) -> None:
        super().__init__()
        self.dropped = 0

    def take_dropped(self) -> int:
        dropped, self.dropped = self.dropped, 0
        return dropped


def test_readers_that_lost_their_connections_are_said_and_counted(host: Host) -> None:
    sink = WithReaders()
    host.open_sinks(lambda _: sink)
    assigned_sink = SinkAssignment(stream="out", columns={"a": "int"}, deadline_ms=5.0)
    host.store.create(ASSIGNMENTS.key("desk"), Assignment(incarnation="1", sinks=(assigned_sink,)))
    assert host.problems() == ()
    sink.dropped = 3
    record = host.record()
    assert record.problems == ("out: readers dropped: 3 did not read, and lost their connections",)
    assert record.incidents[-1].kind == "readers dropped"
    assert record.sinks["out"].readers_dropped == 3
    sink.dropped = 2
    assert host.record().sinks["out"].readers_dropped == 5


def test_source_that_cannot_be_opened_does_not_end_its_host(host: Host, tmp_path: Path) -> None:
    replay = Replay(path=str(tmp_path / "gone.parquet"), speed=1.0, begin_ms=0, end_ms=1)
    source = SourceAssignment(
        stream="north", columns={"a": "int"}, source=spec_of("replay", replay), start_at_us=1
    )
    host.store.create(ASSIGNMENTS.key("desk"), Assignment(incarnation="1", sources=(source,)))
    (problem,) = host.problems()
    assert problem.startswith("north: ")
    assert "gone.parquet cannot be read" in problem
    host.store.update(ASSIGNMENTS.key("desk"), Assignment(incarnation="1"), 0)
    assert host.problems() == ()


def test_a_host_is_ready_once_its_record_is_in_the_store(host: Host) -> None:
    assert not host.loop.is_ready
    host.loop.publish()
    assert not host.loop.is_ready
    host.loop.link.exchange()
    assert host.loop.is_ready
    host.store.expire()
    host.store.resume()
    assert not host.loop.is_ready
    host.loop.link.exchange()
    assert host.loop.is_ready


def test_a_site_is_ready_once_its_sources_and_sinks_are_open_or_have_failed(
    host: Host, tmp_path: Path
) -> None:
    replay = Replay(path=str(tmp_path / "gone.parquet"), speed=1.0, begin_ms=0, end_ms=1)
    source = SourceAssignment(
        stream="north", columns={"a": "int"}, source=spec_of("replay", replay), start_at_us=1
    )
    sink = SinkAssignment(stream="alerts", columns={"id": "int"}, deadline_ms=1000.0)
    host.problems()
    assignment = Assignment(incarnation="1", sources=(source,), sinks=(sink,))
    host.loop.core.handle(AssignmentReceived(assignment=assignment), host.now_us)
    assert host.loop.core.replica_manager.unopened == {"north", "alerts"}
    host.now_us += 2_000_000
    host.loop.publish()
    assert not host.loop.is_ready
    # One of them is open then, and the other has failed, which the record says.
    (problem,) = host.problems()
    assert problem.startswith("north: ")
    assert host.loop.core.replica_manager.unopened == set()
    assert host.loop.is_ready


def test_what_has_failed_is_told_once_although_it_works_again_before_the_next_report(
    host: Host,
) -> None:
    opened: list[Full] = []

    def open_sink(_: SinkAssignment) -> OpenSink:
        opened.append(Full())
        return opened[-1]

    host.open_sinks(open_sink)
    sink = SinkAssignment(stream="alerts", columns={"id": "int"}, deadline_ms=1000.0)
    host.store.create(ASSIGNMENTS.key("desk"), Assignment(incarnation="1", sinks=(sink,)))
    assert host.incidents() == []
    full = ("sink failed", "alerts", "the sink failed: OSError: [Errno 28] No space left on device")
    began_us = host.now_us
    while host.now_us - began_us < 2 * SAME_US:
        failing = opened[-1]
        failing.is_full = True
        while opened[-1] is failing:
            host.now_us += 100_000
            host.loop.turn(())
        assert host.incidents() == [full]
        assert host.problems() == ()
    host.now_us += SAME_US
    opened[-1].is_full = True
    host.loop.turn(())
    assert host.incidents() == [full, full]


def test_lost_input_is_told_as_often_as_some_is_lost(host: Host) -> None:
    for tuples in range(2 * KEPT):
        detail = f"{tuples} tuples"
        host.loop.execute([Report(kind="input lost", subject="north", detail=detail)] * 2)
        host.loop.execute([Report(kind="began anew", subject="north", detail="generation 2")])
    told = [("input lost", "north", f"{tuples} tuples") for tuples in range(KEPT, 2 * KEPT)]
    assert host.incidents() == told


def test_a_state_that_is_being_read_is_not_asked_for_meanwhile(host: Host) -> None:
    peer = primary()
    peer.hear("two", SnapshotRequest(fragment="f"))
    (snapshot,) = peer.sent_to("two", Snapshot)
    assignment = assignment_of(assigned("secondary", peer_replica="one"))
    host.loop.turn([AssignmentReceived(assignment=assignment)])
    host.loop.prepare("one", snapshot)
    assert host.loop.reads_snapshots
    host.now_us += 400_000
    host.loop.read_snapshots()
    hosted = host.loop.core.replica_manager.replicas["f"]
    assert hosted.snapshot_asked_us == host.now_us


def test_a_message_that_cannot_be_handled_does_not_end_its_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures: list[str] = []
    for survives in (True, False):
        host = Host((lambda _, error: failures.append(str(error))) if survives else None)

        def broken(*_: object) -> None:
            raise OverflowError("too great")

        monkeypatch.setattr(host.loop.core.prober, "answer", broken)
        ping = MessageArrived(sender="other", message=Ping(sent_us=1))
        if survives:
            host.loop.turn([ping])
            assert host.loop.core.counters["messages_failed"] == 1
        else:
            with pytest.raises(OverflowError):
                host.loop.turn([ping])
    assert failures == ["too great"]


@pytest.mark.parametrize(
    ("sinks", "interval_us"), [(0, 1_000_000), (10, 1_000_000), (500, 2_000_000)]
)
def test_a_host_of_many_sinks_renews_its_record_more_rarely(sinks: int, interval_us: int) -> None:
    host = Host()
    assigned = tuple(
        SinkAssignment(stream=f"s{n}", columns={"number": "int"}, deadline_ms=1000.0)
        for n in range(sinks)
    )
    host.store.create(ASSIGNMENTS.key("desk"), Assignment(incarnation="1", sinks=assigned))
    host.loop.link.exchange()
    host.loop.turn(())
    published: list[int] = []

    def publish(record: NodeRecord) -> None:
        published.append(host.now_us)

    host.loop.link.publish = publish
    for _ in range(60):
        host.now_us += 100_000
        host.loop.turn(())
    gaps = {after - before for before, after in pairwise(published)}
    assert gaps == {interval_us}


@pytest.mark.parametrize(
    ("after_tick_us", "late_us"), [(None, LATE_US), (5 * LATE_US, LATE_US), (300, 300), (0, 0)]
)
def test_heartbeats_may_be_late_unless_a_sink_is_due(
    monkeypatch: pytest.MonkeyPatch, after_tick_us: int | None, late_us: int
) -> None:
    host = Host()
    tick_us = host.loop.core.next_tick_us
    due_us = None if after_tick_us is None else tick_us + after_tick_us
    monkeypatch.setattr(SinkDrivers, "next_due_us", due_us)
    assert host.loop.next_due() == (tick_us, late_us)


def test_what_is_due_before_the_next_heartbeat_is_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    host.loop.turn([])
    due_us = host.loop.core.next_tick_us - 300
    monkeypatch.setattr(SinkDrivers, "next_due_us", due_us)
    assert host.loop.next_due() == (due_us, 0)


def test_a_host_that_is_told_to_leave_ends_when_it_may_or_must() -> None:
    host = Host()
    host.loop.publish()
    assert not host.loop.has_left
    host.now_us = 1_000_000
    host.loop.leave(5_000_000)
    host.loop.link.exchange()
    found = host.store.get(NODES.key("desk"))
    assert found is not None
    # At once, although a record has been written a moment ago.
    assert found.record.leaving is not None
    assert found.record.leaving.until_us - found.record.leaving.since_us == 5_000_000
    host.now_us = 2_000_000
    host.loop.leave(50_000_000)
    assert not host.loop.has_left
    host.store.create(ASSIGNMENTS.key("desk"), Assignment(incarnation="1", may_end=True))
    host.loop.link.exchange()
    assert host.loop.has_left
    late = Host()
    late.loop.leave(5_000_000)
    late.now_us = 5_000_001
    assert late.loop.has_left
