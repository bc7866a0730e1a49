"""Roles that change by plan: a host goes on until it hears its successor; three replicas."""

from __future__ import annotations

import msgspec

from ha.handover import BEHIND_US, UNHEARD_US
from ha.messages import Ack, Control, Data, Snapshot, SnapshotRequest
from ha.roles import ReplicaRole
from orchestrator.host.core.events import PeerLost, RecordLoss, RecordTakeover
from orchestrator.records import FragmentAssignment
from streams.vectors.chunk import Position
from tests.driven_host import (
    MS,
    SETTINGS,
    Driven,
    ack,
    assigned,
    assignment_of,
    data,
    numbers,
    peers,
    primary,
    standby,
)
from tests.streams_of_numbers import chunk

THIRD = (*("one", "two", "site", "exit"), "three")


def with_third(role: str, *, epoch: int = 1, peer: str, third: str) -> FragmentAssignment:
    made = assigned(role, epoch=epoch, peer_replica=peer)
    return msgspec.structs.replace(made, further_replicas=(third,))


def sending_primary() -> Driven:
    """A primary whose output is complete up to 10 ms."""
    host = primary()
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    host.commands.clear()
    return host


def demanding_ack(epoch: int) -> Control:
    """Of a sink that has everything up to 10 ms, as it has heard in an epoch."""
    position = Position(next_seq=2, watermark_ms=10)
    told = Ack(position=position, epoch=epoch, generation=1, demanded=position)
    return Control(acks={"f": told})


def test_plan_alone_makes_no_primary_step_down() -> None:
    host = sending_primary()
    host.assign(assignment_of(assigned("secondary", epoch=2, peer_replica="two")))
    host.wait(5000)
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 1)
    host.hear("site", data(chunk(4, [(20, 4)])))
    host.work()
    sent = [each.chunk for each in host.sent_to("exit", Data)]
    assert numbers(sent)[-1] == 7


def test_a_primary_that_is_named_again_still_knows_of_its_successor() -> None:
    host = sending_primary()
    host.hear("two", Control(epochs={"f": 2}, watermarks_ms={"f": 9}))
    host.assign(assignment_of(assigned("primary", peer_replica="two")))
    hosted = host.core.replica_manager.replicas["f"]
    assert hosted.handover is not None
    assert hosted.superseded_in == 2


def test_former_primary_stops_at_the_watermark_that_its_successor_has_reached() -> None:
    host = sending_primary()
    host.assign(assignment_of(assigned("secondary", epoch=2, peer_replica="two")))
    host.hear("two", Control(epochs={"f": 2}, watermarks_ms={"f": 9}))
    assert host.role is ReplicaRole.PRIMARY
    host.hear("site", data(chunk(4, [(20, 4)])))
    host.work()
    # What has come since is the successor's affair.
    host.hear("exit", ack(10, 4, epoch=2))
    assert host.role is ReplicaRole.PRIMARY
    host.hear("two", Control(epochs={"f": 2}, watermarks_ms={"f": 10}))
    assert (host.role, host.epoch) == (ReplicaRole.STANDBY, 2)


def test_former_primary_feeds_a_consumer_that_has_yet_to_hear_the_successor() -> None:
    host = sending_primary()
    host.hear("exit", demanding_ack(epoch=1))
    host.hear("two", Control(epochs={"f": 2}, watermarks_ms={"f": 10}))
    host.hear("exit", demanding_ack(epoch=1))
    assert host.role is ReplicaRole.PRIMARY
    host.hear("exit", demanding_ack(epoch=2))
    assert (host.role, host.epoch) == (ReplicaRole.STANDBY, 2)


def test_primary_goes_on_that_hears_of_a_successor_whom_the_store_does_not_know() -> None:
    """The store may have stopped the successor: then nobody would send."""
    host = sending_primary()
    host.hear("exit", ack(0, 0, epoch=2))
    host.now_us += UNHEARD_US + BEHIND_US
    host.hear("exit", ack(0, 0, epoch=2))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 1)


