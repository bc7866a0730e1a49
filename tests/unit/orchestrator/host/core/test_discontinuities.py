"""Streams that begin anew, have holes or differ between replicas, and links that lose data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from ha.messages import (
    Ack,
    Control,
    Data,
    Offer,
    OutputDigest,
    Snapshot,
    SnapshotRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from ha.roles import ReplicaRole
from ha.subscription import PATIENCE_US, STALLED_US, STANDBY_PATIENCE_US
from orchestrator.edges.events import Deliver, Durable, SinkFlushed, SinkOpened
from orchestrator.host.core.events import PeerLost, Report
from orchestrator.records import Assignment, Overflow, SinkAssignment
from streams.vectors.chunk import Chunk, ChunkError, Position
from streams.vectors.state import SavedState
from tests.driven_host import (
    COLUMNS,
    Driven,
    ack,
    assigned,
    assignment_of,
    data,
    peers,
    primary,
    standby,
    subscribed,
)
from tests.streams_of_numbers import chunk, numbers


def anew(part: Chunk, stream: str = "s", generation: int = 2) -> Data:
    return Data(stream=stream, epoch=generation, generation=generation, chunk=part)


def began_anew(stream: str = "s", position: Position | None = None) -> Subscribed:
    return Subscribed(stream=stream, position=position or Position(), epoch=2, generation=2)


def sink(producers: tuple[str, ...] = ("one", "two")) -> Driven:
    """The sink of `f`, subscribed to the replicas of its fragment."""
    made = Driven("exit")
    out = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100)
    made.assign(
        Assignment(incarnation="1", sinks=(out,), producers={"f": producers}, peers=peers())
    )
    made.handle(SinkOpened(stream="f", durable=None))
    for node in producers:
        made.hear(node, Subscribed(stream="f", position=Position(), epoch=1, generation=1))
    made.commands.clear()
    return made


def flush(host: Driven) -> None:
    """The sink keeps everything that it was delivered."""
    end = host.take(Deliver)[-1].end
    host.handle(SinkFlushed(stream="f", durable=end))


def delivered(host: Driven) -> list[int]:
    return numbers([each.chunk for each in host.take(Deliver)])


def offer(watermark_ms: int, *, sent: bool) -> Control:
    return Control(offers={"f": Offer(generation=1, epoch=1, watermark_ms=watermark_ms, sent=sent)})


def other_digest(generation: int = 1) -> Control:
    digest = OutputDigest(generation=generation, interval=0, first_seq=0, rows=1)
    return Control(digests={"f": digest})


def test_a_sink_hears_what_nobody_keeps_for_it_though_the_stream_has_ended() -> None:
    """It was away for so long that output was trimmed, and the logs have nothing to send."""
    host = sink()
    kept = Durable(generation=1, position=Position(next_seq=2, watermark_ms=10))
    host.handle(SinkOpened(stream="f", durable=kept))
    host.commands.clear()
    answer = Subscribed(
        stream="f", position=Position(next_seq=5, watermark_ms=40), epoch=1, generation=1
    )
    host.hear("one", answer)
    assert host.take(Deliver) == []
    host.hear("two", answer)
    (delivered,) = host.take(Deliver)
    assert (delivered.lost, delivered.chunk.rows.num_rows) == (3, 0)
    assert delivered.chunk.watermark_ms == 40
    assert host.core.counters["tuples_lost"] == 3
    host.hear("two", answer)
    assert host.take(Deliver) == []


def test_what_the_last_generation_has_not_reached_again_is_not_lost_with_it() -> None:
    """It began anew twice: the second time before the first had repeated what there was."""
    host = sink()
    host.hear("one", data(chunk(0, [(10, 2), (100, 3)]), "f"))
    host.hear("one", began_anew("f"))
    host.hear("one", anew(chunk(0, [(30, 2)]), "f"))
    third = Position(next_seq=4, watermark_ms=50)
    host.hear("one", Subscribed(stream="f", position=third, epoch=3, generation=3))
    assert host.core.counters["discontinuities"] == 2
    assert host.core.counters["tuples_lost"] == 0
    host.hear("one", anew(chunk(4, [(100, 1), (110, 1)]), "f", 3))
    *_, last = host.take(Deliver)
    assert (last.lost, last.chunk.rows.num_rows) == (0, 1)


@pytest.mark.parametrize("ends", [(5,), (1, 2, 5), (2, 3, 4, 5), (1, 2, 3, 4, 5)])
def test_a_new_generation_in_any_number_of_chunks_is_delivered_once(ends: tuple[int, ...]) -> None:
    """The first chunk of the new generation alone does not show what it repeats."""
    host = sink(("one",))
    host.hear("one", data(chunk(0, [(10, 2), (20, 2)]), "f"))
    groups, begin, next_seq = [(5, 1), (10, 2), (20, 2), (30, 2), (40, 1)], 0, 0
    host.hear("one", began_anew("f"))
    for end in ends:
        part = chunk(next_seq, groups[begin:end])
        begin, next_seq = end, part.next_seq
        host.hear("one", anew(part, "f"))
    # Numbers name the tuples: 0 … 3 of the first life, then those past 20 ms of the second.
    assert delivered(host) == [0, 1, 2, 3, 5, 6, 7]
    assert host.core.replica_manager.sinks["f"].status(0).repeated == 0
    assert host.core.counters["discontinuities"] == 1


def test_a_reader_that_hears_a_new_generation_asks_where_it_begins() -> None:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.commands.clear()
    host.hear("site", anew(chunk(7, [(20, 1)])))
    (request,) = host.sent_to("site", Subscribe)
    assert request.generation == 1
    host.hear("site", began_anew())
    host.hear("site", anew(chunk(0, [(10, 2), (20, 2)])))
    host.work()
    assert [n for d in host.sent_to("exit", Data) for n in numbers([d.chunk])] == [2, 3]


def test_numbers_that_fall_after_a_crossing_are_neither_acknowledged_nor_sent_too_early() -> None:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 50)])))
    host.hear("site", began_anew())
    host.commands.clear()
    host.hear("two", SnapshotRequest(fragment="f"))
    host.wait(100)
    assert host.take(Snapshot) == []
    acks = [c.acks["s"] for c in host.sent_to("site", Control) if "s" in c.acks]
    assert all(ack.position is None or ack.position.next_seq <= 0 for ack in acks)
    host.hear("site", anew(chunk(0, [(10, 5), (20, 2)])))
    host.work()
    host.commands.clear()
    host.wait(100)
    control = [c for c in host.sent_to("site", Control) if "s" in c.acks][-1]
    assert control.acks["s"].generation == 2
    assert control.acks["s"].position == Position(next_seq=7, watermark_ms=20)
    host.hear("two", SnapshotRequest(fragment="f"))
    (snapshot,) = host.sent_to("two", Snapshot)
    assert snapshot.inputs == {"s": (2, Position(next_seq=7, watermark_ms=20))}


def stopped() -> Driven:
    """A standby with input up to 10 ms that has met a new generation of it."""
    host = standby()
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    host.hear("site", began_anew())
    assert host.role is ReplicaRole.STANDBY
    return host


def state_beyond() -> Snapshot:
    """The state of its primary, which has crossed and processed input up to 20 ms."""
    other = primary()
    other.hear("site", data(chunk(0, [(10, 4)])))
    other.hear("site", began_anew())
    other.hear("site", anew(chunk(0, [(10, 4), (20, 2)])))
    other.work()
    other.commands.clear()
    other.hear("two", SnapshotRequest(fragment="f"))
    return other.sent_to("two", Snapshot)[0]


def test_a_secondary_does_not_cross_but_takes_the_primarys_state() -> None:
    host = stopped()
    here = Position(next_seq=4, watermark_ms=10)
    assert {(r.generation, r.position) for r in host.sent_to("site", Subscribe)} == {(1, here)}
    host.hear("site", anew(chunk(0, [(10, 4), (20, 2)])))
    host.work()
    assert host.take(Subscribe) == []
    host.hear("site", began_anew())
    assert host.sent_to("one", SnapshotRequest) == [SnapshotRequest(fragment="f")]
    host.hear("one", state_beyond())
    assert host.role is ReplicaRole.STANDBY
    assert host.sent_to("site", Subscribe)[-1].position == Position(next_seq=6, watermark_ms=20)
    host.hear("site", anew(chunk(6, [(30, 1)])))
    host.handle(PeerLost(node="one"))
    host.work()
    assert numbers([d.chunk for d in host.sent_to("exit", Data)]) == [2, 3, 4, 5, 6]


def test_a_secondary_whose_primary_is_lost_before_it_has_crossed_crosses_by_itself() -> None:
    """Had it discarded its state when it met the new generation, nobody would have one."""
    host = stopped()
    host.hear("site", began_anew())
    host.commands.clear()
    host.handle(PeerLost(node="one"))
    assert host.role is ReplicaRole.PRIMARY
    (asked,) = host.sent_to("site", Subscribe)
    assert asked.generation == 1
    host.hear("site", began_anew())
    host.hear("site", anew(chunk(0, [(10, 4), (20, 2)])))
    host.work()
    assert numbers([d.chunk for d in host.sent_to("exit", Data)]) == [4, 5]


def test_a_secondary_that_has_stopped_takes_no_state_from_before_that() -> None:
    host, other = stopped(), primary()
    other.hear("site", data(chunk(0, [(10, 4)])))
    other.work()
    other.commands.clear()
    other.hear("two", SnapshotRequest(fragment="f"))
    host.hear("one", other.sent_to("two", Snapshot)[0])
    assert host.core.counters["snapshots_unusable"] == 1
    assert host.role is ReplicaRole.STANDBY
    host.hear("one", state_beyond())
    assert host.core.counters["snapshots_unusable"] == 1


@pytest.mark.parametrize("first", ["crossed", "stopped", "told by a consumer"])
def test_a_secondary_whose_primary_has_crossed_and_gone_on_gives_up_its_state(first: str) -> None:
    """It cannot continue what the primary has sent since, so it must not take over."""
    further = Control(watermarks_ms={"f": 20})
    if first == "stopped":
        host = stopped()
        host.hear("one", further)
    elif first == "told by a consumer":
        host = stopped()
        host.hear("exit", Subscribe(stream="f", position=None, generation=None))
        host.hear("exit", ack(20, 2))
        host.wait(200, hearing="one")
    else:
        host = standby()
        host.hear("site", data(chunk(0, [(10, 4)])))
        host.hear("one", further)
        host.hear("site", began_anew())
        host.wait(200, hearing="one")
    assert host.role is ReplicaRole.WARMING
    assert host.core.counters["states_broken"] == 1


def test_a_secondary_that_has_stopped_is_not_sent_the_new_generation_again_and_again() -> None:
    host = stopped()
    host.hear("site", began_anew())
    host.commands.clear()
    offered = Offer(generation=2, epoch=2, watermark_ms=20, sent=True)
    for _ in range(3):
        host.hear("site", Control(offers={"s": offered}))
        host.hear("site", anew(chunk(0, [(10, 4), (20, 2)])))
        host.hear("one", Control())
    assert host.sent_to("site", Subscribe) == []


def test_a_consumer_that_a_standby_feeds_is_fed_on_after_it_has_taken_its_primarys_state() -> None:
    host = stopped()
    host.hear("site", began_anew())
    had = Position(next_seq=2, watermark_ms=10)
    host.hear("exit", Subscribe(stream="f", position=had, generation=1, feed=True))
    host.hear("one", Control(watermarks_ms={"f": 10}))
    host.commands.clear()
    host.hear("one", state_beyond())
    host.hear("site", anew(chunk(6, [(30, 1)])))
    host.work()
    assert numbers([d.chunk for d in host.sent_to("exit", Data)])[-1] == 6


def test_a_secondary_that_has_stopped_and_feeds_more_than_its_primary_sent_takes_no_state() -> None:
    host = stopped()
    host.commands.clear()
    host.hear("exit", Subscribe(stream="f", position=None, generation=None, feed=True))
    host.hear("exit", ack(10, 2))
    host.hear("site", began_anew())
    assert host.sent_to("one", SnapshotRequest) == []
    host.hear("one", Control(watermarks_ms={"f": 10}))
    host.hear("site", began_anew())
    assert host.sent_to("one", SnapshotRequest) == [SnapshotRequest(fragment="f")]


def test_a_secondary_without_state_crosses_nothing() -> None:
    host = Driven("two")
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    host.hear("site", Subscribed(stream="s", position=Position(), epoch=1, generation=1))
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.hear("site", began_anew())
    host.hear("site", anew(chunk(0, [(10, 4), (20, 2)])))
    assert host.core.counters["discontinuities"] == 0
    host.hear("one", state_beyond())
    assert host.role is ReplicaRole.STANDBY


def test_a_state_from_before_the_crossing_is_not_installed_after_it() -> None:
    host, other = Driven("two"), primary()
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    host.hear("site", began_anew())
    host.hear("site", anew(chunk(0, [(10, 2)])))
    other.commands.clear()
    other.hear("two", SnapshotRequest(fragment="f"))
    host.hear("one", other.sent_to("two", Snapshot)[0])
    assert host.role is ReplicaRole.WARMING
    assert host.core.counters["snapshots_unusable"] == 1


def test_between_two_generations_nobody_is_given_the_state() -> None:
    """What the state has processed is no position of the new numbering yet."""
    host = primary()
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.work()
    host.hear("site", began_anew())
    # All of it was complete before, and more of that may come.
    for part in (None, chunk(0, [(5, 1)])):
        if part is not None:
            host.hear("site", anew(part))
        host.hear("two", SnapshotRequest(fragment="f"))
        assert host.sent_to("two", Snapshot) == []
    host.hear("site", anew(chunk(1, [(20, 1)])))
    host.work()
    host.hear("two", SnapshotRequest(fragment="f"))
    (snapshot,) = host.sent_to("two", Snapshot)
    assert snapshot.inputs["s"] == (2, Position(next_seq=2, watermark_ms=20))


def test_what_was_complete_before_a_crossing_is_acknowledged_in_the_new_numbers() -> None:
    """Else a producer that begins far back would wait for credit for ever."""
    host = primary()
    host.hear("site", data(chunk(0, [(10, 50)])))
    host.hear("site", began_anew())
    host.hear("site", anew(chunk(0, [(5, 2)])))
    host.commands.clear()
    host.wait(200)
    (ack, *_) = [c.acks["s"] for c in host.sent_to("site", Control) if "s" in c.acks]
    assert (ack.generation, ack.position) == (2, Position(next_seq=2, watermark_ms=5))


def test_a_sink_acknowledges_what_was_complete_before_a_crossing_once_it_has_kept_all() -> None:
    host = sink(("one",))
    host.hear("one", data(chunk(0, [(10, 2), (20, 2)]), "f"))
    host.hear("one", began_anew("f"))
    host.hear("one", anew(chunk(0, [(5, 1), (10, 2)]), "f"))
    end = host.take(Deliver)[-1].end
    host.wait(200)
    told = [c.acks["f"] for c in host.sent_to("one", Control) if "f" in c.acks]
    assert not any(ack.position for ack in told)
    host.commands.clear()
    host.handle(SinkFlushed(stream="f", durable=end))
    host.wait(200)
    (ack, *_) = [c.acks["f"] for c in host.sent_to("one", Control) if "f" in c.acks]
    assert (ack.generation, ack.position) == (2, Position(next_seq=3, watermark_ms=10))


def test_a_state_of_an_earlier_generation_of_the_fragment_is_not_installed() -> None:
    """Snapshots may be overtaken: this one was under way when the fragment started over."""
    other = primary()
    other.commands.clear()
    other.hear("two", SnapshotRequest(fragment="f"))
    host = Driven("two")
    host.assign(assignment_of(assigned("secondary", epoch=2, generation=2, peer_replica="one")))
    host.hear("site", Subscribed(stream="s", position=Position(), epoch=1, generation=1))
    host.hear("one", other.sent_to("two", Snapshot)[0])
    assert host.role is ReplicaRole.WARMING
    assert host.core.counters["snapshots_unusable"] == 1


def test_what_a_trimmed_new_generation_lacks_is_counted_and_reported() -> None:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.hear("site", began_anew(position=Position(next_seq=4, watermark_ms=30)))
    assert host.core.counters["tuples_lost"] == 4
    assert [r.kind for r in host.take(Report)][-1] == "input lost"


@pytest.mark.parametrize(
    ("begins", "lost"),
    [
        (Position(next_seq=4, watermark_ms=30), 4),
        (Position(next_seq=70, watermark_ms=30), 70),
        (Position(next_seq=4, watermark_ms=5), 0),
        (Position(next_seq=70, watermark_ms=10), 0),
    ],
)
def test_a_sink_tells_what_a_trimmed_new_generation_lacks_whatever_its_numbers(
    begins: Position, lost: int
) -> None:
    """They began anew: how they compare to those before says nothing."""
    host = sink(("one",))
    host.hear("one", data(chunk(0, [(10, 20)]), "f"))
    host.hear("one", began_anew("f", begins))
    kept = host.core.replica_manager.sinks["f"]
    assert kept.status(0).lost == lost, "although nothing may ever follow"
    host.hear("one", anew(chunk(begins.next_seq, [(40, 1)]), "f"))
    assert [each.lost for each in host.take(Deliver)] == [0, lost]
    assert (kept.status(0).lost, kept.status(0).repeated) == (lost, 0)


def test_a_sink_tells_how_many_tuples_a_hole_has() -> None:
    host = sink(("one",))
    host.hear("one", data(chunk(0, [(10, 2)]), "f"))
    host.hear("one", data(chunk(5, [(30, 1)]), "f"))
    holed = Position(next_seq=5, watermark_ms=20)
    host.hear("one", Subscribed(stream="f", position=holed, epoch=1, generation=1))
    host.hear("one", data(chunk(5, [(30, 1)]), "f"))
    # The answer tells of the hole, before any data from beyond it.
    assert [each.lost for each in host.take(Deliver)] == [0, 3, 0]
    assert host.core.replica_manager.sinks["f"].status(0).lost == 3


def test_the_last_chunk_before_a_pause_is_asked_for() -> None:
    """It was lost with a connection, and no later chunk shows the gap."""
    host = sink()
    host.hear("one", data(chunk(0, [(10, 2)]), "f"))
    flush(host)
    host.hear("one", offer(10, sent=True))
    assert host.sent_to("one", Subscribe) == []
    host.hear("one", offer(20, sent=True))
    (request,) = host.sent_to("one", Subscribe)
    assert request.position == Position(next_seq=2, watermark_ms=10)


def test_a_standby_feeds_a_host_that_the_primary_does_not_reach() -> None:
    host = sink()
    host.hear("one", data(chunk(0, [(10, 2)]), "f"))
    flush(host)
    host.now_us += STALLED_US
    host.hear("two", offer(20, sent=False))
    (request,) = host.sent_to("two", Subscribe)
    assert request.feed
    other = standby()
    other.hear("site", data(chunk(0, [(10, 4), (20, 2)])))
    other.work()
    other.commands.clear()
    other.hear("exit", request)
    other.hear("site", data(chunk(6, [(30, 1)])))
    other.work()
    sent = other.sent_to("exit", Data)
    assert [each.chunk.watermarks_ms.tolist() for each in sent] == [[20], [30]]
    other.hear("exit", Subscribe(stream="f", position=Position(), generation=1))
    other.hear("site", data(chunk(7, [(40, 1)])))
    other.work()
    assert other.sent_to("exit", Data) == []


def pass_time(host: Driven, ms: int) -> None:
    """Let time pass in which other hosts are heard."""
    for _ in range(ms // 20):
        host.wait(20)
        for node in ("one", "two"):
            host.core.heard(node, host.now_us)


def test_output_that_is_not_acknowledged_in_time_is_offered() -> None:
    for host, sent in ((primary(), True), (standby(), False)):
        host.hear("exit", Subscribe(stream="f", position=None, generation=None))
        host.hear("site", data(chunk(0, [(10, 4)])))
        host.work()
        host.commands.clear()
        pass_time(host, 140)
        assert all(not c.offers for c in host.sent_to("exit", Control))
        pass_time(host, 100)
        offers = [c.offers["f"] for c in host.sent_to("exit", Control)]
        assert offers[-1] == Offer(generation=1, epoch=1, watermark_ms=10, sent=sent)
        position = Position(next_seq=2, watermark_ms=10)
        host.hear("exit", Control(acks={"f": Ack(position=position, epoch=1, generation=1)}))
        pass_time(host, 200)
        assert all(not c.offers for c in host.sent_to("exit", Control))


def test_replicas_with_equal_output_have_equal_digests_however_it_is_cut() -> None:
    one, two = primary(), standby()
    one.hear("site", data(chunk(0, [(10, 4), (20, 2), (9000, 1)])))
    two.hear("site", data(chunk(0, [(10, 4)])))
    two.hear("site", data(chunk(4, [(20, 2), (9000, 1)])))
    for host in (one, two):
        host.work()
        host.commands.clear()
        host.wait(30)
    (said, *_) = one.sent_to("two", Control)
    assert said.digests["f"].interval == 0
    assert two.sent_to("one", Control)[0].digests == said.digests
    two.hear("one", said)
    assert (two.role, two.core.counters["divergences"]) == (ReplicaRole.STANDBY, 0)


def test_a_secondary_whose_output_differs_takes_the_primarys_state() -> None:
    host = standby()
    host.hear("site", data(chunk(0, [(10, 4), (9000, 1)])))
    host.work()
    host.hear("one", other_digest())
    assert host.role is ReplicaRole.WARMING
    assert host.core.counters["divergences"] == 1
    assert "diverged" in [r.kind for r in host.take(Report)]


def test_digests_of_another_generation_or_of_a_stranger_mean_nothing() -> None:
    host = standby()
    host.hear("site", data(chunk(0, [(10, 4), (9000, 1)])))
    host.work()
    host.hear("one", other_digest(generation=2))
    host.hear("exit", other_digest(generation=1))
    assert host.role is ReplicaRole.STANDBY


def test_a_primary_that_differs_goes_on() -> None:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 4), (9000, 1)])))
    host.work()
    host.hear("two", other_digest(generation=1))
    assert (host.role, host.core.counters["divergences"]) == (ReplicaRole.PRIMARY, 1)


def test_a_chunk_that_breaks_its_promises_breaks_one_replica_and_no_host() -> None:
    host = standby()
    host.hear("site", data(chunk(0, [(10, 2)])))
    falling = Chunk(
        first_seq=2,
        rows=chunk(2, [(30, 1)]).rows,
        watermarks_ms=chunk(2, [(20, 0)]).watermarks_ms,
        ingestion_times_us=chunk(2, [(20, 0)]).ingestion_times_us,
    )
    host.hear("site", data(falling))
    assert host.role is ReplicaRole.WARMING
    assert "evaluation failed" in [r.kind for r in host.take(Report)]


def test_an_answer_that_cannot_be_taken_in_breaks_one_replica_and_no_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = standby()

    def refuse(*_: object) -> bool:
        raise ChunkError("it lies before what has come")

    monkeypatch.setattr(host.core.replica_manager.replicas["f"].replica, "learn_position", refuse)
    host.hear("site", subscribed(2, 20))
    assert host.role is ReplicaRole.WARMING
    assert "evaluation failed" in [r.kind for r in host.take(Report)]


def test_a_snapshot_that_cannot_be_understood_is_refused_and_asked_for_again() -> None:
    host = Driven("two")
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    host.hear("site", Subscribed(stream="s", position=Position(), epoch=1, generation=1))
    other = primary()
    other.commands.clear()
    other.hear("two", SnapshotRequest(fragment="f"))
    (sound,) = other.sent_to("two", Snapshot)
    broken = Snapshot(
        fragment="f",
        epoch=1,
        generation=1,
        state=SavedState.of([b"nonsense"]),
        inputs=sound.inputs,
        log_base=sound.log_base,
        log=sound.log,
        consumers=sound.consumers,
    )
    host.hear("one", broken)
    assert host.role is ReplicaRole.WARMING
    assert "snapshot refused" in [r.kind for r in host.take(Report)]
    host.hear("one", sound)
    assert host.role is ReplicaRole.STANDBY


def test_an_offer_of_a_stream_that_nobody_here_reads_is_answered_with_unsubscribe() -> None:
    # The first Unsubscribe may have been lost: the producer would keep its output for good.
    host = sink()
    unread = Offer(generation=1, epoch=1, watermark_ms=10, sent=False)
    host.hear("one", Control(offers={"g": unread}))
    assert host.sent_to("one", Unsubscribe) == [Unsubscribe(stream="g")]


def test_a_sink_that_is_not_open_yet_does_not_refuse_its_stream() -> None:
    host = Driven("exit")
    out = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100)
    host.assign(Assignment(incarnation="1", sinks=(out,), producers={"f": ("one",)}, peers=peers()))
    host.commands.clear()
    unread = Offer(generation=1, epoch=1, watermark_ms=10, sent=False)
    host.hear("one", Control(offers={"f": unread}))
    assert host.take(Unsubscribe) == []


def joining(generation: int = 1) -> tuple[Driven, Snapshot]:
    """A secondary that waits for a state, and the state of a primary that has nothing processed."""
    host, other = Driven("two"), primary()
    host.assign(assignment_of(assigned("secondary", generation=generation, peer_replica="one")))
    host.hear("site", Subscribed(stream="s", position=Position(), epoch=1, generation=1))
    other.commands.clear()
    other.hear("two", SnapshotRequest(fragment="f"))
    return host, other.sent_to("two", Snapshot)[0]


def test_a_state_that_does_not_join_the_waiting_input_is_too_old_and_not_broken() -> None:
    host = Driven("two")
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    begins = Position(next_seq=2, watermark_ms=10)
    host.hear("site", Subscribed(stream="s", position=begins, epoch=1, generation=1))
    host.hear("site", data(chunk(2, [(20, 1)])))
    _, old = joining()
    host.hear("one", old)
    assert host.role is ReplicaRole.WARMING
    assert host.core.counters["snapshots_unusable"] == 1
    assert "snapshot refused" not in [r.kind for r in host.take(Report)]


def test_a_state_of_a_new_generation_says_alone_where_its_output_departs() -> None:
    host, state = joining()
    # As long as it was of the first generation, it heard that its output departs at 5 ms.
    host.core.replica_manager.replicas["f"].replica.learn_departure(5)
    host.hear("one", msgspec.structs.replace(state, generation=2))
    host.hear("site", data(chunk(0, [(10, 4)])))
    replica = host.core.replica_manager.replicas["f"].replica
    assert (replica.role, replica.generation) == (ReplicaRole.STANDBY, 2)
    assert replica.departs_ms is None


@pytest.mark.parametrize("generation", [1, 2])
def test_a_replica_keeps_where_input_departs_that_came_before_its_state(generation: int) -> None:
    host, state = joining()
    host.hear("site", msgspec.structs.replace(data(chunk(0, [(10, 4)])), departs_ms=5))
    host.hear("one", msgspec.structs.replace(state, generation=generation, departs_ms=7))
    replica = host.core.replica_manager.replicas["f"].replica
    assert (replica.role, replica.departs_ms) == (ReplicaRole.STANDBY, 5)


@pytest.mark.parametrize(
    ("overflow", "acknowledges"), [(Overflow.DROP, True), (Overflow.WAIT, False)]
)
def test_a_sink_that_demands_nothing_acknowledges_where_it_began(
    overflow: Overflow, acknowledges: bool
) -> None:
    """A producer with more would take the rest for sent, and give no more than its credit."""
    host = Driven("exit")
    out = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100, overflow=overflow)
    host.assign(Assignment(incarnation="1", sinks=(out,), producers={"f": ("one",)}, peers=peers()))
    host.handle(SinkOpened(stream="f", durable=None))
    began = Position(next_seq=9, watermark_ms=1000)
    host.hear("one", Subscribed(stream="f", position=began, epoch=1, generation=1))
    host.commands.clear()
    host.wait(200)
    acks = [each.acks["f"] for each in host.sent_to("one", Control) if each.acks]
    assert {ack.position for ack in acks} == {began if acknowledges else None}
    assert {ack.demanded for ack in acks} == {None if acknowledges else began}


@pytest.mark.parametrize("node", ["one", "two"])
def test_a_sink_tells_producers_where_the_output_departs_that_it_has(node: str) -> None:
    host = sink(("one", "two"))
    host.hear("one", msgspec.structs.replace(data(chunk(0, [(10, 4)]), "f"), departs_ms=5))
    flush(host)
    host.wait(200)
    said = host.sent_to(node, Control)[-1].acks["f"]
    assert (said.furthest, said.departs_ms) == (Position(next_seq=4, watermark_ms=10), 5)


def test_a_state_of_a_generation_that_the_plan_has_yet_to_tell_counts() -> None:
    host, state = joining()
    host.hear("one", msgspec.structs.replace(state, generation=2))
    replica = host.core.replica_manager.replicas["f"].replica
    assert (replica.role, replica.generation) == (ReplicaRole.STANDBY, 2)


def test_a_state_that_comes_twice_is_installed_once() -> None:
    host, state = joining()
    host.hear("one", state)
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    host.commands.clear()
    host.hear("one", state)
    assert host.take(Report) == []
    assert host.core.replica_manager.replicas["f"].replica.output_watermark_ms == 10


def test_a_hole_at_the_primary_is_filled_by_the_standby() -> None:
    host = sink()
    host.hear("one", data(chunk(0, [(10, 2)]), "f"))
    host.hear("one", data(chunk(5, [(30, 1)]), "f"))
    holed = Position(next_seq=5, watermark_ms=20)
    host.hear("one", Subscribed(stream="f", position=holed, epoch=1, generation=1))
    host.commands.clear()
    host.hear("one", data(chunk(5, [(30, 1)]), "f"))
    (request,) = host.sent_to("two", Subscribe)
    assert request.feed
    here = Position(next_seq=2, watermark_ms=10)
    host.hear("two", Subscribed(stream="f", position=here, epoch=1, generation=1))
    host.hear("two", data(chunk(2, [(20, 3), (30, 1)]), "f"))
    assert delivered(host) == [2, 3, 4, 5]
    assert host.core.counters["tuples_lost"] == 0


@pytest.mark.parametrize(
    ("begun", "peer", "patience_us"),
    [(standby, "one", STANDBY_PATIENCE_US), (primary, "two", PATIENCE_US)],
)
def test_a_producer_that_does_not_answer_for_long_does_not_fill_a_hole(
    begun: Callable[[], Driven], peer: str, patience_us: int
) -> None:
    """A standby waits for less: its primary need not lack those tuples."""
    host = begun()
    role = "primary" if host.role is ReplicaRole.PRIMARY else "secondary"
    assignment = assignment_of(assigned(role, peer_replica=peer))
    host.assign(msgspec.structs.replace(assignment, producers={"s": ("site", "exit")}))
    host.hear("site", data(chunk(0, [(10, 2)])))
    began_us = host.now_us
    counters = host.core.counters
    while not counters["standbys_stopped"] + counters["discontinuities"]:
        host.hear("site", subscribed(5, 20))
        host.hear("site", data(chunk(5, [(30, 1)])))
        host.wait(50, hearing=peer)
    assert 0 <= host.now_us - began_us - patience_us <= 100_000
    assert counters["tuples_lost"] == (3 if role == "primary" else 0)


def test_standby_that_does_not_follow_its_primary_says_since_when() -> None:
    host, first = standby(), primary()
    first.hear("site", data(chunk(0, [(10, 2)])))
    first.work()
    first.commands.clear()
    first.wait(30)
    said = first.sent_to("two", Control)[0]
    assert said.watermarks_ms == {"f": 10}
    began_us = host.now_us
    for _ in range(60):
        host.hear("one", said)
        host.wait(20)
    lags = host.core.replica_statuses(host.now_us)["f"].lags_since_us
    assert lags == began_us
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.work()
    host.hear("one", said)
    assert host.core.replica_statuses(host.now_us)["f"].lags_since_us is None


def test_only_the_primary_of_the_own_fragment_says_how_far_a_standby_must_be() -> None:
    host = standby()
    assert all(not c.watermarks_ms for c in host.sent_to("one", Control))
    for _ in range(60):
        host.hear("exit", Control(watermarks_ms={"f": 10, "g": 10}))
        host.wait(20)
        host.core.heard("one", host.now_us)
    assert host.core.replica_statuses(host.now_us)["f"].lags_since_us is None


def refused_state_requests(host: Driven, other: Driven, ms: int) -> int:
    """How often a secondary asks for a state in some time, if it can read none of them."""
    requests = 0
    for _ in range(ms // 20):
        host.wait(20)
        asked = host.sent_to("one", SnapshotRequest)
        requests += len(asked)
        for each in asked:
            other.commands.clear()
            other.hear("two", each)
            (sound,) = other.sent_to("two", Snapshot)
            host.hear("one", msgspec.structs.replace(sound, state=SavedState.of([b"nonsense"])))
        host.core.heard("one", host.now_us)
    return requests


def test_a_replica_that_fails_again_and_again_rests_ever_longer() -> None:
    host, other = Driven("two"), primary()
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    host.hear("site", Subscribed(stream="s", position=Position(), epoch=1, generation=1))
    assert refused_state_requests(host, other, 8000) <= 5
    assert refused_state_requests(host, other, 8000) <= 1
    status = host.core.replica_statuses(host.now_us)["f"]
    assert status.failure is not None
    assert status.failure.startswith("snapshot refused: ")


def test_a_resting_replica_keeps_no_input_and_recovers_after_its_rest() -> None:
    host, other = standby(), primary()
    falling = replace(chunk(0, [(30, 1)]), watermarks_ms=chunk(0, [(20, 0)]).watermarks_ms)
    host.hear("site", data(falling))
    host.hear("site", Subscribed(stream="s", position=Position(), epoch=1, generation=1))
    replica = host.core.replica_manager.replicas["f"].replica
    host.commands.clear()
    host.hear("site", data(chunk(0, [(10, 4)])))
    assert (replica.role, replica.waiting_bytes_of("s")) == (ReplicaRole.WARMING, 0)
    assert host.take(SnapshotRequest) == []
    pass_time(host, 600)
    assert host.take(SnapshotRequest) == [SnapshotRequest(fragment="f")]
    host.hear("site", data(chunk(0, [(10, 4)])))
    other.commands.clear()
    other.hear("two", SnapshotRequest(fragment="f"))
    host.hear("one", other.sent_to("two", Snapshot)[0])
    host.work()
    assert (replica.role, replica.output_watermark_ms) == (ReplicaRole.STANDBY, 10)
    assert host.core.replica_statuses(host.now_us)["f"].failure is None


def test_input_that_waits_for_a_state_is_bounded() -> None:
    host, _ = joining()
    most_bytes = 4 * chunk(0, [(10, 4)]).size_bytes
    host.core.replica_manager.input_bytes = most_bytes
    replica = host.core.replica_manager.replicas["f"].replica
    for seq in range(0, 40, 4):
        host.hear("site", data(chunk(seq, [(seq + 10, 4)])))
        assert replica.waiting_bytes_of("s") <= most_bytes
    host.commands.clear()
    pass_time(host, 400)
    # It keeps the newest, and need not be sent the rest again.
    assert replica.waiting_bytes_of("s") == most_bytes
    assert host.sent_to("site", Subscribe) == []
