"""A stream that two sites bring in: roles of sources, as of replicas."""

from __future__ import annotations

import msgspec

from ha.messages import Ack, Control, Data, Subscribe
from ha.roles import ReplicaRole
from orchestrator.edges.events import SourceEmitted, SourceFailed, SourceOpened, SourceWaits, Wanted
from orchestrator.host.core.events import PeerLost
from orchestrator.host.core.hosted_streams import HostedSource
from orchestrator.records import Assignment, Guarantee, SourceAssignment, SourceSpec
from streams.vectors.chunk import Chunk, Position
from tests.driven_host import COLUMNS, Driven, peers
from tests.streams_of_numbers import chunk, numbers

RECORDED = SourceSpec(driver="replay", guarantee=Guarantee.REPLAYABLE)


def assignment(role: str, *, epoch: int = 1, peer: str = "exit") -> Assignment:
    source = SourceAssignment(
        stream="s",
        columns=COLUMNS,
        source=RECORDED,
        start_at_us=0,
        role="primary" if role == "primary" else "secondary",
        epoch=epoch,
        peer_site=peer,
    )
    return Assignment(
        incarnation="1", sources=(source,), consumers={"s": ("one", "two")}, peers=peers()
    )


def opened(role: str, *, at: Position | None = None) -> Driven:
    host = Driven("site")
    host.assign(assignment(role))
    host.handle(SourceOpened(stream="s", position=at or Position()))
    host.hear("one", Subscribe(stream="s", position=Position(), generation=1, demands=True))
    host.commands.clear()
    return host


def enter(host: Driven, part: Chunk) -> None:
    event = SourceEmitted(
        stream="s",
        rows=part.rows,
        watermarks_ms=part.watermarks_ms,
        ingestion_times_us=part.ingestion_times_us,
    )
    host.handle(event)


def source_of(host: Driven) -> HostedSource:
    return host.core.replica_manager.sources["s"]


def sent(host: Driven) -> list[int]:
    return numbers([each.chunk for each in host.sent_to("one", Data)])


def test_a_standby_keeps_what_it_reads_and_sends_it_when_the_primary_is_lost() -> None:
    host = opened("secondary")
    enter(host, chunk(0, [(10, 2)]))
    assert sent(host) == []
    ack = Ack(position=Position(next_seq=2, watermark_ms=10), epoch=1, generation=1)
    host.hear("one", Control(acks={"s": ack}))
    enter(host, chunk(2, [(20, 2)]))
    host.handle(PeerLost(node="exit"))
    # What the consumer has acknowledged is not sent again.
    assert sent(host) == [2, 3]
    assert (source_of(host).role, source_of(host).epoch) == (ReplicaRole.PRIMARY, 2)


def test_a_takeover_is_reported_once_another_host_is_heard() -> None:
    host = opened("secondary")
    host.handle(PeerLost(node="exit"))
    told = source_of(host).status
    assert (told.role, told.epoch) == (ReplicaRole.STANDBY, 1)
    host.wait(50)
    assert source_of(host).status.role is ReplicaRole.STANDBY
    host.wait(50, hearing="one")
    told = source_of(host).status
    assert (told.role, told.epoch) == (ReplicaRole.PRIMARY, 2)


def test_a_standby_reads_again_only_what_it_is_to_send() -> None:
    host = opened("secondary", at=Position(next_seq=5, watermark_ms=50))
    assert host.core.wanted() == []
    host.handle(PeerLost(node="exit"))
    until = Position(next_seq=5, watermark_ms=50)
    assert host.core.wanted() == [Wanted("s", "one", Position(), until)]


def test_a_silent_primary_is_succeeded() -> None:
    host = opened("secondary")
    host.hear("exit", Control(epochs={"s": 1}))
    host.wait(3000, hearing="one")
    assert source_of(host).feeds_subscribers


def test_a_site_that_has_yet_to_hear_the_other_one_does_not_take_over_from_its_silence() -> None:
    host = opened("secondary")
    host.wait(3000, hearing="one")
    assert not source_of(host).feeds_subscribers
    host.hear("exit", Control(epochs={"s": 1}))
    host.wait(3000, hearing="one")
    assert source_of(host).feeds_subscribers


def test_a_site_that_never_heard_the_other_one_takes_over_once_that_has_left_the_store() -> None:
    host = opened("secondary")
    host.wait(3000, hearing="one")
    left = tuple(peer for peer in peers() if peer.node != "exit")
    host.assign(msgspec.structs.replace(assignment("secondary"), peers=left))
    assert source_of(host).feeds_subscribers


