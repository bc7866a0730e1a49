"""A standby that is sent batches: it follows checkpoints, and asks for everything when it must."""

import msgspec
import pytest
from msgspec import structs

from ha.messages import (
    EVERY_TUPLE,
    NEVER,
    Checkpoint,
    Control,
    Data,
    Offer,
    Snapshot,
    SnapshotRequest,
    Subscribe,
)
from ha.roles import ReplicaRole
from ha.subscription import REPEATED_US
from orchestrator.host.core.events import PeerLost
from orchestrator.host.core.hosted_replica import BATCHES_LAG_US, EVERYTHING_US
from orchestrator.records import Assignment, FragmentAssignment, RecoverySplit
from streams.vectors.chunk import Position
from tests.driven_host import (
    COLUMNS,
    Driven,
    ack,
    assigned,
    assignment_of,
    data,
    peers,
    sent_numbers,
    standby,
    subscribed,
)
from tests.streams_of_numbers import chunk, numbers


def batches(role: str, peer_replica: str) -> FragmentAssignment:
    made = assigned(role, peer_replica=peer_replica)
    return msgspec.structs.replace(made, batch=NEVER, checkpoint_ms=50.0, covered_ms=100.0)


def primary() -> Driven:
    made = Driven("one")
    made.assign(assignment_of(batches("primary", "two")))
    made.hear("site", subscribed())
    made.hear("exit", Subscribe(stream="f", position=None, generation=None))
    return made


def pair() -> tuple[Driven, Driven]:
    """A primary, and its standby."""
    one, two = primary(), Driven("two")
    two.assign(assignment_of(batches("secondary", "one")))
    two.hear("site", subscribed())
    one.commands.clear()
    one.hear("two", SnapshotRequest(fragment="f"))
    (snapshot,) = one.sent_to("two", Snapshot)
    two.hear("one", snapshot)
    two.wait(60, hearing="one")
    two.commands.clear()
    one.commands.clear()
    return one, two


def evaluated(one: Driven, part: int = 0, tuples: int = 5) -> None:
    """The primary evaluates some input, which its standby is not sent."""
    one.hear("site", data(chunk(part, [(10 * (part + 1), tuples)])))
    one.work()


def checkpoint(one: Driven, watermark_ms: int, next_seq: int) -> Checkpoint:
    """The checkpoint that the primary sends once the sink has acknowledged its output."""
    one.wait(60, hearing="two")
    one.hear("exit", ack(watermark_ms, next_seq))
    one.take(Checkpoint)
    one.wait(60, hearing="two")
    (found,) = one.sent_to("two", Checkpoint)
    return found


def test_no_checkpoints_for_a_standby_that_is_sent_every_tuple() -> None:
    one, _ = pair()
    a = msgspec.structs.replace(batches("primary", "two"), batch=4, checkpoint_ms=0.0)
    one.assign(assignment_of(a))
    evaluated(one)
    one.hear("exit", ack(10, 3))
    one.take(Checkpoint)
    one.wait(500, hearing="two")
    assert one.take(Checkpoint) == []


def test_data_and_checkpoints_for_standbys_are_told_apart() -> None:
    one = primary()
    manager = one.core.replica_manager
    a = assignment_of(batches("primary", "two"))
    one.assign(msgspec.structs.replace(a, consumers={"f": ("exit", "two")}))
    for node, demands in (("exit", True), ("two", False)):
        asked = Subscribe(stream="f", position=None, generation=None, demands=demands)
        one.hear(node, asked)
    evaluated(one)
    (sent,) = one.sent_to("two", Data)
    assert manager.sent_for_standbys("two", sent) == "standby_bytes_sent"
    assert manager.sent_for_standbys("exit", sent) is None
    made = Checkpoint(
        fragment="f", epoch=1, generation=1, inputs={}, output=Position(), base_ms=None, state=()
    )
    assert manager.sent_for_standbys("two", made) == "checkpoint_bytes_sent"


