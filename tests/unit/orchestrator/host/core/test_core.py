"""What a host does after each event, without a clock or a socket."""

from __future__ import annotations

import msgspec
import pytest

from ha.messages import (
    Control,
    Data,
    Heartbeat,
    Ping,
    Pong,
    Snapshot,
    SnapshotRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from ha.replica import Replica
from ha.roles import ReplicaRole
from orchestrator.edges.events import Deliver, Durable, SinkFlushed, SinkOpened, SourceEmitted
from orchestrator.host.core.events import (
    CpuMeasured,
    EpochSuperseded,
    MessageArrived,
    PeerLost,
    RecordLoss,
    RecordTakeover,
    Report,
    Send,
    SetPeers,
)
from orchestrator.host.core.replica_manager import ABSENT_SINK_US
from orchestrator.records import (
    Assignment,
    ClusterRecord,
    Shed,
    SinkAssignment,
    SourceAssignment,
)
from orchestrator.records.speed import Speed
from streams.vectors.chunk import Chunk, Position
from tests.driven_host import (
    COLUMNS,
    MS,
    SETTINGS,
    STATEMENT,
    Driven,
    ack,
    assigned,
    assignment_of,
    data,
    peers,
    primary,
    sent_numbers,
    standby,
    subscribed,
)
from tests.quiet_host import fragment
from tests.streams_of_numbers import chunk, numbers


def test_source_sends_its_tuples_to_subscribers() -> None:
    host = Driven("site")
    source = SourceAssignment(stream="s", columns=COLUMNS, source=None, start_at_us=None)
    host.assign(
        Assignment(incarnation="1", sources=(source,), consumers={"s": ("one",)}, peers=peers())
    )
    part = chunk(0, [(10, 2)])
    entered = SourceEmitted(
        stream="s",
        rows=part.rows,
        watermarks_ms=part.watermarks_ms,
        ingestion_times_us=part.ingestion_times_us,
    )
    host.handle(entered)
    assert host.take(Data) == []
    host.hear("one", Subscribe(stream="s", position=None, generation=None))
    commands, host.commands = host.commands, []
    messages = [c.message for c in commands if isinstance(c, Send) and c.to == "one"]
    assert [type(message) for message in messages] == [Subscribed, Data]
    more = chunk(2, [(20, 1)])
    host.handle(
        SourceEmitted(
            stream="s",
            rows=more.rows,
            watermarks_ms=more.watermarks_ms,
            ingestion_times_us=more.ingestion_times_us,
        )
    )
    assert numbers([sent.chunk for sent in host.sent_to("one", Data)]) == [2]


def test_primary_evaluates_and_sends_and_acknowledges_processed_input() -> None:
    host = primary()
    assert host.take(SetPeers) == [SetPeers(peers=peers())]
    host.hear("site", data(chunk(0, [(10, 3), (20, 1)])))
    assert host.core.next_work_us is not None
    host.work()
    (sent,) = host.sent_to("exit", Data)
    assert sent.chunk.rows.column("number").to_pylist() == [2, 3]
    assert (sent.chunk.first_seq, sent.chunk.watermarks_ms.tolist()) == (0, [10, 20])
    host.wait(100)
    acks = [control.acks["s"] for control in host.sent_to("site", Control)]
    assert acks[-1].position == Position(next_seq=4, watermark_ms=20)


def test_a_fragment_at_the_end_of_a_task_may_go_while_the_one_before_it_can_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fragments(*names: str) -> Assignment:
        return Assignment(
            incarnation="1",
            fragments=tuple(
                fragment(name, reads) for name, reads in zip(names, "sf", strict=False)
            ),
            producers={"s": ("site",), "f": ("one",)},
            peers=peers(),
        )

    def can_go_on(_replica: Replica, _now_us: int) -> bool:
        return True

    host = Driven("one")
    host.assign(fragments("f", "g"))
    host.hear("site", subscribed())
    host.hear("site", data(chunk(0, [(10, 3)])))
    monkeypatch.setattr(Replica, "update_held_up", can_go_on)
    host.assign(fragments("f"))
    host.work()
    assert host.core.replica_manager.replicas["f"].replica.output_watermark_ms == 10


def test_repeated_tuples_are_dropped() -> None:
    host = primary()
    for _ in range(2):
        host.hear("site", data(chunk(0, [(10, 3)])))
    host.work()
    assert len(host.sent_to("exit", Data)) == 1
    assert host.core.counters["chunks_duplicate"] == 1


def test_a_chunk_without_subscription_is_counted() -> None:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 3)]), stream="other"))
    assert host.core.counters["chunks_unasked"] == 1


def test_standby_evaluates_but_sends_nothing() -> None:
    host = standby()
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    assert host.take(Data) == []
    assert host.core.replica_manager.replicas["f"].replica.output_watermark_ms == 10


def test_standby_takes_over_at_once_and_sends_unacknowledged_output() -> None:
    host = standby()
    host.hear("site", data(chunk(0, [(10, 4), (20, 2)])))
    host.work()
    host.hear("exit", ack(10, 2))
    host.commands.clear()
    host.handle(PeerLost(node="one"))
    lost_us = host.now_us
    (sent,) = host.sent_to("exit", Data)
    assert (sent.epoch, sent.chunk.first_seq, sent.chunk.watermarks_ms.tolist()) == (2, 2, [20])
    takeover = RecordTakeover(
        query="q",
        fragment="f",
        epoch=2,
        previous="one",
        cause="connection lost",
        detected_at_us=lost_us,
    )
    assert host.role is ReplicaRole.PRIMARY
    host.wait(4 * SETTINGS.heartbeat_ms, hearing="exit")
    assert host.take(RecordTakeover) == [takeover]