def test_primary_goes_on_whose_successor_was_stopped_before_all_consumers_heard_it() -> None:
    host = sending_primary()
    host.hear("exit", demanding_ack(epoch=1))
    host.hear("two", Control(epochs={"f": 2}, watermarks_ms={"f": 10}))
    host.now_us += UNHEARD_US + 1
    host.hear("exit", demanding_ack(epoch=2))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 1)


def test_primary_of_a_new_generation_does_not_yield_to_an_epoch_of_the_former_one() -> None:
    """Its replicas may have taken over from each other when nobody could record that."""
    host = Driven("one")
    host.assign(assignment_of(assigned("primary", epoch=2, generation=2, peer_replica="two")))
    for demanded in (None, Position()):
        told = Ack(position=demanded, epoch=4, generation=1, demanded=demanded)
        host.hear("exit", Control(acks={"f": told}))
        host.wait(5000, hearing="exit")
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 2)


def test_former_primary_that_hears_consumers_only_stops_after_a_while() -> None:
    host = sending_primary()
    host.assign(assignment_of(assigned("secondary", epoch=2, peer_replica="two")))
    host.hear("exit", ack(0, 0, epoch=2))
    assert host.role is ReplicaRole.PRIMARY
    host.now_us += UNHEARD_US
    host.hear("exit", ack(0, 0, epoch=2))
    assert (host.role, host.epoch) == (ReplicaRole.STANDBY, 2)


def test_former_primary_waits_long_for_a_successor_that_is_heard_and_behind() -> None:
    host = sending_primary()
    host.assign(assignment_of(assigned("secondary", epoch=2, peer_replica="two")))
    host.hear("two", Control(epochs={"f": 2}, watermarks_ms={"f": 9}))
    host.now_us += UNHEARD_US
    host.hear("two", Control(epochs={"f": 2}, watermarks_ms={"f": 9}))
    assert host.role is ReplicaRole.PRIMARY
    host.now_us += BEHIND_US
    host.hear("two", Control(epochs={"f": 2}, watermarks_ms={"f": 9}))
    assert (host.role, host.epoch) == (ReplicaRole.STANDBY, 2)


def test_successor_lost_before_it_was_heard() -> None:
    host = sending_primary()
    host.assign(assignment_of(assigned("secondary", epoch=2, peer_replica="two")))
    host.handle(PeerLost(node="two"))
    host.wait(200, hearing="site")
    # It goes on in an epoch of its own: the store knows the successor's.
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 3)
    commands = host.commands
    assert [c.epoch for c in commands if isinstance(c, RecordTakeover)] == [3]
    assert not [c for c in commands if isinstance(c, RecordLoss)]


def successor_of_one() -> Driven:
    """A plan has given it the place of `one`, which it does not hear any more."""
    host = standby()
    host.assign(assignment_of(assigned("primary", epoch=2, peer_replica="one")))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 2)
    host.handle(PeerLost(node="one"))
    host.wait(4 * SETTINGS.heartbeat_ms, hearing="site")
    return host


def test_a_former_primary_that_is_not_heard_may_still_act() -> None:
    """It goes on until this one has come as far: were it replaced, nobody could continue that."""
    host = successor_of_one()
    assert host.take(RecordLoss) == []
    host.assign(
        assignment_of(
            assigned("primary", epoch=2, peer_replica="one"), at=peers(("two", "site", "exit"))
        )
    )
    (loss,) = host.take(RecordLoss)
    assert loss.lost == "one"


def test_a_former_primary_that_has_stepped_down_is_lost_like_any_other_secondary() -> None:
    host = standby()
    host.assign(assignment_of(assigned("primary", epoch=2, peer_replica="one")))
    host.hear("one", Control(epochs={"f": 1}))
    host.hear("one", Control(epochs={"f": 2}))
    host.handle(PeerLost(node="one"))
    host.wait(4 * SETTINGS.heartbeat_ms, hearing="site")
    (loss,) = host.take(RecordLoss)
    assert loss.lost == "one"


