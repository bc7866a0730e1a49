"""A primary that has not come as far as its predecessor, when an input of it begins anew.

It can no longer produce what consumers already have, so its own output would not continue theirs.
"""

from __future__ import annotations

import pytest
from msgspec import structs

from ha.messages import (
    Control,
    Data,
    Message,
    Snapshot,
    SnapshotRequest,
    Subscribe,
    Subscribed,
)
from ha.roles import ReplicaRole
from orchestrator.edges.events import Deliver
from orchestrator.host.core.events import PeerLost, RecordLoss, Report, Send
from streams.vectors.chunk import Position
from tests.driven_host import (
    SETTINGS,
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
from tests.streams_of_numbers import chunk
from tests.unit.orchestrator.host.core.test_discontinuities import sink

AT_30 = Position(next_seq=7, watermark_ms=30)
"""Where a consumer is that has other output than a primary which has 8 tuples up to there."""


def began_anew() -> Subscribed:
    position = Position(next_seq=0, watermark_ms=35)
    return Subscribed(stream="s", position=position, epoch=2, generation=2)


def successor() -> Driven:
    """It took over from `one` with tuples up to 10 ms evaluated, and up to 20 ms received."""
    host = standby()
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    host.hear("site", data(chunk(4, [(20, 2)])))
    host.hear("exit", ack(10, 2))
    host.handle(PeerLost(node="one"))
    assert host.role is ReplicaRole.PRIMARY
    host.commands.clear()
    return host


def cross(host: Driven) -> None:
    host.hear("site", began_anew())
    part = chunk(0, [(40, 1), (50, 3)])
    host.hear("site", Data(stream="s", epoch=2, generation=2, chunk=part))


def lost_state(host: Driven) -> bool:
    status = host.core.replica_statuses(host.now_us)["f"]
    said = [each.kind for each in host.take(Report)]
    assert ("cannot continue" in said) is (host.role is ReplicaRole.WARMING)
    assert (status.failure is not None) is (host.role is ReplicaRole.WARMING)
    return host.role is ReplicaRole.WARMING


def test_it_crosses_with_all_input_that_the_predecessor_can_have_had() -> None:
    host = successor()
    host.hear("exit", ack(20, 4))
    cross(host)
    host.work()
    assert sent_numbers(host)[-2:] == [2, 3]
    host.hear("exit", ack(50, 6))
    assert not lost_state(host)


def test_it_does_not_cross_if_a_consumer_has_more() -> None:
    host = successor()
    host.hear("exit", ack(30, 5))
    host.commands.clear()
    host.hear("site", began_anew())
    assert lost_state(host)


def test_it_does_not_cross_if_the_predecessor_has_said_that_it_had_more() -> None:
    host = standby()
    host.hear("one", Control(watermarks_ms={"f": 30}))
    host.handle(PeerLost(node="one"))
    host.hear("site", data(chunk(0, [(20, 4)])))
    host.hear("site", began_anew())
    assert lost_state(host)


def test_it_does_not_cross_a_hole_either() -> None:
    host = successor()
    host.hear("exit", ack(30, 5))
    host.commands.clear()
    host.hear("site", data(chunk(9, [(40, 1)])))
    beyond = Position(next_seq=9, watermark_ms=35)
    host.hear("site", Subscribed(stream="s", position=beyond, epoch=1, generation=1))
    host.hear("site", data(chunk(9, [(40, 1)])))
    assert lost_state(host)


def beside_a_standby(reached_ms: int, generation: int = 1) -> Driven:
    """A primary that nobody reads; it has 10 ms, and its standby says how far that is."""
    host = Driven("one")
    host.assign(assignment_of(assigned("primary", peer_replica="two")))
    host.hear("site", subscribed())
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    host.hear("two", Control(epochs={"f": 1}, standbys={"f": (generation, reached_ms)}))
    host.commands.clear()
    return host


def meet_a_hole(host: Driven) -> None:
    beyond = data(chunk(9, [(40, 1)]))
    host.hear("site", beyond)
    host.hear("site", subscribed(next_seq=9, watermark_ms=35))
    host.hear("site", beyond)


def losses(host: Driven) -> int:
    return host.core.counters["tuples_lost"]


def test_a_primary_does_not_lose_input_that_its_standby_has() -> None:
    """No consumer says so: nobody may read the fragment, or the standby has fed nobody."""
    host = beside_a_standby(30)
    meet_a_hole(host)
    assert losses(host) == 0
    assert lost_state(host), "the standby goes on"


@pytest.mark.parametrize(("reached_ms", "generation"), [(10, 1), (30, 2)])
def test_a_primary_crosses_a_hole_that_its_standby_has_not_passed(
    reached_ms: int, generation: int
) -> None:
    host = beside_a_standby(reached_ms, generation)
    meet_a_hole(host)
    assert losses(host) == 5
    assert not lost_state(host)


def test_a_primary_waits_before_a_hole_until_a_lost_standby_that_has_passed_it_is_heard() -> None:
    host = beside_a_standby(30)
    host.handle(PeerLost(node="two"))
    meet_a_hole(host)
    assert losses(host) == 0
    assert not lost_state(host), "the standby may be gone"
    host.hear("two", Control(epochs={"f": 1}, standbys={"f": (1, 30)}))
    meet_a_hole(host)
    assert losses(host) == 0
    assert lost_state(host)


@pytest.mark.parametrize("how", ["another one is named", "it has lost its state"])
def test_a_primary_crosses_a_hole_once_the_standby_that_has_passed_it_is_gone(how: str) -> None:
    host = beside_a_standby(30)
    if how == "another one is named":
        host.assign(assignment_of(assigned("primary", peer_replica="exit")))
    else:
        host.hear("two", Control(epochs={"f": 1}))
    meet_a_hole(host)
    assert losses(host) == 5
    assert not lost_state(host)


def test_a_lost_standby_that_has_input_which_its_primary_lacks_is_not_recorded() -> None:
    """Were it replaced, that input would be lost if no producer keeps it."""
    host = beside_a_standby(30)
    host.handle(PeerLost(node="two"))
    host.wait(4 * SETTINGS.heartbeat_ms, hearing="site")
    assert host.take(RecordLoss) == []
    host.hear("site", data(chunk(4, [(30, 1)])))
    host.wait(SETTINGS.heartbeat_ms)
    assert [each.lost for each in host.take(RecordLoss)] == ["two"]


def test_a_standby_tells_its_primary_how_far_it_has_come() -> None:
    host = standby()
    host.hear("site", data(chunk(0, [(20, 4)])))
    host.work()
    host.commands.clear()
    host.wait(2 * SETTINGS.ack_interval_ms)
    assert host.sent_to("one", Control)[-1].standbys == {"f": (1, 20)}


@pytest.mark.parametrize("watermark_ms", [30, 45, 60])
@pytest.mark.parametrize("next_seq", [5, 9])
def test_a_consumer_that_turns_out_to_have_more_ends_it_after_the_crossing(
    watermark_ms: int, next_seq: int
) -> None:
    position = Position(next_seq=next_seq, watermark_ms=watermark_ms)
    claims: list[Message] = [
        ack(watermark_ms, next_seq),
        Subscribe(stream="f", position=position, generation=1),
    ]
    for claim in claims:
        host = successor()
        cross(host)
        host.work()
        host.commands.clear()
        host.hear("exit", claim)
        assert lost_state(host)
        assert host.take(Data) == []


def test_consumers_that_have_its_own_output_after_the_crossing_do_not_end_it() -> None:
    host = successor()
    cross(host)
    host.work()
    for watermark_ms, next_seq in ((20, 4), (40, 4), (50, 6)):
        position = Position(next_seq=next_seq, watermark_ms=watermark_ms)
        host.hear("exit", Subscribe(stream="f", position=position, generation=1))
        host.hear("exit", ack(watermark_ms, next_seq))
    assert not lost_state(host)


def moved() -> Driven:
    """After the crossing, a newer plan had `one`, which was started again, take its place."""
    host = successor()
    cross(host)
    host.work()
    host.hear("exit", ack(50, 6, epoch=2))
    at = peers(renewed="one")
    host.assign(assignment_of(assigned("primary", epoch=2, peer_replica="one"), at=at))
    host.core.heard("one", host.now_us)
    host.assign(assignment_of(assigned("secondary", epoch=3, peer_replica="one"), at=at))
    host.hear("one", Control(epochs={"f": 3}, watermarks_ms={"f": 50}))
    host.hear("exit", ack(50, 6, epoch=3))
    assert host.role is ReplicaRole.STANDBY
    return host


def test_a_former_primary_keeps_its_state_though_its_successor_is_ahead() -> None:
    host = moved()
    host.hear("exit", ack(60, 7, epoch=3))
    assert host.role is ReplicaRole.STANDBY


def test_a_former_primary_takes_over_from_its_successor_that_was_ahead() -> None:
    host = moved()
    host.handle(PeerLost(node="one"))
    assert host.role is ReplicaRole.PRIMARY
    host.hear("exit", ack(60, 7, epoch=3))
    assert not lost_state(host)


def test_a_primary_that_was_stopped_keeps_its_state_though_its_successor_is_ahead() -> None:
    host = successor()
    cross(host)
    host.work()
    host.hear("exit", ack(50, 6, epoch=2))
    host.hear("exit", ack(60, 7, epoch=3))
    assert not lost_state(host)


def feeding() -> Driven:
    """A standby that feeds the sink output up to 20 ms; its primary has said that it had 10 ms."""
    host = standby()
    host.hear("one", Control(watermarks_ms={"f": 10}))
    host.hear("exit", Subscribe(stream="f", position=None, generation=None, feed=True))
    host.hear("site", data(chunk(0, [(10, 4), (20, 2)])))
    host.work()
    host.hear("exit", ack(20, 4))
    return host


def test_a_standby_that_has_fed_more_than_its_primary_keeps_its_state_and_crosses_as_primary() -> (
    None
):
    host = feeding()
    cross(host)
    assert host.role is ReplicaRole.STANDBY
    host.assign(assignment_of(assigned("primary", epoch=2, peer_replica="one")))
    cross(host)
    host.commands.clear()
    host.work()
    assert sent_numbers(host) == [2, 3]


def test_a_standby_asks_for_the_state_of_its_primary_once_that_has_come_as_far() -> None:
    host = feeding()
    host.hear("site", began_anew())
    host.hear("site", began_anew())
    assert host.sent_to("one", SnapshotRequest) == []
    host.hear("one", Control(watermarks_ms={"f": 20}))
    host.hear("site", began_anew())
    host.hear("site", began_anew())
    assert host.sent_to("one", SnapshotRequest) == [SnapshotRequest(fragment="f")]


def test_a_standby_that_has_fed_more_than_its_primary_does_not_stop() -> None:
    """Its primary cannot cross either."""
    host = feeding()
    cross(host)
    assert host.core.counters["standbys_stopped"] == 0
    assert host.sent_to("one", SnapshotRequest) == []


def test_what_a_consumer_claims_ends_no_primary_that_has_crossed_nothing() -> None:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    host.hear("exit", ack(30, 9))
    position = Position(next_seq=9, watermark_ms=10)
    host.hear("exit", Subscribe(stream="f", position=position, generation=1))
    assert not lost_state(host)


def departing(host: Driven, said: Data | None = None) -> None:
    """It evaluates input, up to 30 ms, which departs at 15 ms from what was sent before."""
    said = said or data(chunk(4, [(20, 2), (30, 4)]))
    host.hear("site", structs.replace(said, departs_ms=15))
    host.work()


def behind() -> Driven:
    """It took over with tuples up to 10 ms; whoever produces its input has crossed something."""
    host = standby()
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    host.handle(PeerLost(node="one"))
    host.commands.clear()
    return host


def test_a_departing_input_ends_a_primary_whose_predecessor_had_sent_other_output() -> None:
    host = behind()
    host.hear("exit", ack(30, 7, epoch=2))
    departing(host)
    assert not lost_state(host)
    host.hear("exit", ack(30, 7, epoch=2))
    assert lost_state(host)


@pytest.mark.parametrize(("watermark_ms", "next_seq"), [(10, 2), (30, 8), (15, 9)])
def test_a_departing_input_ends_no_primary_that_continues_what_a_consumer_has(
    watermark_ms: int, next_seq: int
) -> None:
    host = behind()
    departing(host)
    host.hear("exit", ack(watermark_ms, next_seq, epoch=2))
    assert not lost_state(host)


def test_a_primary_behind_a_departing_input_may_come_as_far_as_its_predecessor() -> None:
    host = behind()
    departing(host)
    host.hear("exit", ack(40, 9, epoch=2))
    assert not lost_state(host)
    host.hear("site", data(chunk(10, [(40, 1)])))
    host.work()
    host.hear("exit", ack(40, 9, epoch=2))
    assert not lost_state(host)


def test_output_departs_where_the_input_does_and_where_an_input_was_crossed() -> None:
    host = behind()
    departing(host)
    (sent,) = host.sent_to("exit", Data)[-1:]
    assert sent.departs_ms == 15
    host.hear("site", structs.replace(data(chunk(10, [(40, 1)])), departs_ms=35))
    host.work()
    (sent,) = host.sent_to("exit", Data)[-1:]
    assert sent.departs_ms == 15
    host = successor()
    cross(host)
    host.work()
    (sent,) = host.sent_to("exit", Data)[-1:]
    assert sent.departs_ms == 20


def test_a_replica_learns_with_a_state_where_the_output_departs() -> None:
    host = behind()
    departing(host)
    host.commands.clear()
    host.hear("one", SnapshotRequest(fragment="f"))
    (snapshot,) = host.sent_to("one", Snapshot)
    one = Driven("one")
    one.assign(assignment_of(assigned("secondary", peer_replica="two", epoch=2)))
    one.hear("site", subscribed(next_seq=10, watermark_ms=30))
    one.hear("two", snapshot)
    one.handle(PeerLost(node="two"))
    assert one.role is ReplicaRole.PRIMARY
    one.hear("exit", ack(30, 7, epoch=3))
    assert lost_state(one)


def test_only_a_primary_looks_whether_it_continues_what_a_consumer_has() -> None:
    host = standby()
    host.hear("site", data(chunk(0, [(10, 4)])))
    departing(host)
    host.hear("exit", ack(30, 7))
    assert host.role is ReplicaRole.STANDBY


def test_a_consumer_that_has_followed_a_former_primary_need_not_follow_a_later_one() -> None:
    host = behind()
    departing(host)
    host.hear("exit", ack(30, 8, epoch=2))
    host.hear("site", structs.replace(data(chunk(10, [(40, 1)])), departs_ms=5))
    host.hear("exit", ack(20, 5, epoch=2))
    assert lost_state(host)


def test_a_consumer_whose_numbers_agree_for_a_while_may_have_other_output_beyond() -> None:
    host = behind()
    departing(host)  # Own output: 2 tuples up to 10, 4 up to 20, 8 up to 30 ms.
    host.hear("exit", ack(20, 4, epoch=2))
    assert not lost_state(host)
    host.hear("exit", ack(30, 7, epoch=2))
    assert lost_state(host)


def test_it_ends_as_soon_as_some_reader_turns_out_to_have_other_output() -> None:
    """What a sink has kept, or the slowest reader of a host has processed, agrees by chance."""
    claims: list[Message] = [
        Control(acks={"f": structs.replace(ack(20, 4, epoch=2).acks["f"], furthest=AT_30)}),
        Subscribe(
            stream="f", position=Position(next_seq=4, watermark_ms=20), generation=1, furthest=AT_30
        ),
        Subscribe(stream="f", position=None, generation=1, furthest=AT_30),
    ]
    for claim in claims:
        host = behind()
        departing(host)
        host.commands.clear()
        host.hear("exit", claim)
        assert lost_state(host)
        assert host.take(Data) == []


@pytest.mark.parametrize(
    ("kept", "furthest"),
    [((10, 2), (30, 7)), ((30, 7), (30, 7)), ((30, 9), (30, 9)), ((20, 5), (30, 8))],
    ids=["kept less", "one fewer", "one more", "a slower reader"],
)
def test_nothing_is_sent_to_a_consumer_that_has_other_output(
    kept: tuple[int, int], furthest: tuple[int, int]
) -> None:
    """It has that up to 30 ms; the primary comes from 10 to 40 ms at once."""
    had = Position(watermark_ms=furthest[0], next_seq=furthest[1])
    claim = Control(acks={"f": structs.replace(ack(*kept, epoch=2).acks["f"], furthest=had)})
    host = behind()
    host.hear("exit", claim)
    host.commands.clear()
    said = data(chunk(4, [(20, 2), (30, 4), (40, 3)]))
    host.hear("site", structs.replace(said, departs_ms=15))
    host.work()
    assert host.sent_to("exit", Data) == []
    host.hear("exit", claim)
    assert lost_state(host)


def test_a_sink_is_delivered_nothing_again_by_a_primary_with_other_output() -> None:
    out = sink(("two",))
    out.hear("two", data(chunk(0, [(10, 2), (20, 2), (30, 3)]), "f", epoch=1))
    host = behind()
    host.hear("exit", ack(30, 7, epoch=2))
    host.commands.clear()
    said = data(chunk(4, [(20, 2), (30, 4), (40, 3)]))
    host.hear("site", structs.replace(said, departs_ms=15))
    host.work()
    for each in host.sent_to("exit", Data):
        out.hear("two", each)
    stamps = [int(t) for each in out.take(Deliver) for t in each.chunk.timestamps]
    assert stamps == [10, 10, 20, 20, 30, 30, 30]


def test_a_sink_takes_nothing_that_continues_other_output_than_it_has_and_says_so() -> None:
    """What it had received had not been acknowledged yet when its new primary sent."""
    out = sink(("two",))
    out.hear("two", data(chunk(0, [(10, 2), (20, 2), (30, 3)]), "f", epoch=1))
    host = behind()
    host.hear("exit", ack(10, 2))
    host.commands.clear()
    said = data(chunk(4, [(20, 2), (30, 4), (40, 3)]))
    host.hear("site", structs.replace(said, departs_ms=15))
    host.work()
    (sent,) = host.sent_to("exit", Data)
    out.commands.clear()
    out.hear("two", sent)
    assert out.core.counters["chunks_differs"] == 1
    assert not [each for each in out.commands if isinstance(each, Deliver)]
    (request,) = out.sent_to("two", Subscribe)
    host.hear("exit", request)
    assert lost_state(host)


def test_output_beyond_its_end_that_nobody_has_processed_may_come_from_a_standby() -> None:
    """That has its state, and is further."""
    host = successor()
    cross(host)
    host.work()
    said = structs.replace(ack(10, 2, epoch=2).acks["f"], position=None)
    beyond = structs.replace(said, furthest=Position(next_seq=7, watermark_ms=60))
    host.hear("exit", Control(acks={"f": beyond}))
    assert not lost_state(host)


def test_a_standby_that_takes_a_state_knows_still_what_consumers_have_received() -> None:
    host = standby()
    had = structs.replace(ack(10, 2).acks["f"], furthest=AT_30, received_ms=20)
    host.hear("exit", Control(acks={"f": had}))
    replica = host.core.replica_manager.replicas["f"].replica
    state = primary().core.replica_manager.replicas["f"].replica.snapshot()
    assert state is not None
    assert replica.install(state)
    known = replica.log.subscribers["exit"]
    assert (known.furthest, known.received_ms) == (AT_30, 20)
    # Of another generation, that says nothing.
    assert replica.install(structs.replace(state, generation=2))
    assert replica.log.subscribers["exit"].furthest is None


def warming_with_other_input() -> Driven:
    """A secondary that waits for a state, and has input from a producer that is gone."""
    host = Driven("two")
    host.assign(assignment_of(assigned("secondary", peer_replica="one")))
    host.hear("site", subscribed())
    host.hear("site", data(chunk(0, [(10, 4), (30, 5)])))
    host.commands.clear()
    return host


def test_what_waits_for_a_state_is_given_up_if_other_input_comes() -> None:
    host = warming_with_other_input()
    said = data(chunk(4, [(20, 2), (30, 2), (40, 3)]), epoch=2)
    host.hear("site", structs.replace(said, departs_ms=15))
    replica = host.core.replica_manager.replicas["f"].replica
    assert replica.inputs["s"].waiting == []
    host.wait(100)
    (request,) = host.sent_to("site", Subscribe)
    assert (request.position, request.furthest) == (None, None)


def test_what_waits_for_a_state_is_not_joined_with_one_of_other_input() -> None:
    host = warming_with_other_input()
    one = primary()
    departing(one, data(chunk(0, [(10, 4), (20, 2)]), epoch=2))
    state = one.core.replica_manager.replicas["f"].replica.snapshot()
    assert state is not None
    host.hear("one", state)
    assert host.role is ReplicaRole.STANDBY
    (request,) = host.sent_to("site", Subscribe)
    assert request.position == Position(next_seq=6, watermark_ms=20)
    for each in (one, host):
        departing(each, data(chunk(6, [(30, 2), (40, 3)]), epoch=2))
    logs = [each.core.replica_manager.replicas["f"].replica.log for each in (one, host)]
    assert logs[0].end == logs[1].end
    assert logs[0].chunks()[-1].timestamps.tolist() == logs[1].chunks()[-1].timestamps.tolist()


def test_a_standby_is_not_brought_to_a_cut_of_other_input_than_it_has() -> None:
    host = standby()
    host.hear("site", data(chunk(0, [(10, 4), (30, 5)])))
    one = primary()
    departing(one, data(chunk(0, [(10, 4), (20, 2)]), epoch=2))
    cut = one.core.replica_manager.replicas["f"].replica.cut()
    assert cut is not None
    replica = host.core.replica_manager.replicas["f"].replica
    assert not replica.follow(replica.generation, cut)


def test_a_standby_that_was_further_than_where_its_primary_crossed_continues_nothing_else() -> None:
    host = standby()
    # The source died when it had sent this host input up to 30 ms, and the primary up to 10 ms.
    host.hear("site", data(chunk(0, [(10, 4), (20, 2), (30, 4)])))
    host.work()
    host.hear("one", Control(watermarks_ms={"f": 10}, epochs={"f": 1}))
    host.hear("exit", ack(10, 2))
    host.hear("site", began_anew())
    assert host.role is ReplicaRole.STANDBY
    # The primary crosses at 10 ms, as it tells the sink, and has none of those tuples beyond.
    host.hear("one", Control(watermarks_ms={"f": 25}, epochs={"f": 1}))
    host.hear("exit", ack(25, 2, departs_ms=10))
    host.commands.clear()
    host.handle(PeerLost(node="one"))
    assert host.sent_to("exit", Data) == []
    host.hear("exit", ack(25, 2, departs_ms=10))
    assert lost_state(host)


def test_a_consumer_with_more_than_comes_before_the_log_has_other_output() -> None:
    """It demands nothing, so a full log has dropped what would have told it."""
    out = sink(("two",))
    out.hear("two", data(chunk(0, [(10, 2), (20, 2), (30, 9)]), "f", epoch=1))
    assert [each.end.position.watermark_ms for each in out.take(Deliver)] == [30]
    host = behind()
    log = host.core.replica_manager.replicas["f"].replica.log
    departing(host, data(chunk(4, [(20, 2), (35, 4)])))
    log.capacity_bytes = 1
    departing(host, data(chunk(10, [(40, 3)])))
    assert log.base == Position(next_seq=8, watermark_ms=35)
    host.commands.clear()
    for _ in range(20):
        out.wait(100, hearing="two")
        host.wait(100, hearing="exit")
        for one, other in ((out, host), (host, out)) * 3:
            for command in one.take(Send):
                if command.to == other.core.node:
                    other.hear(one.core.node, command.message)
    assert host.role is ReplicaRole.WARMING, "it starts over"
    assert not out.take(Deliver)