def test_a_takeover_is_recorded_once_another_host_is_heard_well_after_the_loss() -> None:
    """What was under way when all links broke says nothing."""
    host = standby()
    host.handle(PeerLost(node="one"))
    host.wait(SETTINGS.heartbeat_ms)
    host.core.heard("exit", host.now_us)
    host.wait(60_000)
    assert host.take(RecordTakeover) == []
    host.core.heard("exit", host.now_us)
    host.wait(SETTINGS.heartbeat_ms)
    assert len(host.take(RecordTakeover)) == 1


def test_a_takeover_is_recorded_once_the_store_says_that_the_peer_is_gone() -> None:
    host = standby()
    host.handle(PeerLost(node="one"))
    host.assign(
        assignment_of(assigned("secondary", peer_replica="one"), at=peers(("two", "site", "exit")))
    )
    assert len(host.take(RecordTakeover)) == 1


def test_a_lost_secondary_is_recorded_once_another_host_is_heard() -> None:
    host = Driven("one")
    host.assign(assignment_of(assigned("primary", peer_replica="two")))
    host.handle(PeerLost(node="two"))
    assert host.take(RecordLoss) == []
    host.wait(4 * SETTINGS.heartbeat_ms, hearing="site")
    (loss,) = host.take(RecordLoss)
    assert loss.lost == "two"


def behind_its_consumer() -> Driven:
    """A primary that has lost sight of its secondary, which had fed the sink more output."""
    host = primary()
    host.hear("exit", ack(10, 2))
    host.handle(PeerLost(node="two"))
    host.wait(4 * SETTINGS.heartbeat_ms, hearing="site")
    return host


def test_a_lost_secondary_that_was_ahead_is_not_recorded() -> None:
    """It may be alive: if it was replaced, nobody could continue what consumers have."""
    host = behind_its_consumer()
    assert host.take(RecordLoss) == []


def test_a_lost_secondary_that_was_ahead_is_recorded_once_the_primary_has_come_as_far() -> None:
    host = behind_its_consumer()
    lost_us = host.now_us
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    host.wait(SETTINGS.heartbeat_ms)
    (loss,) = host.take(RecordLoss)
    assert loss.lost == "two"
    assert loss.detected_at_us < lost_us


def test_a_secondary_that_was_ahead_and_is_heard_again_was_not_lost() -> None:
    host = behind_its_consumer()
    host.core.heard("two", host.now_us)
    host.wait(SETTINGS.heartbeat_ms)
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    host.wait(4 * SETTINGS.heartbeat_ms, hearing="site")
    assert host.take(RecordLoss) == []


def test_a_lost_secondary_that_was_ahead_is_recorded_once_the_store_says_that_it_is_gone() -> None:
    host = behind_its_consumer()
    host.assign(
        assignment_of(assigned("primary", peer_replica="two"), at=peers(("one", "site", "exit")))
    )
    (loss,) = host.take(RecordLoss)
    assert loss.lost == "two"


def test_a_takeover_is_not_recorded_for_a_replica_that_is_no_longer_there() -> None:
    host = standby()
    host.handle(PeerLost(node="one"))
    host.assign(assignment_of())
    host.wait(4 * SETTINGS.heartbeat_ms, hearing="exit")
    assert host.take(RecordTakeover) == []


def test_a_takeover_is_not_recorded_for_an_epoch_that_is_over() -> None:
    host = standby()
    host.handle(PeerLost(node="one"))
    host.handle(EpochSuperseded(fragment="f", epoch=3, primary="two"))
    host.wait(4 * SETTINGS.heartbeat_ms, hearing="exit")
    assert host.take(RecordTakeover) == []


def test_loss_of_somebody_else_changes_nothing() -> None:
    host = standby()
    host.handle(PeerLost(node="exit"))
    assert host.take(RecordTakeover) == []
    assert host.role is ReplicaRole.STANDBY


def test_a_secondary_without_state_does_not_take_over() -> None:
    host = Driven("two")
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    host.handle(PeerLost(node="one"))
    assert host.take(RecordTakeover) == []
    assert host.role is ReplicaRole.WARMING


def test_primary_outlives_its_secondary_without_a_new_epoch() -> None:
    host = primary()
    host.handle(PeerLost(node="two"))
    assert host.take(RecordTakeover) == []
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 1)


def test_silence_of_the_peer_replica_is_a_loss_and_a_heartbeat_is_not_silence() -> None:
    host = standby()
    for _ in range(20):
        host.wait(25)
        host.hear("one", Control(epochs={"f": 1}))
    assert host.role is ReplicaRole.STANDBY
    host.wait(SETTINGS.suspect_after_ms + 5 * SETTINGS.heartbeat_ms, hearing="exit")
    (takeover,) = host.take(RecordTakeover)
    assert takeover.cause == "silent"


def test_a_host_that_hears_nobody_is_cut_off_and_does_not_take_over() -> None:
    host = standby()
    host.wait(60_000)
    assert host.role is ReplicaRole.STANDBY


def test_peer_replica_gone_from_the_store_is_a_loss() -> None:
    host = standby()
    host.assign(
        assignment_of(assigned("secondary", peer_replica="one"), at=peers(("two", "site", "exit")))
    )
    (takeover,) = host.take(RecordTakeover)
    assert takeover.cause == "gone from the store"