def test_a_former_primary_stands_by_once_its_successor_has_come_as_far() -> None:
    host = opened("primary")
    enter(host, chunk(0, [(10, 2)]))
    host.hear("exit", Control(epochs={"s": 2}, watermarks_ms={"s": 9}))
    known = Position(next_seq=2, watermark_ms=10)
    ack = Ack(position=known, epoch=2, generation=1, demanded=known)
    host.hear("one", Control(acks={"s": ack}))
    assert source_of(host).feeds_subscribers
    host.hear("exit", Control(epochs={"s": 2}, watermarks_ms={"s": 10}))
    assert (source_of(host).role, source_of(host).epoch) == (ReplicaRole.STANDBY, 2)
    host.commands.clear()
    enter(host, chunk(2, [(20, 2)]))
    assert sent(host) == []


def test_the_two_sites_tell_each_other_epoch_and_progress() -> None:
    host = opened("primary")
    enter(host, chunk(0, [(10, 2)]))
    host.wait(100)
    told = [each for each in host.sent_to("exit", Control) if each.epochs]
    assert told[-1].epochs == {"s": 1}
    assert told[-1].watermarks_ms == {"s": 10}


def test_a_host_that_is_no_site_of_the_stream_cannot_depose_its_primary() -> None:
    host = opened("primary")
    host.hear("two", Control(epochs={"s": 2}, watermarks_ms={"s": 10}))
    host.wait(5000, hearing="exit")
    assert source_of(host).feeds_subscribers
    assert host.core.counters["epochs_refused"] == 1


def test_a_site_that_the_store_names_sends_what_is_not_acknowledged() -> None:
    host = opened("secondary")
    enter(host, chunk(0, [(10, 2)]))
    host.assign(assignment("primary", epoch=2))
    assert sent(host) == [0, 1]
    assert source_of(host).epoch == 2


def test_a_standby_is_held_up_by_its_full_log_only() -> None:
    host = opened("secondary")
    source = source_of(host)
    enter(host, chunk(0, [(10, 2)]))
    subscriber = source.log.subscribers["one"]
    subscriber.room_bytes = 1
    subscriber.heard_us = host.now_us
    assert not source.update_held_up(host.now_us)
    source.log.capacity_bytes = 1
    assert source.update_held_up(host.now_us)


def test_one_site_alone_is_primary() -> None:
    host = Driven("site")
    alone = assignment("primary")
    (source,) = alone.sources
    lone = msgspec.structs.replace(source, peer_site=None)
    host.assign(msgspec.structs.replace(alone, sources=(lone,)))
    assert not source_of(host).accepts_subscribers
    host.handle(SourceOpened(stream="s", position=Position()))
    assert source_of(host).feeds_subscribers


def test_a_source_that_opens_late_stands_by_for_the_site_that_it_has_heard() -> None:
    host = Driven("site")
    host.assign(assignment("primary"))
    host.hear("exit", Control(epochs={"s": 2}, watermarks_ms={"s": 10}))
    host.handle(SourceOpened(stream="s", position=Position()))
    assert (source_of(host).role, source_of(host).epoch) == (ReplicaRole.STANDBY, 2)


def test_of_two_sites_in_one_epoch_the_one_stands_by_that_the_store_does_not_name() -> None:
    host = opened("secondary")
    host.handle(PeerLost(node="exit"))
    host.wait(100, hearing="one")
    host.assign(assignment("secondary", epoch=2))
    assert (source_of(host).role, source_of(host).epoch) == (ReplicaRole.STANDBY, 2)


def test_an_assignment_makes_no_takeover_known_that_nobody_may_have_heard_of() -> None:
    host = opened("secondary")
    host.handle(PeerLost(node="exit"))
    for role in ("secondary", "primary"):
        host.assign(assignment(role))
        told = source_of(host).status
        assert (told.role, told.epoch) == (ReplicaRole.STANDBY, 1)
    # Now the store has named it.
    host.assign(assignment("primary", epoch=2))
    told = source_of(host).status
    assert (told.role, told.epoch) == (ReplicaRole.PRIMARY, 2)


def test_only_the_other_site_says_how_far_the_stream_has_been_sent() -> None:
    host = opened("secondary")
    host.hear("exit", Control(epochs={"s": 1}, watermarks_ms={"s": 10}))
    host.hear("two", Control(epochs={"s": 1}, watermarks_ms={"s": 20}))
    assert source_of(host).primary_ms == 10


def test_a_standby_lags_until_it_has_come_as_far_as_the_primary() -> None:
    host = opened("secondary")
    source = source_of(host)
    # How far the other site has come is not known yet.
    assert source.status.lags
    host.hear("exit", Control(epochs={"s": 1}, watermarks_ms={"s": 10}))
    assert source.status.lags
    enter(host, chunk(0, [(10, 2)]))
    host.hear("exit", Control(epochs={"s": 1}, watermarks_ms={"s": 10}))
    assert not source.status.lags