def test_successor_lost_before_it_was_named() -> None:
    host = sending_primary()
    host.handle(PeerLost(node="two"))
    host.assign(assignment_of(assigned("secondary", epoch=2, peer_replica="two")))
    host.wait(200, hearing="site")
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 3)
    commands = host.commands
    assert [c.epoch for c in commands if isinstance(c, RecordTakeover)] == [3]
    assert not [c for c in commands if isinstance(c, RecordLoss)]


def test_successor_that_is_heard_again_before_it_was_named() -> None:
    host = sending_primary()
    host.handle(PeerLost(node="two"))
    host.hear("two", Control())
    host.assign(assignment_of(assigned("secondary", epoch=2, peer_replica="two")))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 1)


def test_promoted_secondary_sends_what_is_not_acknowledged() -> None:
    host = standby()
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    assert host.sent_to("exit", Data) == []
    host.assign(assignment_of(assigned("primary", epoch=2, peer_replica="one")))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 2)
    assert numbers([each.chunk for each in host.sent_to("exit", Data)]) == [2, 3]


def test_third_replica_gets_the_state_and_follows_the_primary() -> None:
    host = sending_primary()
    plan = with_third("primary", peer="two", third="three")
    host.assign(assignment_of(plan, at=peers(THIRD)))
    host.commands.clear()
    host.hear("three", SnapshotRequest(fragment="f"))
    assert len(host.sent_to("three", Snapshot)) == 1
    host.wait(100 * MS / 1000)
    told = [c for c in host.sent_to("three", Control) if c.epochs]
    assert told[-1].watermarks_ms == {"f": 10}


def test_third_replica_takes_over_like_a_secondary() -> None:
    host = standby()
    host.assign(assignment_of(with_third("secondary", peer="one", third="three"), at=peers(THIRD)))
    host.handle(PeerLost(node="three"))
    assert host.role is ReplicaRole.STANDBY
    host.handle(PeerLost(node="one"))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 2)


def test_a_host_whose_replica_has_gone_may_say_nothing() -> None:
    host = sending_primary()
    host.assign(assignment_of(with_third("primary", peer="two", third="three"), at=peers(THIRD)))
    host.assign(assignment_of(assigned("primary", peer_replica="two"), at=peers(THIRD)))
    host.hear("three", Control(epochs={"f": 2}))
    assert host.core.counters["epochs_refused"] == 1


def test_a_plan_promotes_a_replica_that_has_heard_of_its_epoch_before() -> None:
    """The other secondary has read the plan first, and says its epoch."""
    host = standby()
    plan = with_third("secondary", peer="one", third="three")
    host.assign(assignment_of(plan, at=peers(THIRD)))
    host.hear("three", Control(epochs={"f": 2}))
    assert (host.role, host.epoch) == (ReplicaRole.STANDBY, 2)
    plan = with_third("primary", epoch=2, peer="one", third="three")
    host.assign(assignment_of(plan, at=peers(THIRD)))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 2)


def test_a_secondary_that_was_never_primary_is_lost_like_any_other() -> None:
    """The primary moves from `one` to `two`, a third replica until then; `three` is secondary."""
    host = standby()
    moving = with_third("secondary", peer="one", third="three")
    host.assign(assignment_of(moving, at=peers(THIRD)))
    moved = with_third("primary", epoch=2, peer="three", third="one")
    host.assign(assignment_of(moved, at=peers(THIRD)))
    assert host.role is ReplicaRole.PRIMARY
    host.hear("one", Control(epochs={"f": 2}))
    host.handle(PeerLost(node="three"))
    host.wait(4 * SETTINGS.heartbeat_ms, hearing="site")
    assert [each.lost for each in host.take(RecordLoss)] == ["three"]


def test_a_primary_that_is_given_its_place_back_succeeds_nobody() -> None:
    host = primary()
    host.assign(assignment_of(assigned("secondary", epoch=2, peer_replica="two")))
    back = assigned("primary", epoch=3, peer_replica="three")
    host.assign(assignment_of(back, at=peers(THIRD)))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 3)
    host.handle(PeerLost(node="three"))
    host.wait(4 * SETTINGS.heartbeat_ms, hearing="site")
    assert [each.lost for each in host.take(RecordLoss)] == ["three"]