def test_a_new_process_of_the_peer_replicas_node_is_a_loss() -> None:
    """It runs under the same name, and has none of the old one's state."""
    host = standby()
    host.assign(assignment_of(assigned("secondary", peer_replica="one"), at=peers(renewed="one")))
    (takeover,) = host.take(RecordTakeover)
    assert takeover.cause == "gone from the store"


def test_output_is_kept_for_a_sink_that_was_away_for_a_moment() -> None:
    host = Driven("one")
    mine = assigned("primary", peer_replica="two")
    host.assign(assignment_of(mine))
    host.hear("exit", Subscribe(stream="f", position=None, generation=None, patient=True))
    host.assign(assignment_of(mine, at=peers(("one", "two", "site"))))
    host.wait(1000)
    host.assign(assignment_of(mine))
    host.wait(ABSENT_SINK_US / MS + 1000)
    assert set(host.core.replica_manager.replicas["f"].replica.log.subscribers) == {"exit"}


def test_output_is_kept_for_a_sink_that_is_known_from_its_acknowledgement_only() -> None:
    host, exit_site = Driven("one"), Driven("exit")
    mine = assigned("primary", peer_replica="two")
    host.assign(assignment_of(mine))
    out = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100)
    exit_site.assign(
        Assignment(incarnation="1", sinks=(out,), producers={"f": ("one",)}, peers=peers())
    )
    kept = Durable(generation=1, position=Position(next_seq=2, watermark_ms=10))
    exit_site.handle(SinkOpened(stream="f", durable=kept))
    exit_site.hear("one", subscribed(2, 10, "f"))
    exit_site.commands.clear()
    exit_site.wait(100)
    host.hear("exit", exit_site.sent_to("one", Control)[0])
    host.assign(assignment_of(mine, at=peers(("one", "two", "site"))))
    host.wait(1000)
    assert set(host.core.replica_manager.replicas["f"].replica.log.subscribers) == {"exit"}


def test_output_is_not_kept_for_ever_for_a_sink_that_stays_away() -> None:
    host = Driven("one")
    mine = assigned("primary", peer_replica="two")
    host.assign(assignment_of(mine))
    host.hear("exit", Subscribe(stream="f", position=None, generation=None, patient=True))
    host.assign(assignment_of(mine, at=peers(("one", "two", "site"))))
    host.wait(ABSENT_SINK_US / MS - 1000)
    log = host.core.replica_manager.replicas["f"].replica.log
    assert set(log.subscribers) == {"exit"}
    host.wait(2000)
    assert set(log.subscribers) == set()


def primary_with_patient_sink(name: str = "exit") -> Driven:
    host = primary()
    host.assign(
        msgspec.structs.replace(
            assignment_of(assigned("primary", peer_replica="two")), consumers={"f": ("exit", name)}
        )
    )
    host.hear(name, Subscribe(stream="f", position=None, generation=None, patient=True))
    return host


def state_for(host: Driven, of: Driven) -> Snapshot:
    """Of `of`, for the host that has asked for it."""
    host.hear("site", subscribed())
    of.commands.clear()
    of.hear("two", SnapshotRequest(fragment="f"))
    (snapshot,) = of.sent_to("two", Snapshot)
    return snapshot


def test_a_new_secondary_gets_its_state_while_the_site_of_its_input_is_away() -> None:
    host, of = Driven("two"), primary()
    mine = assignment_of(assigned("secondary", peer_replica="one"))
    host.assign(msgspec.structs.replace(mine, producers={"s": ()}))
    assert host.sent_to("one", SnapshotRequest) == [SnapshotRequest(fragment="f")]
    of.hear("site", data(chunk(0, [(10, 3)])))
    of.work()
    of.commands.clear()
    of.hear("two", SnapshotRequest(fragment="f"))
    host.hear("one", of.sent_to("two", Snapshot)[0])
    assert host.role is ReplicaRole.STANDBY
    host.assign(mine)
    (request,) = host.sent_to("site", Subscribe)
    assert request.position == Position(next_seq=3, watermark_ms=10)


def test_a_primary_whose_input_has_yet_to_begin_gives_nobody_its_state() -> None:
    """Its site is away. Who took over with that would take the beginning for a discontinuity."""
    host = Driven("one")
    host.assign(assignment_of(assigned("primary", peer_replica="two")))
    host.hear("two", SnapshotRequest(fragment="f"))
    assert host.sent_to("two", Snapshot) == []
    host.hear("site", subscribed(5, 40))
    host.work()
    host.hear("two", SnapshotRequest(fragment="f"))
    assert len(host.sent_to("two", Snapshot)) == 1


def test_output_is_not_kept_for_ever_for_a_sink_that_was_away_before_the_host_came() -> None:
    """It knows of the sink from its peer replica's state only."""
    host, of = Driven("two"), primary_with_patient_sink()
    mine = assigned("secondary", peer_replica="one")
    host.assign(assignment_of(mine, at=peers(("one", "two", "site"))))
    host.hear("one", state_for(host, of))
    log = host.core.replica_manager.replicas["f"].replica.log
    host.wait(ABSENT_SINK_US / MS - 1000, hearing="one")
    assert set(log.subscribers) == {"exit"}
    host.wait(2000, hearing="one")
    assert set(log.subscribers) == set()


def test_a_state_does_not_bring_back_a_consumer_that_has_gone_since_it_was_written() -> None:
    host, of = Driven("two"), primary_with_patient_sink("other")
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    host.hear("one", state_for(host, of))
    log = host.core.replica_manager.replicas["f"].replica.log
    assert set(log.subscribers) == {"exit"}