def test_a_standby_that_falls_behind_for_long_lags_until_it_is_in_time_again() -> None:
    host = opened("secondary")
    source = source_of(host)
    enter(host, chunk(0, [(10, 2)]))
    host.hear("exit", Control(epochs={"s": 1}, watermarks_ms={"s": 10}))
    for _ in range(12):
        host.wait(100, hearing="one")
        host.hear("exit", Control(epochs={"s": 1}, watermarks_ms={"s": 20}))
    assert source.status.lags
    enter(host, chunk(2, [(30, 2)]))
    for at_ms in (20, 25):
        host.hear("exit", Control(epochs={"s": 1}, watermarks_ms={"s": at_ms}))
    assert not source.status.lags


def test_a_standby_does_not_lag_behind_a_primary_that_has_nothing() -> None:
    host = opened("secondary")
    host.hear("exit", Control(epochs={"s": 1}))
    assert not source_of(host).status.lags


def test_a_source_that_has_failed_feeds_nobody_until_the_store_or_its_opening_says_so() -> None:
    host = opened("primary")
    source = source_of(host)
    host.handle(SourceFailed(stream="s"))
    assert (source.status.role, source.failed) == (ReplicaRole.WARMING, True)
    host.handle(SourceOpened(stream="s", position=Position()))
    assert (source.status.role, source.failed) == (ReplicaRole.PRIMARY, False)
    host.handle(SourceFailed(stream="s"))
    host.assign(assignment("secondary", epoch=2))
    host.handle(SourceOpened(stream="s", position=Position()))
    assert (source.status.role, source.status.epoch) == (ReplicaRole.STANDBY, 2)


def test_a_source_that_has_failed_does_not_take_over() -> None:
    host = opened("secondary")
    host.handle(SourceFailed(stream="s"))
    host.handle(PeerLost(node="exit"))
    assert not source_of(host).feeds_subscribers


def test_a_source_without_another_site_remains_primary_when_it_fails() -> None:
    host = Driven("site")
    alone = assignment("primary")
    (source,) = alone.sources
    host.assign(
        msgspec.structs.replace(alone, sources=(msgspec.structs.replace(source, peer_site=None),))
    )
    host.handle(SourceOpened(stream="s", position=Position()))
    host.handle(SourceFailed(stream="s"))
    assert source_of(host).feeds_subscribers


def test_a_site_that_can_bring_nothing_in_says_so_until_it_can() -> None:
    host = opened("primary")

    def told() -> dict[str, int]:
        host.commands.clear()
        host.wait(100)
        return [each for each in host.sent_to("exit", Control) if each.epochs][-1].stalled

    assert told() == {}
    host.handle(SourceWaits(stream="s", for_what="brokers"))
    assert told() == {"s": 1}
    # It goes on until it hears its successor.
    assert source_of(host).feeds_subscribers
    host.handle(SourceWaits(stream="s", for_what=None))
    assert told() == {}
    host.handle(SourceFailed(stream="s"))
    assert told() == {"s": 1}
    host.handle(SourceOpened(stream="s", position=Position()))
    assert told() == {}


def test_a_standby_takes_over_from_a_site_that_can_bring_nothing_in() -> None:
    host = opened("secondary")
    enter(host, chunk(0, [(10, 2)]))
    host.hear("exit", Control(epochs={"s": 1}, stalled={"s": 1}))
    assert sent(host) == [0, 1]
    assert (source_of(host).role, source_of(host).epoch) == (ReplicaRole.PRIMARY, 2)
    host.wait(50, hearing="one")
    assert source_of(host).status.role is ReplicaRole.PRIMARY


def test_a_standby_that_cannot_read_either_leaves_the_stream_there() -> None:
    host = opened("secondary")
    host.handle(SourceWaits(stream="s", for_what="brokers"))
    host.hear("exit", Control(epochs={"s": 1}, stalled={"s": 1}))
    assert not source_of(host).feeds_subscribers
    host.handle(SourceWaits(stream="s", for_what=None))
    host.hear("exit", Control(epochs={"s": 1}, stalled={"s": 1}))
    assert source_of(host).feeds_subscribers


def test_only_the_other_site_in_its_own_epoch_gives_a_stream_away() -> None:
    host = opened("secondary")
    host.hear("exit", Control(epochs={"s": 2}, watermarks_ms={"s": 9}))
    host.hear("exit", Control(stalled={"s": 1}))
    host.hear("two", Control(stalled={"s": 2}))
    assert not source_of(host).feeds_subscribers