def test_a_standby_subscribes_for_batches_once_it_is_warm() -> None:
    _, two = pair()
    two.wait(REPEATED_US // 1000 + 60, hearing="one")
    told = [each for each in two.sent_to("site", Control) if each.acks]
    assert told[-1].acks["s"].batch == NEVER


def test_a_primary_subscribes_for_every_tuple() -> None:
    one, _ = pair()
    one.wait(60, hearing="two")
    told = [each for each in one.sent_to("site", Control) if each.acks]
    assert told[-1].acks["s"].batch == EVERY_TUPLE


def test_a_checkpoint_waits_until_the_output_is_acknowledged() -> None:
    one, _ = pair()
    evaluated(one)
    one.commands.clear()
    one.wait(500, hearing="two")
    assert one.take(Checkpoint) == []


def test_a_standby_goes_on_from_the_checkpoint_and_acknowledges_it() -> None:
    one, two = pair()
    evaluated(one)
    two.hear("one", checkpoint(one, 10, 3))
    replica = two.core.replica_manager.replicas["f"].replica
    assert replica.log.end == Position(next_seq=3, watermark_ms=10)
    assert replica.processed() == {"s": Position(next_seq=5, watermark_ms=10)}
    two.commands.clear()
    two.wait(60, hearing="one")
    acks = [each.acks["s"] for each in two.sent_to("site", Control) if each.acks]
    assert acks[-1].position == Position(next_seq=5, watermark_ms=10)


def test_a_standby_learns_with_a_checkpoint_where_the_output_departs() -> None:
    """From what a former primary has sent: it must find out, once it is primary."""
    one, two = pair()
    one.hear("site", msgspec.structs.replace(data(chunk(0, [(10, 5)])), departs_ms=5))
    one.work()
    two.hear("one", checkpoint(one, 10, 3))
    assert two.core.replica_manager.replicas["f"].replica.departs_ms == 5


def test_takeover_asks_for_what_was_kept_back_at_once() -> None:
    one, two = pair()
    evaluated(one)
    two.hear("one", checkpoint(one, 10, 3))
    two.commands.clear()
    two.handle(PeerLost(node="one"))
    assert two.role is ReplicaRole.PRIMARY
    (asked,) = two.sent_to("site", Subscribe)
    assert asked.batch == EVERY_TUPLE
    assert asked.position == Position(next_seq=5, watermark_ms=10)
    two.hear("exit", ack(10, 3))
    hosted = two.core.replica_manager.replicas["f"]
    assert hosted.recovered is None
    two.now_us += 7_000
    two.hear("site", data(chunk(5, [(20, 2)])))
    two.work()
    assert sent_numbers(two) == [5, 6]
    assert hosted.recovered is not None
    assert hosted.recovered.measured.resend_ms == 7.0
    assert hosted.recovered.tuples == 2


def test_a_takeover_is_told_beside_what_the_plan_had_said_until_then() -> None:
    """The next plan, with a new secondary, says something else."""
    had = RecoverySplit(detection_ms=1.0, resend_ms=2.0, reprocess_ms=3.0)
    new = RecoverySplit(detection_ms=1.0, resend_ms=0.0, reprocess_ms=0.0)
    host = standby()
    secondary = assigned("secondary", peer_replica="one")
    host.assign(assignment_of(msgspec.structs.replace(secondary, promised=had)))
    host.hear("site", data(chunk(0, [(10, 5)])))
    host.handle(PeerLost(node="one"))
    host.work()
    primary = assigned("primary", epoch=2, peer_replica="three")
    host.assign(assignment_of(msgspec.structs.replace(primary, promised=new)))
    recovered = host.core.replica_manager.replicas["f"].recovered
    assert recovered is not None
    assert recovered.promised == had


def behind() -> Driven:
    """A standby that knows that its primary has output which it lacks the input for."""
    _, two = pair()
    two.hear("one", Control(watermarks_ms={"f": 20}))
    two.commands.clear()
    return two


def test_a_standby_that_is_behind_takes_over_once_a_producer_can_give_it_the_rest() -> None:
    """Before, it could give nobody anything, and its primary may only be cut off from it."""
    two = behind()
    two.handle(PeerLost(node="one"))
    assert two.role is ReplicaRole.STANDBY
    (asked,) = two.sent_to("site", Subscribe)
    assert asked.batch == EVERY_TUPLE
    two.now_us += 4_000
    two.hear("site", subscribed())
    assert two.role is ReplicaRole.PRIMARY
    two.now_us += 3_000
    two.hear("site", data(chunk(0, [(10, 5), (20, 2)])))
    two.work()
    recovered = two.core.replica_manager.replicas["f"].recovered
    assert recovered is not None
    assert recovered.measured.resend_ms == 7.0
    assert recovered.tuples == 7


def test_a_standby_that_is_behind_asks_as_soon_as_its_primary_is_silent() -> None:
    two = behind()
    while not two.core.counters["suspicions"]:
        two.wait(1, hearing="exit")
    (asked,) = two.sent_to("site", Subscribe)
    assert (asked.batch, two.role) == (EVERY_TUPLE, ReplicaRole.STANDBY)


def test_a_standby_whose_primary_is_heard_again_does_not_take_over() -> None:
    two = behind()
    two.handle(PeerLost(node="one"))
    two.hear("one", Control(watermarks_ms={"f": 20}))
    two.hear("site", subscribed())
    assert two.role is ReplicaRole.STANDBY
    two.handle(PeerLost(node="one"))
    two.hear("site", subscribed())
    assert two.role is ReplicaRole.PRIMARY


def test_a_standby_that_is_behind_does_not_outlive_a_source_that_begins_anew() -> None:
    two = behind()
    two.handle(PeerLost(node="one"))
    two.hear("site", subscribed(generation=2))
    assert two.role is ReplicaRole.WARMING


def test_a_standby_that_is_behind_takes_over_from_a_primary_that_has_left_the_store() -> None:
    two = behind()
    two.handle(PeerLost(node="one"))
    a = batches("secondary", "one")
    two.assign(assignment_of(a, at=peers(renewed="one")))
    assert two.role is ReplicaRole.PRIMARY


def named(two: Driven, *, former_lives: bool = True) -> None:
    """A plan makes the standby primary, and its primary the standby."""
    a = msgspec.structs.replace(
        assigned("primary", epoch=3, peer_replica="one"), checkpoint_ms=50.0, covered_ms=100.0
    )
    two.assign(assignment_of(a, at=peers(renewed="" if former_lives else "one")))


def test_a_standby_that_is_behind_is_promoted_once_a_producer_can_give_it_the_rest() -> None:
    """Its primary goes on meanwhile: it may be the only one that has the input."""
    two = behind()
    named(two)
    assert two.role is ReplicaRole.STANDBY
    (asked,) = two.sent_to("site", Subscribe)
    assert asked.batch == EVERY_TUPLE
    named(two)
    assert two.role is ReplicaRole.STANDBY, "it still waits, though it has asked"
    two.hear("site", subscribed())
    replica = two.core.replica_manager.replicas["f"].replica
    assert (replica.role, replica.epoch) == (ReplicaRole.PRIMARY, 3)
    assert two.core.counters["takeovers"] == 0


def test_a_standby_that_is_not_behind_is_promoted_at_once() -> None:
    _, two = pair()
    named(two)
    assert two.role is ReplicaRole.PRIMARY


def test_a_standby_is_promoted_at_once_if_its_primary_has_left_the_store() -> None:
    two = behind()
    named(two, former_lives=False)
    replica = two.core.replica_manager.replicas["f"].replica
    assert (replica.role, replica.epoch) == (ReplicaRole.PRIMARY, 3)


def test_a_standby_whose_primary_is_lost_before_the_promotion_begins_the_planned_epoch() -> None:
    two = behind()
    named(two)
    two.handle(PeerLost(node="one"))
    two.hear("site", subscribed())
    replica = two.core.replica_manager.replicas["f"].replica
    assert (replica.role, replica.epoch) == (ReplicaRole.PRIMARY, 3)


def test_a_checkpoint_of_what_the_standby_has_itself_changes_nothing() -> None:
    one, two = pair()
    evaluated(one)
    two.hear("site", data(chunk(0, [(10, 5), (20, 2)])))
    two.work()
    before = two.core.replica_manager.replicas["f"].replica.log.end
    two.hear("one", checkpoint(one, 10, 3))
    after = two.core.replica_manager.replicas["f"].replica.log
    assert after.end == before
    assert numbers(after.chunks()) == [2, 3, 4, 5, 6]


def test_input_beyond_the_checkpoint_is_kept() -> None:
    one, two = pair()
    evaluated(one)
    found = checkpoint(one, 10, 3)
    # All of it has arrived, and is not evaluated yet.
    two.hear("site", data(chunk(0, [(10, 5), (20, 2)])))
    two.hear("one", found)
    two.work()
    replica = two.core.replica_manager.replicas["f"].replica
    assert replica.log.base == Position(next_seq=3, watermark_ms=10)
    assert numbers(replica.log.chunks()) == [5, 6]


def test_a_broken_checkpoint_is_counted_and_changes_nothing() -> None:
    one, two = pair()
    evaluated(one)
    found = checkpoint(one, 10, 3)
    for damaged in (structs.replace(found, state=(b"\xff",)), structs.replace(found, base_ms=3)):
        two.hear("one", damaged)
    assert two.core.counters["checkpoints_broken"] == 2
    assert two.core.replica_manager.replicas["f"].replica.log.end == Position()


def test_a_standby_that_has_lost_its_checkpoints_is_sent_a_whole_state_again() -> None:
    """It was restarted on its node, or has started over: the primary must not go on from there."""
    one, two = pair()
    evaluated(one)
    two.hear("one", checkpoint(one, 10, 3))
    tell_back(two, one)
    replica = two.core.replica_manager.replicas["f"].replica
    replica.receiver.reset()
    tell_back(two, one)
    one.hear("site", data(chunk(5, [(20, 5)])))
    one.work()
    two.hear("one", checkpoint(one, 20, 8))
    assert two.core.counters["checkpoints_broken"] == 0
    assert replica.log.end == Position(next_seq=8, watermark_ms=20)


def tell_back(two: Driven, one: Driven) -> None:
    """The standby tells its primary which checkpoint it holds."""
    two.commands.clear()
    two.wait(60, hearing="one")
    for message in two.sent_to("one", Control):
        one.hear("two", message)


def test_a_checkpoint_of_another_generation_is_none() -> None:
    one, two = pair()
    evaluated(one)
    two.hear("one", structs.replace(checkpoint(one, 10, 3), generation=2, epoch=2))
    assert two.core.replica_manager.replicas["f"].replica.log.end == Position()


def test_a_standby_that_lags_takes_every_tuple() -> None:
    _, two = pair()
    two.hear("one", Control(watermarks_ms={"f": 50}))
    two.wait(201 + BATCHES_LAG_US / 1000, hearing="one")
    two.commands.clear()
    two.hear("one", Control(watermarks_ms={"f": 60}))
    two.wait(60, hearing="one")
    (asked,) = two.sent_to("site", Subscribe)
    assert asked.batch == EVERY_TUPLE
    assert two.core.replica_manager.replicas["f"].lags_since_us is None


def test_a_standby_that_feeds_somebody_takes_every_tuple() -> None:
    _, two = pair()
    two.hear("exit", Subscribe(stream="f", position=Position(), generation=1, feed=True))
    two.commands.clear()
    two.wait(60, hearing="one")
    (asked,) = two.sent_to("site", Subscribe)
    assert asked.batch == EVERY_TUPLE


def test_a_standby_whose_primary_is_cut_off_from_a_source_takes_every_tuple() -> None:
    _, two = pair()
    two.wait(REPEATED_US // 1000 + 60, hearing="one")
    two.commands.clear()
    offered = Offer(generation=1, epoch=1, watermark_ms=40, sent=False)
    two.hear("site", Control(offers={"s": offered}))
    (asked,) = two.sent_to("site", Subscribe)
    assert asked.batch == EVERY_TUPLE
    two.hear("site", subscribed())
    two.wait(EVERYTHING_US / 1000 + REPEATED_US / 1000, hearing="one")
    told = [each for each in two.sent_to("site", Control) if each.acks]
    assert told[-1].acks["s"].batch == NEVER


def test_a_standby_offers_what_its_primary_has_and_a_consumer_lacks() -> None:
    _, two = pair()
    two.hear("exit", Subscribe(stream="f", position=Position(), generation=1))
    two.hear("one", Control(watermarks_ms={"f": 50}))
    two.commands.clear()
    two.wait(400, hearing="one")
    offers = [each.offers["f"] for each in two.sent_to("exit", Control) if each.offers]
    assert offers[-1] == Offer(generation=1, epoch=1, watermark_ms=50, sent=False)


def test_no_data_for_a_standby_in_batches() -> None:
    """A producer that is primary keeps output back from the standby of its consumer."""
    one = primary()
    a = assignment_of(batches("primary", "two"))
    one.assign(msgspec.structs.replace(a, consumers={"f": ("exit", "two")}))
    one.hear("two", Subscribe(stream="f", position=None, generation=None, batch=4, demands=False))
    one.commands.clear()
    evaluated(one)
    assert one.sent_to("two", Data) == []
    evaluated(one, part=5, tuples=3)
    assert sum(each.chunk.rows.num_rows for each in one.sent_to("two", Data)) >= 4


def with_two_inputs() -> tuple[Driven, Data]:
    """A standby that is sent batches of two streams and has room for three chunks of each, and a
    chunk of one stream."""

    def both(role: str, peer_replica: str) -> Assignment:
        a = structs.replace(
            batches(role, peer_replica),
            statement="REGISTER QUERY f RSTREAM("
            "SELECT number FROM s [NOW] UNION ALL SELECT number FROM t [NOW]);",
            inputs={"s": COLUMNS, "t": COLUMNS},
        )
        made = assignment_of(a)
        return structs.replace(made, producers=dict.fromkeys("st", ("site",)))

    one, two = Driven("one"), Driven("two")
    for host, role, other in ((one, "primary", "two"), (two, "secondary", "one")):
        host.assign(both(role, other))
        for stream in "st":
            host.hear("site", subscribed(stream=stream))
    one.hear("two", SnapshotRequest(fragment="f"))
    two.hear("one", one.sent_to("two", Snapshot)[-1])
    two.wait(60, hearing="one")
    part = data(chunk(0, [(10, 1000)]))
    two.core.replica_manager.input_bytes = 3 * part.chunk.size_bytes
    return two, part


def test_a_standby_that_waits_for_what_is_kept_back_of_another_input_takes_everything() -> None:
    """It could do nothing with more of the first one, and soon have no room for it."""
    two, part = with_two_inputs()
    two.hear("site", part)
    two.commands.clear()
    two.wait(60, hearing="one")
    assert two.sent_to("site", Subscribe) == []
    two.hear("site", data(chunk(1000, [(20, 1000)])))
    two.wait(60, hearing="one")
    asked = {each.stream: each.batch for each in two.sent_to("site", Subscribe)}
    assert asked == {"s": EVERY_TUPLE, "t": EVERY_TUPLE}


@pytest.mark.parametrize("primary", ["lives", "is lost"])
def test_a_standby_that_waits_to_take_over_is_not_left_behind(primary: str) -> None:
    """There is nobody from whom it could start over."""
    two, part = with_two_inputs()
    # The last chunk that it takes is one more than it has room for.
    two.core.replica_manager.input_bytes = 5 * part.chunk.size_bytes // 2
    two.hear("one", Control(watermarks_ms={"f": 20}))
    if primary == "is lost":
        two.handle(PeerLost(node="one"))
    two.hear("site", part)
    for at in range(1, 6):
        two.hear("site", data(chunk(1000 * at, [(10 + at, 1000)])))
    two.wait(60, hearing="site")
    assert two.core.counters["standbys_left_behind"] == (primary == "lives")
    if primary == "is lost":
        # It takes no more than it has room for, and may hold nobody up meanwhile.
        manager = two.core.replica_manager
        assert manager.held_bytes("f", "s") <= manager.input_bytes + part.chunk.size_bytes
        assert not any(each.demands for each in two.sent_to("site", Subscribe))
        for stream in "st":
            two.hear("site", subscribed(stream=stream))
        assert two.role is ReplicaRole.PRIMARY


@pytest.mark.parametrize("heard", [False, True])
def test_a_standby_that_waits_to_take_over_does_so_though_its_primary_is_given_more_to_do(
    heard: bool,
) -> None:
    """The leader had not heard of the loss yet, when it had this host fetch a state there."""
    two, _ = with_two_inputs()
    two.hear("one", Control(watermarks_ms={"f": 20}))
    two.handle(PeerLost(node="one"))
    assert two.role is ReplicaRole.STANDBY
    known = two.core.replica_manager.replicas["f"].assignment
    moved = structs.replace(assigned("secondary", peer_replica="one"), fragment="g")
    more = structs.replace(assignment_of(known, moved), producers=dict.fromkeys("st", ("site",)))
    two.assign(more)
    if heard:
        two.hear("one", Control())
    for stream in "st":
        two.hear("site", subscribed(stream=stream))
    assert two.role is (ReplicaRole.STANDBY if heard else ReplicaRole.PRIMARY)