def test_a_state_does_not_make_readers_for_a_stream_that_has_none() -> None:
    """Checkpoints of a stream that nobody reads wait for nobody."""
    host, of = Driven("two"), primary_with_patient_sink()
    mine = assignment_of(assigned("secondary", peer_replica="one"))
    host.assign(msgspec.structs.replace(mine, consumers={"f": ()}))
    host.hear("one", state_for(host, of))
    log = host.core.replica_manager.replicas["f"].replica.log
    assert log.acknowledged_by_all == log.end


def test_a_promoted_secondary_without_state_says_that_it_cannot_be_primary() -> None:
    host = Driven("two")
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    host.commands.clear()
    host.assign(assignment_of(assigned("primary", epoch=2, peer_replica="one")))
    assert host.role is ReplicaRole.WARMING
    assert "cannot be primary" in [r.kind for r in host.take(Report)]


def test_primary_steps_down_when_a_consumer_knows_a_newer_epoch() -> None:
    host = primary()
    host.hear("exit", ack(0, 0, epoch=2))
    assert (host.role, host.epoch) == (ReplicaRole.STANDBY, 2)
    assert host.core.counters["demotions"] == 1
    host.hear("site", data(chunk(0, [(10, 3)])))
    host.work()
    assert host.take(Data) == []


def test_primary_steps_down_when_its_peer_replica_or_the_store_knows_a_newer_epoch() -> None:
    for event in (
        MessageArrived(sender="two", message=Control(epochs={"f": 5})),
        EpochSuperseded(fragment="f", epoch=5, primary="two"),
    ):
        host = primary()
        host.handle(event)
        assert (host.role, host.epoch) == (ReplicaRole.STANDBY, 5)


def test_primary_steps_down_when_the_store_has_given_its_epoch_to_another() -> None:
    host = standby()
    host.handle(PeerLost(node="one"))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 2)
    host.handle(EpochSuperseded(fragment="f", epoch=1, primary="two"))
    assert host.role is ReplicaRole.PRIMARY
    host.handle(EpochSuperseded(fragment="f", epoch=2, primary="three"))
    assert (host.role, host.epoch) == (ReplicaRole.STANDBY, 2)
    # Its assignment still names the former primary, whose loss tells nothing of the present one.
    host.handle(PeerLost(node="one"))
    assert (host.role, host.epoch) == (ReplicaRole.STANDBY, 2)
    host.handle(PeerLost(node="three"))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 3)


def test_an_older_epoch_is_no_reason_to_step_down() -> None:
    host = standby()
    host.handle(PeerLost(node="one"))
    host.hear("one", Control(epochs={"f": 1}))
    host.hear("exit", ack(0, 0, epoch=1))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 2)


def test_heartbeats_tell_the_peer_replica_the_epoch() -> None:
    host = primary()
    host.commands.clear()
    host.wait(SETTINGS.ack_interval_ms)
    assert Control(epochs={"f": 1}) in host.sent_to("two", Control)


def test_heartbeats_between_two_acknowledgement_intervals_are_mere_signs_of_life() -> None:
    host = primary()
    host.commands.clear()
    host.wait(4 * SETTINGS.ack_interval_ms)
    told = host.sent_to("two", object)
    assert len(told) >= 8
    # A probe is a sign of life too.
    assert sum(isinstance(each, Heartbeat | Ping) for each in told) >= 4


def test_a_host_that_is_late_tells_its_peer_replica_and_is_given_more_time() -> None:
    host, peer = primary(), standby()
    host.wait(SETTINGS.heartbeat_ms)
    host.now_us += 200_000
    host.commands.clear()
    host.wait(2 * SETTINGS.heartbeat_ms)
    told = host.sent_to("two", Control)[-1]
    assert told.lag_us > 150_000
    peer.hear("one", told)
    peer.wait(SETTINGS.suspect_after_ms + 4 * SETTINGS.heartbeat_ms, hearing="exit")
    assert peer.role is ReplicaRole.STANDBY
    peer.wait(8 * SETTINGS.suspect_after_ms, hearing="exit")
    assert peer.role is ReplicaRole.PRIMARY


def test_state_of_a_primary_that_has_received_nothing_tells_from_where_it_reads() -> None:
    """It is founded in the middle of a stream: its peer replica must not read what lies before."""
    middle = Position(next_seq=44, watermark_ms=500)
    host = Driven("one")
    host.assign(assignment_of(assigned("primary", peer_replica="two")))
    host.hear("site", Subscribed(stream="s", position=middle, epoch=1, generation=1))
    host.hear("two", SnapshotRequest(fragment="f"))
    assert host.sent_to("two", Snapshot) == [], "the state does not know it yet"
    host.work()
    host.hear("two", SnapshotRequest(fragment="f"))
    (snapshot,) = host.sent_to("two", Snapshot)
    assert snapshot.inputs == {"s": (1, middle)}
    # What the peer continues from holds, though another producer's log begins later.
    later = Position(next_seq=50, watermark_ms=600)
    host.hear("site", Subscribed(stream="s", position=later, epoch=1, generation=1))
    host.wait(SETTINGS.ack_interval_ms)
    acks = [each.acks["s"] for each in host.sent_to("site", Control) if "s" in each.acks]
    assert {each.position for each in acks} == {middle}


def warming_with_little_memory() -> Driven:
    """A new secondary that keeps one large chunk of its input, until another one comes."""
    host = Driven("two", msgspec.structs.replace(SETTINGS, memory_bytes=4096))
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    host.hear("site", subscribed())
    host.hear("site", data(chunk(0, [(10 + i, 3) for i in range(200)])))
    return host


def test_a_secondary_waits_with_one_chunk_that_is_larger_than_its_part_of_the_memory() -> None:
    host = warming_with_little_memory()
    host.hear("one", state_after([(10, 3)]))
    assert host.role is ReplicaRole.STANDBY


def test_a_new_secondary_keeps_the_newest_of_what_it_cannot_keep_whole() -> None:
    """Were it to start over, it would be sent the same again, for as long as producers keep it."""
    host = warming_with_little_memory()
    host.hear("site", data(chunk(600, [(500, 3)])))
    host.commands.clear()
    host.hear("one", state_after([(10, 3)]))
    assert host.role is ReplicaRole.WARMING, "what follows that state is not here any more"
    assert host.sent_to("site", Subscribe) == []
    host.hear("one", state_after([(10 + i, 3) for i in range(200)]))
    assert host.role is ReplicaRole.STANDBY
    host.work()
    replica = host.core.replica_manager.replicas["f"].replica
    assert replica.processed() == {"s": Position(next_seq=603, watermark_ms=500)}


def test_a_state_must_contain_dropped_timestamps_even_if_nothing_entered_in_them() -> None:
    host = warming_with_little_memory()
    first = [(10 + i, 3) for i in range(200)]
    host.hear("site", data(chunk(600, [(500, 0), (510, 0)])))
    host.hear("site", data(chunk(600, [(520 + i, 3) for i in range(200)])))
    host.hear("one", state_after([*first, (500, 0)]))
    assert host.role is ReplicaRole.WARMING
    host.hear("one", state_after([*first, (500, 0), (510, 0)]))
    assert host.role is ReplicaRole.STANDBY


def state_after(groups: list[tuple[int, int]]) -> Snapshot:
    """The state of a primary that has processed these timestamps, each with so many tuples."""
    one = primary()
    one.hear("site", data(chunk(0, groups)))
    one.work()
    one.hear("two", SnapshotRequest(fragment="f"))
    (snapshot,) = one.sent_to("two", Snapshot)
    return snapshot


def test_new_secondary_joins_the_snapshot_to_input_received_meanwhile() -> None:
    peer_replica = primary()
    peer_replica.hear("site", data(chunk(0, [(10, 3)])))
    peer_replica.work()
    host = Driven("two")
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    host.hear("site", subscribed())
    host.hear("site", data(chunk(0, [(10, 3), (20, 2)])))
    assert host.core.next_work_us is None
    peer_replica.commands.clear()
    peer_replica.hear("two", SnapshotRequest(fragment="f"))
    host.hear("one", peer_replica.sent_to("two", Snapshot)[0])
    assert host.role is ReplicaRole.STANDBY
    host.work()
    host.commands.clear()
    host.handle(PeerLost(node="one"))
    assert [
        n for d in host.sent_to("exit", Data) for n in d.chunk.rows.column("number").to_pylist()
    ] == [
        2,
        3,
        4,
    ]


def test_a_peer_replica_without_state_gives_none_and_is_asked_again() -> None:
    host = Driven("two")
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    host.hear("site", subscribed())
    host.commands.clear()
    host.hear("one", SnapshotRequest(fragment="f"))
    assert host.take(Snapshot) == []
    host.wait(600)
    assert len(host.sent_to("one", SnapshotRequest)) == 1


def test_a_state_that_is_being_read_is_not_asked_for_again() -> None:
    host = Driven("two")
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    host.hear("site", subscribed())
    host.commands.clear()
    for _ in range(10):
        host.core.snapshot_is_here("f", host.now_us)
        host.wait(200)
    assert host.sent_to("one", SnapshotRequest) == []
    host.wait(600)
    assert len(host.sent_to("one", SnapshotRequest)) >= 1


def test_a_gap_is_asked_for_from_where_the_replica_stands() -> None:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.commands.clear()
    host.hear("site", data(chunk(5, [(30, 1)])))
    (request,) = host.sent_to("site", Subscribe)
    assert request.position == Position(next_seq=2, watermark_ms=10)
    host.hear("site", subscribed(2, 10))
    host.hear("site", data(chunk(2, [(20, 3), (30, 1)])))
    host.work()
    sent = [
        n for d in host.sent_to("exit", Data) for n in d.chunk.rows.column("number").to_pylist()
    ]
    assert sent == [2, 3, 4, 5]


def test_primary_continues_after_a_gap_that_no_producer_can_fill_and_reports_it() -> None:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.hear("site", data(chunk(5, [(30, 1)])))
    host.hear("site", subscribed(5, 20))
    host.hear("site", data(chunk(5, [(30, 1)])))
    host.work()
    assert host.core.counters["tuples_lost"] == 3
    reports = [(r.kind, r.subject) for r in host.take(Report)]
    assert ("input lost", "s") in reports


def test_standby_with_a_hole_fetches_the_state_of_its_primary_and_keeps_its_own_until_then() -> (
    None
):
    host, other = standby(), primary()
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.hear("site", data(chunk(5, [(30, 1)])))
    host.hear("site", subscribed(5, 20))
    host.hear("site", data(chunk(5, [(30, 1)])))
    assert host.role is ReplicaRole.STANDBY
    assert (host.core.counters["standbys_stopped"], host.core.counters["tuples_lost"]) == (1, 0)
    host.hear("site", subscribed(5, 20))
    assert host.sent_to("one", SnapshotRequest) == [SnapshotRequest(fragment="f")]
    other.hear("site", data(chunk(0, [(10, 2), (20, 3), (30, 1)])))
    other.work()
    other.commands.clear()
    other.hear("two", SnapshotRequest(fragment="f"))
    host.hear("one", other.sent_to("two", Snapshot)[0])
    assert host.role is ReplicaRole.STANDBY
    assert host.sent_to("site", Subscribe)[-1].position == Position(next_seq=6, watermark_ms=30)


def test_sink_delivers_once_and_in_order() -> None:
    host = Driven("exit")
    sink = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100)
    host.assign(
        Assignment(incarnation="1", sinks=(sink,), producers={"f": ("one", "two")}, peers=peers())
    )
    assert host.take(Subscribe) == []
    host.handle(SinkOpened(stream="f", durable=None))
    assert len(host.take(Subscribe)) == 2
    host.hear("one", subscribed(stream="f"))
    host.hear("two", subscribed(stream="f"))
    host.hear("one", data(chunk(0, [(10, 2)]), "f"))
    host.hear("two", data(chunk(0, [(10, 2), (20, 1)]), "f", epoch=2))
    host.hear("one", data(chunk(2, [(20, 1)]), "f"))
    delivered = host.take(Deliver)
    assert numbers([each.chunk for each in delivered]) == [0, 1, 2]
    host.wait(100)
    acks = [c.acks["f"] for c in host.sent_to("one", Control) if c.acks]
    assert {each.position for each in acks} == {Position()}
    host.commands.clear()
    kept = delivered[-1].end
    host.handle(SinkFlushed(stream="f", durable=kept))
    host.wait(100)
    acks = [c.acks["f"] for c in host.sent_to("one", Control) if c.acks]
    assert {(each.position, each.epoch) for each in acks} == {(kept.position, 2)}


def test_probe_is_answered() -> None:
    host = primary()
    host.commands.clear()
    host.hear("two", Ping(sent_us=7))
    (pong,) = host.sent_to("two", Pong)
    assert pong.sent_us == 7


def test_replica_no_longer_assigned_is_stopped_and_its_producers_are_told() -> None:
    host = primary()
    host.commands.clear()
    host.assign(assignment_of())
    assert host.sent_to("site", Unsubscribe) == [Unsubscribe(stream="s")]
    assert host.core.replica_statuses(host.now_us) == {}


def test_replica_that_was_replaced_steps_down_and_keeps_its_state() -> None:
    host = standby()
    host.handle(PeerLost(node="one"))
    acting = host.core.replica_statuses(host.now_us)["f"]
    host.handle(EpochSuperseded(fragment="f", epoch=acting.epoch, primary="one"))
    status = host.core.replica_statuses(host.now_us)["f"]
    assert (acting.role, status.role) == (ReplicaRole.PRIMARY, ReplicaRole.STANDBY)
    assert (status.epoch, status.generation) == (acting.epoch, acting.generation)


def test_roles_follow_newer_epochs_of_the_plan_and_ignore_older_ones() -> None:
    host = primary()
    host.assign(assignment_of(assigned("secondary", epoch=1, peer_replica="two")))
    assert host.role is ReplicaRole.PRIMARY
    host.assign(assignment_of(assigned("secondary", epoch=2, peer_replica="two")))
    host.hear("two", Control(epochs={"f": 2}))
    assert (host.role, host.epoch) == (ReplicaRole.STANDBY, 2)
    host.assign(assignment_of(assigned("primary", epoch=3, peer_replica="two")))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 3)


def test_a_new_generation_begins_from_nothing() -> None:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    host.assign(assignment_of(assigned("primary", epoch=2, generation=2, peer_replica="two")))
    replica = host.core.replica_manager.replicas["f"].replica
    assert (replica.generation, replica.log.end) == (2, Position())


def test_state_is_founded_only_in_the_epoch_that_its_generation_is_named_after() -> None:
    """A host that stopped its replica, and is then listed as primary, must not number from 0."""
    host = Driven("one")
    host.assign(assignment_of(assigned("primary", epoch=2, generation=1, peer_replica="two")))
    assert host.role is ReplicaRole.WARMING
    assert "cannot be primary" in [r.kind for r in host.take(Report)]
    host.assign(assignment_of(assigned("primary", epoch=3, generation=3, peer_replica="two")))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 3)


def test_a_fragment_may_begin_in_the_middle_of_a_stream() -> None:
    host = Driven("one")
    host.assign(assignment_of(assigned("primary", peer_replica="two")))
    host.hear("site", subscribed(40, 400))
    host.hear("exit", Subscribe(stream="f", position=None, generation=None))
    host.hear("site", data(chunk(40, [(410, 2)])))
    host.work()
    (sent,) = host.sent_to("exit", Data)
    assert (sent.chunk.first_seq, sent.chunk.rows.column("number").to_pylist()) == (0, [40, 41])


FOLLOWER = "REGISTER QUERY g RSTREAM(SELECT number FROM f [NOW] WHERE number >= 3);"


def chained(settings: ClusterRecord = SETTINGS) -> Driven:
    """Primary of `f` and of `g`, which reads it, on `one`; only `g` goes to the sink."""
    made = Driven("one", settings)
    first = msgspec.structs.replace(
        assigned("primary", peer_replica="two"), readers_ms={"g": 200.0}
    )
    second = msgspec.structs.replace(
        first,
        fragment="g",
        statement=FOLLOWER,
        inputs={"f": COLUMNS},
        readers_ms={"sink:g": 200.0},
    )
    made.assign(
        Assignment(
            incarnation="1",
            fragments=(first, second),
            producers={"s": ("site",), "f": ("one", "two")},
            consumers={"f": ("one",), "g": ("exit",)},
            peers=peers(),
        )
    )
    made.hear("site", subscribed())
    made.hear("exit", Subscribe(stream="g", position=None, generation=None))
    return made


def test_messages_of_a_host_to_itself_are_handled_and_not_sent() -> None:
    host = chained()
    host.work()
    host.hear("site", data(chunk(0, [(10, 5)])))
    host.work()
    host.wait(200)
    assert [c for c in host.commands if isinstance(c, Send) and c.to == "one"] == []
    assert sent_numbers(host) == [3, 4]


def test_messages_of_a_host_to_itself_count_as_work() -> None:
    host = chained()
    host.hear("site", data(chunk(0, [(10, 4)])))
    assert host.core.work(host.now_us).fragment == "f"
    assert host.core.next_work_us == 0
    assert host.core.work(host.now_us).fragment == "g"
    assert host.core.next_work_us is None


def test_evaluation_has_the_stated_cost_if_costs_are_emulated() -> None:
    for emulate, cost_us in ((True, 4 * 20.0), (False, None)):
        host = chained(ClusterRecord(name="c", delays_ms={}, emulate_costs=emulate))
        host.work()
        host.hear("site", data(chunk(0, [(10, 4)])))
        worked = host.core.work(host.now_us)
        assert (worked.fragment, worked.tuples, worked.timestamp_groups) == ("f", 4, 1)
        assert worked.emulated_us == cost_us


def test_watermarks_without_tuples_run_down_a_chain_in_one_turn() -> None:
    host = chained()
    host.work()
    host.hear("site", data(chunk(0, [(10, 0)])))
    worked = host.core.work(host.now_us)
    assert worked.fragment is None
    sent = [c.message for c in worked.commands if isinstance(c, Send) and c.to == "exit"]
    assert [m.chunk.watermarks_ms.tolist() for m in sent if isinstance(m, Data)] == [[10]]
    assert host.core.next_work_us is None


def test_measured_costs_are_reported() -> None:
    host = primary()
    assert host.core.replica_statuses(host.now_us)["f"].cost is None
    for timestamp_group in range(1, 41):
        host.hear("site", data(chunk(4 * (timestamp_group - 1), [(10 * timestamp_group, 4)])))
        host.now_us += 20 * MS
        host.core.charge(host.core.work(host.now_us), 4 * 500.0)
    cost = host.core.replica_statuses(host.now_us)["f"].cost
    assert cost is not None
    assert cost.samples == 40
    assert cost.fixed_us + 4 * cost.per_tuple_us == pytest.approx(2000.0, rel=0.05)


def test_batches_rest_for_the_clusters_interval() -> None:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 1)])))
    assert host.core.next_work_us == 0
    began_us = host.now_us
    host.core.work(host.now_us)
    host.now_us += 1 * MS
    host.hear("site", data(chunk(1, [(20, 1)])))
    assert host.core.next_work_us == began_us + round(SETTINGS.batch_ms * MS)


def test_takeover_makes_its_work_urgent() -> None:
    """A standby's work is due within its lag, a primary's within its sub-deadline."""
    host = Driven("two")
    spare = msgspec.structs.replace(
        assigned("secondary", peer_replica="one"), standby_lag_ms=5000.0
    )
    other = msgspec.structs.replace(
        assigned("primary", peer_replica="site"),
        fragment="g",
        statement=STATEMENT.replace("QUERY f", "QUERY g"),
        sub_deadline_ms=1000.0,
        readers_ms={"sink:g": 2000.0},
    )
    host.assign(assignment_of(spare, other))
    host.hear("site", subscribed())
    peer_replica = primary()
    peer_replica.commands.clear()
    peer_replica.hear("two", SnapshotRequest(fragment="f"))
    host.hear("one", peer_replica.sent_to("two", Snapshot)[0])
    host.hear("site", data(chunk(0, [(10, 2)])))
    assert host.core.work(host.now_us).fragment == "g"
    host.now_us += 20 * MS
    host.hear("site", data(chunk(2, [(20, 2)])))
    host.handle(PeerLost(node="one"))
    assert host.core.work(host.now_us).fragment == "f"


def entering(shed: Shed | None) -> Driven:
    host = Driven("site")
    source = SourceAssignment(stream="s", columns=COLUMNS, source=None, start_at_us=None, shed=shed)
    host.assign(
        Assignment(incarnation="1", sources=(source,), consumers={"s": ("one",)}, peers=peers())
    )
    host.hear("one", Subscribe(stream="s", position=None, generation=None))
    host.commands.clear()
    return host


def enter(host: Driven, part: Chunk) -> None:
    host.handle(
        SourceEmitted(
            stream="s",
            rows=part.rows,
            watermarks_ms=part.watermarks_ms,
            ingestion_times_us=part.ingestion_times_us,
        )
    )


def test_shed_tuples_are_counted_and_never_numbered() -> None:
    host = entering(Shed(tuples=3, per_ms=100.0, value="number % 4"))
    enter(host, chunk(0, [(10, 6)]))
    (sent,) = host.sent_to("one", Data)
    # 0 … 5 are worth 0 1 2 3 0 1: the three best are in their order; watermarks stay.
    assert numbers([sent.chunk]) == [1, 2, 3]
    assert (sent.chunk.first_seq, sent.chunk.watermarks_ms.tolist()) == (0, [10])
    host.now_us += 99 * MS
    enter(host, chunk(6, [(20, 2)]))
    assert numbers([d.chunk for d in host.sent_to("one", Data)]) == []
    status = host.core.replica_manager.sources["s"].status
    assert (status.next_seq, status.shed) == (3, 5)
    host.now_us += 1 * MS
    enter(host, chunk(8, [(30, 2)]))
    assert numbers([d.chunk for d in host.sent_to("one", Data)]) == [8, 9]
    status = host.core.replica_manager.sources["s"].status
    assert (status.next_seq, status.shed) == (5, 5)


def test_a_stream_without_shedder_lets_everything_in() -> None:
    host = entering(None)
    enter(host, chunk(0, [(10, 500)]))
    status = host.core.replica_manager.sources["s"].status
    assert (status.next_seq, status.shed) == (500, 0)


def test_a_statement_that_cannot_be_compiled_is_reported_and_the_rest_begins() -> None:
    """The coordinator could compile it, so it runs another version of the software."""
    host, good = Driven("one"), assigned("primary", peer_replica="two")
    newer = msgspec.structs.replace(good, fragment="g", statement="REGISTER QUERY g SOON(s);")
    host.assign(assignment_of(newer, good))
    assert ("assignment refused", "g") in {(r.kind, r.subject) for r in host.take(Report)}
    assert list(host.core.replica_manager.replicas) == ["f"]
    assert host.role is ReplicaRole.PRIMARY


def test_a_value_that_cannot_be_understood_is_reported_and_the_rest_begins() -> None:
    host = Driven("site")
    shed = Shed(tuples=3, per_ms=100.0, value="nubmer")
    wrong = SourceAssignment(stream="s", columns=COLUMNS, source=None, start_at_us=None, shed=shed)
    right = SourceAssignment(stream="t", columns=COLUMNS, source=None, start_at_us=None)
    host.assign(Assignment(incarnation="1", sources=(wrong, right), peers=peers()))
    reports = [(r.kind, r.subject) for r in host.take(Report)]
    assert reports == [("assignment refused", "s"), ("started", "t")]
    assert set(host.core.replica_manager.sources) == {"t"}


def test_a_message_counts_as_a_sign_of_life_when_it_arrives_not_when_it_is_handled() -> None:
    host = standby()
    message = MessageArrived(sender="one", message=Control(epochs={"f": 1}))
    host.wait(140, hearing="exit")
    host.core.heard("one", host.now_us)
    host.wait(140, hearing="exit")
    assert host.take(RecordTakeover) == []
    host.handle(message)
    host.wait(150, hearing="exit")
    assert len(host.take(RecordTakeover)) == 1


def of_many(count: int, sub_deadline_ms: float = 100.0) -> Assignment:
    mine = assigned("primary", peer_replica="two")
    return assignment_of(
        *(
            msgspec.structs.replace(mine, fragment=f"f{number}", sub_deadline_ms=sub_deadline_ms)
            for number in range(count)
        )
    )


@pytest.mark.parametrize(("replicas", "pause_us"), [(0, 0), (1, 300), (10, 3_000), (200, 8_333)])
def test_messages_gather_for_longer_on_a_host_with_more_replicas(
    replicas: int, pause_us: int
) -> None:
    host = Driven("one")
    host.assign(of_many(replicas))
    assert host.core.pause_us == pause_us


def test_messages_gather_for_longer_where_a_turn_takes_longer() -> None:
    host = Driven("one")
    host.assign(of_many(5))
    assert host.core.pause_us == 1_500
    host.core.handle(CpuMeasured(load=0.1, speed=Speed(ratio=0.5, busy=0.9)), host.now_us)
    assert host.core.pause_us == 6_000


def test_messages_gather_for_a_small_part_of_the_tightest_sub_deadline() -> None:
    host = Driven("one")
    host.assign(of_many(100, sub_deadline_ms=24.0))
    assert host.core.pause_us == 2_000


@pytest.mark.parametrize(("replicas", "looks"), [(15, 8), (16, 4)])
def test_a_host_with_many_streams_looks_more_rarely_for_subscribers_that_lack_output(
    replicas: int, looks: int
) -> None:
    host = Driven("one")
    assignment = of_many(replicas)
    host.assign(msgspec.structs.replace(assignment, consumers={"f0": ("exit",)}))
    host.hear("exit", Subscribe(stream="f0", position=None, generation=None))
    host.wait(8 * SETTINGS.ack_interval_ms - 1)
    subscriber = host.core.replica_manager.replicas["f0"].replica.log.subscribers["exit"]
    assert len(subscriber.ends_ms) == looks


def test_messages_for_sinks_gather_for_a_small_part_of_their_deadline() -> None:
    host = Driven("exit")
    sinks = tuple(
        SinkAssignment(stream=f"f{number}", columns=COLUMNS, deadline_ms=deadline_ms)
        for number, deadline_ms in enumerate([100, *[500] * 99])
    )
    host.assign(Assignment(incarnation="1", sinks=sinks, peers=peers()))
    assert host.core.pause_us == 1_000


def test_nothing_gathers_where_nothing_is_batched() -> None:
    host = Driven("one", msgspec.structs.replace(SETTINGS, batch_ms=0.0))
    host.assign(of_many(100))
    assert host.core.pause_us == 0


@pytest.mark.parametrize("wanted", [{"fahrenheit": "0" * 16}, {"celsius": "1" * 16}])
def test_a_replica_whose_functions_have_other_code_is_refused(wanted: dict[str, str]) -> None:
    host, good = Driven("one"), assigned("primary", peer_replica="two")
    host.assign(assignment_of(msgspec.structs.replace(good, functions=wanted)))
    (told,) = [each for each in host.take(Report) if each.kind == "assignment refused"]
    (name,) = wanted
    assert f"function {name} has code None here" in told.detail
    assert not host.core.replica_manager.replicas
